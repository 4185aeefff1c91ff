"""What a plan will be warned of, told without compiling it.

Idea: EXPLAIN reads warnings off the program, and the compiler refuses what cannot run. Both follow
from the plan as it is executed: which operators need all rows in one place, and which keep rows
that never leave. So files are checked without kernels, which take longer to load.
Invariant: what is foreseen compiles, with these warnings. What is not listed has to be compiled.
Cost: one pass over the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from mayfly.optimizer.join_chains import executed
from mayfly.optimizer.labels import label_plan
from mayfly.optimizer.optimize import Optimized
from mayfly.optimizer.plan_cost import cost_plan
from mayfly.optimizer.plan_warnings import (
    Warned,
    endless_answer,
    endless_state,
    keyed_state,
    never_true,
    single_task,
)
from mayfly.optimizer.rule import is_of_stream, offers
from mayfly.patterns import MON, WK, Label
from mayfly.physical.pane_limits import obstacle, row_obstacle
from mayfly.physical.pane_sources import PaneSource, call_parts
from mayfly.physical.session_totals import groups_sessions, is_per_window, partition_of
from mayfly.physical.slides import in_panes, rows_because, runnable, slid_rows, slid_window
from mayfly.plan.aging_calls import decays
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.derived_stream import Derived
from mayfly.plan.expressions import Literal
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
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
from mayfly.plan.over_frames import AsofJoin, FrameReach, Over
from mayfly.plan.pane_functions import COUNT, ROWS, SUM
from mayfly.plan.resample import Resample
from mayfly.plan.strategy import Strategy
from mayfly.plan.types import DataType
from mayfly.plan.unnest import Unnest
from mayfly.plan.window_kinds import PartitionRows


def foreseen_warnings(optimized: Optimized, catalog: Catalog) -> tuple[Warned, ...] | None:
    """What EXPLAIN warns of in the chosen plan; None if only the program can tell, or is refused.

    ``SELECT a FROM s [ROWS 5]`` → "s [ROWS 5] runs in a single task".
    """
    plan, context = optimized.plan, optimized.context
    assert isinstance(plan, Output)
    if context.strategy is Strategy.NT or not _runs(plan) or _closes_keys(plan, catalog):
        return None
    if plan.serve is not None:
        plan = in_panes(plan)
    runs, costed = executed(runnable(plan), context.joining), optimized.chosen.costed
    if plan.restore or plan.serve is not None:
        costed = cost_plan(runs, context.statistics, context.strategy, context.weak_distinct)
    growing = {figure.node: figure.estimated.flow.grows for figure in costed.walk()}
    no_panes = rows_because(plan, context.strategy, context.panes)
    foresight = _Foresight(growing.__getitem__, not no_panes, plan.exact_sums, context.sharing)
    if plan.serve is not None and not foresight.serves(runs, bool(plan.serve.subtracting)):
        return None
    warnings = foresight.warnings(_answer(runs))
    pattern = answer_label(optimized).pattern
    endless = pattern == MON or (pattern == WK and growing[_answer(runs)])
    if plan.kind is OutputKind.VIEW and endless:
        warnings = chain([endless_answer(runnable(plan))], warnings)
    return tuple(dict.fromkeys(warnings))


def _closes_keys(plan: Node, catalog: Catalog) -> bool:
    """Whether a stream has PUNCTUATION: only operators know what they forget."""
    scans = (part for part in plan.walk() if isinstance(part, StreamScan))
    streams = (catalog.lookup(scan.stream) for scan in scans)
    return any(isinstance(s, StreamDefinition) and s.punctuation is not None for s in streams)


def answer_label(optimized: Optimized) -> Label:
    """The label of the relation that the chosen plan maintains."""
    plan = optimized.plan
    assert isinstance(plan, Output)
    weak_distinct, one_time = optimized.context.weak_distinct, plan.one_time
    return label_plan(_answer(runnable(plan)), weak_distinct, one_time).label


def _answer(plan: Node) -> Node:
    """Below the order in which an answer is sent."""
    (answer,) = plan.children()
    return answer.child if isinstance(answer, Sort) else answer


# ── whether it runs ───────────────────────────────────────────────────────────────────────

_RUN = (
    AntiJoin, AsofJoin, Derived, Distinct, ExceptAll, Finished, GroupAggregate, InWindows, Join,
    Over, PaddedNrrJoin, Project, RelationJoin, Resample, Select, Shared, StreamScan,
    SubqueryWindow, Top, UnionAll, Unnest,
)  # fmt: skip


def _runs(plan: Output) -> bool:
    """Whether the plan is made of what the compiler knows how to run."""
    return all(map(_is_stored, plan.walk())) and _has_streams(_answer(plan), plan.restore)


def _has_streams(node: Node, restore: bool) -> bool:
    """Whether all that has to read a stream does."""
    if not isinstance(node, _RUN):
        return False
    if isinstance(node, GroupAggregate) and restore and any(map(_is_frequency, node.aggregates)):
        return False
    inputs = node.children()
    if isinstance(node, RelationJoin | PaddedNrrJoin):
        inputs = (node.child,)
        if not _is_table(node.relation):
            return False
    if isinstance(node, AntiJoin) and not _reads_stream(node.right):
        inputs = (node.left,)
        if not _is_table(node.right):
            return False
    return all(_has_streams(child, restore) for child in inputs)


_is_frequency = Frequency.is_asked


def _reads_stream(node: Node) -> bool:
    return any(isinstance(part, StreamScan) for part in node.walk())


def _is_table(node: Node) -> bool:
    """A stored table, perhaps selected and projected."""
    while isinstance(node, Select | Project):
        node = node.child
    return isinstance(node, RelationScan)


def _is_stored(node: Node) -> bool:
    """Whether every value that the node takes or gives can be held."""
    columns = [column.type for column in node.schema]
    return all(kind.is_stored for kind in (*columns, *(e.type for e in node.expressions())))


# ── what is said of it ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Foresight:
    """``grows`` tells whether the rows of a node become ever more."""

    grows: Callable[[Node], bool]
    panes: bool
    exact_sums: bool
    rules: frozenset[str]

    def warnings(self, node: Node, ranked: bool = False) -> Iterator[Warned]:
        """What is said of an operator and then of those below it; ``ranked`` where these are asked
        for the order of their stream."""
        if isinstance(node, GroupAggregate) and (
            self._has_panes(node) or self._has_row_panes(node)
        ):
            scan = next(part for part in node.walk() if isinstance(part, StreamScan))
            if not node.keys or scan.window.counts_rows:
                yield single_task(scan)
            return
        if isinstance(node, Select) and isinstance(node.predicate, Literal):
            yield never_true(node)
        if isinstance(node, AntiJoin):
            yield from self._of_negation(node)
            return
        if _is_alone(node) or (ranked and isinstance(node, StreamScan) and not _is_spread(node)):
            yield single_task(node)
        grows = any(map(self.grows, node.children()))
        if self._keeps_all(node) and grows and not is_per_window(node):
            yield endless_state(node)
        if isinstance(node, StreamScan) or (grows and _keeps_by_key(node)):
            yield from filter(None, [keyed_state(node)])
        if isinstance(node, GroupAggregate) and groups_sessions(node):
            node = node.child
        ranked = ranked or (isinstance(node, SubqueryWindow) and is_of_stream(node.child))
        for child in node.children():
            yield from self.warnings(child, ranked)

    def serves(self, plan: Node, subtracts: bool) -> bool:
        """Whether a server can answer from panes, and take what leaves out of a total again."""
        groupings = [node for node in plan.walk() if isinstance(node, GroupAggregate)]
        return bool(groupings) and all(
            self._has_panes(node) and (not subtracts or _adds(node)) for node in groupings
        )

    def _of_negation(self, node: AntiJoin) -> Iterator[Warned]:
        """Of the negation, and of the join that finds its pairs where there is one."""
        pairs_of_nulls = node.kind is Negation.NOT_IN and _may_be_null(node)
        is_keyed = _meet(node.left, node.right, node)
        has_pairs = pairs_of_nulls or node.residual is not None or not is_keyed
        left, right = map(self.grows, (node.left, node.right))
        if left or (right and not has_pairs):
            yield endless_state(node)
        yield from self.warnings(node.left)
        if not is_keyed:
            yield single_task(node)
        if left or right:
            yield endless_state(node)
        yield from self.warnings(node.right)
        if pairs_of_nulls:
            yield single_task(node)

    def _keeps_all(self, node: Node) -> bool:
        """Whether it keeps what comes for as long as that lives."""
        match node:
            case RelationJoin():
                return node.retroactive
            case GroupAggregate() if decays(node):
                return False
            case Over(appends=True, calls=calls):
                return any(call.reach is FrameReach.ALL for call in calls)
            case AsofJoin(appends=appends):
                return not appends
            case SubqueryWindow(window=window):
                return window.counts_rows and self.grows(node)
        keeping = Join | Distinct | GroupAggregate | Top | Over | Derived | ExceptAll
        return isinstance(node, keeping)

    def _has_panes(self, node: GroupAggregate) -> bool:
        window = slid_window(node)
        if window is None or not self.panes or any(map(_is_frequency, node.aggregates)):
            return False
        return not obstacle(node, window, exact_sums=self.exact_sums)

    def _has_row_panes(self, node: GroupAggregate) -> bool:
        window = slid_rows(node)
        if window is None or not self.panes or any(map(_is_frequency, node.aggregates)):
            return False
        return not row_obstacle(node, window, self.rules, exact_sums=self.exact_sums)


def _adds(node: GroupAggregate) -> bool:
    """Whether panes hold only what can be taken out again: sums of DOUBLE are rounded."""
    parts = call_parts(node, PaneSource.of(node.child).over, sketches=True)
    return all(
        each.function in (ROWS, COUNT)
        or (each.function == SUM and each.argument is not None and _is_exact(each.argument.type))
        for each in parts
    )


def _is_exact(kind: DataType) -> bool:
    return kind.is_integral or kind.name == "decimal"


def _is_alone(node: Node) -> bool:
    """Whether one task gets the rows of all keys."""
    match node:
        case StreamScan() | SubqueryWindow():
            return node.window.counts_rows and not _is_spread(node)
        case Join(inputs=(left, right)):
            return not _meet(left, right, node)
        case RelationJoin():
            return node.retroactive and not _meet(node.child, node.relation, node)
        case GroupAggregate() if groups_sessions(node):
            assert isinstance(node.child, InWindows)
            return not partition_of(node.child)
        case GroupAggregate(keys=keys):
            return not keys
        case InWindows(windows=Sessions(partition_by=names)):
            return not names
        case Over(partition=partition) | Resample(partition=partition):
            return not partition
        case Derived(kind=kind, restore=restore):
            return kind is OutputKind.RSTREAM or restore
    return isinstance(node, Top)


def _is_spread(node: StreamScan | SubqueryWindow) -> bool:
    """Whether rows are counted by key."""
    window = node.window
    by_rows = window.slide is not None and window.slide.rows is not None
    return not by_rows and isinstance(window, PartitionRows) and bool(window.partition_by)


def _may_be_null(node: AntiJoin) -> bool:
    return any(side.nullable for pair in node.equalities for side in (pair.left, pair.right))


def _meet(left: Node, right: Node, node: Join | RelationJoin | AntiJoin) -> bool:
    """Whether rows that match have a key by which to find each other."""
    return any(
        (offers(left, pair.left) and offers(right, pair.right))
        or (offers(left, pair.right) and offers(right, pair.left))
        for pair in node.equalities
    )


def _keeps_by_key(node: Node) -> bool:
    """Whether it keeps something for each value of its key, however long ago that came."""
    if isinstance(node, Over) and node.appends:
        return any(call.reach in (FrameReach.ROWS, FrameReach.RUNNING) for call in node.calls)
    return isinstance(node, Resample) or (isinstance(node, AsofJoin) and node.appends)
