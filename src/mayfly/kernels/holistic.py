"""Aggregates that need the values of a group: positions, extremes, distinct values, top k, sums.

Each plays the events of a step over the values that were alive before it: counts by rank
(windows/rank_counts.py) for what asks about values, exact sums (exact_sums.py) for floating-point
numbers, also of squares (exact_variances.py), whole numbers of any size for decimals. Nothing is
read again from version to version, so one group of a million rows costs as much per event as a
million small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels import resident
from mayfly.kernels.alive_before import Before
from mayfly.kernels.codes import unsigned_zeros
from mayfly.kernels.exact_sums import SUM_WIDTH, Carried, Floats, play_sums
from mayfly.kernels.exact_variances import SPREAD_WIDTH, play_variances
from mayfly.kernels.group_events import Events, Wide
from mayfly.kernels.lifetime_rows import Bools
from mayfly.kernels.room import require_room
from mayfly.plan.aggregate_families import SPREADS
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.ordered_calls import directions
from mayfly.plan.types import arrow_type
from mayfly.windows.domain import has_ranks, keys_in_order, of_ranks, ranks
from mayfly.windows.extremes import play_extremes
from mayfly.windows.rank_counts import (
    BETWEEN,
    LARGEST,
    MEDIAN,
    QUANTILE,
    SMALLEST,
    Keys,
    Ranked,
    Script,
)

RANKS, SUMS, SQUARES = "ranks", "sums", "squares"
"""What is left for the next step: counts by rank, a sum, sums of values and squares."""
ENTRY_BYTES = 24
"""What a listed value costs beside itself: its place and copies of it."""


class TooLarge(Exception):
    """The value of a version does not fit its type."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@dataclass(frozen=True)
class Versions:
    """Instants at which groups changed: group number, instant, rows alive, code of the group,
    and whether the window was full.

    ``before`` are the rows alive before the step, if an aggregate needs them.
    """

    group: Int64s
    time: Int64s
    count: Int64s
    code: Int64s
    full: Bools
    before: Before | None = None

    @property
    def large(self) -> Int64s:
        """The groups that are worth remembering."""
        last = np.append(self.group[1:] != self.group[:-1], True)
        return self.group[last & (self.count >= resident.LEAST_ROWS)]

    def at(self, places: Int64s) -> Versions:
        """Some of them."""
        group, time, count, code = (
            array[places] for array in (self.group, self.time, self.count, self.code)
        )
        return Versions(group, time, count, code, self.full[places], self.before)

    @property
    def alive_before(self) -> Before:
        assert self.before is not None
        return self.before

    def __len__(self) -> int:
        return len(self.group)


Play = Callable[[AggregateCall, Events, Versions, str], pa.Array]


@dataclass(frozen=True)
class AggregateUpkeep:
    """How an aggregate is maintained: from what, why from that, and what plays the events of a step
    over it (nothing does for totals that are kept with the group)."""

    structure: str
    why: str
    play: Play | None
    residue: str | None = None
    """What a large group leaves behind for the next step."""

    def name(self, call: AggregateCall) -> Hashable | None:
        """What it leaves behind, by name; None if it does not go from step to step."""
        assert call.argument is not None
        return None if self.residue is None else (self.residue, call.argument, *directions(call))


def by_rank(
    answers: Callable[[AggregateCall, Ranked, Script], pa.Array],
    keys: Callable[[AggregateCall], Keys] = lambda call: keys_in_order,
) -> Play:
    """What asks about the values of a group, such as MEDIAN or TOP, at every version; ``keys`` say
    in which order they stand."""

    def play(call: AggregateCall, events: Events, versions: Versions, argument: str) -> pa.Array:
        ranked = ranked_values(call, events, versions, argument, keys(call))
        return answers(call, ranked, Script(events.sign, *events.marks))

    return play


def ranked_values(
    call: AggregateCall,
    events: Events,
    versions: Versions,
    argument: str,
    keys: Keys = keys_in_order,
) -> Ranked:
    """The values of the touched groups with their counts; calls over one argument share them."""
    before, name = versions.alive_before, (RANKS, call.argument, *directions(call))
    layout = name if before.weights is None else (*name, "weighted")
    ranked: Ranked | None = before.laid_out.get(layout)
    if ranked is None:
        values = unsigned_zeros(events.values(argument))
        ranked = before.laid_out[layout] = Ranked.of(
            before.values(argument, values.type),
            before.owner,
            values,
            events.group_of_event,
            len(events.codes),
            before.part(name) if before.summaries else {},
            keys,
            before.weights,
        )
        if len(before.large):
            before.leave(name, ranked.after(events.sign, before.large))
    return ranked


