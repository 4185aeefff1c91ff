"""From a grouping with FREQUENT to what makes its members: summaries, and rows for other calls.

Before: GroupAggregate src: FREQUENT(dst, 5), COUNT(*) over a window.
After: a union of Summaries of dst by (src, dst) and of rows (src, 1), grouped by src.
Each aggregate reads a column of its own, which is NULL in the members of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import column_name, payload
from mayfly.kernels.stateless import ProjectRows
from mayfly.kernels.summaries import Summaries, summary_type
from mayfly.optimizer.labels import describe
from mayfly.physical.program import Task
from mayfly.plan.expressions import Column, Expression, Literal
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import AggregateCall, GroupAggregate, StreamScan
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import INT, DataType
from mayfly.plan.window_kinds import Range, RowsWindow, Slide, Window


@dataclass(frozen=True)
class Members:
    """The columns of a group's members, and its keys and calls in terms of these."""

    node: GroupAggregate
    window: Window
    keys: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]

    @staticmethod
    def of(node: GroupAggregate) -> Members:
        scan = next(part for part in node.walk() if isinstance(part, StreamScan))
        if scan.window.slide is None:
            raise InvalidSetting(
                "FREQUENT counts whole sub-windows, and the restore forms look into them",
                "use the plain form of the operator, or TOP(x, k)",
            )
        words = [expression_text(key.expression) for key in node.keys]
        words += [
            expression_text(call.argument) if call.argument else "*" for call in node.aggregates
        ]
        # Two calls may have one argument, and a call that of a key.
        names = [f"{word}#{words[:position].count(word) + 1}" if word in words[:position] else word
                 for position, word in enumerate(words)]  # fmt: skip
        keys = tuple(
            Column("", name, key.expression.type)
            for name, key in zip(names, node.keys, strict=False)
        )
        calls = tuple(
            replace(call, argument=Column("", name, _type(call)))
            for name, call in zip(names[len(keys) :], node.aggregates, strict=True)
        )
        return Members(node, scan.window, keys, calls)

    @property
    def columns(self) -> pa.Schema:
        return payload((*self.keys, *(_argument(call) for call in self.calls)))

    @property
    def range(self) -> int | None:
        return self.window.duration if isinstance(self.window, Range) else None

    @property
    def moves(self) -> Slide | None:
        return self.window.slide

    @property
    def is_divided(self) -> bool:
        """Whether what one slide brings leaves at once."""
        slide = self.moves.rows or self.moves.period if self.moves else None
        return slide is None or self._length % slide == 0

    @property
    def _length(self) -> int:
        assert isinstance(self.window, Range | RowsWindow)
        return self.window.count if isinstance(self.window, RowsWindow) else self.window.duration

    def summarized(self, call: AggregateCall, rows: Task, dual: bool) -> Task:
        """The summaries that a call of FREQUENT reads."""
        position = self.node.aggregates.index(call)
        operator = Summaries(
            describe(self.node),
            tuple(key.expression for key in self.node.keys),
            call,
            self.columns,
            column_name(_argument(self.calls[position])),
            self.moves.rows if self.moves else None,
            dual,
            None if self.is_divided else self._length,
            self.moves.period if self.moves else None,
        )
        return replace(rows, operator=operator, inputs=(rows,), columns=self.columns, node=None)

    def plain(self, rows: Task) -> Task:
        """The rows that the other calls read."""
        outputs: list[Expression] = [key.expression for key in self.node.keys]
        for call, own in zip(self.node.aggregates, self.calls, strict=True):
            if Frequency.is_asked(call):
                outputs.append(Literal(None, _argument(own).type))
            else:
                outputs.append(call.argument or Literal(1, INT))
        operator = ProjectRows(describe(self.node), tuple(outputs), self.columns)
        return replace(rows, operator=operator, inputs=(rows,), columns=self.columns, node=None)


def _type(call: AggregateCall) -> DataType:
    """Of what a call reads; COUNT(*) counts the rows that have a number there."""
    if call.argument is None:
        return INT
    kind = call.argument.type
    return summary_type(kind) if Frequency.is_asked(call) else kind


def _argument(call: AggregateCall) -> Column:
    assert isinstance(call.argument, Column)
    return call.argument
