"""From a logical plan to the operators that run it.

Each plan node becomes an operator that keeps its state in the structure its input's update pattern
calls for: FIFO for WKS, calendar queue for WK, calendar queue with negative tuples for STR (UPA);
insertion-order buffers for DIRECT; hashes fed by negative tuples for NT, under which every window
announces each expiration. n-way joins on one key are run whole or, like all others, as chains of
binary ones in the plan's order; NOT EXISTS with a residual and NOT IN become negations by the left
row's identity over a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import Delta, payload
from mayfly.kernels.difference import ExceptAllRows
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.evaluation import Algorithm, Evaluation
from mayfly.kernels.grouping import GroupRows
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept import Shape
from mayfly.kernels.meeting import Condition, JoinRows, NrrJoinRows
from mayfly.kernels.multiway import MultiwayJoin, SharedKey
from mayfly.kernels.negation import AntiJoinRows
from mayfly.kernels.outputs import Sent
from mayfly.kernels.stateless import MergeUnion, Nothing, ProjectRows, SelectRows
from mayfly.kernels.windows import RANK, WindowRows
from mayfly.optimizer.labelling import Labelled, describe, label_plan
from mayfly.optimizer.state import Upkeep, structure_for
from mayfly.patterns import MON, STR, WK, Kind, Pattern
from mayfly.pipeline.query import EXACT_KEYS
from mayfly.pipeline.whole_joins import CheapestOrder, common_slide, covers, shared_key
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.expressions import Expression, IsNull, Not, conjunction, conjuncts
from mayfly.plan.logical import (
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    OutputKind,
    Project,
    RelationJoin,
    RelationScan,
    Schema,
    Select,
    Sort,
    StreamScan,
    SubqueryWindow,
    UnionAll,
)
from mayfly.plan.physical import Strategy
from mayfly.plan.windows import PartitionRows, Slide


class Operator(Protocol):
    """One operator: a value that takes a state and the rows of a step to the next state."""

    @property
    def name(self) -> str: ...
    def state(self) -> Any: ...
    def step(self, state: Any, inputs: Sequence[Delta], interval: Interval) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class Stream:
    """Where rows enter: a stream under an alias, with the columns its window needs."""

    stream: str
    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Relation:
    """Where the versions of a stored table enter, under an alias."""

    relation: str
    alias: str
    columns: tuple[str, ...]


Source = Stream | Relation


@dataclass(frozen=True, eq=False)
class Task:
    """An operator and what feeds it; ``longest`` bounds the lifetimes of its results."""

    operator: Operator
    inputs: tuple[Task | Source, ...]
    columns: pa.Schema
    strict: bool
    longest: int | None = None

    def walk(self) -> Iterator[Task]:
        """This task and those below it, inputs first."""
        for each in self.inputs:
            if isinstance(each, Task):
                yield from each.walk()
        yield self


@dataclass(frozen=True)
class Program:
    """What runs: the task whose results are the answer, and how they are sent, if they are."""

    answer: Task
    sent: Sent | None
    plan: Output
    strategy: Strategy

    def tasks(self) -> list[Task]:
        """Every task once, inputs first (a task may feed several others)."""
        return list(dict.fromkeys(self.answer.walk()))


def compile_plan(
    plan: Output,
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    weak_distinct: bool = True,
    joins: str | Evaluation = "binary",
) -> Program:
    """The operators of an optimized plan.

    ``joins`` says how three or more inputs with one key are joined: "binary" in a chain that keeps
    intermediate results, "multiway" by one operator, or by it as an ``Evaluation`` says.
    """
    slide = _slide_of(plan)
    runnable = _without_slides(plan) if plan.restore else plan
    assert isinstance(runnable, Output)
    announced = strategy is Strategy.NT
    labelled = label_plan(runnable, weak_distinct and not announced)
    way = _way_to_join(joins)
    compiler = _Compiler(catalog, strategy, weak_distinct and not announced, _is_dual(plan), way)
    source = labelled.inputs[0]
    sort = Sort(source.node, ())
    if isinstance(source.node, Sort):
        sort, source = source.node, source.inputs[0]
    answer = compiler.task(source)
    sent = None
    if plan.kind is not OutputKind.VIEW:
        sent = Sent(
            plan.kind.value, plan.kind, answer.columns, compiler.shape(source, answer),
            slide, plan.restore, sort.keys, sort.limit, sort.offset,
        )  # fmt: skip
    return Program(answer, sent, plan, strategy)


def _way_to_join(joins: str | Evaluation) -> Evaluation | bool:
    """An evaluation, or whether to run joins whole with the one that suits."""
    if isinstance(joins, Evaluation):
        return joins
    if joins not in ("binary", "multiway"):
        raise InvalidSetting(f"there is no way {joins!r} to join", "use 'binary' or 'multiway'")
    return joins == "multiway"


def _slide_of(plan: Node) -> Slide | None:
    """The slide of the outermost windows."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, StreamScan | SubqueryWindow):
            if node.window.slide is not None and node.window.slide.period:
                return node.window.slide
        else:
            waiting.extend(node.children())
    return None


