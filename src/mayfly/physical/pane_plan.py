"""From a grouping over a window with SLIDE to panes and groups of these (spec/periodic 1, 4).

Before: GroupAggregate src: SUM(bytes), COUNT(DISTINCT dst) over link1 [RANGE 10 min SLIDE 1 min].
After: groups of panes over a store of Panes SUM(bytes), values of dst BY src, pane, which queries
with other windows and functions read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mayfly.kernels.delta import payload
from mayfly.kernels.holistic import SPREADS
from mayfly.kernels.moment_parts import MOMENTS_TYPE
from mayfly.kernels.pane_aggregates import COUNTED
from mayfly.kernels.pane_edges import period_of
from mayfly.kernels.pane_partials import COUNT, MAX, MIN, MOMENTS, ROWS, SUM, PaneNumber
from mayfly.kernels.pane_store import PaneStore
from mayfly.kernels.value_sketches import sketch_name
from mayfly.physical.program import StreamInput, Task
from mayfly.physical.shared_program import described, digest
from mayfly.plan.expressions import Column, Expression, conjuncts
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Node,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.strategy import Strategy
from mayfly.plan.types import BIGINT, BINARY, DOUBLE, DataType, decimal
from mayfly.plan.window_kinds import Range

MOST_PANES = 10_000
"""More of them in one window are no longer fewer than rows."""
_WIDEST, _SPARE = 38, 10
"""Digits of a decimal, and how many of these are left for the number of rows in a pane."""


def slid_window(node: GroupAggregate) -> Range | None:
    """The window that moves by refreshes, of a grouping over one stream."""
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    if not isinstance(below, StreamScan) or not isinstance(below.window, Range):
        return None
    slide = below.window.slide
    return below.window if slide is not None and slide.period else None


def obstacle(node: GroupAggregate, window: Range, *, exact_sums: bool = False) -> str:
    """Why the grouping cannot be answered from panes, nothing if it can; with ``exact_sums`` what
    is rounded in a pane cannot."""
    if window.internal:
        return "what was an answer stays one (INTERNAL)"
    count = 2 * window.duration // period_of(window)
    if count > MOST_PANES:
        return f"{count:,} panes are no fewer than rows"
    return next((why for call in node.aggregates if (why := _unfit(call, exact_sums))), "")


def _unfit(call: AggregateCall, exact_sums: bool) -> str:
    function, kind = call.function, None if call.argument is None else call.argument.type
    words = aggregate_text((), [call], None)
    if function in ("count", "min", "max", "collect_set", *COUNTED):
        nested = kind is not None and kind.is_nested
        return f"{words} counts combinations of values" if nested else ""
    if call.distinct:
        return f"{words} needs every value"
    if function in ("sum", "avg") and kind is not None:
        if kind.is_integral:
            return ""
        if kind.name == "decimal":
            return "" if kind.params[0] <= _WIDEST - _SPARE else f"{words} may not fit a pane"
    if function in ("sum", "avg", *SPREADS):
        return f"{words} is to be exact (FLOAT SUMS EXACT)" if exact_sums else ""
    return f"{words} needs every value"


@dataclass(frozen=True)
class PaneSource:
    """Rows of a stream as a grouping gets them, in terms of the stream: selections are conditions
    and projections are written out, so that equal rows are so in every query."""

    scan: StreamScan
    columns: Mapping[tuple[str, str], Expression]
    conditions: tuple[Expression, ...] = ()

    @staticmethod
    def of(node: Node) -> PaneSource:
        if isinstance(node, StreamScan):
            own = {
                (column.relation, column.name): replace(column, relation=node.stream)
                for column in node.schema
            }
            return PaneSource(node, own)
        assert isinstance(node, Select | Project)
        below = PaneSource.of(node.child)
        if isinstance(node, Select):
            terms = map(below.over, conjuncts(node.predicate))
            return replace(below, conditions=(*below.conditions, *terms))
        computed = {
            (column.relation, column.name): below.over(output.expression)
            for column, output in zip(node.schema, node.outputs, strict=True)
        }
        return replace(below, columns=computed)

    def over(self, expression: Expression) -> Expression:
        """An expression over the grouping's input, in columns of the stream."""

        def written_out(part: Expression) -> Expression:
            if not isinstance(part, Column):
                return part
            return self.columns.get((part.relation, part.name), part)

        return expression.transform(written_out)

    @property
    def terms(self) -> tuple[Expression, ...]:
        """The conditions, each once, in an order that depends on nothing but themselves."""
        return tuple(sorted(dict.fromkeys(self.conditions), key=described))


