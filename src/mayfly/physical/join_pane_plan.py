"""From a grouping over a join of windows with SLIDE to values of results (spec/periodic 3, 4).

Before: GroupAggregate a.k: SUM(b.v) over Join of a [RANGE 9 s SLIDE 1 s], b [RANGE 9 s SLIDE 1 s].
After: groups of Panes SUM(b.v) BY a.k, expiration over Join of a [RANGE 9 s], b [RANGE 9 s].

Queries that ask the same of their streams share the join (SS3): it has the longest windows and the
conditions that all have, and each query puts its other ones on the results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mayfly.kernels.delta import column_name, payload
from mayfly.kernels.join_groups import JoinGroups
from mayfly.kernels.join_panes import SIDES, JoinPaneStore, JoinWindows, PairPartials
from mayfly.kernels.kept_rows import Shape
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.stateless import SelectRows
from mayfly.optimizer.labels import Labelled, describe, label_plan
from mayfly.optimizer.rules.share_panes import CS4, CS5, JOIN_PANES
from mayfly.physical.pane_limits import obstacle
from mayfly.physical.pane_plan import PaneContents, pane_number, unique_terms
from mayfly.physical.pane_sources import PaneSource
from mayfly.physical.program import Task
from mayfly.physical.shared_program import described
from mayfly.physical.slides import slid_join
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.expressions import Column, Expression, conjunction, conjuncts
from mayfly.plan.logical_operators import (
    Equality,
    GroupAggregate,
    Join,
    Node,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.pane_functions import ROWS
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Cumulative, Range

Terms = tuple[Expression, ...]


def join_obstacle(node: GroupAggregate, rules: Collection[str], *, exact_sums: bool) -> str:
    """Why the results of the join have to be kept one by one, nothing if they need not."""
    if JOIN_PANES.name not in rules:
        return "the rule join-panes is switched off"
    join = slid_join(node)
    assert join is not None
    windows: list[Range] = []
    for source in join.inputs:
        scan = source
        while isinstance(scan, Select | Project):
            scan = scan.child
        if not isinstance(scan, StreamScan):
            return f"{describe(scan)} is joined, which is not a stream"
        window = scan.window
        if not isinstance(window, Range) or isinstance(window, Cumulative):
            return f"{window.cql()} is not RANGE"
        if window.internal:
            return "what was an answer stays one (INTERNAL)"
        windows.append(window)
    if len({window.slide for window in windows}) > 1 or windows[0].slide is None:
        return "the windows move at different instants"
    if len(windows) > 2 and len({window.duration for window in windows}) > 1:
        return "windows of different lengths over three inputs and more"
    if why := next((why for w in windows if (why := obstacle(node, w, exact_sums=exact_sums))), ""):
        return why
    return ""


def joined_groupings(plan: Node) -> list[GroupAggregate]:
    """The groupings of a plan that are over a join of windows with SLIDE."""
    groupings = (node for node in plan.walk() if isinstance(node, GroupAggregate))
    return [node for node in groupings if slid_join(node) is not None]


@dataclass(frozen=True)
class JoinSide:
    """An input of a join: a stream under an alias that no query chose, and what is asked of it."""

    stream: str
    alias: str
    window: Range
    terms: Terms


@dataclass(frozen=True)
class JoinSource:
    """Rows of a join as a grouping gets them, in terms of the streams."""

    node: GroupAggregate
    sides: tuple[JoinSide, ...]
    equalities: tuple[Equality, ...]
    residual: Terms
    """What is asked of several inputs."""
    columns: Mapping[tuple[str, str], Expression]
    above: Terms

    @staticmethod
    def of(node: GroupAggregate) -> JoinSource:
        join = slid_join(node)
        assert join is not None
        sources = [PaneSource.of(source) for source in join.inputs]
        names = [source.scan.stream for source in sources]
        if len(set(names)) == len(names):
            sources.sort(key=lambda source: source.scan.stream)
            aliases = [source.scan.stream for source in sources]
        else:
            aliases = [f"{name}#{number}" for number, name in enumerate(names, 1)]
        columns: dict[tuple[str, str], Expression] = {}
        sides = []
        for source, alias in zip(sources, aliases, strict=True):
            called = _renaming({source.scan.stream: alias})
            columns |= {name: called(part) for name, part in source.columns.items()}
            assert isinstance(source.scan.window, Range)
            terms = unique_terms(map(called, source.conditions))
            sides.append(JoinSide(source.scan.stream, alias, source.scan.window, terms))
        blank = JoinSource(node, tuple(sides), (), (), columns, ())
        equalities = tuple(
            Equality(blank.over(each.left), blank.over(each.right)) for each in join.equalities
        )
        residual = unique_terms(map(blank.over, conjuncts(join.residual)))
        joined = replace(blank, equalities=tuple(sorted(equalities, key=described)))
        return replace(joined, residual=residual)._with_path(node.child)

    def _with_path(self, node: Node) -> JoinSource:
        if isinstance(node, Join):
            return self
        assert isinstance(node, Select | Project)
        below = self._with_path(node.child)
        if isinstance(node, Select):
            terms = map(below.over, conjuncts(node.predicate))
            return replace(below, above=unique_terms((*below.above, *terms)))
        computed = {
            (column.relation, column.name): below.over(output.expression)
            for column, output in zip(node.schema, node.outputs, strict=True)
        }
        return replace(below, columns=computed)

    def over(self, expression: Expression) -> Expression:
        """An expression over the join's results, in columns of the streams."""
        return expression.transform(
            lambda part: (
                self.columns.get((part.relation, part.name), part)
                if isinstance(part, Column)
                else part
            )
        )

    @property
    def windows(self) -> JoinWindows:
        first, *_, second = self.sides
        return JoinWindows(first.window, second.window)

    @property
    def kind(self) -> str:
        """What is equal for joins that may be one."""
        sides = [(side.stream, side.alias) for side in self.sides]
        return described((sides, self.equalities))

    @property
    def terms(self) -> frozenset[Expression]:
        return frozenset(chain(self.residual, *(side.terms for side in self.sides)))

    @property
    def reach(self) -> int:
        return sum(side.window.duration for side in self.sides)


