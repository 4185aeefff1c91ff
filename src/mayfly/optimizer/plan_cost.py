"""What a plan costs per second: operator processing, state maintenance, negative tuples.

Idea: count touched tuples. An operator touches what it probes for each new tuple; the same again
for each negative tuple it receives; and it touches its state to insert and expire. Where results
are STR, the whole plan either mixes timestamps with negative tuples for early deaths, or announces
every death; the cheaper is taken, except that count windows leave no choice (thesis 3.5.2).
Invariant: costs compare plans of one query under one strategy; they are not milliseconds.
Cost: one pass per alternative. Thesis 3.5.3, 5.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from mayfly.optimizer.estimates import Estimated, Flow, estimate_plan, join_inputs
from mayfly.optimizer.join_order import order_cost
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.statistics import Statistics
from mayfly.optimizer.structures import Cost, StateEstimate, Strict, Upkeep, is_grouped, kept
from mayfly.patterns import Kind
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Node,
    Output,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Costed:
    """An estimated node with what it keeps and what it costs by itself."""

    estimated: Estimated
    cost: Cost
    state: tuple[StateEstimate, ...]
    negative: float
    inputs: tuple[Costed, ...]
    strict: Strict = Strict.CALENDAR
    """How the plan keeps STR state."""

    @property
    def node(self) -> Node:
        return self.estimated.node

    def walk(self) -> Iterator[Costed]:
        yield self
        for child in self.inputs:
            yield from child.walk()

    @property
    def total(self) -> Cost:
        return sum((child.total for child in self.inputs), self.cost)


def cost_plan(
    plan: Node,
    statistics: Statistics,
    strategy: Strategy = Strategy.UPA,
    weak_distinct: bool = True,
) -> Costed:
    """The plan with its costs, STR state kept the cheaper of the two ways."""
    estimated = estimate_plan(label_plan(plan, weak_distinct), statistics)
    upkeep = Upkeep(strategy, Strict.CALENDAR, statistics.calendar_partitions)
    announced = replace(upkeep, strict=Strict.HASH)
    if strategy is not Strategy.UPA:
        return _cost(estimated, upkeep)
    if any(_counts_rows(below.node) for below in estimated.walk()):
        return _cost(estimated, announced)
    return min((_cost(estimated, upkeep), _cost(estimated, announced)), key=lambda c: c.total.total)


def _counts_rows(node: Node) -> bool:
    return isinstance(node, StreamScan | SubqueryWindow) and node.window.counts_rows


def _cost(estimated: Estimated, upkeep: Upkeep, last: bool = True) -> Costed:
    """``last``: whether nothing but the answer, or a window of its own, reads this edge."""
    node = estimated.node
    onward = isinstance(node, Output | SubqueryWindow) or (
        last and isinstance(node, Select | Project | Sort)
    )
    inputs = tuple(_cost(child, upkeep, onward) for child in estimated.inputs)
    state = kept(estimated, upkeep)
    sent = upkeep.negatives(estimated.label.held, estimated.flow)
    if last and (estimated.label.internal or is_grouped(estimated)):
        sent = 0.0  # results are append-only, or a new value replaces the old one
    received = [_received(estimated, child, upkeep) for child in inputs]
    rates = [child.flow.rate for child in estimated.inputs]
    cost = Cost(
        processing=_touched(estimated, rates),
        state=sum(each.maintenance for each in state),
        negative=_touched(estimated, received) + (sent if _originates(estimated) else 0.0),
    )
    return Costed(estimated, cost, state, sent, inputs, upkeep.strict)


def _received(estimated: Estimated, child: Costed, upkeep: Upkeep) -> float:
    """Negative tuples per second an operator takes from an input.

    Where every death is announced, an operator with STR output turns the expirations of its
    other inputs into negative tuples too.
    """
    strict = estimated.label.held.kind is Kind.STR and not isinstance(
        estimated.node, AntiJoin | ExceptAll | GroupAggregate | Distinct | Top | Over | AsofJoin
    )
    own = child.estimated.label.held.kind not in (Kind.STR, Kind.MON)
    if strict and own and upkeep.announces_all:
        return child.estimated.flow.rate
    return child.negative


def _originates(estimated: Estimated) -> bool:
    """Whether negative tuples start here, so that making them is this operator's work."""
    simpler = all(child.label.held.kind is not Kind.STR for child in estimated.inputs)
    return estimated.label.held.kind is Kind.STR and simpler


def _touched(estimated: Estimated, rates: list[float]) -> float:
    """Tuples touched per second for input tuples that come at the given rates."""
    node, inputs = estimated.node, estimated.inputs
    flows = [child.flow for child in inputs]
    match node:
        case Join():
            members = join_inputs(node, flows)
            paced = [replace(m, rate=rate) for m, rate in zip(members, rates, strict=True)]
            return sum(rates) + order_cost(paced, tuple(range(len(paced))))
        case Project(outputs=outputs) if all(isinstance(o.expression, Column) for o in outputs):
            return 0.0  # leaving columns out touches no tuple
        case Shared():
            return 0.0
        case RelationJoin():
            fan_out = estimated.flow.size / flows[0].size if flows[0].size else 0.0
            return rates[0] * (1 + fan_out) + (rates[1] if node.retroactive else 0.0)
        case PaddedNrrJoin():
            return rates[0] * 2
        case AntiJoin() | ExceptAll():
            # An arrival on the right looks at the left tuples of its value, and so does its end.
            return rates[0] + 2 * rates[1] * (1 + _per_value(node, flows[0]))
    return sum(rates)


def _per_value(node: AntiJoin | ExceptAll, left: Flow) -> float:
    """Left tuples that share one value of the negation attributes."""
    keys: tuple[Expression, ...] = node.left.schema
    if isinstance(node, AntiJoin):
        keys = tuple(equality.left for equality in node.equalities)
    return left.size / prod(left.values(key) for key in keys)