@dataclass(frozen=True)
class PanePlan:
    """What keeps panes for a grouping, and the calls of the grouping in terms of these."""

    node: GroupAggregate
    window: Range
    store: PaneStore
    keys: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    weights: tuple[Column | None, ...]

    @staticmethod
    def of(
        node: GroupAggregate, window: Range, *, alone: bool = False, sketches: bool = True
    ) -> PanePlan:
        """``alone`` keeps panes that no other query reads, but one that asks the same; without
        ``sketches`` what may be approximate is exact."""
        source = PaneSource.of(node.child)
        grouped = [source.over(key.expression) for key in node.keys]
        values: dict[Expression, Column] = {}
        contents: dict[str, PaneNumber] = {}

        def content(function: str, argument: Expression | None, kind: DataType) -> Column:
            number = pane_number(function, argument, kind)
            contents[number.column.name] = number
            return number.column

        asked = [
            replace(call, approximate=sketches and _is_sketched(call)) for call in node.aggregates
        ]
        # Where one function counts values, others read the same counters.
        counted = {
            source.over(call.argument)
            for call in asked
            if call.argument is not None and call.function in COUNTED and not call.approximate
        }
        calls: list[AggregateCall] = []
        weights: list[Column | None] = []
        for call in asked:
            argument, weight = call.argument and source.over(call.argument), None
            if argument is None:
                column = content(ROWS, None, BIGINT)
            elif call.approximate:
                sketch = sketch_name(call.function, argument.type)
                assert sketch is not None
                column = content(sketch, argument, BINARY)
            elif call.distinct or call.function in ("collect_set", *COUNTED):
                column = values.setdefault(argument, _named("values of", argument))
                weight = content(ROWS, None, BIGINT) if argument in counted else None
            elif call.function == "count":
                column = content(COUNT, argument, BIGINT)
            elif call.function in (MIN, MAX):
                column = content(call.function, argument, argument.type)
            elif call.function in SPREADS:
                column = content(MOMENTS, argument, MOMENTS_TYPE)
            else:
                column = content(SUM, argument, _sum_type(argument.type))
                weight = content(COUNT, argument, BIGINT) if call.function == "avg" else None
            calls.append(replace(call, argument=column))
            weights.append(weight)
        keys = tuple(_named("", key) for key in grouped)
        told_apart = sorted(values.items(), key=lambda pair: pair[1].name)
        columns = payload((*keys, *(column for _, column in told_apart)))
        store = PaneStore(
            f"panes of {source.scan.stream}", source.scan.stream, source.terms, tuple(grouped),
            tuple(value for value, _ in told_apart), tuple(contents.values()), (window,), columns,
            digest(described(window), *contents) if alone else "",
        )  # fmt: skip
        return PanePlan(node, window, store, keys, tuple(calls), tuple(weights))

    def task(self, scan: Task) -> Task:
        """What keeps the panes of a stream's rows."""
        (source,) = scan.inputs
        assert isinstance(source, StreamInput)
        return pane_task(self.store, source)


def pane_task(store: PaneStore, source: StreamInput) -> Task:
    """What keeps panes, of the columns of a stream that it needs."""
    expressions = (
        *store.conditions, *store.keys, *store.values,
        *(number.argument for number in store.contents if number.argument is not None),
    )  # fmt: skip
    used = (column.name for expression in expressions for column in expression.columns())
    stream = StreamInput(source.stream, source.stream, tuple(dict.fromkeys(used)))
    return Task(store, (stream,), store.columns, False)


def pane_number(function: str, argument: Expression | None, kind: DataType) -> PaneNumber:
    """A number of panes, in a column that is called by what it means."""
    blank = PaneNumber(function, argument, Column("", "", kind))
    return replace(blank, column=_column(blank.words, (function, argument), kind))


def _is_sketched(call: AggregateCall) -> bool:
    if not call.approximate or call.argument is None:
        return False
    return sketch_name(call.function, call.argument.type) is not None


def _named(role: str, expression: Expression) -> Column:
    words = f"{role} {expression_text(expression)}".strip()
    return _column(words, (role, expression), expression.type)


def _column(words: str, meaning: tuple[str, Expression | None], kind: DataType) -> Column:
    """A column of panes, called by what it means: states are read on under other plans. Texts of
    expressions may be equal where these are not."""
    if not isinstance(meaning[1], Column | None):
        words = f"{words} {digest(described(meaning))[:8]}"
    return Column("", words, kind)


def _sum_type(kind: DataType) -> DataType:
    if kind.name == "decimal":
        return decimal(_WIDEST, kind.params[1])
    return BIGINT if kind.is_integral else DOUBLE


def rows_because(plan: Node, strategy: Strategy, panes: bool) -> str:
    """Why no grouping of a plan can have panes for rows, nothing if some may."""
    if not panes:
        return "the rule is switched off"
    if strategy is Strategy.NT:
        return "NT announces the end of every row"
    if len({node.stream for node in plan.walk() if isinstance(node, StreamScan)}) > 1:
        return "streams that wait for each other close their instants at other times"
    return ""
