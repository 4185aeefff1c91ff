"""Streams in Python: a stream, a window on it, and joins of windows, which are queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mayfly.cql import bind_condition
from mayfly.display import html_table, one_line
from mayfly.lifetime import Duration, duration, format_micros
from mayfly.plan.expressions import Expression
from mayfly.plan.strategy import Strategy
from mayfly.plan.stream_joins import JoinQuery, On, Stream, WindowedStream
from mayfly.spark.api.queries import CqlQuery

if TYPE_CHECKING:
    from mayfly.spark.api.session import Session

Select = Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class SparkStream:
    """A declared stream; put a window on it."""

    session: Session
    declared: Stream

    def __repr__(self) -> str:
        return one_line(self, self.declared.name, *self.declared.schema.names)

    def _repr_html_(self) -> str:
        columns = self.declared.schema
        return html_table(
            f"stream {self.declared.name}", {column.name: column.type for column in columns}
        )

    def window(self, range: Duration) -> SparkWindow:
        """``stream [RANGE d]``: every row is alive for ``range`` from its own time on."""
        return SparkWindow(self.session, self.declared.window(duration(range)))


@dataclass(frozen=True)
class SparkWindow:
    """A stream under a window; join it with another one."""

    session: Session
    windowed: WindowedStream

    def __repr__(self) -> str:
        return one_line(self, self.windowed.stream.name, format_micros(self.windowed.length))

    def join(
        self,
        other: SparkWindow,
        on: On,
        where: str | Expression | None = None,
        select: Select = None,
    ) -> SparkQuery:
        """The equi-join of both windows; ``where`` is a further condition on pairs, as SQL text."""
        return _joined(self.session, JoinQuery((self.windowed,)), other, on, where, select)


@dataclass(frozen=True, repr=False)
class SparkQuery(CqlQuery):
    """A join of windows: a query like those of the language, to which windows can be joined."""

    joined: JoinQuery = field(kw_only=True)

    def join(
        self,
        other: SparkWindow,
        on: On,
        where: str | Expression | None = None,
        select: Select = None,
    ) -> SparkQuery:
        """Join one more window to the results so far."""
        return _joined(self.session, self.joined, other, on, where, select)


def _joined(
    session: Session,
    before: JoinQuery,
    other: SparkWindow,
    on: On,
    where: str | Expression | None,
    select: Select,
) -> SparkQuery:
    if isinstance(where, str):
        streams = [*before.streams(), other.windowed.stream]
        where = bind_condition(
            where, {s.name: {c: s.type_of(c) for c in s.schema.names} for s in streams}
        )
    query = before.join(other.windowed, on, where, select)
    made = CqlQuery.of(session, query.text(), query.plan(), Strategy.UPA, ())
    return SparkQuery(session, made.text, made.bound, made.program, joined=query)
