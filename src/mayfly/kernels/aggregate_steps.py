"""The aggregates: what each makes of the events of a group.

Totals (COUNT; SUM and AVG of whole numbers) are exact integers that arrivals add to and departures
subtract from, kept with the group. Values, positions, other sums and variances are played over the
rows that were alive before the step (holistic.py), the counts of FREQUENT over summaries of these
(frequent_items.py). A result depends on nothing but the rows alive. NULL arguments are ignored,
as in SQL; NaN is larger than any number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput
from mayfly.kernels.codes import adjacent_equal
from mayfly.kernels.group_events import Events, Floats, Wide
from mayfly.kernels.holistic import (
    DECIMAL_SUMS,
    WAYS,
    AggregateUpkeep,
    TooLarge,
    Versions,
)
from mayfly.kernels.lifetime_rows import Bools, numbers, whole
from mayfly.kernels.operator import StateKey
from mayfly.lifetime import instant_text
from mayfly.plan.aggregate_families import SPREADS
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import arrow_type


@dataclass(frozen=True)
class Totals:
    """The value per version, and the running totals to remember with the group.

    Values may be a dictionary, where it is known without a look that neighbours are the same.
    """

    value: pa.Array
    kept: Mapping[str, Int64s]

    @property
    def is_quickly_compared(self) -> bool:
        return not pa.types.is_nested(self.value.type)

    @property
    def repeats(self) -> Bools:
        """Which values are that of the version before."""
        value = self.value
        return adjacent_equal(value.indices if pa.types.is_dictionary(value.type) else value)

    def at(self, places: Int64s) -> Totals:
        """Those of some versions."""
        value = self.value.take(pa.array(places))
        return Totals(value, {name: array[places] for name, array in self.kept.items()})

    def plain(self, kind: pa.DataType) -> pa.Array:
        """The values as a column of a type."""
        value = self.value
        if pa.types.is_dictionary(value.type):
            value = value.dictionary.take(value.indices)
        return value if value.type == kind else value.cast(kind)


def without_repeats(versions: Versions, totals: list[Totals]) -> tuple[Versions, list[Totals]]:
    """Without versions that will not be seen, as they equal the one before: fewer rows to make.

    The last version of a group stays, as the next step goes on from it. Nothing is left out where
    that is not worth it, or values are not quickly compared.
    """
    if not all(total.is_quickly_compared for total in totals):
        return versions, totals
    group, exists = versions.group, versions.count > 0
    repeats = (group[1:] == group[:-1]) & (exists[1:] == exists[:-1])
    for total in totals:
        repeats &= total.repeats
    kept = np.ones(len(group), bool)
    kept[1:-1] = ~repeats[:-1] | (group[2:] != group[1:-1])
    places = np.flatnonzero(kept)
    if 2 * len(places) > len(kept):
        return versions, totals
    return versions.at(places), [total.at(places) for total in totals]


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


TOTAL = AggregateUpkeep(
    "a running total", "what comes is added, what goes is subtracted; no row is read", None
)


@dataclass(frozen=True)
class Aggregator:
    """One aggregate call.

    Stored states are found by these (``state_key``), so they stay as states of format 2 have
    them; how the call is maintained follows from it and is no part of the name.
    """

    call: AggregateCall
    needs_rows: bool
    kept: tuple[str, ...]
    is_extreme: bool = False

    def state_key(self) -> StateKey:
        return StateKey(
            "Aggregator",
            (
                ("call", self.call),
                ("needs_rows", self.needs_rows),
                ("kept", self.kept),
                ("is_extreme", self.is_extreme),
            ),
        )

    @property
    def way(self) -> AggregateUpkeep:
        """How it is maintained. What few calls need is loaded for these alone."""
        call, function = self.call, self.call.function
        if call.user is not None:
            from mayfly.kernels.users_values import users_way

            return users_way(call.user)
        if self.kept or (function == "count" and not call.distinct):
            return TOTAL
        if call.distinct and function in ("sum", "avg", *SPREADS):
            from mayfly.kernels.distinct_values import DISTINCT_WAYS

            return DISTINCT_WAYS[function]
        if call.distinct and call.argument and call.argument.type.is_nested:
            from mayfly.kernels.ordered_values import COMBINATIONS, ORDERED_WAYS

            return COMBINATIONS if function == "count" else ORDERED_WAYS["string_agg"]
        if function in ("sum", "avg") and call.data_type.name == "decimal":
            return DECIMAL_SUMS
        if Frequency.is_asked(call):
            from mayfly.kernels.frequent_items import FREQUENT

            return FREQUENT
        if function in WAYS:
            return WAYS[function]
        from mayfly.kernels.exact_covariances import COVARIANCE_WAYS
        from mayfly.kernels.ordered_values import ORDERED_WAYS

        return (ORDERED_WAYS | COVARIANCE_WAYS)[function]

    def totals(
        self,
        events: Events,
        place: Int64s,
        previous_totals: Known,
        argument: str,
        versions: Versions,
    ) -> Totals:
        try:
            if self.way.play is None:
                return self._running(events, place, previous_totals, argument, versions)
            return Totals(self.way.play(self.call, events, versions, argument), {})
        except TooLarge as error:
            kind = arrow_type(self.call.data_type)
            raise _overflow(self.call, events, versions, error.version, str(kind)) from None

    def weights(self, events: Events, argument: str) -> Int64s:
        """How many values each event is about."""
        values = events.values(argument)
        if not values.null_count:
            return np.ones(len(values), np.int64)
        valid: Int64s = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
        return valid

    def _running(
        self,
        events: Events,
        place: Int64s,
        previous_totals: Known,
        argument: str,
        versions: Versions,
    ) -> Totals:
        call = self.call
        if call.argument is None:
            return Totals(pa.array(versions.count), {})
        weights = self.weights(events, argument)
        present = events.running(weights, place, Wide.of(previous_totals.total(""))).low
        if call.function == "count":
            return Totals(pa.array(present), {"": present})
        values = events.values(argument)
        values = pc.fill_null(values, 0) if values.null_count else values
        amounts = np.ascontiguousarray(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
        before = Wide.of(previous_totals.total("sum"))
        if call.function == "avg":
            before = Wide.near(before.low, previous_totals.means * previous_totals.total(""))
        sums = events.running(amounts, place, before)
        empty = present == 0
        kept = {"": present, "sum": sums.low}
        if call.function == "avg":
            return Totals(pa.array(sums.floats / np.maximum(present, 1), mask=empty), kept)
        if not sums.fits.all():
            raise _overflow(call, events, versions, int(np.flatnonzero(~sums.fits)[0]), "a BIGINT")
        return Totals(pa.array(sums.low, mask=empty), kept)


def aggregator(call: AggregateCall) -> Aggregator:
    """What computes a call of an aggregate function."""
    if call.user is not None:
        return Aggregator(call, True, ())
    whole = call.argument is not None and call.argument.type.is_integral
    if call.function == "count" and not call.distinct:
        return Aggregator(call, False, ("",) if call.argument is not None else ())
    if call.function in ("sum", "avg") and whole and not call.distinct:
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


def _overflow(
    call: AggregateCall, events: Events, versions: Versions, version: int, kind: str
) -> BadInput:
    keys = events.keys(events.first_of_group[versions.group[[version]]]).to_pylist()
    values = [value for row in keys for value in row.values()]
    return overflow(call.function, values, int(versions.time[version]), kind)


def moment_text(instant: int) -> str:
    """Where in time something went wrong; rows of one-time queries over tables have the time 0."""
    return f" at {instant_text(instant)}" if instant else ""


def overflow(function: str, keys: Sequence[Any], instant: int, kind: str) -> BadInput:
    """The error that the value of a group does not fit its type."""
    values = ", ".join(map(repr, keys))
    group = f" of the group ({values})" if values else ""
    return BadInput(
        f"{function.upper()}{group} does not fit {kind}{moment_text(instant)}",
        "cast the aggregate's argument to DOUBLE or a wider DECIMAL",
    )
