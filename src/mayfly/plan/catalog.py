"""What exists: streams, relations, NRRs, views, queries, archives and aggregates of users.

A catalog is a value; declaring or dropping something gives another catalog. Names are found
whatever the case of their letters, and are unique across all kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros
from mayfly.plan.expressions import Expression, quoted
from mayfly.plan.logical_operators import (
    GroupAggregate,
    Node,
    Output,
    OutputKind,
    RelationScan,
    StreamScan,
    check_letters,
)
from mayfly.plan.types import DataType, check_stored, parse_type
from mayfly.plan.user_aggregates import AggregateDefinition

TIME_TYPES = ("timestamp", "bigint")
"""Types a stream's time may have; BIGINT counts microseconds since the epoch."""


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type: DataType
    nullable: bool = True
    computed: Expression | None = None
    """How its value follows from the other columns of the row, if no source brings it."""


@dataclass(frozen=True)
class Connector:
    """Where rows come from or go to: ``parquet('in/link1', pattern => '*.gz')``."""

    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()


class Idle(Enum):
    """What moves the clock of a stream that sends nothing."""

    NONE = "NONE"
    WALL_CLOCK = "WALL CLOCK"
    PUNCTUATIONS = "PUNCTUATIONS"


@dataclass(frozen=True)
class Punctuation:
    """A row for which the condition holds says that no later row of its key comes."""

    keys: tuple[str, ...]
    condition: Expression

    def sql(self) -> str:
        """As CREATE STREAM says it."""
        return f"PUNCTUATION ({', '.join(map(quoted, self.keys))}) WHEN ({self.condition.sql()})"


@dataclass(frozen=True)
class StreamDefinition:
    """A stream: its schema, its time, the order of its rows and its clock."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    time: str
    sequence: tuple[str, ...] = ()
    slack: int = 0
    idle: Idle = Idle.NONE
    idle_delay: int = 0
    source: Connector | None = None
    dead_letters: Connector | None = None
    max_gap: int | None = None
    """How far ahead a row may be before it is doubted; None: as the source suggests."""
    unit_given: bool = False
    """Whether it was said what a whole number as time counts."""
    zone: str | None = None
    """The zone of its texts and times without one; None: that of the session."""
    keep: int | None = None
    """Of how many µs its rows are kept for one-time queries, by a query of their own."""
    punctuation: Punctuation | None = None

    kind = "stream"

    @property
    def supplied_columns(self) -> tuple[ColumnDefinition, ...]:
        """The columns that rows bring."""
        return tuple(column for column in self.columns if column.computed is None)

    def __post_init__(self) -> None:
        _check_columns(self.name, self.columns)
        time = _column(self.name, self.columns, self.time, "TIMESTAMP BY")
        object.__setattr__(self, "time", time.name)
        if time.type.name not in TIME_TYPES:
            raise InvalidSetting(
                f"the time column {time.name} of {self.name} has type {time.type}",
                "use TIMESTAMP, or BIGINT microseconds since the epoch",
            )
        order = _columns(self.name, self.columns, self.sequence, "SEQUENCE")
        object.__setattr__(self, "sequence", order)
        if self.punctuation is not None:
            keys = _columns(self.name, self.columns, self.punctuation.keys, "PUNCTUATION")
            if time.name in keys:
                raise InvalidSetting(
                    f"PUNCTUATION of {self.name} closes its time {time.name}, no later row has it",
                    "name the columns of what is over, such as the number of an order",
                )
            object.__setattr__(self, "punctuation", replace(self.punctuation, keys=keys))
        check_gap(self.name, self.max_gap, self.slack)
        if self.zone is not None:
            check_zone(self.zone)


@dataclass(frozen=True)
class RelationDefinition:
    """A stored table: a RELATION changes earlier results, an NRR does not (thesis 3.3.1)."""

    name: str
    columns: tuple[ColumnDefinition, ...]
    key: tuple[str, ...] = ()
    retroactive: bool = True
    source: Connector | None = None

    def __post_init__(self) -> None:
        _check_columns(self.name, self.columns)
        object.__setattr__(self, "key", _columns(self.name, self.columns, self.key, "KEY"))
        if not self.retroactive and not self.key:
            raise InvalidSetting(
                f"the NRR {self.name} has no key",
                "declare KEY columns: a deleted key must never be used again",
            )

    @property
    def kind(self) -> str:
        return "relation" if self.retroactive else "NRR"


@dataclass(frozen=True)
class QueryDefinition:
    """A registered query; one with SERVE may also be refreshed early (thesis 8.4.1)."""

    name: str
    plan: Output
    text: str = field(compare=False)
    sink: Connector | None = None

    kind = "query"


@dataclass(frozen=True)
class ViewDefinition:
    """A name for a query, to be read by others; nothing runs for it alone.

    With Istream, Dstream or Rstream it is a derived stream.
    """

    name: str
    plan: Output
    text: str = field(compare=False)
    """The query with what it reads by name written out."""

    @property
    def kind(self) -> str:
        return "view" if self.plan.kind is OutputKind.VIEW else "stream"


@dataclass(frozen=True)
class LayoutChoice:
    """A layout by name, its sizes and how it is updated: WATA(4) USING PACKED SHADOW."""

    name: str
    sizes: tuple[int, ...] = ()
    technique: str | None = None


@dataclass(frozen=True)
class ArchiveDefinition:
    """An archive fed by a query.

    ``soft`` is the number of updates for which dead rows may stay (0: hard); ``physical_within``
    bounds the time from a row's death to the removal of its bytes.
    """

    name: str
    plan: Output
    text: str = field(compare=False)
    key: tuple[str, ...]
    refresh: int
    layout: LayoutChoice = LayoutChoice("AUTO")
    soft: int = 0
    physical_within: int | None = None
    max_lifetime: int | None = None
    max_gap: int | None = None
    dead_letters: Connector | None = None

    kind = "archive"


Reader: TypeAlias = QueryDefinition | ArchiveDefinition | ViewDefinition
Definition: TypeAlias = StreamDefinition | RelationDefinition | AggregateDefinition | Reader
D = TypeVar(
    "D",
    StreamDefinition,
    RelationDefinition,
    AggregateDefinition,
    QueryDefinition,
    ArchiveDefinition,
    ViewDefinition,
)


@dataclass(frozen=True)
class Catalog:
    """Everything declared, in the order it was declared."""

    entries: Mapping[str, Definition] = field(default_factory=lambda: MappingProxyType({}))
    offers: str = "stream or relation"
    """What FROM may name, in messages."""

    def lookup(self, name: str) -> Definition | None:
        return self.entries.get(name.casefold())

    def __iter__(self) -> Iterator[Definition]:
        return iter(self.entries.values())

    def of_kind(self, kind: type[D]) -> tuple[D, ...]:
        return tuple(entry for entry in self if isinstance(entry, kind))

    def declare(self, entry: Definition) -> Catalog:
        existing = self.lookup(entry.name)
        if existing is not None:
            article = "an" if existing.kind[0] in "aN" else "a"
            raise InvalidSetting(
                f"there is already {article} {existing.kind} called {existing.name}",
                "choose another name, or DROP it first",
            )
        return replace(
            self, entries=MappingProxyType({**self.entries, entry.name.casefold(): entry})
        )

    def drop(self, name: str) -> Catalog:
        """Without the entry; refused while a query, archive or view reads it."""
        users = [user.name for user in self.users(name)]
        if users:
            raise InvalidSetting(
                f"{name} is still read by {', '.join(users)}", "drop its readers first"
            )
        kept = {key: entry for key, entry in self.entries.items() if key != name.casefold()}
        return replace(self, entries=MappingProxyType(kept))

    def with_code(self, plan: Output) -> Output:
        """The plan with the classes of users' aggregates that this catalog has."""

        def equipped(node: Node) -> Node:
            if not isinstance(node, GroupAggregate) or not any(c.user for c in node.aggregates):
                return node
            users = {entry.name.casefold(): entry for entry in self.of_kind(AggregateDefinition)}
            calls = [
                replace(call, user=users.get(call.user.name.casefold())) if call.user else call
                for call in node.aggregates
            ]
            return replace(node, aggregates=tuple(calls))

        changed = plan.transform(equipped)
        assert isinstance(changed, Output)
        return changed

    def users(self, name: str) -> tuple[Reader, ...]:
        """The queries, archives and views that read something."""
        readers: tuple[Reader, ...] = (
            *self.of_kind(QueryDefinition),
            *self.of_kind(ArchiveDefinition),
            *self.of_kind(ViewDefinition),
        )
        return tuple(user for user in readers if name.casefold() in _read_by(user.plan))


