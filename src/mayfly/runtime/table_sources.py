"""What one-time queries read: tables with rows at an instant, and streams whose rows are stored."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from mayfly.plan.catalog import ColumnDefinition, StreamDefinition
from mayfly.plan.logical_operators import Output
from mayfly.plan.window_kinds import Window

Keys = Mapping[str, tuple[Any, ...]]
"""By column: the values that are looked for."""


SCAN = "scan"
FILES = "file"
"""The kind of a stream that is read from the files it declares."""


def access_words(keys: Collection[str]) -> str:
    return f"by key ({', '.join(keys)})" if keys else SCAN


class TableSource(Protocol):
    """Something with a name, columns, and rows at an instant."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def columns(self) -> tuple[ColumnDefinition, ...]: ...
    @property
    def streams(self) -> tuple[str, ...]:
        """Those whose rows it is made from, as far as that is known."""

    def latest(self) -> int | None:
        """The last instant that it shows; None if it shows whichever others do."""

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        """The columns of the rows at an instant; of others than with these keys, perhaps none."""

    def access(self, keys: Keys) -> str:
        """How such rows are read, in words."""

    def missing(self, instant: int) -> Iterator[str]:
        """Why rows of the instant may be missing."""


class SynopsisSource(TableSource, Protocol):
    """A part of a query, answered from a synopsis of streams whose rows are not kept."""

    def edge(self, instant: int) -> int | None:
        """The last instant up to this one that it shows."""


class Synopses(Protocol):
    """What can stand for a part of a query."""

    @property
    def tables(self) -> Mapping[str, SynopsisSource]:
        """Those that stand for parts now, by name."""

    @property
    def refusals(self) -> Mapping[str, str]:
        """By stream: why its synopses stand for nothing."""

    def substituted(self, plan: Output) -> Output:
        """The plan with tables in the place of what synopses answer."""


class StreamSource(Protocol):
    """A stream whose rows can be read, behind windows."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def definition(self) -> StreamDefinition: ...
    @property
    def streams(self) -> tuple[str, ...]: ...

    def latest(self) -> int | None:
        """The last instant that its rows show; None if there are none."""

    def rows_at(self, instant: int) -> pa.Table:
        """All rows that windows of the instant may hold."""

    def missing(self, instant: int) -> Iterator[str]:
        """Why rows of the instant may be missing."""

    def access(self) -> str:
        """How its rows are read, in words."""

    def obstacle(self, window: Window) -> tuple[str, str] | None:
        """Why a window cannot be answered from its rows, and what to write; None if it can."""
