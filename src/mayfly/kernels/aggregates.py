"""The aggregates: what each makes of the events of a group.

Totals (COUNT; SUM and AVG of whole numbers) are exact integers that arrivals add to and departures
subtract from, kept with the group. Values, positions, other sums and variances are played over the
rows that were alive before the step (holistic.py), the counts of FREQUENT over summaries of these
(frequent_items.py). A result depends on nothing but the rows alive. NULL arguments are passed over,
as in SQL; NaN is larger than any number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput
from mayfly.kernels.frequent_items import frequent_items
from mayfly.kernels.group_events import Events, Floats, Wide
from mayfly.kernels.holistic import SPREADS, Before, TooLarge, ranked_values, summed_values
from mayfly.kernels.rows import Bools, numbers, whole
from mayfly.kernels.sorting import Int64s
from mayfly.lifetime import instant_text
from mayfly.plan.frequency import Frequency
from mayfly.plan.logical import AggregateCall
from mayfly.plan.types import arrow_type


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

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class Totals:
    """The value per version, and the running totals to remember with the group."""

    value: pa.Array
    kept: Mapping[str, Int64s]


@dataclass(frozen=True)
class Known:
    """What the stored rows of groups say of one aggregate."""

    groups: pa.Table
    value: str
    prefix: str

    def total(self, name: str) -> Int64s:
        return numbers(self.groups, f"{self.prefix}{name}")

    @property
    def means(self) -> Floats:
        """The last results of AVG: with the lower half of a sum they tell the whole sum."""
        means = whole(self.groups.column(self.value)).to_numpy(zero_copy_only=False)
        filled: Floats = np.nan_to_num(means.astype(np.float64))
        return filled


class Means(Enum):
    """How an aggregate is maintained, in the words of EXPLAIN."""

    TOTAL = "a running total"
    RANKS = "counts by rank"
    SUMS = "an exact sum"
    SUMMARIES = "the largest counts of each sub-window"


@dataclass(frozen=True)
class Aggregator:
    """One aggregate call.

    Stored states are found by these fields (physical/sharing.py), so they stay as states of
    format 2 named them; how the call is maintained follows from it and is no part of the name.
    """

    call: AggregateCall
    needs_rows: bool
    kept: tuple[str, ...]
    is_extreme: bool = False

    @property
    def means(self) -> Means:
        if self.kept or (self.call.function == "count" and not self.call.distinct):
            return Means.TOTAL
        if self.call.function in ("sum", "avg", *SPREADS):
            return Means.SUMS
        if Frequency.is_asked(self.call):
            return Means.SUMMARIES
        return Means.RANKS

    def totals(
        self,
        events: Events,
        place: Int64s,
        known: Known,
        argument: str,
        versions: Versions,
    ) -> Totals:
        try:
            if self.means is Means.TOTAL:
                return _running(self.call, events, place, known, argument, versions)
            assert versions.before is not None
            if self.means is Means.SUMMARIES:
                value = frequent_items(self.call, events, versions.before, argument, versions.full)
                return Totals(value, {})
            play = ranked_values if self.means is Means.RANKS else summed_values
            return Totals(play(self.call, events, versions.before, argument), {})
        except TooLarge as error:
            kind = arrow_type(self.call.data_type)
            raise _overflow(self.call, events, versions, error.version, str(kind)) from None


def aggregator(call: AggregateCall) -> Aggregator:
    whole = call.argument is not None and call.argument.type.is_integral
    if call.function == "count" and not call.distinct:
        return Aggregator(call, False, ("",) if call.argument is not None else ())
    if call.function in ("sum", "avg") and whole:
        return Aggregator(call, False, ("", "sum"))
    if call.function in ("min", "max") and _was_compared_as_a_number(arrow_type(call.data_type)):
        return Aggregator(call, False, (), is_extreme=True)
    return Aggregator(call, True, ())


def _was_compared_as_a_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )


# ── running totals ────────────────────────────────────────────────────────────────────────


def _running(
    call: AggregateCall,
    events: Events,
    place: Int64s,
    known: Known,
    argument: str,
    versions: Versions,
) -> Totals:
    if call.argument is None:
        return Totals(pa.array(versions.count), {})
    values = events.values(argument)
    valid = np.ones(len(values), np.int64)
    if values.null_count:
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
        values = pc.fill_null(values, 0) if call.function != "count" else values
    present = events.running(valid, place, Wide.of(known.total(""))).low
    if call.function == "count":
        return Totals(pa.array(present), {"": present})
    amounts = np.ascontiguousarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
    before = Wide.of(known.total("sum"))
    if call.function == "avg":
        before = Wide.near(before.low, known.means * known.total(""))
    sums = events.running(amounts, place, before)
    empty = present == 0
    kept = {"": present, "sum": sums.low}
    if call.function == "avg":
        return Totals(pa.array(sums.floats / np.maximum(present, 1), mask=empty), kept)
    if not sums.fits.all():
        raise _overflow(call, events, versions, int(np.flatnonzero(~sums.fits)[0]), "a BIGINT")
    return Totals(pa.array(sums.low, mask=empty), kept)


def _overflow(
    call: AggregateCall, events: Events, versions: Versions, version: int, kind: str
) -> BadInput:
    keys = events.keys(events.first_of_group[versions.group[[version]]]).to_pylist()
    values = ", ".join(repr(value) for row in keys for value in row.values())
    group = f" of the group ({values})" if values else ""
    moment = instant_text(int(versions.time[version]))
    return BadInput(
        f"{call.function.upper()}{group} does not fit {kind} at {moment}",
        "cast the aggregate's argument to DOUBLE or a wider DECIMAL",
    )
