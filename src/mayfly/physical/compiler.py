"""From a logical plan to the operators that run it.

Each plan node becomes an operator that keeps its state in the structure its input's update pattern
calls for: FIFO for WKS, calendar queue for WK, calendar queue with negative tuples for STR (UPA);
insertion-order buffers for DIRECT; hashes fed by negative tuples for NT, under which every window
announces each expiration. n-way joins on one key are run whole or, like all others, as chains of
binary ones in the plan's order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import payload
from mayfly.kernels.distinct import WeakDistinct
from mayfly.kernels.evaluation import Evaluation
from mayfly.kernels.frequent_groups import FrequentRows
from mayfly.kernels.group_by import GroupRows
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.multiway import MultiwayJoin, SharedKey
from mayfly.kernels.nrr import NrrJoinRows
from mayfly.kernels.outputs import Sent
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.served_groups import ServedGroups
from mayfly.kernels.stateless import MergeUnion
from mayfly.kernels.top_rows import TopRows
from mayfly.kernels.window_assignment import RANK, WindowRows
from mayfly.kernels.window_join import JoinRows
from mayfly.optimizer.join_chains import steps
from mayfly.optimizer.labels import Labelled, describe, label_plan
from mayfly.optimizer.rules.share_panes import CS1, CS2, SHARING, SKETCHES, SS1
from mayfly.optimizer.structures import Strict, Upkeep, structure_for
from mayfly.patterns import MON, STR, WK, Kind, Pattern
from mayfly.physical.band_terms import banded
from mayfly.physical.finished_plan import finished_windows
from mayfly.physical.frequent_plan import Members
from mayfly.physical.join_conditions import (
    condition_between,
    condition_of,
    covers,
    oriented,
)
from mayfly.physical.negations import except_all, negation
from mayfly.physical.neighbours import neighbour_task
from mayfly.physical.pane_plan import PanePlan, obstacle, rows_because, slid_window
from mayfly.physical.program import Entering, Program, RelationInput, StreamInput, Task, shorter
from mayfly.physical.row_tasks import derived_stream, row_by_row, stream_below
from mayfly.physical.served_plan import cannot_serve, for_server, in_panes
from mayfly.physical.shared_program import with_equal_tasks_once
from mayfly.physical.slides import common_slide, outer_slide, runnable
from mayfly.physical.whole_joins import CheapestOrder, shared_key
from mayfly.physical.window_lives import window_lives
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Expression, conjunction, conjuncts
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Node,
    Output,
    OutputKind,
    PaddedNrrJoin,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.strategy import Joining, Strategy, Structure
from mayfly.plan.unnest import Unnest
from mayfly.plan.window_kinds import PartitionRows, Range


def compile_plan(
    plan: Output,
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    weak_distinct: bool = True,
    joins: Joining | Evaluation = Joining.COST,
    strict: Strict = Strict.CALENDAR,
    early_pruning: bool = True,
    panes: bool = True,
    sharing: Collection[str] = SHARING,
) -> Program:
    """The operators of an optimized plan.

    ``joins`` says how three or more inputs with one key are joined: as ``Joining`` has it, or by
    one operator as an ``Evaluation`` says.
    ``strict`` is how UPA keeps STR state, as the optimizer chose. With ``early_pruning`` MIN and
    MAX keep only rows that may still be an answer, with ``panes`` aggregates over a window with
    SLIDE keep partial values where their functions allow, shared by the rules of ``sharing``.
    """
    plan = in_panes(plan) if plan.serve else plan
    slide = outer_slide(plan)
    if any(isinstance(node, InWindows) for node in plan.walk()):
        # Rows of finished windows live for an instant that is known: nothing is to be announced.
        strategy = Strategy.UPA if strategy is Strategy.NT else strategy
    announced = strategy is Strategy.NT
    labelled = label_plan(runnable(plan), weak_distinct and not announced)
    weak = weak_distinct and not announced
    dual = _is_dual(plan)
    compiler = _Compiler(
        catalog, strategy, weak, dual, joins, strict, early_pruning,
        rows_because(plan, strategy, panes), frozenset(sharing), plan.serve, plan.exact_sums,
    )  # fmt: skip
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
    return with_equal_tasks_once(Program(answer, sent, plan, strategy))


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
    joins: Joining | Evaluation = Joining.COST
    strict: Strict = Strict.CALENDAR
    early_pruning: bool = True
    rows_because: str = ""
    sharing: frozenset[str] = SHARING
    serve: ServeClause | None = None
    exact_sums: bool = False
    """Whether sums of floating-point numbers are rounded once, over all rows."""

    def task(self, labelled: Labelled) -> Task:
        if isinstance(labelled.node, Shared):
            return self.task(labelled.inputs[0])
        return replace(self._task(labelled), node=labelled.node, label=labelled.label)

    def _task(self, labelled: Labelled) -> Task:
        node = labelled.node
        match node:
            case StreamScan():
                return self._scan(node)
            case RelationScan():
                raise InvalidSetting(
                    f"{node.alias} is not joined with a stream", "join it with a window"
                )
            case InWindows() | Finished():
                return finished_windows(node, self.task(labelled.inputs[0]))
            case SubqueryWindow():
                return self._subquery_window(labelled, node)
            case Select() | Project() | Unnest():
                return row_by_row(node, self.task(labelled.inputs[0]))
            case Join():
                return self._join(labelled, node)
            case RelationJoin() | PaddedNrrJoin():
                return self._relation_join(labelled, node)
            case AntiJoin():
                return self._negation(labelled, node)
            case Distinct():
                return self._distinct(labelled)
            case GroupAggregate():
                return self._group(labelled, node)
            case Derived():
                child = self.task(labelled.inputs[0])
                return derived_stream(node, child, self.shape(labelled.inputs[0], child), self.dual)
            case UnionAll():
                return self._union(labelled, node)
            case Top():
                return self._top(labelled, node)
            case Over() | AsofJoin():
                return neighbour_task(node, *self._inputs(labelled))
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
        source = StreamInput(stream.name, alias, needed)
        return Task(operator, (source,), columns, *window_lives(node.window, self.strategy))

    def _subquery_window(self, labelled: Labelled, node: SubqueryWindow) -> Task:
        ranked = stream_below(node.child)
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
        return Task(operator, (child,), columns, *window_lives(node.window, self.strategy))

    def _ranked(self, labelled: Labelled) -> Task:
        """A chain of selections and projections over one stream, whose rows keep its order."""
        node = labelled.node
        if isinstance(node, StreamScan):
            task = self._scan(node, ordered=True)
        elif isinstance(node, Shared):
            return self._ranked(labelled.inputs[0])
        else:
            assert isinstance(node, Select | Project)
            task = row_by_row(node, self._ranked(labelled.inputs[0]))
        return replace(task, node=node, label=labelled.label)

    # ── joins ─────────────────────────────────────────────────────────────────────────────

    def _join(self, labelled: Labelled, node: Join) -> Task:
        """All inputs at once if they share a key and may, otherwise one by one."""
        may = self.joins is not Joining.BINARY and len(node.inputs) > 2
        shared = shared_key(node) if may else None
        return self._whole(labelled, node, *shared) if shared else self._chain(labelled, node)

    def _whole(
        self, labelled: Labelled, node: Join, key: SharedKey, conditions: tuple[Expression, ...]
    ) -> Task:
        tasks = tuple(self.task(child) for child in labelled.inputs)
        strict, slide = any(task.strict for task in tasks), common_slide(node)
        evaluation = self.joins if isinstance(self.joins, Evaluation) else Evaluation()
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
        columns = pa.schema([column for task in tasks for column in task.columns])
        return Task(operator, tasks, columns, strict, reduce(shorter, [t.longest for t in tasks]))

    def _chain(self, labelled: Labelled, node: Join) -> Task:
        """The inputs joined one by one, each condition as soon as it can be checked."""
        pending, residual = list(node.equalities), list(conjuncts(node.residual))
        joined, schema = self.task(labelled.inputs[0]), labelled.inputs[0].node.schema
        shape, nodes = self.shape(labelled.inputs[0], joined), steps(node)
        for number, child in enumerate(labelled.inputs[1:], start=1):
            right = self.task(child)
            here = [oriented(equality, schema, child.node.schema) for equality in pending]
            usable = [equality for equality in here if equality is not None]
            pending = [
                equality for equality, turned in zip(pending, here, strict=True) if turned is None
            ]
            schema = (*schema, *child.node.schema)
            ready = [term for term in residual if covers(schema, term)]
            residual = [term for term in residual if term not in ready]
            before = tuple(c for c in schema if c not in child.node.schema)
            condition = condition_of(usable, conjunction(tuple(ready)))
            condition = banded(condition, before, child.node.schema)
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
                shorter(joined.longest, right.longest),
                nodes[number - 1],
                labelled.label,
            )
            shape = self.shape(labelled, joined)
        return joined

    def _relation_join(self, labelled: Labelled, node: RelationJoin | PaddedNrrJoin) -> Task:
        child, relation = self.task(labelled.inputs[0]), self._relation(labelled.inputs[1])
        condition = condition_between(
            node.child.schema, node.relation.schema, node.equalities, node.residual
        )
        columns = pa.schema([*child.columns, *relation.columns])
        sides = (child.columns, relation.columns)
        if isinstance(node, PaddedNrrJoin) or not node.retroactive:
            padded = isinstance(node, PaddedNrrJoin)
            nrr = NrrJoinRows(describe(node), condition, sides, child.strict, self.dual, padded)
            return Task(nrr, (child, relation), columns, child.strict, child.longest)
        operator = JoinRows(
            describe(node),
            condition,
            sides,
            (self.shape(labelled.inputs[0], child), Shape(hashed=True)),
            self.dual,
        )
        return Task(operator, (child, relation), columns, True, child.longest)

    def _relation(self, labelled: Labelled) -> Task:
        """The stored table, perhaps selected and projected."""
        node = labelled.node
        if isinstance(node, RelationScan):
            columns = payload(node.schema)
            named = tuple(column.name for column in node.schema)
            source = RelationInput(node.relation, node.alias, named)
            operator = Entering(describe(node), columns, self.dual)
            return Task(operator, (source,), columns, True, None, node, labelled.label)
        if isinstance(node, Select | Project):
            task = row_by_row(node, self._relation(labelled.inputs[0]))
            return replace(task, node=node, label=labelled.label)
        raise InvalidSetting(
            f"{describe(node)} over a relation cannot be run in this process",
            "join the relation itself",
        )

    # ── the rest ──────────────────────────────────────────────────────────────────────────

    def _negation(self, labelled: Labelled, node: AntiJoin) -> Task:
        reads_stream = any(isinstance(below, StreamScan) for below in node.right.walk())
        left = self.task(labelled.inputs[0])
        right = (self.task if reads_stream else self._relation)(labelled.inputs[1])
        shapes = self.shape(labelled.inputs[0], left), self.shape(labelled.inputs[1], right)
        return negation(node, left, right, shapes)

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
        if any(map(Frequency.is_asked, node.aggregates)):
            return self._frequent(labelled, node)
        window, rows_because = slid_window(node), ""
        if window is not None:
            rows_because = self.rows_because or obstacle(node, window, exact_sums=self.exact_sums)
            if not rows_because:
                return self._paned(labelled, node, window)
            if self.serve:
                raise cannot_serve(rows_because)
        (source,) = labelled.inputs
        child, columns = self.task(source), payload(node.schema)
        keys = tuple(key.expression for key in node.keys)
        internal = source.label.internal
        operator = GroupRows(
            describe(node),
            keys,
            tuple(replace(call, approximate=False) for call in node.aggregates),
            columns,
            node.having,
            self.shape(source, child),
            internal,
            outer_slide(node) if internal else None,
            self.dual,
            early_pruning=self.early_pruning,
            rows_because=rows_because,
        )
        return Task(operator, (child,), columns, not internal)

    def _paned(self, labelled: Labelled, node: GroupAggregate, window: Range) -> Task:
        """Partial values of panes in the place of rows."""
        plan = PanePlan.of(
            node, window, alone=SS1.name not in self.sharing, sketches=SKETCHES.name in self.sharing
        )
        if self.serve:
            plan = replace(plan, store=for_server(plan.store, self.serve))
        scan = labelled.inputs[0]
        while scan.inputs:
            (scan,) = scan.inputs
        assert isinstance(scan.node, StreamScan)
        child = replace(plan.task(self._scan(scan.node)), node=scan.node, label=scan.label)
        operator = PaneGroups(
            describe(node), plan.keys, plan.calls, payload(node.schema), node.having, Shape(),
            window=window, weights=plan.weights, asked=node.aggregates,
            finds_once=CS1.name in self.sharing, scans_once=CS2.name in self.sharing,
        )  # fmt: skip
        if self.serve:
            operator = ServedGroups.of(operator, plan.store)
        return Task(operator, (child,), operator.columns, True)

    def _frequent(self, labelled: Labelled, node: GroupAggregate) -> Task:
        """Summaries of sub-windows in the place of rows, and rows only for other aggregates."""
        (source,), members = labelled.inputs, Members.of(node)
        # When rows will leave says to which of two sub-windows of a slide they belong.
        below = self if members.is_divided else replace(self, strategy=Strategy.UPA)
        parts = [
            members.summarized(call, below.task(source), self.dual)
            for call in filter(Frequency.is_asked, node.aggregates)
        ]
        if not all(map(Frequency.is_asked, node.aggregates)):
            parts.append(members.plain(below.task(source)))
        child = replace(parts[0], node=source.node, label=source.label)
        if len(parts) > 1:
            merged = MergeUnion(describe(node), members.columns, self.dual)
            child = replace(child, operator=merged, inputs=tuple(parts))
        internal = source.label.internal
        operator = FrequentRows(
            describe(node), members.keys, members.calls, payload(node.schema), node.having,
            self.shape(source, child), internal, outer_slide(node) if internal else None,
            self.dual, entering=members.columns, range=members.range, moves=members.moves,
        )  # fmt: skip
        return Task(operator, (child,), payload(node.schema), not internal)

    def _union(self, labelled: Labelled, node: UnionAll) -> Task:
        tasks = tuple(self.task(source) for source in labelled.inputs)
        columns = payload(node.schema)
        operator = MergeUnion(describe(node), columns, self.dual)
        longest = [task.longest for task in tasks]
        bound = None if None in longest else max(length for length in longest if length is not None)
        return Task(operator, tasks, columns, any(task.strict for task in tasks), bound)

    def _top(self, labelled: Labelled, node: Top) -> Task:
        (child,), (shape,) = self._inputs(labelled)
        operator = TopRows(
            describe(node), child.columns, node.keys, node.limit, node.offset, shape,
            early_pruning=self.early_pruning,
        )  # fmt: skip
        return Task(operator, (child,), child.columns, True, child.longest)

    def _inputs(self, labelled: Labelled) -> tuple[list[Task], list[Shape]]:
        tasks = [self.task(source) for source in labelled.inputs]
        return tasks, list(map(self.shape, labelled.inputs, tasks))

    def _except_all(self, labelled: Labelled, node: ExceptAll) -> Task:
        (left, right), (first, other) = self._inputs(labelled)
        return except_all(node, left, right, (first, other))

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
        early = structure is Structure.CALENDAR_NEGATIVE and self.strict is Strict.HASH
        return Shape(structure, longest, hashed=early)
