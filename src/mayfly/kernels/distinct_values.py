"""SUM, AVG, VAR and STDDEV of DISTINCT values, and texts that list each value once.

Idea: counts by rank tell when a value comes into a group and when the last of equal ones leaves it
(windows/rank_counts.py); only these events are played over sums that are as exact as those of all
rows. Invariant: a version's answer depends on the set of its values alone.
Cost: O(1) per event beside that of COUNT(DISTINCT x), with which the counts are shared, and the
distinct values of a touched group.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.exact_sums import SUM_WIDTH, Carried, play_sums
from mayfly.kernels.exact_variances import SPREAD_WIDTH, play_variances
from mayfly.kernels.group_events import HALF, Events, Wide
from mayfly.kernels.holistic import (
    RANKS,
    AggregateUpkeep,
    TooLarge,
    Versions,
    decimal_sums,
    floats_of,
    ranked_values,
)
from mayfly.plan.aggregate_families import SPREADS
from mayfly.plan.logical_operators import AggregateCall
from mayfly.windows.rank_counts import Script

NOTHING: Int64s = np.empty(0, np.int64)


def _summed(call: AggregateCall, events: Events, versions: Versions, argument: str) -> pa.Array:
    """The sum, mean or spread of the values of each version, equal ones counted once."""
    ranked = ranked_values(call, events, versions, argument)
    moves = ranked.crossings(events.sign)
    present = np.flatnonzero(ranked.counts > 0)
    held, starts = ranked.at(present), np.searchsorted(present, ranked.starts)
    counts = ranked.distinct(Script(events.sign, *events.marks))
    values = events.values(argument)
    if pa.types.is_decimal(values.type) and call.function in ("sum", "avg"):
        return decimal_sums(call, events, values, moves, held, starts, counts)
    if pa.types.is_integer(values.type) and call.function in ("sum", "avg"):
        sums = _whole_sums(events, values, moves, held, starts)
        if call.function == "avg":
            return pa.array(sums.floats / np.maximum(counts, 1), mask=counts == 0)
        if not sums.fits.all():
            raise TooLarge(int(np.flatnonzero(~sums.fits)[0]))
        return pa.array(sums.low, mask=counts == 0)
    play = floats_of(held), starts, floats_of(values), moves, *events.marks
    groups = len(events.codes)
    if call.function in SPREADS:
        spare = 1 if call.function.endswith("_samp") else 0
        carried = Carried.of(groups, {}, NOTHING, SPREAD_WIDTH)
        spread = play_variances(*play, carried, call.function.startswith("stddev"), spare)
        return pa.array(spread, mask=counts <= spare)
    totals = play_sums(*play, Carried.of(groups, {}, NOTHING, SUM_WIDTH + 1))
    if call.function == "avg":
        totals = totals / np.maximum(counts, 1)
    return pa.array(totals, mask=counts == 0)


def _whole_sums(
    events: Events, values: pa.Array, moves: Int64s, held: pa.Array, starts: Int64s
) -> Wide:
    """Sums of whole numbers, which may need more than 64 bits on their way."""
    amounts = pc.fill_null(values, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    before = held.cast(pa.int64()).to_numpy(zero_copy_only=False)
    low, high = (_per_group(part, starts) for part in (before & HALF, before >> 32))
    # What an event adds has its own sign: where only the last of equal ones counts, most add 0.
    moved = np.where(moves == 0, 0, amounts)
    return events.running(moved, np.arange(len(events.codes)), Wide.of_halves(low, high))


def _per_group(values: Int64s, starts: Int64s) -> Int64s:
    sums = np.append(0, np.cumsum(values))
    totals: Int64s = sums[starts[1:]] - sums[starts[:-1]]
    return totals


_DISTINCT_SUM = AggregateUpkeep(
    "an exact sum over a count per distinct value",
    "a value is added when its count leaves 0 and subtracted when it is 0 again",
    _summed,
    RANKS,
)
DISTINCT_WAYS = dict.fromkeys(("sum", "avg", *SPREADS), _DISTINCT_SUM)
"""Of aggregates over distinct values, by function."""
