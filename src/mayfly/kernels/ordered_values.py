"""FIRST, LAST, MIN_BY, MAX_BY, COLLECT_LIST and STRING_AGG: values by an order of their rows.

Idea: an argument is an entry, what rows are ordered by and the value (plan/ordered_calls.py).
Entries are counted by rank as other values are, so the first of them, or all in order, is asked at
every version. Invariant: the order is that of the data (event time, SEQUENCE, values), never that
of arrival, so that no answer depends on how batches were cut.
Cost: that of MEDIAN for the first entry; a list costs its length at every version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.holistic import ENTRY_BYTES, POSITIONS, WAYS, AggregateUpkeep, by_rank
from mayfly.kernels.room import require_room
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.ordered_calls import (
    ASCENDING,
    DESCENDING,
    NULLS_FIRST,
    NULLS_LAST,
    PICKS,
    directions,
)
from mayfly.plan.types import arrow_type
from mayfly.windows.domain import keys_in_order
from mayfly.windows.rank_counts import SMALLEST, Keys, Ranked, Script


def entry_keys(call: AggregateCall) -> Keys:
    """How the entries of a call compare."""
    order = directions(call)
    return lambda entries: ranks_of_entries(entries, order)


def combination_keys(call: AggregateCall) -> Keys:
    """How combinations of values compare, those of ``COUNT(DISTINCT a, b)``."""
    assert call.argument is not None
    order = [ASCENDING] * len(call.argument.type.fields)
    return (lambda pairs: ranks_of_entries(pairs, order)) if order else keys_in_order


def ranks_of_entries(entries: pa.Array, order: Sequence[str]) -> Int64s:
    """Whole numbers in the order of entries, equal for equal ones."""
    columns = [
        part
        for member, direction in zip(entries.flatten(), order, strict=True)
        for part in _member_keys(member, direction)
    ]
    rows = np.lexsort(columns[::-1])
    changed = np.zeros(len(rows), bool)
    for column in columns:
        changed[1:] |= column[rows[1:]] != column[rows[:-1]]
    keys = np.empty(len(rows), np.int64)
    keys[rows] = np.cumsum(changed)
    return keys


def _member_keys(member: pa.Array, direction: str) -> list[Int64s]:
    """What a member sorts by: whether it is NULL, and its value."""
    is_descending = direction.startswith(DESCENDING)
    nulls_first = direction.endswith(NULLS_FIRST) or not (
        is_descending or direction.endswith(NULLS_LAST)
    )
    keys = keys_in_order(member)
    keys = ~keys if is_descending else keys
    if not member.null_count:
        return [keys]
    missing = pc.is_null(member).to_numpy(zero_copy_only=False)
    return [np.where(missing, -1 if nulls_first else 1, 0), np.where(missing, 0, keys)]


def _first(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    return ranked.at(ranked.positions(script, SMALLEST)[0]).flatten()[-1]


def _list(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The values of every version, one for each row, in their order."""
    sizes = ranked.distinct(script) if call.distinct else ranked.rows(script)
    listed = int(sizes.sum())
    require_room(
        listed * (ENTRY_BYTES + ranked.bytes_each),
        f"{call.function.upper()} over {len(sizes):,} versions of up to "
        f"{int(sizes.max(initial=0)):,} values, {listed:,} values in all,",
        "use a shorter window, smaller groups or batches, a SLIDE, or a larger max_state_bytes",
    )
    values = ranked.at(ranked.listed(script, listed, repeated=not call.distinct)).flatten()[-1]
    offsets = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=pa.list_(values.type))


def _values(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    return _list(call, ranked, script).cast(arrow_type(call.data_type))


def _text(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    """The values of every version as one text, NULL where there is none."""
    lists = _list(call, ranked, script)
    joined = pc.binary_join(lists, str(call.parameters[-1]))
    return pc.if_else(pc.greater(pc.list_value_length(lists), 0), joined, None)


def _combinations(call: AggregateCall, ranked: Ranked, script: Script) -> pa.Array:
    return pa.array(ranked.distinct(script))


COMBINATIONS = replace(WAYS["count"], play=by_rank(_combinations, combination_keys))
"""How ``COUNT(DISTINCT a, b)`` is kept."""
_IN_ORDER = AggregateUpkeep(
    "entries by rank",
    "all of them are listed at every version, so a list costs its length",
    None,
    POSITIONS.residue,
)
ORDERED_WAYS = {
    **dict.fromkeys(PICKS, replace(POSITIONS, play=by_rank(_first, entry_keys))),
    "collect_list": replace(_IN_ORDER, play=by_rank(_values, entry_keys)),
    "string_agg": replace(_IN_ORDER, play=by_rank(_text, entry_keys)),
}
