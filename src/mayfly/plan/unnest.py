"""UNNEST in a logical plan: one row per element of an array or map."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Node, Schema


@dataclass(frozen=True)
class Unnest(Node):
    """One row per element of an array or map, each with the life of its row.

    ``columns`` come behind those of the row: its place (counted from ``counts_from``) behind the
    element, or before it where that is 0, as Spark and the standard have it. A row without
    elements stays where it is ``outer``, with NULLs.
    """

    inputs_of = ("child",)
    child: Node
    value: Expression
    columns: Schema
    outer: bool = False
    counts_from: int | None = None

    @cached_property
    def schema(self) -> Schema:
        return (*self.child.schema, *self.columns)

    def expressions(self) -> tuple[Expression, ...]:
        return (self.value,)
