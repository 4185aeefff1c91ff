"""From a costed plan to a physical one: stages, exchanges, fused kernels, warnings.

Idea: stateless operators over streams run where rows are read, before the first exchange. A
stateful operator needs the rows of one key in one bucket; inputs that a key of one column has
divided that way are not shuffled again, and the operator is fused into their kernel. Final
projections run after it. Invariant: rows that an operator compares are in the same bucket, and
what is said to be fused is what ``pipeline.spreading`` fuses.
Cost: one pass; stages that turn out to share buckets are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mayfly.optimizer.cost import Costed
from mayfly.optimizer.estimates import equality_classes
from mayfly.optimizer.rewriting import offers
from mayfly.optimizer.statistics import Statistics
from mayfly.optimizer.warnings import warnings_of
from mayfly.patterns import Kind
from mayfly.patterns.propagation import unbounded
from mayfly.plan.explain_logical import expression_text, node_detail, node_name
from mayfly.plan.expressions import Column, Expression, is_kernel_expression, same_number
from mayfly.plan.logical import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Sort,
    StreamScan,
    SubqueryWindow,
    UnionAll,
)
from mayfly.plan.physical import (
    Cost,
    Edge,
    Exchange,
    Operator,
    PhysicalPlan,
    Place,
    Strategy,
)
from mayfly.plan.windows import PartitionRows, Unbounded, Window

Columns: TypeAlias = frozenset[str]
"""The columns by each of which rows are divided: equal values are in one bucket."""

Keys: TypeAlias = tuple[tuple[Expression, ...], ...]
"""The key each input of an operator has to be divided by, in the same order for all."""


@dataclass
class _Draft:
    """An operator whose stage may still be merged with another."""

    costed: Costed
    place: Place
    stage: int
    spread: Columns = frozenset()
    edges: list[tuple[_Draft, Exchange | None]] = field(default_factory=list)
    raw: bool = False


class _Stages:
    """Stage numbers; merged ones answer with the same number. Stage 0 precedes all exchanges."""

    def __init__(self) -> None:
        self._same = [0]

    def new(self) -> int:
        self._same.append(len(self._same))
        return len(self._same) - 1

    def find(self, stage: int) -> int:
        while self._same[stage] != stage:
            stage = self._same[stage]
        return stage

    def merge(self, one: int, other: int) -> int:
        low, high = sorted((self.find(one), self.find(other)))
        self._same[high] = low
        return low


def physical_plan(
    costed: Costed, statistics: Statistics, strategy: Strategy = Strategy.UPA
) -> PhysicalPlan:
    """What will run for a costed plan."""
    stages = _Stages()
    draft = _draft(costed, stages, final=True)
    numbers: dict[int, int] = {0: 0}
    root = _freeze(draft, stages, numbers)
    streams = dict.fromkeys(
        node.stream for node in costed.node.walk() if isinstance(node, StreamScan)
    )
    assumed = tuple(stream for stream in streams if not statistics.known(stream))
    return PhysicalPlan(root, strategy, warnings_of(root), assumed)


def _draft(costed: Costed, stages: _Stages, final: bool) -> _Draft:
    node = costed.node
    onward = final and isinstance(node, Output | Select | Project | UnionAll | Sort)
    inputs = [_draft(child, stages, onward) for child in costed.inputs]
    match node:
        case StreamScan(window=window) | SubqueryWindow(window=window) if window.counts_rows:
            return _counted(costed, window, inputs, stages)
        case StreamScan() | RelationScan():
            return _Draft(costed, Place.BEFORE, 0)
        case Output():
            return _Draft(costed, Place.ANSWER, stages.new(), edges=[(inputs[0], None)])
        case RelationJoin(retroactive=False):
            return _beside(costed, inputs)
        case Sort():
            return _Draft(costed, Place.AFTER, stages.new(), edges=[(inputs[0], None)])
        case Select() | Project() | UnionAll() | SubqueryWindow():
            return _stateless(costed, inputs, stages, final)
    return _stateful(costed, inputs, _keys(node), stages)


def _counted(costed: Costed, window: Window, inputs: list[_Draft], stages: _Stages) -> _Draft:
    """A window that counts rows: one task, or one bucket per partition."""
    node, stage = costed.node, stages.new()
    source = inputs[0] if inputs else _Draft(costed, Place.BEFORE, 0, raw=True)
    if isinstance(window, PartitionRows):
        offered = {column.name: expression_text(column) for column in node.schema}
        key = tuple(offered[name] for name in window.partition_by)
        exchange = Exchange(key, "the window counts the rows of each partition")
        spread, place = frozenset(key if len(key) == 1 else ()), Place.KERNEL
    else:
        exchange = Exchange((), "the window counts all rows, in one order")
        spread, place = frozenset(), Place.SINGLE
    return _Draft(costed, place, stage, spread, [(source, exchange)])


def _beside(costed: Costed, inputs: list[_Draft]) -> _Draft:
    """An NRR join runs wherever its stream input is; the relation goes everywhere."""
    source, relation = inputs
    everywhere = Exchange((), "the relation's versions are read in every bucket", broadcast=True)
    edges = [(source, None), (relation, everywhere)]
    return _Draft(costed, source.place, source.stage, edges=edges)


def _stateless(costed: Costed, inputs: list[_Draft], stages: _Stages, final: bool) -> _Draft:
    node = costed.node
    edges: list[tuple[_Draft, Exchange | None]] = [(each, None) for each in inputs]
    if all(each.place is Place.BEFORE for each in inputs):
        return _Draft(costed, Place.BEFORE, 0, edges=edges)
    spread = _renamed(inputs[0].spread, node) if len(inputs) == 1 else frozenset()
    if final:
        started = len(inputs) == 1 and inputs[0].place is Place.AFTER
        return _Draft(
            costed, Place.AFTER, inputs[0].stage if started else stages.new(), spread, edges
        )
    evaluable = all(is_kernel_expression(each) for each in node.expressions())
    if len(inputs) == 1 and evaluable:
        return _Draft(costed, inputs[0].place, inputs[0].stage, spread, edges)
    return _Draft(costed, Place.BETWEEN, stages.new(), spread, edges)


def _stateful(costed: Costed, inputs: list[_Draft], keys: Keys, stages: _Stages) -> _Draft:
    """Shuffle what is not yet divided by the key; fuse with what is."""
    node = costed.node
    streams = inputs[: len(keys)]
    fits = [
        each.place is Place.KERNEL and _column(node, key, side) in each.spread
        for side, (each, key) in enumerate(zip(streams, keys, strict=True))
    ]
    stage = stages.new()
    for each, fit in zip(streams, fits, strict=True):
        stage = stages.merge(each.stage, stage) if fit else stage
    reason = _reason(node)
    edges = [
        (each, None if fit else Exchange(tuple(map(expression_text, key)), reason))
        for each, key, fit in zip(streams, keys, fits, strict=True)
    ]
    everywhere = Exchange((), "changes are matched in every bucket", broadcast=True)
    edges += [(each, everywhere) for each in inputs[len(keys) :]]
    kept = [each.spread for each, fit in zip(streams, fits, strict=True) if fit]
    place = Place.KERNEL if any(keys) else Place.SINGLE
    return _Draft(costed, place, stage, _spread_after(node, keys, kept), edges)


def _column(node: Node, key: tuple[Expression, ...], side: int = 0) -> str | None:
    """The one column that tells where rows of an operator's side go, if one does.

    On the left of a negation rows without a key count, too: these have a place of their own.
    """
    apart = isinstance(node, AntiJoin) and side == 0
    if apart or isinstance(node, ExceptAll | RelationJoin) or len(key) != 1:
        return None
    plain = same_number(key[0])
    return expression_text(plain) if isinstance(plain, Column) else None


def _spread_after(node: Node, keys: Keys, kept: Sequence[Columns]) -> Columns:
    """What results are divided by, if inputs that stay where they are were by ``kept``."""
    own = [_column(node, key, side) for side, key in enumerate(keys)]
    match node:
        case Join():
            return frozenset(one for one in own if one).union(*kept)
        case Distinct():
            return frozenset(one for one in own if one)
        case GroupAggregate(keys=(key,), alias=alias) if own[0]:
            return frozenset([expression_text(key.column(alias))])
    return frozenset()


def _renamed(spread: Columns, node: Node) -> Columns:
    """The same under the names that a projection gives. What waits in a window over results is
    moved to other buckets by its time."""
    match node:
        case Select():
            return spread
        case Project(outputs=outputs, alias=alias):
            return frozenset(
                expression_text(one.column(alias))
                for one in outputs
                if expression_text(one.expression) in spread
            )
    return frozenset()


def _keys(node: Node) -> Keys:
    """By what each input of a stateful operator has to be divided; () means one task."""
    match node:
        case Join(inputs=inputs, equalities=equalities):
            classes = [
                [m for child in inputs for m in [one for one in members if offers(child, one)][:1]]
                for members in equality_classes(equalities)
            ]
            shared = [members for members in classes if len(members) == len(inputs)]
            return tuple(
                tuple(members[place] for members in shared) for place in range(len(inputs))
            )
        case RelationJoin(equalities=equalities):
            return (tuple(equality.left for equality in equalities),)
        case AntiJoin(equalities=equalities):
            if node.kind is Negation.NOT_IN and _may_be_null(node):
                return ((), ())
            return (
                tuple(equality.left for equality in equalities),
                tuple(equality.right for equality in equalities),
            )
        case ExceptAll(left=left, right=right):
            return tuple(tuple(side.schema) for side in (left, right))
        case Distinct(child=child):
            return (tuple(child.schema),)
        case GroupAggregate(keys=keys):
            return (tuple(key.expression for key in keys),)
    return ((),)


def _may_be_null(node: AntiJoin) -> bool:
    return any(each.left.nullable or each.right.nullable for each in node.equalities)


def _reason(node: Node) -> str:
    match node:
        case Join():
            return "matching tuples meet in one bucket"
        case RelationJoin():
            return "a change of the relation finds its tuples in one bucket"
        case AntiJoin(kind=Negation.NOT_IN) if _may_be_null(node):
            return "a NULL on the right concerns every left tuple"
        case AntiJoin() | ExceptAll():
            return "a tuple meets what may exclude it in one bucket"
        case Distinct():
            return "equal rows meet in one bucket"
        case GroupAggregate(keys=keys):
            return "a group lies in one bucket" if keys else "one value over all rows"
    return "rows are compared with all others"


def _freeze(draft: _Draft, stages: _Stages, numbers: dict[int, int]) -> Operator:
    """The finished operator; stages are numbered in the order in which they run."""
    edges = tuple(Edge(_freeze(each, stages, numbers), how) for each, how in draft.edges)
    stage = stages.find(draft.stage)
    numbers.setdefault(stage, max(numbers.values()) + 1)
    operator = _operator(draft.costed, draft.place, numbers[stage], edges)
    if isinstance(operator.node, StreamScan) and (draft.raw or edges):
        return _halved(operator, operator.node, draft.raw)
    return operator


def _operator(costed: Costed, place: Place, stage: int, edges: tuple[Edge, ...]) -> Operator:
    node, label = costed.node, costed.estimated.label
    return Operator(
        name=_operator_name(node, label.pattern.kind),
        detail=node_detail(node),
        node=node,
        label=label,
        place=place,
        stage=stage,
        inputs=edges,
        state=costed.state,
        cost=costed.cost,
        rate=costed.estimated.flow.rate,
        size=costed.estimated.flow.size,
        negative=costed.negative,
    )


def _halved(operator: Operator, scan: StreamScan, raw: bool) -> Operator:
    """A scan that counts rows is two operators: the stream as it comes, and the window."""
    if not raw:
        return replace(operator, name="Window", detail=scan.window.cql())
    endless = replace(scan, window=Unbounded())
    return replace(
        operator,
        detail=node_detail(endless),
        node=endless,
        label=unbounded(scan.alias),
        state=(),
        cost=Cost(),
        size=0.0,
        negative=0.0,
    )


def _operator_name(node: Node, pattern: Kind) -> str:
    if isinstance(node, Distinct):
        return "strict δ" if pattern is Kind.STR else "δ*"
    return node_name(node)
