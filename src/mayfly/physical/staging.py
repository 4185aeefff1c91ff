"""From a costed plan to a physical one: stages, exchanges, fused kernels, warnings.

Idea: stateless operators over streams run where rows are read, before the first exchange. A
stateful operator needs the rows of one key in one bucket; inputs that are divided that way
(``plan.spread``) are not shuffled again, and the operator is fused into their kernel. Final
projections run after it. Invariant: rows that an operator compares are in the same bucket, and
what is said to be fused is what ``pipeline.spreading`` fuses.
Cost: one pass; stages that turn out to share buckets are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import TypeAlias

from mayfly.optimizer.cost import Costed
from mayfly.optimizer.estimates import equality_classes
from mayfly.optimizer.rewriting import offers
from mayfly.optimizer.statistics import Statistics
from mayfly.patterns import Kind
from mayfly.patterns.propagation import unbounded
from mayfly.physical.warnings import warnings_of
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
from mayfly.plan.physical import Cost, Edge, Exchange, Operator, PhysicalPlan, Place
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Strategy
from mayfly.plan.text import expression_text, node_detail, node_name
from mayfly.plan.windows import PartitionRows, Unbounded, Window

Keys: TypeAlias = tuple[tuple[Expression, ...], ...]
"""The key each input of an operator has to be divided by, in the same order for all."""


@dataclass
class _Draft:
    """An operator whose stage may still be merged with another."""

    costed: Costed
    place: Place
    stage: int
    spread: Spread = field(default_factory=Spread)
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
    root = _freeze(draft, stages, _numbered(draft, stages))
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
            return _beside(costed, inputs, stages)
        case Sort():
            return _Draft(costed, Place.AFTER, stages.new(), edges=[(inputs[0], None)])
        case Select() | Project() | UnionAll() | SubqueryWindow():
            return _stateless(costed, inputs, stages, final)
    return _stateful(costed, inputs, _keys(node), stages)


def _counted(costed: Costed, window: Window, inputs: list[_Draft], stages: _Stages) -> _Draft:
    """A window that counts rows: one task, or one bucket per partition."""
    node, stage = costed.node, stages.new()
    source = inputs[0] if inputs else _Draft(costed, Place.BEFORE, 0, raw=True)
    if isinstance(window, PartitionRows) and not (window.slide and window.slide.rows):
        offered = {column.name: expression_text(column) for column in node.schema}
        key = tuple(offered[name] for name in window.partition_by)
        if source.place is Place.KERNEL and source.spread.within(key):
            return _Draft(costed, Place.KERNEL, source.stage, source.spread, [(source, None)])
        exchange = Exchange(key, "the window counts the rows of each partition")
        return _Draft(costed, Place.KERNEL, stage, Spread.by(key), [(source, exchange)])
    exchange = Exchange((), "the window counts all rows, in one order")
    return _Draft(costed, Place.SINGLE, stage, edges=[(source, exchange)])


def _beside(costed: Costed, inputs: list[_Draft], stages: _Stages) -> _Draft:
    """An NRR join runs wherever its stream input is; the relation goes everywhere."""
    source, relation = inputs
    assert isinstance(costed.node, RelationJoin)
    key = _columns([one.left for one in costed.node.equalities])
    matched = _columns([one.right for one in costed.node.equalities])
    everywhere = Exchange((), "the relation's versions are read in every bucket", broadcast=True)
    edges: list[tuple[_Draft, Exchange | None]]
    if source.place is not Place.BEFORE:
        edges = [(source, None), (relation, everywhere)]
        spread = source.spread | (Spread.by(key, matched) if source.spread.has(key) else Spread())
        return _Draft(costed, source.place, source.stage, spread, edges)
    names = tuple(name for name in key if name)
    anywhere = Exchange(names or ("time",), "rows meet the relation's versions in any bucket")
    edges = [(source, anywhere), (relation, everywhere)]
    spread = Spread.by(names)
    spread |= Spread.by(key, matched) if spread.has(key) else Spread()
    return _Draft(costed, Place.KERNEL, stages.new(), spread, edges)


def _stateless(costed: Costed, inputs: list[_Draft], stages: _Stages, final: bool) -> _Draft:
    node = costed.node
    edges: list[tuple[_Draft, Exchange | None]] = [(each, None) for each in inputs]
    if all(each.place is Place.BEFORE for each in inputs):
        return _Draft(costed, Place.BEFORE, 0, edges=edges)
    if isinstance(node, UnionAll):
        return _union(costed, node, inputs, stages, final)
    spread = _renamed(inputs[0].spread, node)
    if final:
        started = len(inputs) == 1 and inputs[0].place is Place.AFTER
        return _Draft(
            costed, Place.AFTER, inputs[0].stage if started else stages.new(), spread, edges
        )
    evaluable = all(is_kernel_expression(each) for each in node.expressions())
    if evaluable:
        return _Draft(costed, inputs[0].place, inputs[0].stage, spread, edges)
    return _Draft(costed, Place.BETWEEN, stages.new(), spread, edges)


def _union(
    costed: Costed, node: UnionAll, inputs: list[_Draft], stages: _Stages, final: bool
) -> _Draft:
    """In the kernel of its inputs, if they are all there by one key: streams join them there."""
    kernels = [each for each in inputs if each.place is Place.KERNEL]
    rest = any(each.place not in (Place.KERNEL, Place.BEFORE) for each in inputs)
    spread = _of_union(node, inputs)
    if final or rest or not spread.keys:
        place = Place.AFTER if final else Place.BETWEEN
        return _Draft(costed, place, stages.new(), edges=[(each, None) for each in inputs])
    key = spread.within(expression_text(one) for one in node.schema)
    moved = Exchange(key, "streams go to where the other rows of the union are")
    edges = [(each, None if each.place is Place.KERNEL else moved) for each in inputs]
    stage = kernels[0].stage
    for each in kernels[1:]:
        stage = stages.merge(stage, each.stage)
    return _Draft(costed, Place.KERNEL, stage, Spread.by(key), edges)


def _of_union(node: UnionAll, inputs: Sequence[_Draft]) -> Spread:
    found: Spread | None = None
    for child, each in zip(node.children(), inputs, strict=True):
        if each.place is Place.KERNEL:
            mine = each.spread.renamed(
                (expression_text(old), expression_text(new))
                for old, new in zip(child.schema, node.schema, strict=True)
                if old.type == new.type or (old.type.is_integral and new.type.is_integral)
            )
            found = mine if found is None else found.common(mine)
    return found or Spread()


def _stateful(costed: Costed, inputs: list[_Draft], keys: Keys, stages: _Stages) -> _Draft:
    """Shuffle what is not yet divided by the key; fuse with what is."""
    node = costed.node
    streams = inputs[: len(keys)]
    fits = [
        each.place is Place.KERNEL and _stays(node, each.spread, key)
        for each, key in zip(streams, keys, strict=True)
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
    kept = [each.spread if fit else None for each, fit in zip(streams, fits, strict=True)]
    sent = not fits[0] and streams[0].place is not Place.BEFORE
    place = Place.KERNEL if any(keys) else Place.SINGLE
    return _Draft(costed, place, stage, _spread_after(node, keys, kept, sent), edges)


def _columns(key: Sequence[Expression]) -> list[str | None]:
    """The columns of a key; None for a part that is no column as it is."""
    plain = map(same_number, key)
    return [expression_text(one) if isinstance(one, Column) else None for one in plain]


def _stays(node: Node, spread: Spread, key: Sequence[Expression]) -> bool:
    """Whether rows that are divided so need not move for an operator."""
    columns = _columns(key)
    alone = isinstance(node, GroupAggregate | Distinct)
    return bool(spread.within(columns)) if alone else spread.has(columns)


def _spread_after(node: Node, keys: Keys, kept: Sequence[Spread | None], sent: bool) -> Spread:
    """What results are divided by. ``kept`` says of each input what its rows are divided by if
    they stay where they are, ``sent`` whether those of the first come from another stage."""
    first = kept[0] or Spread()
    match node:
        case Join():
            found = Spread.by(*map(_columns, keys))
            for one in kept:
                found |= one or Spread()
            return found
        case RelationJoin(equalities=equalities):
            right = [equality.right for equality in equalities]
            return first | Spread.by(_columns(keys[0]), _columns(right))
        case AntiJoin(residual=None) if sent and len(keys[0]) > 1 and _any_null(keys[0]):
            return Spread()  # rows without a part of the key are where NULL is
        case AntiJoin() | ExceptAll():
            return first | Spread.by(_columns(keys[0]))
        case Distinct():
            columns = _columns(keys[0])
            return Spread.by(columns) if kept[0] is None else first.only(columns)
        case GroupAggregate(keys=outputs, alias=alias):
            shown = [expression_text(one.column(alias)) for one in outputs]
            if kept[0] is None:
                return Spread.by(shown)
            return first.renamed(zip(_columns(keys[0]), shown, strict=True))
    return Spread()


def _renamed(spread: Spread, node: Node) -> Spread:
    """The same under the names that a projection gives."""
    if not isinstance(node, Project):
        return spread
    columns = _columns([one.expression for one in node.outputs])
    shown = [expression_text(one.column(node.alias)) for one in node.outputs]
    return spread.renamed(zip(columns, shown, strict=True))


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


def _any_null(key: Sequence[Expression]) -> bool:
    return any(one.nullable for one in key)


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


def _numbered(draft: _Draft, stages: _Stages) -> dict[int, int]:
    """Numbers of stages in the order in which they run: each after those that send it rows."""
    sources: dict[int, set[int]] = {0: set()}

    def visit(each: _Draft) -> None:
        for below, _ in each.edges:
            visit(below)
        stage = stages.find(each.stage)
        own = sources.setdefault(stage, set())
        own.update(stages.find(below.stage) for below, _ in each.edges)
        own.discard(stage)

    visit(draft)
    return {stage: at for at, stage in enumerate(TopologicalSorter(sources).static_order())}


def _freeze(draft: _Draft, stages: _Stages, numbers: dict[int, int]) -> Operator:
    """The finished operator."""
    edges = tuple(Edge(_freeze(each, stages, numbers), how) for each, how in draft.edges)
    number = numbers[stages.find(draft.stage)]
    operator = _operator(draft.costed, draft.place, number, edges)
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
