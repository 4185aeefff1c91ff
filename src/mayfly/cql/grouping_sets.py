"""GROUPING SETS, ROLLUP and CUBE: the UNION ALL of several groupings of the same rows.

Each grouping has its own operator, and a key that it lacks is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.plan.expressions import Literal
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Named,
    Node,
    Project,
    UnionAll,
)
from mayfly.plan.types import BIGINT

if TYPE_CHECKING:
    from mayfly.cql.group_clause import Grouping

MOST_SETS = 64
"""Groupings of one query: each keeps its own state."""
Keys = list[exp.Expr]


def key_sets(context: BindingContext, group: exp.Expr | None) -> list[Keys]:
    """The groupings that GROUP BY asks for, by the places of their keys; one for plain keys."""
    sets: list[Keys] = [[]]
    for item in group.expressions if group else []:
        choices = _choices(context, item) if isinstance(item, _SEVERAL) else [[item]]
        sets = [[*keys, *more] for keys in sets for more in choices]
        _check_size(context, item, len(sets))
    return sets


_SEVERAL = (exp.GroupingSets, exp.Rollup, exp.Cube)


def _check_size(context: BindingContext, place: exp.Expr, size: int) -> None:
    if size > MOST_SETS:
        problem = f"{size:,} groupings in one query are too many"
        raise context.error(place, problem, f"list the ones you need, at most {MOST_SETS}")


def _choices(context: BindingContext, item: exp.Expr) -> list[Keys]:
    if isinstance(item, exp.GroupingSets):
        return [keys for part in item.expressions for keys in _choices(context, part)]
    if isinstance(item, exp.Rollup):
        parts = [_keys(part) for part in item.expressions]
        return [_flat(parts[:size]) for size in range(len(parts), -1, -1)]
    if isinstance(item, exp.Cube):
        parts = [_keys(part) for part in item.expressions]
        _check_size(context, item, 1 << len(parts))
        sizes = range(len(parts), -1, -1)
        return [_flat(chosen) for size in sizes for chosen in combinations(parts, size)]
    return [_keys(item)]


def _keys(part: exp.Expr) -> Keys:
    """``a``, ``(a)``, ``(a, b)`` or ``()``."""
    if isinstance(part, exp.Tuple):
        return list(part.expressions)
    return [part.this if isinstance(part, exp.Paren) else part]


def _flat(parts: Sequence[Keys]) -> Keys:
    return [key for part in parts for key in part]


def united(context: BindingContext, node: GroupAggregate, grouping: Grouping) -> Node:
    """All groupings, under the columns of the node, which has every key."""
    if not node.aggregates:  # the grouping without keys is one row, and needs a value to be one
        count = AggregateCall(grouping.fresh_name("count"), "count", None, BIGINT)
        node = replace(node, aggregates=(count,))
    parts = tuple(_part(context, node, grouping, names) for names in grouping.sets)
    return UnionAll(parts, node.alias, position=node.position)


def _part(
    context: BindingContext, node: GroupAggregate, grouping: Grouping, names: frozenset[str]
) -> Node:
    keys = tuple(key for key in node.keys if key.name in names)
    part = replace(node, keys=keys, alias=context.aliases.fresh(node.alias))
    own = {column.name: column for column in part.schema}
    outputs = [
        *(
            Named(column.name, own.get(column.name) or Literal(None, column.type))
            for column in node.schema
        ),
        *(
            Named(column.name, Literal(_lacking(listed, names), column.type))
            for column, listed in grouping.indicators.items()
        ),
    ]
    return Project(part, tuple(outputs), context.aliases.fresh(node.alias), position=node.position)


def _lacking(listed: Sequence[str], names: frozenset[str]) -> int:
    """A bit for each key, that of the last one lowest: 1 where the grouping lacks it."""
    bits = 0
    for name in listed:
        bits = 2 * bits + (name not in names)
    return bits
