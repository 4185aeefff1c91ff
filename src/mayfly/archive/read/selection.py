"""What a read asks for besides its keys, and what it touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.row_counts import Positions
from mayfly.display import Facts
from mayfly.storage.segment import EXP, TS, Segment

Kind = TypeVar("Kind", bound=Hashable)
Size = str | int | timedelta
Window = Size | Mapping[str, Size]
"""A window smaller than the longest lifetime, or one for each of several time columns; of windows
of a number of rows, fewer rows, for all windows or by their columns of positions."""


@dataclass(frozen=True)
class KeyRange:
    """Keys from ``low`` to ``high``, both included; None leaves an end open."""

    low: Any = None
    high: Any = None


@dataclass(frozen=True)
class Selection:
    """Which rows a read selects, besides its keys."""

    as_of: int
    generated_from: int | None = None
    generated_to: int | None = None
    soft: bool = False
    shorter: int = 0
    """By how much every row is taken to live shorter, µs (results-index-2005, 3.4)."""
    inputs: tuple[tuple[str, int], ...] = ()
    """Time columns, and how long ago their times may be at most."""
    after: tuple[tuple[str, int], ...] = ()
    """Columns of positions, and the last that has left the window."""
    rows: tuple[tuple[str, int], ...] = ()
    """Windows of fewer rows than are kept, by their columns of positions."""

    def may_hold(self, segment: Segment) -> bool:
        if not self.soft and segment.dead_at(self.as_of + self.shorter):
            return False
        if self.generated_from is not None and segment.ts.high < self.generated_from:
            return False
        if self.generated_to is not None and segment.ts.low > self.generated_to:
            return False
        return self.soft or bool(segment.ts.low <= self.as_of)

    def wants_all_of(self, segment: Segment) -> bool:
        """Whether no row of the file can be unwanted, by what the manifest knows of it."""
        alive = self.soft or (
            segment.exp.low > self.as_of + self.shorter and segment.ts.high <= self.as_of
        )
        anytime = self.generated_from is None and self.generated_to is None
        return alive and anytime and not self.inputs and not self.after

    def mask(self, rows: pa.Table, ts: str = TS, exp: str = EXP) -> pa.ChunkedArray | None:
        """Which rows are wanted, by the columns that hold their times; None if all are."""
        terms = []
        if not self.soft:
            until = self.as_of + self.shorter
            terms.append(pc.greater(_micros(rows[exp]), until))
            terms.append(pc.less_equal(_micros(rows[ts]), self.as_of))
        terms += [pc.greater(rows[name], last) for name, last in self.after]
        for name, size in self.inputs:
            times = _micros(rows[name])
            terms.append(pc.fill_null(pc.greater(times, self.as_of - size), False))
        if self.generated_from is not None:
            terms.append(pc.greater_equal(_micros(rows[ts]), self.generated_from))
        if self.generated_to is not None:
            terms.append(pc.less_equal(_micros(rows[ts]), self.generated_to))
        return all_of(terms)

    def at_positions(self, positions: Positions, latest: int) -> Selection:
        """The selection for windows of a number of rows, which time alone does not move."""
        if self.soft or not positions.now:
            return self
        after = tuple(positions.within(self.rows).gone.items())
        return replace(self, as_of=min(self.as_of, latest), after=after)


@dataclass(slots=True, repr=False)
class ReadReport(Facts):
    """What a read touched."""

    constituents: int = 0
    files: int = 0
    row_groups: int = 0
    bytes: int = 0
    rows: int = 0

    def take(self, other: ReadReport) -> None:
        """Add what another read touched."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def in_pieces(
    files: Iterable[tuple[Kind, Segment]], most: int
) -> Iterator[tuple[Kind, list[Segment]]]:
    """Files of equal kind together, until they have so many bytes."""
    waiting: dict[Kind, list[Segment]] = {}
    sizes: Counter[Kind] = Counter()
    for kind, segment in files:
        waiting.setdefault(kind, []).append(segment)
        sizes[kind] += segment.bytes
        if sizes[kind] >= most:
            del sizes[kind]
            yield kind, waiting.pop(kind)
    yield from waiting.items()


def all_of(terms: Sequence[Any]) -> Any:
    """All conditions at once; None if there are none."""
    whole = None
    for term in terms:
        whole = term if whole is None else pc.and_(whole, term)
    return whole


def _micros(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if column.type == pa.int64() else column.cast(pa.int64())
