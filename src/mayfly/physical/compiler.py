"""From a logical plan to the operators that run it.

Each plan node becomes an operator that keeps its state in the structure its input's update pattern
calls for: FIFO for WKS, calendar queue for WK, calendar queue with negative tuples for STR (UPA);
insertion-order buffers for DIRECT; hashes fed by negative tuples for NT, under which every window
announces each expiration. n-way joins on one key are run whole or, like all others, as chains of
binary ones in the plan's order. What only some plans need is imported where it is used:
all operators together take longer to load than a small one-time query takes to be answered.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import payload
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.stateless import MergeUnion
from mayfly.optimizer.labels import Labelled, describe, label_plan
from mayfly.optimizer.rule import is_of_stream
from mayfly.optimizer.rules.share_panes import SHARING, SKETCHES
from mayfly.optimizer.structures import Strict, Upkeep, structure_for
from mayfly.patterns import MON, STR, WK, Kind, Pattern
from mayfly.physical.program import Program, Task
from mayfly.physical.row_tasks import derived_stream, row_by_row, stored_table
from mayfly.physical.session_totals import groups_sessions, why_no_totals
from mayfly.physical.shared_program import with_equal_tasks_once
from mayfly.physical.slides import (
    in_panes,
    outer_slide,
    partitions_slid,
    rows_because,
    runnable,
    slid_join,
    slid_rows,
    slid_window,
)
from mayfly.physical.span_plan import asks_values, every_row_because, first_and_last
from mayfly.physical.window_lives import has_internal
from mayfly.physical.window_tasks import stream_window, subquery_window
from mayfly.plan.aging_calls import decays, has_histograms
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Expression
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
from mayfly.plan.resample import Resample
from mayfly.plan.serving_terms import ServeClause
from mayfly.plan.strategy import Joining, Strategy, Structure
from mayfly.plan.unnest import Unnest
from mayfly.plan.window_kinds import Range, RowsWindow

if TYPE_CHECKING:
    from mayfly.kernels.evaluation import Evaluation
    from mayfly.kernels.multiway import SharedKey


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
    peers: Sequence[Output] = (),
) -> Program:
    """The operators of an optimized plan.

    ``joins`` says how three or more inputs with one key are joined: as ``Joining`` has it, or by
    one operator as an ``Evaluation`` says.
    ``strict`` is how UPA keeps STR state, as the optimizer chose. With ``early_pruning`` MIN and
    MAX keep only rows that may still be an answer, with ``panes`` aggregates over a window with
    SLIDE keep partial values where their functions allow, shared by the rules of ``sharing``.
    ``peers`` are the plans that share a join with this one, itself among them, in one order.
    """
    if plan.serve:
        plan = in_panes(plan)
    slide = outer_slide(plan)
    if any(_ends_as_foreseen(node) for node in plan.walk()):
        strategy = Strategy.UPA if strategy is Strategy.NT else strategy
    announced = strategy is Strategy.NT
    labelled = label_plan(runnable(plan), weak_distinct and not announced)
    weak = weak_distinct and not announced
    dual = has_internal(plan)
    compiler = _Compiler(
        catalog, strategy, weak, dual, joins, strict, early_pruning,
        rows_because(plan, strategy, panes), frozenset(sharing), plan.serve, plan.exact_sums,
        every_row_because(plan, strategy, frozenset(sharing)),
        rows_because(plan, strategy, panes, joined=True), tuple(peers),
    )  # fmt: skip
    source = labelled.inputs[0]
    sort = Sort(source.node, ())
    if isinstance(source.node, Sort):
        sort, source = source.node, source.inputs[0]
    answer = compiler.task(source)
    sent = None
    if plan.kind is not OutputKind.VIEW:
        from mayfly.kernels.outputs import Sent

        sent = Sent(
            plan.kind.value, plan.kind, answer.columns, compiler.shape(source, answer),
            slide, plan.restore, sort.keys, sort.limit, sort.offset,
        )  # fmt: skip
    return with_equal_tasks_once(Program(answer, sent, plan, strategy))


def _ends_as_foreseen(node: Node) -> bool:
    """Whether results live for a time that is known, so that nothing is to be announced: those of
    finished windows, and values that age."""
    return isinstance(node, InWindows) or (isinstance(node, GroupAggregate) and decays(node))


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
    every_row_because: str = ""
    results_because: str = ""
    """Why results of joins are kept one by one, wherever they are."""
    peers: tuple[Output, ...] = ()

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
                from mayfly.physical.finished_plan import finished_windows

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
            case Resample():
                from mayfly.physical.neighbours import resample_task

                return resample_task(node, self.task(labelled.inputs[0]), self.dual)
            case Over() | AsofJoin():
                from mayfly.physical.neighbours import neighbour_task

                return neighbour_task(node, *self._inputs(labelled))
            case ExceptAll():
                from mayfly.physical.negations import except_all

                (left, right), (first, other) = self._inputs(labelled)
                return except_all(node, left, right, (first, other))
        raise InvalidSetting(
            f"{describe(node)} cannot be run in this process", "see docs/language.md for what can"
        )

    # ── leaves ────────────────────────────────────────────────────────────────────────────

    def _scan(self, node: StreamScan, ordered: bool = False) -> Task:
        stream = self.catalog.lookup(node.stream)
        assert isinstance(stream, StreamDefinition)
        return stream_window(node, stream, self.strategy, self.dual, ordered)

    def _subquery_window(self, labelled: Labelled, node: SubqueryWindow) -> Task:
        ranked = is_of_stream(node.child)
        child = self._ranked(labelled.inputs[0]) if ranked else self.task(labelled.inputs[0])
        return subquery_window(node, child, ranked, self.strategy, self.dual)

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
        if self.joins is not Joining.BINARY and len(node.inputs) > 2:
            from mayfly.physical.whole_joins import shared_key

            if shared := shared_key(node):
                return self._whole(labelled, node, *shared)
        return self._chain(labelled, node)

    def _whole(
        self, labelled: Labelled, node: Join, key: SharedKey, conditions: tuple[Expression, ...]
    ) -> Task:
        from mayfly.kernels.evaluation import Evaluation
        from mayfly.physical.whole_joins import whole_join

        tasks, shapes = self._inputs(labelled)
        evaluation = self.joins if isinstance(self.joins, Evaluation) else Evaluation()
        return whole_join(node, tasks, shapes, key, conditions, evaluation, self.dual)

    def _chain(self, labelled: Labelled, node: Join) -> Task:
        """The inputs joined one by one, each condition as soon as it can be checked."""
        from mayfly.physical.join_tasks import JoinChain

        tasks, shapes = self._inputs(labelled)
        chain = JoinChain(node, labelled.label, self.dual, lambda task: self.shape(labelled, task))
        return chain.task(tasks, shapes)

    def _relation_join(self, labelled: Labelled, node: RelationJoin | PaddedNrrJoin) -> Task:
        child, relation = self.task(labelled.inputs[0]), stored_table(labelled.inputs[1], self.dual)
        if isinstance(node, PaddedNrrJoin) or not node.retroactive:
            from mayfly.physical.nrr_tasks import with_nrr

            return with_nrr(node, child, relation, self.dual)
        from mayfly.physical.join_tasks import with_relation

        return with_relation(
            node, child, relation, self.shape(labelled.inputs[0], child), self.dual
        )

    # ── the rest ──────────────────────────────────────────────────────────────────────────

    def _negation(self, labelled: Labelled, node: AntiJoin) -> Task:
        from mayfly.physical.negations import negation

        reads_stream = any(isinstance(below, StreamScan) for below in node.right.walk())
        left = self.task(labelled.inputs[0])
        right_side = labelled.inputs[1]
        right = self.task(right_side) if reads_stream else stored_table(right_side, self.dual)
        shapes = self.shape(labelled.inputs[0], left), self.shape(labelled.inputs[1], right)
        return negation(node, left, right, shapes)

    def _distinct(self, labelled: Labelled) -> Task:
        (source,), node = labelled.inputs, labelled.node
        assert isinstance(node, Distinct)
        name, child = describe(node), self.task(source)
        child, because = first_and_last(source, child, node, self.catalog, self.every_row_because)
        weak = self.weak_distinct and not child.strict
        if weak:
            from mayfly.kernels.distinct import WeakDistinct

            shape = self._shape(Kind.WK, child.longest)
            operator = WeakDistinct(name, child.columns, shape, because)
            return Task(operator, (child,), child.columns, False, child.longest)
        from mayfly.kernels.group_by import GroupRows

        counted = GroupRows(
            name, node.schema, (), child.columns, None, self.shape(source, child),
            every_row_because=because, reads_spans=child.operator.spans is not None,
        )  # fmt: skip
        return Task(counted, (child,), child.columns, True)

    def _group(self, labelled: Labelled, node: GroupAggregate) -> Task:
        if any(map(Frequency.is_asked, node.aggregates)):
            return self._frequent(labelled, node)
        if isinstance(node.child, InWindows):
            from mayfly.physical.finished_plan import session_groups

            if groups_sessions(node):
                return session_groups(node, self.task(labelled.inputs[0].inputs[0]))
        if decays(node):
            return self._aging(node, None)
        window, rows_because = slid_window(node), why_no_totals(node)
        if window is not None:
            from mayfly.physical.pane_limits import obstacle

            if self._has_histograms(node, window):
                return self._aging(node, window)
            rows_because = self.rows_because or obstacle(node, window, exact_sums=self.exact_sums)
            if not rows_because:
                return self._paned(labelled, node, window)
            if self.serve:
                from mayfly.physical.served_plan import cannot_serve

                raise cannot_serve(rows_because)
        elif (rows := slid_rows(node)) is not None and not self.serve:
            from mayfly.physical.pane_limits import row_obstacle

            why = row_obstacle(node, rows, self.sharing, exact_sums=self.exact_sums)
            rows_because = self.rows_because or why
            if not rows_because:
                return self._paned(labelled, node, rows)
        elif partitions_slid(node):
            rows_because = "n rows of a partition may begin with any of its rows"
        elif slid_join(node) is not None and not self.serve:
            from mayfly.physical.join_pane_plan import JoinCompiler, join_obstacle

            why = join_obstacle(node, self.sharing, exact_sums=self.exact_sums)
            rows_because = self.results_because or why
            if not rows_because:
                compiled = JoinCompiler(self.catalog, self.sharing, self.peers, self.task)
                return compiled.task(labelled, node)
        from mayfly.kernels.group_by import GroupRows

        (source,) = labelled.inputs
        child, columns, because = self.task(source), payload(node.schema), ""
        if not node.aggregates or asks_values(node):
            own = self.every_row_because
            child, because = first_and_last(source, child, node, self.catalog, own)
        keys = tuple(key.expression for key in node.keys)
        internal = source.label.internal
        operator = GroupRows(
            describe(node), keys,
            tuple(call.exact for call in node.aggregates),
            columns, node.having, self.shape(source, child), internal,
            outer_slide(node) if internal else None, self.dual,
            early_pruning=self.early_pruning, rows_because=rows_because, every_row_because=because,
            reads_spans=child.operator.spans is not None,
        )  # fmt: skip
        return Task(operator, (child,), columns, not internal)

    def _has_histograms(self, node: GroupAggregate, window: Range) -> bool:
        is_free = not self.rows_because and self.serve is None and not window.internal
        return is_free and SKETCHES.name in self.sharing and has_histograms(node, window)

    def _aging(self, node: GroupAggregate, window: Range | None) -> Task:
        """A summary of each group, asked at every refresh, in the place of its rows."""
        from mayfly.physical.aging_plan import aging_groups, rows_at_their_times

        if self.serve:
            from mayfly.physical.served_plan import cannot_serve

            raise cannot_serve("decayed sums have no panes")
        rows = label_plan(rows_at_their_times(node, window), self.weak_distinct)
        return aging_groups(node, self.task(rows), window)

    def _paned(self, labelled: Labelled, node: GroupAggregate, window: Range | RowsWindow) -> Task:
        """Partial values of panes in the place of rows."""
        from mayfly.physical.pane_tasks import grouping_task, row_grouping_task

        scan = labelled.inputs[0]
        while scan.inputs:
            (scan,) = scan.inputs
        assert isinstance(scan.node, StreamScan)
        if isinstance(window, RowsWindow):
            stream = self.catalog.lookup(scan.node.stream)
            assert isinstance(stream, StreamDefinition)
            return row_grouping_task(node, window, stream, scan, self.sharing)
        return grouping_task(node, window, self._scan(scan.node), scan, self.sharing, self.serve)

    def _frequent(self, labelled: Labelled, node: GroupAggregate) -> Task:
        """Summaries of sub-windows in the place of rows, and rows only for other aggregates."""
        from mayfly.kernels.frequent_groups import FrequentRows
        from mayfly.physical.frequent_plan import Members

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
        from mayfly.kernels.top_rows import TopRows

        (child,), (shape,) = self._inputs(labelled)
        operator = TopRows(
            describe(node), child.columns, node.keys, node.limit, node.offset, shape,
            early_pruning=self.early_pruning,
        )  # fmt: skip
        return Task(operator, (child,), child.columns, True, child.longest)

    def _inputs(self, labelled: Labelled) -> tuple[list[Task], list[Shape]]:
        tasks = [self.task(source) for source in labelled.inputs]
        return tasks, list(map(self.shape, labelled.inputs, tasks))

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