@dataclass(frozen=True)
class SharedJoin:
    """The one join of some queries: the longest windows, and what all of them ask."""

    members: tuple[JoinSource, ...]

    @property
    def terms(self) -> frozenset[Expression]:
        first, *others = self.members
        return first.terms.intersection(*(other.terms for other in others))

    def window(self, side: int) -> Range:
        """It has no slide: refreshes are those of its readers."""
        return Range(duration=max(m.sides[side].window.duration for m in self.members))

    @property
    def reach(self) -> int:
        return sum(self.window(side).duration for side in range(len(self.members[0].sides)))

    def remaining(self, member: JoinSource) -> Terms:
        """What a query asks of the results beside what the join asks."""
        own = chain(member.residual, *(side.terms for side in member.sides), member.above)
        return unique_terms(term for term in own if term not in self.terms)

    def times(self, catalog: Catalog) -> tuple[Column, ...]:
        """The columns of time of the inputs."""
        times = []
        for side in self.members[0].sides:
            stream = catalog.lookup(side.stream)
            assert isinstance(stream, StreamDefinition)
            kind = next(column for column in stream.columns if column.name == stream.time)
            times.append(Column(side.alias, kind.name, kind.type))
        return tuple(times)

    def node(self, needed: Sequence[Expression], catalog: Catalog) -> Join:
        """The join with the columns that its readers need."""
        first = self.members[0]
        residual = [term for term in first.residual if term in self.terms]
        both = [part for each in first.equalities for part in (each.left, each.right)]
        expressions = (*needed, *both, *residual, *self.terms, *self.times(catalog))
        used = {column_name(c): c for part in expressions for c in part.columns()}
        inputs: list[Node] = []
        for number, side in enumerate(first.sides):
            columns = sorted(
                (c for c in used.values() if c.relation == side.alias), key=column_name
            )
            scan: Node = StreamScan(side.stream, side.alias, self.window(number), tuple(columns))
            terms = tuple(term for term in side.terms if term in self.terms)
            where = conjunction(terms)
            inputs.append(scan if where is None else Select(scan, where))
        return Join(tuple(inputs), first.equalities, conjunction(tuple(residual)))