def _distinct(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    return pa.array(ranked.distinct(script))


def _extreme(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    what = SMALLEST if call.function == "min" else LARGEST
    return _picked(ranked, ranked.positions(script, what)[0])


def _extremes(call: AggregateCall, events: Events, versions: Versions, argument: str) -> pa.Array:
    """MIN and MAX: by rank if groups are large, as that stays for the next step."""
    before, values = versions.alive_before, events.values(argument)
    if not has_ranks(values.type) or before.summaries or len(before.large):
        return by_rank(_extreme)(call, events, versions, argument)
    held, starts = before.present(argument, values.type)
    sign = events.sign
    if values.null_count:
        sign = sign * pc.is_valid(values).to_numpy(zero_copy_only=False)
    largest = call.function == "max"
    answers, filled = play_extremes(ranks(held), starts, ranks(values), sign, events.marks, largest)
    return of_ranks(answers, ~filled, values.type)


def _quantile(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    share = float(str(call.parameters[0]))
    return _picked(ranked, ranked.positions(script, QUANTILE, share)[0])


def _mode(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The most frequent value, of several the smallest."""
    which, filled, places, _ = ranked.top(script, 1)
    first = np.full(len(filled), -1, np.int64)
    first[filled > 0] = places
    return _picked(ranked, first[which])


def _picked(ranked: Ranked, places: Int64s) -> pa.Array:
    return ranked.at(places)


def _between(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The continuous quantile: on the line between the two values around its position."""
    share = float(str(call.parameters[0]))
    low, high = (
        _picked(ranked, places).cast(pa.float64(), safe=False)
        for places in ranked.positions(script, BETWEEN, share)
    )
    place = share * np.maximum(ranked.rows(script) - 1, 0)
    part = place - np.floor(place)
    mixed = pc.add(pc.multiply(low, pa.array(1.0 - part)), pc.multiply(high, pa.array(part)))
    return pc.if_else(pc.equal(low, high), low, mixed)


def _median(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The continuous one: the mean of the two in the middle."""
    low, high = (
        _picked(ranked, places).cast(pa.float64(), safe=False)
        for places in ranked.positions(script, MEDIAN)
    )
    halves = pc.add(pc.multiply(low, 0.5), pc.multiply(high, 0.5))
    return pc.if_else(pc.equal(low, high), low, halves)


def _top(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The k most frequent values: count descending, then value; equal neighbours are one list."""
    kind = arrow_type(call.data_type)
    which, filled, places, often = ranked.top(script, int(str(call.parameters[0])))
    fields = kind.value_type
    pairs = pa.StructArray.from_arrays(
        [ranked.at(places).cast(fields.field(0).type), pa.array(often)],
        fields=[fields.field(0), fields.field(1)],
    )
    offsets = pa.array(np.append(0, np.cumsum(filled)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pairs, type=kind)
    return pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), lists)


def _set(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The values of every version, each once, in their order."""
    kind, sizes = arrow_type(call.data_type), ranked.distinct(script)
    listed = int(sizes.sum())
    require_room(
        listed * (ENTRY_BYTES + ranked.bytes_each),
        f"COLLECT_SET over {len(sizes):,} versions of up to {int(sizes.max(initial=0)):,} values, "
        f"{listed:,} values in all,",
        "use a shorter window, smaller groups or batches, a SLIDE, or a larger max_state_bytes",
    )
    values = ranked.at(ranked.listed(script, listed))
    offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
    return pa.ListArray.from_arrays(offsets, values.cast(kind.value_type), type=kind)


def play_totals(
    call: AggregateCall,
    events: Events,
    versions: Versions,
    argument: str,
    counts: Int64s | None = None,
) -> pa.Array:
    """SUM and AVG of floating-point numbers and decimals, VAR and STDDEV, at every version; of how
    many values, if that is not the number of rows that have one."""
    before, values = versions.alive_before, events.values(argument)
    held, starts = before.present(argument, values.type)
    present = np.ones(len(values), np.int64)
    if values.null_count:
        present = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
    groups = len(events.codes)
    rows = np.diff(starts)
    residue, width = (SQUARES, SPREAD_WIDTH) if call.function in SPREADS else (SUMS, SUM_WIDTH + 1)
    name = (residue, call.argument)
    residues = {g: row for g, (row,) in before.part(name).items()} if before.summaries else {}
    for group, row in residues.items():
        rows[group] = row[-1]
    carried = Carried.of(groups, residues, before.large, width)
    if counts is None:
        counts = events.running(present, np.arange(groups), Wide.of(rows)).low
    amounts = present * events.sign
    play = floats_of(held), starts, floats_of(values), amounts, *events.marks
    if call.function in SPREADS:
        spare = 1 if call.function.endswith("_samp") else 0
        spread = play_variances(*play, carried, call.function.startswith("stddev"), spare)
        before.leave(name, {g: (carried.last[carried.keep[g]],) for g in before.large.tolist()})
        return pa.array(spread, mask=counts <= spare)
    if pa.types.is_decimal(values.type):
        return decimal_sums(call, events, values, amounts, held, starts, counts)
    sums = play_sums(*play, carried)
    final = np.empty(groups, np.int64)
    final[events.group_of_instant] = counts
    carried.last[:, -1] = final[before.large]
    before.leave(name, {g: (carried.last[carried.keep[g]],) for g in before.large.tolist()})
    if call.function == "avg":
        sums = sums / np.maximum(counts, 1)
    return pa.array(sums, mask=counts == 0)


def floats_of(values: pa.Array) -> Floats:
    floats = values.cast(pa.float64(), safe=False)
    filled = pc.fill_null(floats, 0.0) if floats.null_count else floats
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False))


def decimal_sums(
    call: AggregateCall, events: Events, values: pa.Array, amounts: Int64s, held: pa.Array,
    starts: Int64s, counts: Int64s,
) -> pa.Array:  # fmt: skip
    kind, totals = arrow_type(call.data_type), [Decimal(0)] * len(events.codes)
    listed, event = values.to_pylist(), 0
    results: list[Decimal | None] = []
    unit, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)
    versions = zip(
        events.last_of_instant.tolist(), events.group_of_instant.tolist(), counts.tolist(),
        strict=True,
    )  # fmt: skip
    signs = amounts.tolist()
    owner = np.repeat(np.arange(len(totals)), np.diff(starts)).tolist()
    with localcontext() as context:
        context.prec = 80
        for value, group in zip(held.to_pylist(), owner, strict=True):
            totals[group] += value
        for version, (last, group, count) in enumerate(versions):
            while event <= last:
                if signs[event]:
                    totals[group] += signs[event] * listed[event]
                event += 1
            if not count:
                results.append(None)
                continue
            value = totals[group] / count if call.function == "avg" else totals[group]
            rounded = value.quantize(unit, rounding="ROUND_HALF_UP")
            if abs(rounded) >= limit:
                raise TooLarge(version)
            results.append(rounded)
    return pa.array(results, kind)


POSITIONS = AggregateUpkeep(
    "counts by rank in a Fenwick tree",
    "a position is found in the logarithm of the distinct values; no row is read again",
    None,
    RANKS,
)
_EXTREMES = replace(
    POSITIONS,
    structure="two heaps, of what came and what went; counts by rank where groups are large",
    play=_extremes,
)
_BEST = AggregateUpkeep(
    "counts by rank in a tournament",
    "the largest counts are found in the logarithm of the distinct values; no row is read again",
    None,
    RANKS,
)
_COUNTS = AggregateUpkeep(
    "a count per distinct value",
    "a value comes or goes when its count leaves or reaches 0",
    None,
    RANKS,
)
_SUM = AggregateUpkeep(
    "an exact sum",
    "it is rounded once, so it depends on the rows alone and not on batches",
    play_totals,
    SUMS,
)
_SPREAD = AggregateUpkeep("exact sums of values and of squares", _SUM.why, play_totals, SQUARES)
DECIMAL_SUMS = AggregateUpkeep(
    "a sum as a whole number of any size", "decimals are exact", play_totals
)
WAYS = {
    "count": replace(_COUNTS, play=by_rank(_distinct)),
    "collect_set": replace(_COUNTS, play=by_rank(_set)),
    "min": _EXTREMES,
    "max": _EXTREMES,
    "median": replace(POSITIONS, play=by_rank(_median)),
    "quantile": replace(POSITIONS, play=by_rank(_quantile)),
    "percentile": replace(POSITIONS, play=by_rank(_between)),
    "top": replace(_BEST, play=by_rank(_top)),
    "mode": replace(_BEST, play=by_rank(_mode)),
    "sum": _SUM,
    "avg": _SUM,
    **dict.fromkeys(SPREADS, _SPREAD),
}
"""Of aggregates that totals cannot keep, by function."""