def _without_slides(plan: Node) -> Node:
    """The same query answered at every instant: what restore looks at between refreshes."""

    def at_every_instant(node: Node) -> Node:
        if isinstance(node, StreamScan | SubqueryWindow) and node.window.slide is not None:
            return replace(node, window=replace(node.window, slide=None))
        return node

    return plan.transform(at_every_instant)


def _is_dual(plan: Node) -> bool:
    return any(
        isinstance(node, StreamScan | SubqueryWindow) and node.window.internal
        for node in plan.walk()
    )


@dataclass(frozen=True)
class _Compiler:
    catalog: Catalog
    strategy: Strategy
    weak_distinct: bool
    dual: bool
    whole_joins: Evaluation | bool = False

    def task(self, labelled: Labelled) -> Task:
        node = labelled.node
        match node:
            case StreamScan():
                return self._scan(node)
            case RelationScan():
                raise InvalidSetting(
                    f"{node.alias} is not joined with a stream", "join it with a window"
                )
            case SubqueryWindow():
                return self._subquery_window(labelled, node)
            case Select(predicate=predicate):
                child = self.task(labelled.inputs[0])
                return replace(
                    child, operator=SelectRows(describe(node), predicate), inputs=(child,)
                )
            case Project(outputs=outputs):
                child = self.task(labelled.inputs[0])
                columns = payload(node.schema)
                listed = tuple(output.expression for output in outputs)
                operator = ProjectRows(describe(node), listed, columns)
                return replace(child, operator=operator, inputs=(child,), columns=columns)
            case Join():
                return self._join(labelled, node)
            case RelationJoin():
                return self._relation_join(labelled, node)
            case AntiJoin():
                return self._negation(labelled, node)
            case Distinct():
                return self._distinct(labelled)
            case GroupAggregate():
                return self._group(labelled, node)
            case UnionAll():
                return self._union(labelled, node)
            case ExceptAll():
                return self._except_all(labelled, node)
        raise InvalidSetting(
            f"{describe(node)} cannot be run in this process", "see docs/language.md for what can"
        )

    # ── leaves ────────────────────────────────────────────────────────────────────────────

    def _scan(self, node: StreamScan, ordered: bool = False) -> Task:
        stream = self.catalog.lookup(node.stream)
        assert isinstance(stream, StreamDefinition)
        window, columns = node.window, payload(node.schema)
        partition = window.partition_by if isinstance(window, PartitionRows) else ()
        named = [column.name for column in node.schema]
        order: list[str] = []
        if window.counts_rows or ordered:
            order = [*stream.sequence, *(column.name for column in stream.columns)]
        needed = tuple(dict.fromkeys([*named, *order, *partition]))
        alias = node.alias
        operator = WindowRows(
            describe(node),
            window,
            columns,
            tuple(dict.fromkeys(f"{alias}.{name}" for name in order)) if order else None,
            tuple(f"{alias}.{name}" for name in partition),
            self.strategy is Strategy.NT,
            self.dual,
        )
        source = Stream(stream.name, alias, needed)
        return Task(operator, (source,), columns, self._is_cut(node), self._longest(node))

    def _is_cut(self, node: StreamScan | SubqueryWindow) -> bool:
        """Whether the window sends negative tuples."""
        expires = node.window.lifetime is not None or node.window.counts_rows
        return node.window.counts_rows or (self.strategy is Strategy.NT and expires)

    def _longest(self, node: StreamScan | SubqueryWindow) -> int | None:
        window = node.window
        longest = window.duration if isinstance(window, PartitionRows) else window.lifetime
        if longest is None or self.strategy is Strategy.NT:
            return None
        period = window.slide.period if window.slide and window.slide.period else 0
        return longest + period

    def _subquery_window(self, labelled: Labelled, node: SubqueryWindow) -> Task:
        ranked = _stream_below(node.child)
        child = self._ranked(labelled.inputs[0]) if ranked else self.task(labelled.inputs[0])
        window, columns = node.window, payload(node.schema)
        relation = node.schema[0].relation
        partition = window.partition_by if isinstance(window, PartitionRows) else ()
        order = RANK if ranked else tuple(columns.names)
        operator = WindowRows(
            describe(node),
            window,
            columns,
            order if window.counts_rows else None,
            tuple(f"{relation}.{name}" for name in partition),
            self.strategy is Strategy.NT,
            self.dual,
        )
        return Task(operator, (child,), columns, self._is_cut(node), self._longest(node))

    def _ranked(self, labelled: Labelled) -> Task:
        """A chain of selections and projections over one stream, whose rows keep its order."""
        node = labelled.node
        if isinstance(node, StreamScan):
            return self._scan(node, ordered=True)
        child = self._ranked(labelled.inputs[0])
        if isinstance(node, Select):
            operator: Operator = SelectRows(describe(node), node.predicate)
            return replace(child, operator=operator, inputs=(child,))
        assert isinstance(node, Project)
        columns = payload(node.schema)
        listed = tuple(output.expression for output in node.outputs)
        operator = ProjectRows(describe(node), listed, columns)
        return replace(child, operator=operator, inputs=(child,), columns=columns)

    # ── joins ─────────────────────────────────────────────────────────────────────────────

    def _join(self, labelled: Labelled, node: Join) -> Task:
        """All inputs at once if they share a key and that is wanted, otherwise one by one."""
        shared = shared_key(node) if self.whole_joins and len(node.inputs) > 2 else None
        return self._whole(labelled, node, *shared) if shared else self._chain(labelled, node)

    def _whole(
        self, labelled: Labelled, node: Join, key: SharedKey, conditions: tuple[Expression, ...]
    ) -> Task:
        tasks = tuple(self.task(child) for child in labelled.inputs)
        strict, slide = any(task.strict for task in tasks), common_slide(node)
        evaluation = self.whole_joins
        if not isinstance(evaluation, Evaluation):
            lazy = Algorithm.LAZY if slide and not strict else Algorithm.LAZY_RESTORE
            evaluation = Evaluation(lazy)
        operator = MultiwayJoin(
            describe(node),
            key,
            conditions,
            tuple(task.columns for task in tasks),
            tuple(self.shape(*pair) for pair in zip(labelled.inputs, tasks, strict=True)),
            evaluation,
            CheapestOrder(evaluation.buckets),
            strict,
            slide,
            self.dual,
        )
        columns = pa.schema([one for task in tasks for one in task.columns])
        return Task(operator, tasks, columns, strict, reduce(_shorter, [t.longest for t in tasks]))

    def _chain(self, labelled: Labelled, node: Join) -> Task:
        """The inputs joined one by one, each condition as soon as it can be checked."""
        pending, residual = list(node.equalities), list(conjuncts(node.residual))
        joined, schema = self.task(labelled.inputs[0]), labelled.inputs[0].node.schema
        shape = self.shape(labelled.inputs[0], joined)
        for number, child in enumerate(labelled.inputs[1:], start=1):
            right = self.task(child)
            here = [_oriented(one, schema, child.node.schema) for one in pending]
            usable = [one for one in here if one is not None]
            pending = [one for one, turned in zip(pending, here, strict=True) if turned is None]
            schema = (*schema, *child.node.schema)
            ready = [term for term in residual if covers(schema, term)]
            residual = [term for term in residual if term not in ready]
            condition = _condition(usable, conjunction(tuple(ready)))
            operator = JoinRows(
                f"{describe(node)} ({number})" if len(labelled.inputs) > 2 else describe(node),
                condition,
                (joined.columns, right.columns),
                (shape, self.shape(child, right)),
                self.dual,
            )
            joined = Task(
                operator,
                (joined, right),
                pa.schema([*joined.columns, *right.columns]),
                joined.strict or right.strict,
                _shorter(joined.longest, right.longest),
            )
            shape = self.shape(labelled, joined)
        return joined

    def _relation_join(self, labelled: Labelled, node: RelationJoin) -> Task:
        child, relation = self.task(labelled.inputs[0]), self._relation(labelled.inputs[1])
        oriented = [
            _oriented(one, node.child.schema, node.relation.schema) for one in node.equalities
        ]
        condition = _condition([one for one in oriented if one], node.residual)
        columns = pa.schema([*child.columns, *relation.columns])
        sides = (child.columns, relation.columns)
        if not node.retroactive:
            nrr = NrrJoinRows(describe(node), condition, sides, child.strict, self.dual)
            return Task(nrr, (child, relation), columns, child.strict, child.longest)
        operator = JoinRows(
            describe(node),
            condition,
            sides,
            (self.shape(labelled.inputs[0], child), Shape()),
            self.dual,
        )
        return Task(operator, (child, relation), columns, True, child.longest)

    def _relation(self, labelled: Labelled) -> Task:
        """The stored table, perhaps selected and projected."""
        node = labelled.node
        if isinstance(node, RelationScan):
            columns = payload(node.schema)
            named = tuple(column.name for column in node.schema)
            source = Relation(node.relation, node.alias, named)
            operator = Entering(describe(node), columns, self.dual)
            return Task(operator, (source,), columns, True)
        child = self._relation(labelled.inputs[0])
        if isinstance(node, Select):
            chosen = SelectRows(describe(node), node.predicate)
            return replace(child, operator=chosen, inputs=(child,))
        if isinstance(node, Project):
            columns = payload(node.schema)
            listed = tuple(output.expression for output in node.outputs)
            projected = ProjectRows(describe(node), listed, columns)
            return replace(child, operator=projected, inputs=(child,), columns=columns)
        raise InvalidSetting(
            f"{describe(node)} over a relation cannot be run in this process",
            "join the relation itself",
        )

    # ── negation ──────────────────────────────────────────────────────────────────────────

    def _negation(self, labelled: Labelled, node: AntiJoin) -> Task:
        left, right = (self.task(one) for one in labelled.inputs)
        shapes = tuple(
            self.shape(one, task) for one, task in zip(labelled.inputs, (left, right), strict=True)
        )
        oriented = [_oriented(one, node.left.schema, node.right.schema) for one in node.equalities]
        condition = _condition([one for one in oriented if one], node.residual)
        if node.kind is Negation.NOT_IN and _may_be_null(condition):
            right = self._not_in_matches(node, left, right, condition, (shapes[0], shapes[1]))
            condition = Condition(((), ()), (), True)
        elif node.residual is not None or not condition.types:
            right = _matches(f"{describe(node)} (pairs)", left, right, condition, shapes)
            condition = Condition(((), ()), (), True)
        by_identity = not condition.types
        operator = AntiJoinRows(
            describe(node),
            condition,
            left.columns,
            (shapes[0], shapes[1]),
            right.strict,
            by_identity,
        )
        return Task(operator, (left, right), left.columns, True, left.longest)

    def _not_in_matches(
        self,
        node: AntiJoin,
        left: Task,
        right: Task,
        condition: Condition,
        shapes: tuple[Shape, Shape],
    ) -> Task:
        """What excludes a left row: an equal value, a NULL on the right, anything if it is NULL."""
        mine, other = condition.keys[0][0], condition.keys[1][0]
        nulls = SelectRows("NULLs on the right", IsNull(other))
        missing = SelectRows("NULLs on the left", IsNull(mine))
        everything = Condition(((), ()), (), True)
        only_left = replace(left, operator=missing, inputs=(left,))
        only_nulls = replace(right, operator=nulls, inputs=(right,))
        name = describe(node)
        # A left NULL meets right NULLs in the third part.
        known = replace(
            left,
            operator=SelectRows("values on the left", _not_null(mine)),
            inputs=(left,),
        )
        parts = (
            _matches(f"{name} (equal)", left, right, condition, shapes),
            _matches(f"{name} (right NULL)", known, only_nulls, everything, shapes),
            _matches(f"{name} (left NULL)", only_left, right, everything, shapes),
        )
        union = MergeUnion(f"{name} (pairs)", pa.schema([]), owned=True)
        return Task(union, parts, pa.schema([]), any(one.strict for one in parts), parts[0].longest)

    # ── the rest ──────────────────────────────────────────────────────────────────────────

    def _distinct(self, labelled: Labelled) -> Task:
        (source,) = labelled.inputs
        child, name = self.task(source), describe(labelled.node)
        weak = self.weak_distinct and not child.strict
        if weak:
            operator = WeakDistinct(name, child.columns, self._shape(Kind.WK, child.longest))
            return Task(operator, (child,), child.columns, False, child.longest)
        schema = labelled.node.schema
        counted = GroupRows(name, schema, (), child.columns, None, self.shape(source, child))
        return Task(counted, (child,), child.columns, True)

    def _group(self, labelled: Labelled, node: GroupAggregate) -> Task:
        (source,) = labelled.inputs
        child, columns = self.task(source), payload(node.schema)
        keys = tuple(key.expression for key in node.keys)
        internal = source.label.internal
        operator = GroupRows(
            describe(node),
            keys,
            node.aggregates,
            columns,
            node.having,
            self.shape(source, child),
            internal,
            _slide_of(node) if internal else None,
            self.dual,
        )
        return Task(operator, (child,), columns, not internal)

    def _union(self, labelled: Labelled, node: UnionAll) -> Task:
        tasks = tuple(self.task(one) for one in labelled.inputs)
        columns = payload(node.schema)
        operator = MergeUnion(describe(node), columns, self.dual)
        longest = [task.longest for task in tasks]
        bound = None if None in longest else max(one for one in longest if one is not None)
        return Task(operator, tasks, columns, any(task.strict for task in tasks), bound)

    def _except_all(self, labelled: Labelled, node: ExceptAll) -> Task:
        left, right = (self.task(one) for one in labelled.inputs)
        shapes = tuple(
            self.shape(one, task) for one, task in zip(labelled.inputs, (left, right), strict=True)
        )
        operator = ExceptAllRows(
            describe(node), (left.columns, right.columns), (shapes[0], shapes[1])
        )
        return Task(operator, (left, right), left.columns, True, left.longest)

    # ── state ─────────────────────────────────────────────────────────────────────────────

    def shape(self, labelled: Labelled, task: Task) -> Shape:
        """The structure for the results of a task."""
        kind = Kind.STR if task.strict else labelled.label.held.kind
        return self._shape(kind, task.longest)

    def _shape(self, kind: Kind, longest: int | None) -> Shape:
        pattern = {Kind.MON: MON, Kind.WK: WK, Kind.STR: STR}.get(kind)
        if pattern is None:
            pattern = Pattern(Kind.WKS, longest) if longest else WK
        structure, _ = structure_for(pattern, Upkeep(strategy=self.strategy))
        return Shape(structure, longest)


