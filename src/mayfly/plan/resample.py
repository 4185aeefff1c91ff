"""RESAMPLE: one row per key and multiple of a time, from the rows of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from mayfly.lifetime import format_micros
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import Node, Schema
from mayfly.plan.types import DOUBLE


class Interpolation(Enum):
    """What a row of a multiple says where the stream has none at that instant."""

    LAST = "LAST"
    LINEAR = "LINEAR"


@dataclass(frozen=True)
class Resample(Node):
    """The rows of a key at the multiples of ``period`` µs since 1970.

    LAST gives each multiple from a key's first row on the key's last row; it is final when that
    instant is closed. LINEAR gives numbers that lie on the line between the rows before and behind,
    so a multiple waits for the next row of its key, and there is none behind the last row. Of rows
    of a key at one instant the last counts; ``ties`` say which that is.
    """

    inputs_of = ("child",)
    child: Node
    partition: tuple[Column, ...]
    time: Column
    period: int
    filling: Interpolation
    ties: tuple[Expression, ...]
    alias: str

    @cached_property
    def schema(self) -> Schema:
        return tuple(self._output(column) for column in self.child.schema)

    def _output(self, column: Column) -> Column:
        named = replace(column, relation=self.alias)
        return replace(named, data_type=DOUBLE) if self.is_between(column) else named

    def is_between(self, column: Column) -> bool:
        """Whether a column has values between those of two rows."""
        fixed = column in (self.time, *self.partition)
        return self.filling is Interpolation.LINEAR and column.type.is_numeric and not fixed

    def expressions(self) -> tuple[Expression, ...]:
        return (*self.partition, self.time, *self.ties)

    @property
    def because(self) -> str:
        """Why a later row changes none of its results."""
        if self.filling is Interpolation.LAST:
            return "a multiple has the last row at or before it"
        return "a multiple waits for the next row of its key"

    def cql(self) -> str:
        """As the language writes it, without the source."""
        names = ", ".join(column.name for column in self.partition)
        by = f"PARTITION BY {names} " if names else ""
        return f"{by}EVERY {format_micros(self.period)} {self.filling.value}"