@dataclass(frozen=True)
class JoinQuestion:
    """A query over a shared join: what tells its groups apart, and what is asked of them."""

    source: JoinSource
    terms: Terms
    contents: PaneContents

    @staticmethod
    def of(source: JoinSource, join: SharedJoin) -> JoinQuestion:
        contents = PaneContents.of(source.node, source.over, sketches=False, joined=True)
        return JoinQuestion(source, join.remaining(source), contents)

    @property
    def kind(self) -> str:
        """What is equal where values are the same state."""
        own = self.contents
        return described((self.terms, own.grouped, own.values))

    @property
    def expressions(self) -> Terms:
        numbers = (n.argument for n in self.contents.numbers if n.argument is not None)
        return (*self.terms, *self.contents.grouped, *self.contents.values, *numbers)


@dataclass(frozen=True)
class JoinCompiler:
    """Makes tasks that answer groupings from values of a join's results.

    ``rules`` are those of sharing that are on; ``peers`` are the plans of all that share the join,
    in one order; ``compiled`` makes a task of a part of a plan.
    """

    catalog: Catalog
    rules: frozenset[str]
    peers: tuple[Node, ...]
    compiled: Callable[[Labelled], Task]

    def task(self, labelled: Labelled, node: GroupAggregate) -> Task:
        peers = [grouping for plan in self.peers for grouping in joined_groupings(plan)]
        child, operator = self._parts(node, peers)
        below = labelled.inputs[0]
        while not isinstance(below.node, Join):
            (below,) = below.inputs
        operator = replace(
            operator, finds_once=CS4.name in self.rules, one_scan=CS5.name in self.rules
        )
        # Without keys the values are in one place for the grouping's sake, not for the join's.
        child = replace(child, node=below.node if node.keys else None, label=below.label)
        return Task(operator, (child,), operator.columns, True)

    def _parts(
        self, node: GroupAggregate, peers: Sequence[GroupAggregate]
    ) -> tuple[Task, JoinGroups]:
        """What keeps values of results for a grouping and its peers, and what answers from it."""
        own = JoinSource.of(node)
        members = tuple(map(JoinSource.of, peers))
        join = SharedJoin(members if own in members else (*members, own))
        question = JoinQuestion.of(own, join)
        questions = [JoinQuestion.of(member, join) for member in join.members]
        needed = [part for each in questions for part in each.expressions]
        place = slid_join(node)
        assert place is not None
        below = replace(join.node(needed, self.catalog), position=place.position)
        joined = self.compiled(label_plan(below))
        where = conjunction(question.terms)
        if where is not None:
            chosen = SelectRows("remaining conditions", where)
            joined = replace(joined, operator=chosen, inputs=(joined,), node=None, label=None)
        alike = [each for each in questions if each.kind == question.kind]
        results = pane_number(ROWS, None, BIGINT)
        numbers: dict[str, PaneNumber] = {results.column.name: results}
        numbers |= {n.column.name: n for each in alike for n in each.contents.numbers}
        windows = tuple(dict.fromkeys(each.source.windows for each in alike))
        contents = question.contents
        apart = (*contents.keys, *contents.value_columns, *SIDES)
        columns = payload((*apart, *(number.column for number in numbers.values())))
        partials = PairPartials(
            f"values of {describe(node)}", windows, join.times(self.catalog), contents.grouped,
            contents.values, tuple(numbers.values()), columns,
        )  # fmt: skip
        made = replace(
            joined, operator=partials, inputs=(joined,), columns=columns, strict=False,
            node=None, label=None,
        )  # fmt: skip
        store = JoinPaneStore("values of results", partials)
        kept = replace(made, operator=store, inputs=(made,))
        groups = JoinGroups(
            describe(node), contents.keys, contents.calls, payload(node.schema), node.having,
                Shape(),
            window=own.windows.first, weights=contents.weights, asked=node.aggregates,
            windows=own.windows, results=results.column,
        )  # fmt: skip
        return kept, groups


def _renaming(names: Mapping[str, str]) -> Callable[[Expression], Expression]:
    def called(expression: Expression) -> Expression:
        return expression.transform(
            lambda part: (
                replace(part, relation=names.get(part.relation, part.relation))
                if isinstance(part, Column)
                else part
            )
        )

    return called