@dataclass(frozen=True)
class Entering:
    """The changes of a stored table as they come."""

    name: str
    columns: pa.Schema
    dual: bool = False

    def state(self) -> Nothing:
        return Nothing()

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, inputs[0]


def _matches(
    name: str, left: Task, right: Task, condition: Condition, shapes: Sequence[Shape]
) -> Task:
    """Pairs of both sides, as cover of the left row they belong to."""
    nothing = pa.schema([])
    operator = JoinRows(name, condition, (nothing, nothing), (shapes[0], shapes[1]), owned=True)
    longest = _shorter(left.longest, right.longest)
    return Task(operator, (left, right), nothing, left.strict or right.strict, longest)


def _condition(equalities: Sequence[Equality], residual: Expression | None) -> Condition:
    types = tuple(one.type for one in equalities)
    exact = (len(types) == 1 and types[0].name in EXACT_KEYS) or not types
    keys = tuple(one.left for one in equalities), tuple(one.right for one in equalities)
    return Condition(keys, types, exact, residual)


def _oriented(equality: Equality, left: Schema, right: Schema) -> Equality | None:
    """The equality with its sides in the order of the inputs; None if it reads others too."""
    for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
        if covers(left, one) and covers(right, other):
            return Equality(one, other)
    return None


def _may_be_null(condition: Condition) -> bool:
    return any(key.nullable for side in condition.keys for key in side)


def _not_null(expression: Expression) -> Expression:
    return Not(IsNull(expression))


def _shorter(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _stream_below(node: Node) -> bool:
    """Whether rows come from one stream, selected and projected only."""
    while isinstance(node, Select | Project):
        node = node.child
    return isinstance(node, StreamScan)
