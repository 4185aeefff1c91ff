"""Aggregates that ask in which order rows stand: FIRST, LAST, MIN_BY, MAX_BY and lists.

Their argument is an entry, a struct of what rows are ordered by and the value itself, so that ties
go by value; it is NULL for rows that do not take part. The parameters say for each member of the
entry whether the smallest comes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.plan.expressions import Case, Expression, Function, IsNull, Not, conjunction
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import struct

PICKS = ("first", "last", "min_by", "max_by")
LISTS = ("collect_list", "string_agg")
ASCENDING, DESCENDING = "ASC", "DESC"
NULLS_FIRST, NULLS_LAST = " NULLS FIRST", " NULLS LAST"
"""Behind a direction where they are not where Spark puts them: first under ASC, last under DESC."""


def entry(keys: Sequence[Expression], value: Expression) -> Function:
    """A value with what it is ordered by."""
    types = {f"key{number}": key.type for number, key in enumerate(keys, start=1)}
    return Function("struct", (*keys, value), struct(**types, value=value.type), may_be_null=False)


def complete_entry(parts: Sequence[Expression]) -> Expression:
    """The values as one, NULL where some of them is."""
    whole: Expression = entry(parts[:-1], parts[-1])
    missing = [Not(IsNull(part)) for part in parts if part.nullable]
    condition = conjunction(tuple(missing))
    return whole if condition is None else Case((condition,), (whole,), None, whole.type)


def directions(call: AggregateCall) -> tuple[str, ...]:
    """Of each member of the entry; nothing of other calls."""
    if call.function not in (*PICKS, *LISTS):
        return ()
    assert call.argument is not None
    return tuple(map(str, call.parameters[: len(call.argument.type.fields)]))


def entry_of(call: AggregateCall) -> Function | None:
    """The entry of an ordered call, also behind conditions."""
    argument = call.argument if directions(call) else None
    while isinstance(argument, Case):
        argument = argument.results[0]
    return argument if isinstance(argument, Function) else None
