"""The aggregates over panes: what each makes of partial values that come and go.

A pane stands for many rows. COUNT, and SUM and AVG of whole numbers, are running totals as over
rows, by the counts beside; values that are counted (MEDIAN, TOP …) weigh as often as they occur;
sums of floating-point numbers add up what is rounded once in each pane; moments are merged.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.aggregate_steps import Aggregator, aggregator
from mayfly.kernels.group_events import Events, Wide
from mayfly.kernels.holistic import AggregateUpkeep, Versions, play_totals
from mayfly.kernels.moment_parts import MomentParts
from mayfly.kernels.pane_queues import PaneQueues
from mayfly.kernels.pane_sketches import SKETCHES
from mayfly.kernels.value_sketches import Bounded
from mayfly.plan.aggregate_families import COUNTED, SPREADS
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.pane_functions import COUNT_MIN, HLL, ITEMS, KLL
from mayfly.plan.types import arrow_type

ROUNDED = "count, mean and M2 of each pane are rounded, so answers hold to rounding"
_ROUNDED_SUM = "the sum of each pane is rounded, so answers hold to rounding"
_EXACT = "however batches are cut; FLOAT SUMS EXACT keeps rows instead"


def pane_aggregator(call: AggregateCall, weight: str | None) -> Aggregator:
    """What computes a call over columns of panes; ``weight`` is the column with their counts."""
    assert call.argument is not None
    if call.approximate:
        return PaneSketch(call, True, ())
    plain, kind = aggregator(call), call.argument.type
    if call.function == "count" and not call.distinct:
        return PaneTotal(call, False, ("",))
    if call.function in SPREADS:
        return PaneSpread(call, True, ())
    if call.function in COUNTED or (weight is not None and _asks_values(call)):
        return CountedValues(call, True, (), weight=weight)
    if call.function in ("sum", "avg") and not kind.is_integral:
        return PaneSum(call, True, (), weight=weight)
    return plain if weight is None else PaneTotal(call, False, plain.kept, weight=weight)


def is_uncounted(call: AggregateCall) -> bool:
    """Whether it is a sum that goes on from the last one, which says not how many values it has."""
    if call.function != "sum" or call.distinct or call.argument is None:
        return False
    return call.argument.type.is_integral


def is_difference(call: AggregateCall) -> bool:
    """Whether a value of a stretch is a difference of two running sums, or an extreme."""
    if call.distinct or call.approximate or call.argument is None:
        return False
    if call.function in ("count", "min", "max"):
        return True
    return call.function in ("sum", "avg") and call.argument.type.is_integral


def is_merged(call: AggregateCall) -> bool:
    """Whether contents of panes are merged, and never taken out again."""
    return call.approximate or (call.function in SPREADS and not call.distinct)


def _asks_values(call: AggregateCall) -> bool:
    return call.distinct or call.function == "collect_set"


@dataclass(frozen=True)
class Weighted(Aggregator):
    """``weight`` names the column that says for how many values a pane stands, if that is not the
    argument itself."""

    weight: str | None = None

    def weights(self, events: Events, argument: str) -> Int64s:
        return _whole(events.values(self.weight or argument))


@dataclass(frozen=True)
class PaneTotal(Weighted):
    """COUNT, and AVG of whole numbers."""


@dataclass(frozen=True)
class PaneSum(Weighted):
    """SUM and AVG of floating-point numbers and decimals."""

    @property
    def way(self) -> AggregateUpkeep:
        way = super().way
        assert self.call.argument is not None
        if self.call.argument.type.name == "decimal":
            return replace(way, play=self._play)
        why = f"{_ROUNDED_SUM} {_EXACT}"
        return AggregateUpkeep("an exact sum of those of panes", why, self._play)

    def _play(
        self, call: AggregateCall, events: Events, versions: Versions, argument: str
    ) -> pa.Array:
        counts = None
        if self.weight is not None:
            before = versions.alive_before
            held = np.append(0, np.cumsum(_whole(before.values(self.weight, pa.int64()))))
            so_far = held[before.starts[1:]] - held[before.starts[:-1]]
            weights = self.weights(events, argument)
            counts = events.running(weights, np.arange(len(so_far)), Wide.of(so_far)).low
        return play_totals(call, events, versions, argument, counts)


@dataclass(frozen=True)
class CountedValues(Weighted):
    """MEDIAN, QUANTILE, MODE, TOP, COUNT DISTINCT: a counter for each value of a pane."""

    @property
    def way(self) -> AggregateUpkeep:
        way = super().way
        play = way.play
        assert play is not None

        def weighted(
            call: AggregateCall, events: Events, versions: Versions, argument: str
        ) -> pa.Array:
            assert self.weight is not None
            before = versions.alive_before
            held = _whole(before.values(self.weight, pa.int64()))
            signed = replace(events, sign=events.sign * self.weights(events, argument))
            often = replace(versions, before=replace(before, weights=held))
            return play(call, signed, often, argument)

        why = f"panes have a counter for each value; {way.why}"
        return AggregateUpkeep(way.structure, why, weighted)


@dataclass(frozen=True)
class PaneSpread(Aggregator):
    """VAR and STDDEV, from the moments of panes."""

    @property
    def way(self) -> AggregateUpkeep:
        why = f"{ROUNDED} {_EXACT}"
        return AggregateUpkeep("moments of panes in two stacks", why, _play_spreads)


@dataclass(frozen=True)
class PaneSketch(Aggregator):
    """The APPROX_ forms, from a sketch of each pane."""

    @property
    def way(self) -> AggregateUpkeep:
        words = SKETCHES[_ASKED[self.call.function]].words
        why = "panes have a sketch, which merges and cannot be subtracted"
        return AggregateUpkeep(words, why, _play_sketches)


_PLACES = {"": 0, "low": 1, "high": 2}
"""Where a sketch's answer and its bounds are."""
_ASKED = {"count": HLL, "quantile": KLL, "top": ITEMS, "frequency": COUNT_MIN}


