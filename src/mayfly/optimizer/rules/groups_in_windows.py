"""Group rows once, by the refreshes of a window with SLIDE, and not in copies per finished window.

    GROUP BY k, window_start, window_end over HOP(s, ts, 1 min, 10 min)
    → the groups by k of s [RANGE 10 min SLIDE 1 min], taken at the last instant of each window

Then panes serve it, the same ones as queries with SLIDE. A window without rows has no row, so an
aggregate over all rows counts them. Where keys or arguments read the bounds of windows themselves,
rows are copied into each of their windows.
"""

from __future__ import annotations

from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.plan.expressions import Column, Compare, Expression, Literal, conjunction, conjuncts
from mayfly.plan.finished_operators import InWindows
from mayfly.plan.finished_windows import PeriodicWindows
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Named,
    Node,
    Project,
    Select,
)
from mayfly.plan.types import BIGINT

_ROWS = "rows in window"


def grouped_first(node: Node) -> Node:
    """A grouping of copies as copies of groups, if it is one."""
    if not isinstance(node, GroupAggregate):
        return node
    windows, terms = _windows_below(node.child)
    if windows is None or any(map(Frequency.is_asked, node.aggregates)):
        return node
    bounds = {(c.relation, c.name) for c in (windows.start, windows.end)}
    keys = [key for key in node.keys if _reads(key.expression, bounds) is not True]
    reads = [_reads(expression, bounds) for expression in node.expressions()[: len(node.keys)]]
    arguments = [call.argument for call in node.aggregates if call.argument is not None]
    mixed = None in reads or any(_reads(argument, bounds) is not False for argument in arguments)
    listed = {key.expression for key in node.keys}
    if (
        mixed
        or not {windows.start, windows.end} <= listed
        or any(_reads(term, bounds) is not True for term in terms)
    ):
        return node
    return _copies_of_groups(node, windows, tuple(keys), terms)


def _windows_below(node: Node) -> tuple[InWindows | None, tuple[Expression, ...]]:
    terms: tuple[Expression, ...] = ()
    while isinstance(node, Select):
        terms, node = (*terms, *conjuncts(node.predicate)), node.child
    periodic = isinstance(node, InWindows) and isinstance(node.windows, PeriodicWindows)
    return (node if periodic else None), terms  # type: ignore[return-value]


def _reads(expression: Expression, bounds: set[tuple[str, str]]) -> bool | None:
    """Whether an expression reads nothing but bounds of windows, none of them, or both (None)."""
    reads = {(c.relation, c.name) in bounds for c in expression.columns()}
    if len(reads) > 1:
        return None
    return reads.pop() if reads else False


def _copies_of_groups(
    node: GroupAggregate,
    windows: InWindows,
    keys: tuple[Named, ...],
    terms: tuple[Expression, ...],
) -> Node:
    inner, position = f"{node.alias} in windows", node.position
    calls, having = node.aggregates, None
    if not keys:
        counted = AggregateCall(_ROWS, "count", None, BIGINT)
        plain = (call for call in calls if replace(call, name=_ROWS) == counted)
        counted = next(plain, counted)
        calls = calls if counted in calls else (*calls, counted)
        having = Compare(">", counted.column(inner), Literal(0, BIGINT))
    groups = GroupAggregate(windows.child, keys, calls, inner, having, position=position)
    start, end = (replace(c, relation=inner) for c in (windows.start, windows.end))
    copies: Node = replace(windows, child=groups, start=start, end=end)
    moved = {windows.start: start, windows.end: end}
    if terms:
        where = conjunction(tuple(_moved(term, moved) for term in terms))
        assert where is not None
        copies = Select(copies, where, position=position)
    own = {key.name for key in keys}
    outputs = tuple(
        Named(key.name, key.column(inner) if key.name in own else _moved(key.expression, moved))
        for key in node.keys
    )
    results = tuple(Named(call.name, call.column(inner)) for call in node.aggregates)
    answer: Node = Project(copies, (*outputs, *results), node.alias, position=position)
    return Select(answer, node.having, position=position) if node.having else answer


def _moved(expression: Expression, columns: dict[Column, Column]) -> Expression:
    def change(part: Expression) -> Expression:
        return columns.get(part, part) if isinstance(part, Column) else part

    return expression.transform(change)


def rewrite(plan: Node, context: RuleContext) -> Node:
    return plan.transform(grouped_first)


GROUPS_IN_WINDOWS = Rule(
    "groups-in-windows", "group rows once, not in copies for each finished window", rewrite
)
