"""What rules share: the shape of a rule, and walking a plan while minding column order.

Columns are found by name everywhere except under UNION ALL, EXCEPT ALL, Output and ORDER BY, which
go by position. A rule that changes the order of a node's columns asks first whether it is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from mayfly.optimizer.statistics import Statistics
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AntiJoin,
    ExceptAll,
    GroupAggregate,
    Named,
    Node,
    Output,
    Project,
    RelationScan,
    Select,
    Shared,
    Sort,
    StreamScan,
    Top,
    UnionAll,
)
from mayfly.plan.strategy import Joining, Strategy


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What rules may ask about besides the plan."""

    statistics: Statistics = field(default_factory=Statistics)
    strategy: Strategy = Strategy.UPA
    weak_distinct: bool = True
    joining: Joining = Joining.COST
    early_pruning: bool = True
    panes: bool = True
    sharing: frozenset[str] = frozenset()
    """The rules of sharing that are on."""


Rewrite: TypeAlias = Callable[[Node, RuleContext], Node]
Alternatives: TypeAlias = Callable[[Node, RuleContext], list[Node]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rewrite of a whole plan, or the alternatives among which cost decides.

    The first alternative is the plan as it was.
    """

    name: str
    summary: str
    rewrite: Rewrite | None = None
    alternatives: Alternatives | None = None


def rewrite_bottom_up(
    node: Node, change: Callable[[Node, bool], Node], order_matters: bool = False
) -> Node:
    """Apply ``change(node, order_matters)`` to every node, inputs first."""
    below = _order_of_inputs_matters(node, order_matters)
    children = node.children()
    rebuilt = tuple(rewrite_bottom_up(child, change, below) for child in children)
    same = all(old is new for old, new in zip(children, rebuilt, strict=True))
    return change(node if same else node.with_children(rebuilt), order_matters)


def _order_of_inputs_matters(node: Node, order_matters: bool) -> bool:
    match node:
        case UnionAll() | ExceptAll() | Output() | Sort() | Top():
            return True
        case Project() | GroupAggregate():
            return False
    return order_matters


def single_steps(node: Node, step: Callable[[Node, bool], list[Node]]) -> list[Node]:
    """Every plan that differs from this one by one local step."""
    return _single_steps(node, step, False)


def _single_steps(
    node: Node, step: Callable[[Node, bool], list[Node]], order_matters: bool
) -> list[Node]:
    plans = step(node, order_matters)
    below = _order_of_inputs_matters(node, order_matters)
    children = node.children()
    for place, child in enumerate(children):
        for changed in _single_steps(child, step, below):
            plans.append(node.with_children((*children[:place], changed, *children[place + 1 :])))
    return plans


def offers(node: Node, *expressions: Expression) -> bool:
    """Whether a node offers every column the expressions read."""
    offered = {(column.relation, column.name) for column in node.schema}
    return all(
        (column.relation, column.name) in offered
        for expression in expressions
        for column in expression.columns()
    )


def substituted(expression: Expression, outputs: tuple[Named, ...], alias: str) -> Expression:
    """The expression over a block's outputs, written over the block's inputs."""
    meaning = {output.name: output.expression for output in outputs}

    def change(part: Expression) -> Expression:
        if isinstance(part, Column) and part.relation == alias:
            return meaning.get(part.name, part)
        return part

    return expression.transform(change)


def moved(expression: Expression, source: tuple[Column, ...], target: Node) -> Expression:
    """The expression over one schema, written over another of the same shape."""
    places = {(column.relation, column.name): place for place, column in enumerate(source)}

    def change(part: Expression) -> Expression:
        if isinstance(part, Column) and (part.relation, part.name) in places:
            return target.schema[places[part.relation, part.name]]
        return part

    return expression.transform(change)


def is_of_stream(node: Node) -> bool:
    """Whether rows come from one stream, selected and projected only."""
    while isinstance(node, Select | Project | Shared):
        node = node.child
    return isinstance(node, StreamScan)


def aliases(node: Node) -> list[str]:
    """The streams and relations whose rows a node brings, as the query calls them."""
    if isinstance(node, StreamScan | RelationScan):
        return [node.alias]
    if isinstance(node, AntiJoin | ExceptAll):
        return aliases(node.left)
    return [alias for child in node.children() for alias in aliases(child)]
