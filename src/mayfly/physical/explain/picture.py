"""The staged program of a query as the tree that EXPLAIN shows.

Every operator, stage, exchange and structure is read off the program that runs; the optimizer adds
figures to those operators that stand for a node of its plan. Cost: one pass over the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, prod

from mayfly.kernels.operator import Holding, Moving
from mayfly.kernels.operator import Operator as Kernel
from mayfly.optimizer.estimates import DEFAULT_PARTITIONS, SECOND, Flow, row_bytes
from mayfly.optimizer.join_chains import executed
from mayfly.optimizer.plan_cost import Costed
from mayfly.optimizer.rule import RuleContext
from mayfly.optimizer.structures import Cost
from mayfly.patterns import MON, STR, WK, Label
from mayfly.patterns.propagation import unbounded
from mayfly.physical.explain.model import (
    Edge,
    Exchange,
    ExplainedOperator,
    ExplainedState,
    PhysicalPlan,
    Place,
)
from mayfly.physical.explain.warnings import warnings_of
from mayfly.physical.program import Program, RelationInput, Source, Task
from mayfly.physical.session_totals import is_per_window
from mayfly.physical.shared_program import shared
from mayfly.physical.slides import runnable
from mayfly.physical.stager import stage_tasks
from mayfly.physical.stages import Feed, Route, StagedTask
from mayfly.plan.logical_operators import Node, Output, StreamScan, SubqueryWindow
from mayfly.plan.plan_text import node_name
from mayfly.plan.strategy import Structure

REASONS = {
    Structure.APPEND: "nothing expires",
    Structure.FIFO: "WKS: tuples expire in the order they arrived",
    Structure.CALENDAR: "WK: expirations are known but come in any order",
    Structure.CALENDAR_NEGATIVE: "STR: few tuples die early, and only those are announced",
    Structure.HASH: "a negative tuple names each tuple to delete",
    Structure.BUFFER: "DIRECT: dead tuples are found by scanning",
    Structure.GROUPS: "a new value replaces the old one, without a negative tuple",
    Structure.COUNTS: "strict δ: a negative tuple when a count reaches 0",
    Structure.COVERS: "until when something on the right covers a key",
}


def picture(
    program: Program, costed: Costed, context: RuleContext, reasons: Mapping[Node, str]
) -> PhysicalPlan:
    """What runs for a query, with the figures of its costed plan, and why it runs so."""
    drawn = _Picture(program, costed, context, reasons)
    root = drawn.root()
    streams = dict.fromkeys(n.stream for n in program.plan.walk() if isinstance(n, StreamScan))
    assumed = tuple(stream for stream in streams if not context.statistics.has_rate(stream))
    cuts = program.sent is None and program.answer.strict
    plan = PhysicalPlan(root, program.plan, program.strategy, cuts, (), assumed)
    return replace(plan, warnings=warnings_of(plan))


class _Picture:
    def __init__(
        self, program: Program, costed: Costed, context: RuleContext, reasons: Mapping[Node, str]
    ) -> None:
        self.program, self.joining = program, context.joining
        together = shared({"query": program}, {})
        self.stages, self.origins = stage_tasks(together, together=False)
        self.tasks = {id(task.operator): task for task in together.tasks()}
        self.drawn: dict[int, ExplainedOperator] = {}
        self.feeds = {feed.task: feed for feed in self.stages.feeds}
        self.links = {(link.consumer, link.side): link for link in self.stages.links}
        self.readers: dict[int, Kernel] = {}
        for reader in self.stages.tasks:
            if reader.operator.keyed:
                for number in reader.local:
                    if number is not None:
                        self.readers.setdefault(number, reader.operator)
        self.figures = {figure.node: figure for figure in costed.walk()}
        self.reasons = {executed(node, self.joining): why for node, why in reasons.items()}

    def _figures(self, node: Node | None) -> Costed | None:
        """What the optimizer reckons for a node; it reckons with joins as they run."""
        return None if node is None else self.figures.get(executed(node, self.joining))

    def root(self) -> ExplainedOperator:
        (answer,) = self.stages.answers
        source = self.task(answer.task)
        plan, sent = runnable(self.program.plan), answer.sent
        name, label, cost = node_name(self.program.plan), source.label, self._cost(plan)
        if sent is None:
            held = Holding("kept", Structure.APPEND, "answer", 0, (), "changes are logged")
            # Parts that never expire may be merged with others that do.
            grows = label.pattern == MON or (label.pattern == WK and self._grows(source))
            log = self._state(held, [Edge(source)], plan, grows)
            edges = (Edge(source),)
            return ExplainedOperator(
                name, "", label, Place.ANSWER, source.stage, edges, (log,), cost, node=plan
            )
        exchange = None
        if answer.stage != self.stages.tasks[answer.task].stage:
            reason = "equal results meet in one bucket"
            if answer.route.single:
                reason = "the whole answer is sent"
            exchange = self._exchange(answer.route, reason)
        edge = Edge(source, exchange)
        state = tuple(self._state(holding, [edge], plan, False) for holding in sent.holdings())
        place = Place.SINGLE if answer.route.single else Place.KERNEL
        if exchange is None:
            place = source.place
        return ExplainedOperator(
            name, sent.detail, label, place, answer.stage + 1, (edge,), state, cost, node=plan
        )

    # ── tasks ─────────────────────────────────────────────────────────────────────────────

    def task(self, number: int) -> ExplainedOperator:
        """One that several others read is the same in each of them."""
        if number not in self.drawn:
            self.drawn[number] = self._task(number)
        return self.drawn[number]

    def _task(self, number: int) -> ExplainedOperator:
        staged, origin = self.stages.tasks[number], self.origins[number]
        kernel = staged.operator
        feed = self.feeds.get(number)
        if feed is not None:
            return self._window(staged, origin, feed)
        place = Place.KERNEL if staged.bucketed else Place.SINGLE
        stage = staged.stage + 1
        edges: list[Edge] = []
        if staged.relation is not None:
            place, stage = Place.BEFORE, 0
        else:
            edges = [self._edge(staged, side) for side in range(len(staged.local))]
        return self._operator(kernel, origin, place, stage, edges, number)

    def _edge(self, staged: StagedTask, side: int) -> Edge:
        local = staged.local[side]
        if local is not None:
            source = self.task(local)
            if source.place is Place.BEFORE:
                reason = "its rows are matched in every bucket"
                return Edge(source, Exchange((), reason, broadcast=True))
            return Edge(source)
        link = self.links[staged.number, side]
        exchange = self._exchange(link.route, staged.operator.reason)
        return Edge(self.task(link.task), replace(exchange, straight=link.straight))

    def _window(self, staged: StagedTask, origin: Task, feed: Feed) -> ExplainedOperator:
        """A window over a stream, behind what is done to rows before they are exchanged."""
        scan = origin.node
        endless = unbounded(feed.source.alias)
        detail = _source_words(feed.source.stream, feed.source)
        own = self._figures(scan)
        rate = own.estimated.flow.rate if own else None
        alias = feed.source.alias
        below = ExplainedOperator(
            "Stream", detail, endless, Place.BEFORE, 0, rate=rate, alias=alias
        )
        top = origin
        for kernel in feed.path:
            top = self.tasks.get(id(kernel), origin)
            figures = self._figures(top.node)
            below = ExplainedOperator(
                kernel.title, kernel.detail, endless, Place.BEFORE, 0, (Edge(below),),
                cost=figures.cost if figures else Cost(),
                rate=figures.estimated.flow.rate if figures else None, node=top.node,
            )  # fmt: skip
        exchange = self._exchange(feed.route, "")
        edges = [Edge(below, replace(exchange, reason=self._reason_to_move(staged)))]
        place = Place.KERNEL if staged.bucketed else Place.SINGLE
        operator = self._operator(
            staged.operator, top, place, staged.stage + 1, edges, staged.number
        )
        return operator if scan is None else replace(operator, cost=self._cost(scan))

    def _reason_to_move(self, staged: StagedTask) -> str:
        """Why the rows of a window are exchanged: for itself or for the first that reads them."""
        if staged.operator.keyed or not staged.bucketed:
            return staged.operator.reason
        reader = self.readers.get(staged.number)
        return reader.reason if reader is not None else "rows may be in any bucket"

    def _operator(
        self,
        kernel: Kernel,
        origin: Task,
        place: Place,
        stage: int,
        edges: list[Edge],
        number: int,
    ) -> ExplainedOperator:
        node = origin.node
        figures = self._figures(node)
        relation = next(
            (source for source in origin.inputs if isinstance(source, RelationInput)), None
        )
        # A finished window takes what it kept with it, however long its stream is.
        is_dropped = node is not None and is_per_window(node)
        if isinstance(node, SubqueryWindow):
            is_dropped = figures is not None and not figures.estimated.flow.grows
        grows = not is_dropped and any(self._grows(edge.source) for edge in edges)
        state = tuple(self._state(holding, edges, node, grows) for holding in kernel.holdings())
        flow = figures.estimated.flow if figures else None
        return ExplainedOperator(
            kernel.title,
            _source_words(relation.relation, relation) if relation else kernel.detail,
            origin.label or _helper_label(origin),
            place,
            stage,
            tuple(edges),
            state,
            figures.cost if figures else Cost(),
            flow.rate if flow else None,
            flow.size if flow else None,
            figures.negative if figures else None,
            number,
            node,
            relation.alias if relation else "",
            kernel.sign,
            kernel.moving in (Moving.KEYED, Moving.COUNTED) and not kernel.keyed,
            kernel.workings(),
            "" if node is None else self.reasons.get(executed(node, self.joining), ""),
        )

    # ── figures ───────────────────────────────────────────────────────────────────────────

    def _cost(self, node: Node) -> Cost:
        figures = self._figures(node)
        return figures.cost if figures else Cost()

    def _grows(self, operator: ExplainedOperator) -> bool:
        figures = self._figures(operator.node)
        return figures is not None and figures.estimated.flow.grows

    def _state(
        self, holding: Holding, edges: list[Edge], node: Node | None, grows: bool
    ) -> ExplainedState:
        """What is held, with its size if the rows are those of a node that was estimated."""
        rows = size = None
        of = edges[holding.side].source.node if holding.side is not None and edges else node
        figures = self._figures(of)
        if of is not None and figures is not None:
            rows = holding.spares * figures.estimated.flow.size
            results = self._figures(node)
            if holding.per_result is not None and results is not None:
                rows = min(rows, holding.per_result * results.estimated.flow.size)
            rows = min(rows, _bounded_rows(holding, figures.estimated.flow))
            size = rows * row_bytes(of.schema)
        if holding.side is not None and not (
            isinstance(node, Output) or (node is not None and is_per_window(node))
        ):
            grows = self._grows(edges[holding.side].source)
        by_key = grows and holding.lifetime is None and holding.per_key is not None
        grows = grows and holding.lifetime is None and holding.per_key is None
        holds = holding.holds or edges[holding.side or 0].source.algebra
        reason = "; ".join(
            filter(None, (holding.reason or REASONS[holding.structure], holding.note))
        )
        return ExplainedState(
            holding.part,
            holding.structure,
            holds,
            holding.keyed_by,
            reason,
            rows,
            size,
            grows,
            holding.partitions,
            by_key,
        )

    def _exchange(self, route: Route, reason: str) -> Exchange:
        return Exchange(route.words, reason)


def _bounded_rows(holding: Holding, flow: Flow) -> float:
    """How many rows may be held of a flow, however long it goes on."""
    rows = inf
    if holding.lifetime is not None:
        rows = min(rows, flow.rate * holding.lifetime / SECOND)
    if holding.per_key is not None:
        values = (flow.known_values(key) or DEFAULT_PARTITIONS for key in holding.keys)
        rows = min(rows, holding.per_key * prod(values))
    if holding.per_value is not None:
        rows = min(rows, holding.per_value * flow.present(*holding.keys))
    return rows


def _source_words(name: str, source: Source) -> str:
    called = name if name == source.alias else f"{name} {source.alias}"
    return f"{called} ({', '.join(source.columns)})"


def _helper_label(task: Task) -> Label:
    """Of results that no node of the plan has, such as the pairs inside a negation."""
    pattern = STR if task.strict else WK
    return Label(pattern, "because pairs die with the first of their members", pattern)
