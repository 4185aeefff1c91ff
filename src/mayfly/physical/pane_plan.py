"""From a grouping over a window with SLIDE to panes and groups of these (spec/periodic 1, 4).

Before: GroupAggregate src: SUM(bytes), COUNT(DISTINCT dst) over link1 [RANGE 10 min SLIDE 1 min].
After: groups of panes over Panes SUM(bytes), values of dst BY src, pane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from mayfly.kernels.delta import payload
from mayfly.kernels.pane_partials import COUNT, MAX, MIN, ROWS, SUM, PaneNumber, PanePartials
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    AggregateCall,
    GroupAggregate,
    Node,
    Project,
    Select,
    StreamScan,
)
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.types import BIGINT, DataType, decimal
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


def obstacle(node: GroupAggregate, window: Range) -> str:
    """Why the grouping cannot be answered from panes, nothing if it can."""
    if window.internal:
        return "what was an answer stays one (INTERNAL)"
    assert window.slide is not None
    assert window.slide.period
    count = 2 * window.duration // window.slide.period
    if count > MOST_PANES:
        return f"{count:,} panes are no fewer than rows"
    return next((why for call in node.aggregates if (why := _unfit(call))), "")


def _unfit(call: AggregateCall) -> str:
    function, kind = call.function, None if call.argument is None else call.argument.type
    words = aggregate_text((), [call], None)
    if function in ("count", "min", "max", "collect_set"):
        return ""
    if function in ("sum", "avg") and kind is not None and not call.distinct:
        if kind.is_integral:
            return ""
        if kind.name == "decimal" and function == "sum":
            return "" if kind.params[0] <= _WIDEST - _SPARE else f"{words} may not fit a pane"
    if function in ("sum", "avg", "var_samp", "stddev_samp"):
        return f"{words} is rounded once, over all rows"
    return f"{words} needs every value"


@dataclass(frozen=True)
class PanePlan:
    """The columns of panes, and the calls of a grouping in terms of these."""

    node: GroupAggregate
    window: Range
    keys: tuple[Column, ...]
    values: tuple[tuple[Expression, Column], ...]
    contents: tuple[PaneNumber, ...]
    calls: tuple[AggregateCall, ...]
    weights: tuple[Column | None, ...]

    @staticmethod
    def of(node: GroupAggregate, window: Range) -> PanePlan:
        naming = _Naming()
        keys = tuple(
            naming.column(expression_text(key.expression), key.expression.type) for key in node.keys
        )
        values: dict[Expression, Column] = {}
        contents: dict[tuple[str, Expression | None], PaneNumber] = {}

        def content(function: str, argument: Expression | None, kind: DataType) -> Column:
            if (function, argument) not in contents:
                blank = PaneNumber(function, argument, Column("", "", kind))
                column = naming.column(blank.words, kind)
                contents[function, argument] = replace(blank, column=column)
            return contents[function, argument].column

        calls: list[AggregateCall] = []
        weights: list[Column | None] = []
        for call in node.aggregates:
            argument, weight = call.argument, None
            if argument is None:
                column = content(ROWS, None, BIGINT)
            elif call.distinct or call.function == "collect_set":
                if argument not in values:
                    values[argument] = naming.column(expression_text(argument), argument.type)
                column = values[argument]
            elif call.function == "count":
                column = content(COUNT, argument, BIGINT)
            elif call.function in (MIN, MAX):
                column = content(call.function, argument, argument.type)
            else:
                column = content(SUM, argument, _sum_type(argument.type))
                weight = content(COUNT, argument, BIGINT) if call.function == "avg" else None
            calls.append(replace(call, argument=column))
            weights.append(weight)
        return PanePlan(
            node, window, keys, tuple(values.items()), tuple(contents.values()), tuple(calls),
            tuple(weights),
        )  # fmt: skip

    @property
    def columns(self) -> pa.Schema:
        return payload(tuple(self._columns()))

    def _columns(self) -> Iterator[Column]:
        yield from self.keys
        yield from (column for _, column in self.values)
        yield from (content.column for content in self.contents)

    @property
    def partials(self) -> PanePartials:
        return PanePartials(
            describe(self.node),
            self.window,
            tuple(key.expression for key in self.node.keys),
            tuple(value for value, _ in self.values),
            self.contents,
            self.columns,
        )

    def over(self, rows: Task) -> Task:
        """The panes of a window's rows."""
        return replace(rows, operator=self.partials, inputs=(rows,), columns=self.columns)


class _Naming:
    """Names of columns, each once."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def column(self, words: str, kind: DataType) -> Column:
        self.taken.append(words)
        number = self.taken.count(words)
        return Column("", words if number == 1 else f"{words}#{number}", kind)


def _sum_type(kind: DataType) -> DataType:
    return BIGINT if kind.is_integral else decimal(_WIDEST, kind.params[1])