def _read_by(plan: Output) -> set[str]:
    names = {name.casefold() for name in plan.names}
    for node in plan.walk():
        if isinstance(node, StreamScan):
            names.add(node.stream.casefold())
        elif isinstance(node, RelationScan):
            names.add(node.relation.casefold())
        elif isinstance(node, GroupAggregate):
            names |= {call.user.name.casefold() for call in node.aggregates if call.user}
    return names


def columns_from(types: Iterable[tuple[str, str]]) -> tuple[ColumnDefinition, ...]:
    """Columns from (name, Spark type text) pairs, as ``DataFrame.dtypes`` lists them."""
    return tuple(ColumnDefinition(name, parse_type(text)) for name, text in types)


def check_gap(stream: str, max_gap: int | None, slack: int) -> None:
    """Rows that are out of order by the slack must not be taken for wrong ones."""
    if max_gap is not None and max_gap <= slack:
        raise InvalidSetting(
            f"MAX GAP {format_micros(max_gap)} of {stream} is not larger than its "
            f"SLACK {format_micros(slack)}",
            "use a larger gap: rows may be out of order by the slack",
        )


def check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidSetting(
            f"there is no time zone {name!r}", "use a name such as Europe/Berlin or UTC"
        ) from None


def _check_columns(owner: str, columns: tuple[ColumnDefinition, ...]) -> None:
    check_letters(owner)
    if not owner:
        raise InvalidSetting("a stream or relation has no name", "give it one")
    if not columns:
        raise InvalidSetting(f"{owner} has no columns", "declare at least one")
    seen: set[str] = set()
    for column in columns:
        check_letters(column.name)
        if column.name.casefold() in seen:
            raise InvalidSetting(
                f"{owner} has two columns called {column.name}", "names differ in more than case"
            )
        seen.add(column.name.casefold())
        check_stored(column.type)


def _columns(
    owner: str, columns: tuple[ColumnDefinition, ...], names: tuple[str, ...], clause: str
) -> tuple[str, ...]:
    """Columns that can be compared, as they are declared."""
    chosen = [_column(owner, columns, name, clause) for name in names]
    for column in chosen:
        _check_comparable(owner, column)
    return tuple(column.name for column in chosen)


def _column(
    owner: str, columns: tuple[ColumnDefinition, ...], name: str, clause: str
) -> ColumnDefinition:
    for column in columns:
        if column.name.casefold() == name.casefold():
            return column
    names = ", ".join(column.name for column in columns)
    raise InvalidSetting(f"{owner} has no column {name} for {clause}", f"its columns are: {names}")


def _check_comparable(owner: str, column: ColumnDefinition) -> None:
    if not column.type.is_comparable:
        raise InvalidSetting(
            f"the column {column.name} of {owner} has type {column.type}",
            "only columns that can be compared may order or identify rows",
        )
