"""Logical operators over finished windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mayfly.plan.expressions import Column
from mayfly.plan.finished_windows import FinishedWindows
from mayfly.plan.logical_operators import Node, Schema


@dataclass(frozen=True)
class InWindows(Node):
    """What is alive at the last instant of each finished window, at that instant only, with where
    the window starts and ends. The child is an answer by refreshes, or the rows of sessions."""

    inputs_of = ("child",)
    child: Node
    windows: FinishedWindows
    start: Column
    end: Column

    @cached_property
    def schema(self) -> Schema:
        return (*self.child.schema, self.start, self.end)


@dataclass(frozen=True)
class Finished(Node):
    """The answers of finished windows: each is given once and stays."""

    inputs_of = ("child",)
    child: Node