def _play_sketches(
    call: AggregateCall, events: Events, versions: Versions, argument: str
) -> pa.Array:
    queues = PaneQueues.of(events, versions, argument)
    return sketches_of(call, queues, versions.alive_before.laid_out)


def sketches_of(call: AggregateCall, queues: PaneQueues, laid_out: dict[Hashable, Any]) -> pa.Array:
    """What the sketches of panes together say; ``laid_out`` is what calls share."""
    answers = _sketched(call, queues, laid_out)
    result, place = arrow_type(call.data_type), _PLACES[call.bound]
    if call.function in ("count", "frequency"):
        rounded = ceil if call.bound == "high" else floor
        counts = [0 if answer is None else rounded(answer[place]) for answer in answers]
        return pa.array(counts, result)
    if call.function == "quantile":
        values = pa.array([answer and answer[place] for answer in answers], pa.float64())
        return values.cast(result, safe=False)
    return _listed(call, answers)


def _sketched(
    call: AggregateCall, queues: PaneQueues, laid_out: dict[Hashable, Any]
) -> list[Bounded | None]:
    """The answer of each version with its bounds: calls that show parts of one answer share it."""
    name = ("sketches", call.function, call.argument, call.parameters)
    if name not in laid_out:
        kind = SKETCHES[_ASKED[call.function]]
        parts, parameter = queues.contents.to_pylist(), next(iter(call.parameters), None)
        laid_out[name] = [
            None if sketch is None else kind.bounded(sketch, parameter)
            for sketch in kind.along(parts, queues.first, queues.last)
        ]
    answers: list[Bounded | None] = laid_out[name]
    return answers


def _listed(call: AggregateCall, answers: Sequence[Bounded | None]) -> pa.Array:
    """The values and the counts that they surely have (or at most have), as TOP gives them."""
    place = max(1, _PLACES[call.bound])
    result = arrow_type(call.data_type)
    fields = list(result.value_type)
    items = [
        list(zip(answer[0], answer[place], strict=True)) if answer else [] for answer in answers
    ]
    values = pa.array([value for listed in items for value, _ in listed], pa.string())
    counts = pa.array([count for listed in items for _, count in listed], pa.int64())
    pairs = pa.StructArray.from_arrays([values.cast(fields[0].type), counts], fields=fields)
    offsets = pa.array(np.append(0, np.cumsum([len(listed) for listed in items])), pa.int32())
    return pa.ListArray.from_arrays(offsets, pairs, type=result)


def _play_spreads(
    call: AggregateCall, events: Events, versions: Versions, argument: str
) -> pa.Array:
    return spreads_of(call, PaneQueues.of(events, versions, argument))


def spreads_of(call: AggregateCall, queues: PaneQueues) -> pa.Array:
    """VAR and STDDEV of the moments of panes."""
    parts = MomentParts.of_structs(queues.contents).between(queues.first, queues.last)
    return spread_values(call, parts)


def spread_values(call: AggregateCall, moments: MomentParts) -> pa.Array:
    spare = 1 if call.function.endswith("_samp") else 0
    return moments.spreads(call.function.startswith("stddev"), spare)


def _whole(counts: pa.Array) -> Int64s:
    return np.ascontiguousarray(pc.fill_null(counts, 0).to_numpy(zero_copy_only=False))
