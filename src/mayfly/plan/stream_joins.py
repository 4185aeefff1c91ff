"""Streams as they are declared, and window joins built in Python as values.

Columns of a join have qualified names (``stream.column``). ``JoinQuery.plan()`` is its logical
plan, which is optimized and run like that of any query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.lifetime import micros
from mayfly.plan.catalog import Punctuation
from mayfly.plan.expressions import (
    Cast,
    Column,
    Expression,
    conjunction,
    is_kernel_expression,
    quoted,
)
from mayfly.plan.logical_operators import Equality, Join, Named, Output, Project, StreamScan
from mayfly.plan.types import BOOLEAN, DataType, as_decimal, common_type, from_arrow
from mayfly.plan.window_kinds import Range

On = str | Sequence[str | tuple[str, str]]


@dataclass(frozen=True, slots=True)
class WallClock:
    """IDLE WALL CLOCK MINUS d: every later row has ts ≥ wall clock − d."""

    minus: int


@dataclass(frozen=True)
class Stream:
    """A declared stream: its columns, its time, and what may be assumed about its rows."""

    name: str
    schema: pa.Schema
    time: str = "ts"
    slack: int = 0
    idle: WallClock | None = None
    null_time: Literal["error", "dead_letter"] = "error"
    dead_letter: str | None = None
    punctuations: bool = False
    """Whether rows that hold nothing but a time promise that no earlier row will come."""
    source: str | None = None
    """A word for where its rows come from, if that is known."""
    max_gap: int | None = None
    """How far ahead a row may be before it is doubted; NEVER: as far as it likes."""
    live: bool = True
    """Whether rows come as they are made, and not from files."""
    unit_given: bool = True
    """Whether it is certain what the time counts; a number without a unit may be milliseconds."""
    derivation: str | None = None
    """How columns that no source brings are computed, where there are such columns."""

    punctuation: Punctuation | None = None
    """Which rows close their key."""

    def __post_init__(self) -> None:
        if not self.name or "." in self.name or self.name.startswith("_"):
            raise InvalidSetting(
                f"{self.name!r} cannot name a stream",
                "a stream's name has no dot, and does not begin with _",
            )
        if self.slack < 0:
            raise InvalidSetting(
                f"stream {self.name} has a slack of {self.slack} µs", "use a slack of 0 or more"
            )
        time = [name for name in self.schema.names if name.casefold() == self.time.casefold()]
        if not time:
            raise InvalidSetting(
                f"stream {self.name} has no column {self.time!r} to take its time from",
                f"name one of its columns: {', '.join(self.schema.names)}",
            )
        object.__setattr__(self, "time", time[0])
        kind = self.schema.field(self.time).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
            raise InvalidSetting(
                f"the time column {self.name}.{self.time} is of type {kind}",
                "use a TIMESTAMP, or a BIGINT of microseconds",
            )
        if self.null_time == "dead_letter" and self.dead_letter is None:
            raise InvalidSetting(
                f"stream {self.name} sends rows without a time to a dead letter it does not have",
                "give dead_letter=<directory>, or null_time='error'",
            )

    def window(self, range: str | int) -> WindowedStream:
        """``stream [RANGE d]``: each row is alive for ``range`` from its own time on."""
        length = micros(range)
        if length == 0:
            raise InvalidSetting(
                f"the window over {self.name} has length 0", "use RANGE of 1 microsecond or more"
            )
        return WindowedStream(self, length)

    def type_of(self, column: str) -> DataType:
        return from_arrow(self.schema.field(column).type)


@dataclass(frozen=True)
class WindowedStream:
    """A stream under a time window."""

    stream: Stream
    length: int

    def join(
        self,
        other: WindowedStream,
        on: On,
        where: Expression | None = None,
        select: Sequence[str] | Mapping[str, str] | None = None,
    ) -> JoinQuery:
        """The equi-join with another window; see ``JoinQuery.join``."""
        return JoinQuery((self,)).join(other, on, where, select)


@dataclass(frozen=True)
class JoinClause:
    """How one more input is joined: pairs of qualified key columns, and a residual."""

    pairs: tuple[tuple[str, str], ...]
    residual: Expression | None


@dataclass(frozen=True)
class JoinQuery:
    """A chain of window joins and the columns to report."""

    inputs: tuple[WindowedStream, ...]
    clauses: tuple[JoinClause, ...] = ()
    select: Mapping[str, str] = field(default_factory=dict)

    def join(
        self,
        other: WindowedStream,
        on: On,
        where: Expression | None = None,
        select: Sequence[str] | Mapping[str, str] | None = None,
    ) -> JoinQuery:
        """Join one more window.

        ``on`` is a column both sides have, a pair ``("link1.src", "link2.dst")``, or a list of
        these. ``where`` is a residual predicate over qualified columns. ``select`` maps names of
        result columns to qualified columns; by default every column comes as ``stream_column``.
        """
        if any(source.stream.name == other.stream.name for source in self.inputs):
            raise InvalidSetting(
                f"stream {other.stream.name} is joined with itself under one name",
                "declare it a second time under another name",
            )
        extended = replace(self, inputs=(*self.inputs, other))
        items = _key_items(on)
        pairs = tuple(self._pair(item, other) for item in items)
        if not pairs:
            raise InvalidSetting("a window join without a key", "name at least one key column")
        if where is not None:
            extended._check_residual(where)
        clause = JoinClause(pairs, where)
        chosen = extended._selection(select)
        return replace(extended, clauses=(*self.clauses, clause), select=chosen)

    def streams(self) -> tuple[Stream, ...]:
        return tuple(source.stream for source in self.inputs)

    def type_of(self, qualified: str) -> pa.DataType:
        stream, column = self._resolve(qualified)
        return stream.schema.field(column).type

    def plan(self) -> Output:
        """The query as a logical plan: windows, one join of all of them, and what is reported."""
        scans = tuple(
            StreamScan(
                source.stream.name,
                source.stream.name,
                Range(duration=source.length),
                _columns(source),
            )
            for source in self.inputs
        )
        keys = tuple(self._equality(pair) for clause in self.clauses for pair in clause.pairs)
        residual = conjunction(tuple(clause.residual for clause in self.clauses if clause.residual))
        listed = (Named(name, self._column(source)) for name, source in self.select.items())
        return Output(Project(Join(scans, keys, residual), tuple(listed)))

    def text(self) -> str:
        """The query as the language writes it."""
        plan = self.plan()
        listed = [
            f"{self._column(column).sql()} AS {quoted(n)}" for n, column in self.select.items()
        ]
        windows = [
            f"{quoted(source.stream.name)} {Range(duration=source.length).cql()}"
            for source in self.inputs
        ]
        (join,) = (node for node in plan.walk() if isinstance(node, Join))
        terms = [f"{equality.left.sql()} = {equality.right.sql()}" for equality in join.equalities]
        terms += [] if join.residual is None else [join.residual.sql()]
        return f"SELECT {', '.join(listed)} FROM {', '.join(windows)} WHERE {' AND '.join(terms)}"

    def _column(self, qualified: str) -> Column:
        stream, name = self._resolve(qualified)
        return Column(stream.name, name, stream.type_of(name), name != stream.time)

    def _equality(self, pair: tuple[str, str]) -> Equality:
        kind = self._key_type(pair)
        left, right = (
            column if column.type == kind else Cast(column, kind)
            for column in map(self._column, pair)
        )
        return Equality(left, right)

    def _key_type(self, pair: tuple[str, str]) -> DataType:
        left, right = (from_arrow(self.type_of(name)) for name in pair)
        kind = common_type(left, right)
        if kind is None or not kind.is_comparable:
            raise InvalidSetting(
                f"{pair[0]} ({left}) and {pair[1]} ({right}) cannot be compared",
                "join columns of one atomic type, or cast one of them in the stream's DataFrame",
            )
        if not all(_converts_alike(side, kind) for side in (left, right)):
            raise InvalidSetting(
                f"{pair[0]} ({left}) and {pair[1]} ({right}) would be compared as {kind}, "
                "which depends on rounding or on a time zone",
                "cast one of them in the stream's DataFrame",
            )
        return kind

    def _pair(self, item: str | tuple[str, str], other: WindowedStream) -> tuple[str, str]:
        if isinstance(item, str):
            owner = next((o.stream for o in self.inputs if item in o.stream.schema.names), None)
            if owner is None:
                raise _unknown(item, self.streams())
            item = (f"{owner.name}.{item}", f"{other.stream.name}.{item}")
        left, right = (name if "." in name else f"{other.stream.name}.{name}" for name in item)
        if left.split(".")[0] == other.stream.name:
            left, right = right, left
        both = replace(self, inputs=(*self.inputs, other))
        if both._resolve(right)[0] is not other.stream or both._resolve(left)[0] is other.stream:
            raise InvalidSetting(
                f"the key {item!r} does not connect {other.stream.name} with what is before it",
                f"pair a column of an earlier stream with one of {other.stream.name}",
            )
        both._key_type((left, right))
        return left, right

    def _selection(self, select: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
        if select is None:
            select = [
                f"{stream.name}.{c}" for stream in self.streams() for c in stream.schema.names
            ]
        if isinstance(select, Mapping):
            chosen = dict(select)
        else:
            names = [name.replace(".", "_", 1) for name in select]
            chosen = dict(zip(names, select, strict=True))
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise InvalidSetting(
                    f"several result columns would be called {', '.join(twice)}",
                    "name them yourself: select={'name': 'stream.column', …}",
                )
        for name, qualified in chosen.items():
            self._resolve(qualified)
            if name.startswith("_") or name in ("ts", "exp"):
                raise InvalidSetting(
                    f"a result column cannot be called {name!r}",
                    "ts and exp are the result's own lifetime, a leading _ is reserved: rename it",
                )
        return chosen

    def _check_residual(self, residual: Expression) -> None:
        for column in residual.columns():
            name = f"{column.relation}.{column.name}"
            actual = from_arrow(self.type_of(name))
            if column.type != actual:
                raise InvalidSetting(
                    f"{residual.sql()} reads {name} as {column.type}, but it is {actual}",
                    "give the column its own type, and cast it where another one is needed",
                )
        for node in residual.walk():
            kinds = dict.fromkeys(child.type for child in node.children())
            if len(kinds) > 1:
                raise InvalidSetting(
                    f"{node.sql()} combines {' with '.join(map(str, kinds))}",
                    "cast its operands to one type",
                )
        if residual.type != BOOLEAN:
            raise InvalidSetting(
                f"{residual.sql()} is of type {residual.type}", "a condition is TRUE or FALSE"
            )
        if not is_kernel_expression(residual):
            raise InvalidSetting(
                f"{residual.sql()} cannot be evaluated inside a join",
                "use comparisons, + - *, AND, OR, NOT, IS NULL; compute the rest on one stream",
            )

    def _resolve(self, qualified: str) -> tuple[Stream, str]:
        stream, _, column = qualified.partition(".")
        for source in self.streams():
            if source.name == stream and column in source.schema.names:
                return source, column
        raise _unknown(qualified, self.streams())


def _converts_alike(source: DataType, target: DataType) -> bool:
    """Whether Spark and Arrow convert every value alike, so that equal keys stay equal."""
    if source.name == "decimal" or target.name == "decimal":
        if target.name != "decimal":
            return False
        digits, scale = as_decimal(source).params
        return digits - scale <= target.params[0] - target.params[1] and scale <= target.params[1]
    return source == target or target.name != "timestamp"


def _columns(windowed: WindowedStream) -> tuple[Column, ...]:
    stream = windowed.stream
    return tuple(
        Column(stream.name, name, stream.type_of(name), name != stream.time)
        for name in stream.schema.names
    )


def _key_items(on: On) -> list[str | tuple[str, str]]:
    if isinstance(on, str):
        return [on]
    match on:
        case (str(left), str(right)) if "." in left and "." in right and isinstance(on, tuple):
            return [(left, right)]
    return list(on)


def _unknown(name: str, streams: Sequence[Stream]) -> InvalidSetting:
    listing = ", ".join(
        f"{stream.name}.{column}" for stream in streams for column in stream.schema.names
    )
    return InvalidSetting(f"there is no column {name}", f"columns are: {listing}")
