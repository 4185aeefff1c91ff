"""From a grouping over a window with SLIDE to panes and groups of these (spec/periodic 1, 4).

Before: GroupAggregate src: SUM(bytes), COUNT(DISTINCT dst) over link1 [RANGE 10 min SLIDE 1 min].
After: groups of panes over a store of Panes SUM(bytes), values of dst BY src, pane, which queries
with other windows and functions read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mayfly.kernels.delta import payload
from mayfly.kernels.moment_parts import MOMENTS_TYPE
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_store import PaneStore
from mayfly.physical.pane_limits import WIDEST
from mayfly.physical.pane_sources import VALUES, PaneSource, call_parts
from mayfly.physical.program import StreamInput, Task
from mayfly.physical.shared_program import described, digest
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
)
from mayfly.plan.pane_functions import COUNT, COUNT_MIN, HLL, ITEMS, KLL, MAX, MIN, MOMENTS
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import BIGINT, BINARY, DOUBLE, DataType, decimal
from mayfly.plan.window_kinds import Range


@dataclass(frozen=True)
class PaneContents:
    """What tells the groups and rows of panes apart, the numbers of these, and the calls of a
    grouping in terms of them."""

    grouped: tuple[Expression, ...]
    keys: tuple[Column, ...]
    values: tuple[Expression, ...]
    value_columns: tuple[Column, ...]
    numbers: tuple[PaneNumber, ...]
    calls: tuple[AggregateCall, ...]
    weights: tuple[Column | None, ...]

    @staticmethod
    def of(
        node: GroupAggregate,
        over: Callable[[Expression], Expression],
        *,
        sketches: bool,
        joined: bool = False,
    ) -> PaneContents:
        """``over`` and ``joined`` are those of ``call_parts``."""
        grouped = [over(key.expression) for key in node.keys]
        values: dict[Expression, Column] = {}
        contents: dict[str, PaneNumber] = {}

        def content(function: str, argument: Expression | None) -> Column:
            number = pane_number(function, argument, _type_of(function, argument))
            contents[number.column.name] = number
            return number.column

        calls: list[AggregateCall] = []
        weights: list[Column | None] = []
        for parts in call_parts(node, over, sketches=sketches, joined=joined):
            if parts.function == VALUES:
                assert parts.argument is not None
                column = values.setdefault(parts.argument, _named("values of", parts.argument))
            columns = [content(*number) for number in parts.numbers]
            calls.append(
                replace(parts.call, argument=column if parts.function == VALUES else columns[0])
            )
            weights.append(columns[-1] if parts.weight else None)
        told_apart = sorted(values.items(), key=lambda pair: pair[1].name)
        return PaneContents(
            tuple(grouped), tuple(_named("", key) for key in grouped),
            tuple(value for value, _ in told_apart), tuple(column for _, column in told_apart),
            tuple(contents.values()), tuple(calls), tuple(weights),
        )  # fmt: skip


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
        made = PaneContents.of(node, source.over, sketches=sketches)
        columns = payload((*made.keys, *made.value_columns))
        terms = unique_terms(source.conditions)
        store = PaneStore(
            f"panes of {source.scan.stream}", source.scan.stream, terms, made.grouped,
            made.values, made.numbers, (window,), columns,
            digest(described(window), *(number.column.name for number in made.numbers))
            if alone else "",
        )  # fmt: skip
        return PanePlan(node, window, store, made.keys, made.calls, made.weights)

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
    stream = replace(source, alias=source.stream, columns=tuple(dict.fromkeys(used)))
    return Task(store, (stream,), store.columns, False)


def unique_terms(terms: Iterable[Expression]) -> tuple[Expression, ...]:
    """Each once, in an order that depends on nothing but themselves."""
    return tuple(sorted(dict.fromkeys(terms), key=described))


def pane_number(function: str, argument: Expression | None, kind: DataType) -> PaneNumber:
    """A number of panes, in a column that is called by what it means."""
    blank = PaneNumber(function, argument, Column("", "", kind))
    return replace(blank, column=_column(blank.words, (function, argument), kind))


def _named(role: str, expression: Expression) -> Column:
    words = f"{role} {expression_text(expression)}".strip()
    return _column(words, (role, expression), expression.type)


def _column(words: str, meaning: tuple[str, Expression | None], kind: DataType) -> Column:
    """A column of panes, called by what it means: states are read on under other plans. Texts of
    expressions may be equal where these are not."""
    if not isinstance(meaning[1], Column | None):
        words = f"{words} {digest(described(meaning))[:8]}"
    return Column("", words, kind)


def _type_of(function: str, argument: Expression | None) -> DataType:
    """Of a number of a pane."""
    if function in (HLL, KLL, ITEMS, COUNT_MIN):
        return BINARY
    if function == MOMENTS:
        return MOMENTS_TYPE
    if argument is None or function == COUNT:
        return BIGINT
    return argument.type if function in (MIN, MAX) else _sum_type(argument.type)


def _sum_type(kind: DataType) -> DataType:
    if kind.name == "decimal":
        return decimal(WIDEST, kind.params[1])
    return BIGINT if kind.is_integral else DOUBLE
