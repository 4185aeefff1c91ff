"""Rows for which newcomers wait that read panes of rows, until their answers are whole.

Idea: at which instant the row comes with which a window over the latest rows is full is not known,
so the entry of a query in the checkpoint waits for its number; once it has come, the entry says
from which instant the answers are whole. Cost: O(queries) a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mayfly.display import counted
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.runtime.clock import Clocks

WHOLE_ROWS = "whole_rows"
"""What a query waits for that reads panes of rows."""
NOTHING = MIN_TIME - 1
"""Until when rows are missing if none is."""


@dataclass(frozen=True)
class RowCount:
    """How far a state has numbered the rows of a stream, and the instant up to which rows came
    that it has not all got."""

    rows: int = 0
    lacks_until: int = NOTHING

    def is_whole(self, clock: int) -> bool:
        return self.lacks_until < clock


@dataclass(frozen=True)
class AwaitedRow:
    """The row of a stream with which the answer of a newcomer is whole; its ``number`` is not known
    while rows come before which others were not counted."""

    state: str
    stream: str
    length: int
    slide: int
    lacks_until: int
    number: int | None

    @staticmethod
    def of(
        state: str, stream: str, window: tuple[int, int], known_from: int, count: RowCount
    ) -> AwaitedRow | None:
        """None if all rows of the last refresh of a window, given with its slide, are known; no
        ``known_from`` yet is NEVER."""
        length, slide = window
        first = max(count.rows // slide * slide - length, 0) + 1
        if known_from <= first:
            return None
        number = None if known_from == NEVER else _first_full(length, slide, known_from)
        return AwaitedRow(state, stream, length, slide, count.lacks_until, number)

    def after(self, rows: int, clock: int) -> AwaitedRow | None:
        """When so many rows are counted and instants before the clock are closed."""
        if self.number is None and self.lacks_until < clock:
            number = _first_full(self.length, self.slide, rows + 1)
            return AwaitedRow(**{**asdict(self), "number": number})
        return None if self.number is not None and self.number <= rows else self

    @property
    def words(self) -> str:
        if self.number is None:
            rows = counted(self.length, "row")
            return f"{rows} of {self.stream} have come after {instant_text(self.lacks_until)}"
        return f"row {self.number:,} of {self.stream} has come"


def _first_full(length: int, slide: int, known_from: int) -> int:
    """The first refresh whose rows are all known."""
    return -(-(known_from - 1 + length) // slide) * slide


_UNCOUNTED = {"numbers": {"count": 0}}


def entry_waiting(awaited: Iterable[AwaitedRow], whole_from: int) -> dict[str, Any]:
    """How a query's entry says which rows it waits for, and from when it were whole with them."""
    return {"rows": [asdict(row) for row in awaited], "from": whole_from}


def awaited_rows(entry: Mapping[str, Any]) -> list[AwaitedRow]:
    return [AwaitedRow(**row) for row in (entry.get(WHOLE_ROWS) or {}).get("rows", ())]


def entries_after(
    entries: Mapping[str, Mapping[str, Any]], states: Mapping[str, Any], clocks: Clocks
) -> dict[str, Any]:
    """What changes in the entries of queries by the rows that were counted: at most ``queries``.

    The row may have come before the last instant that is closed: the answer is whole at that one
    for certain.
    """
    changed = dict[str, Any]()
    for name, entry in entries.items():
        before = awaited_rows(entry)
        closed = [clocks.of((row.stream,)).query for row in before]
        after = [
            row.after(states.get(f"task/{row.state}/0", _UNCOUNTED)["numbers"]["count"], clock)
            for row, clock in zip(before, closed, strict=True)
        ]
        left = [row for row in after if row is not None]
        if before and not left:
            whole = max(entry[WHOLE_ROWS]["from"], max(closed) - 1)
            changed[name] = {**entry, "whole_from": whole, WHOLE_ROWS: None}
        elif left != before:
            waits = entry_waiting(left, entry[WHOLE_ROWS]["from"])
            changed[name] = {**entry, WHOLE_ROWS: waits}
    return {"queries": {**entries, **changed}} if changed else {}


def warming_words(entry: Mapping[str, Any], instant: int) -> str:
    """Until when a query's answers lack earlier rows, seen from an instant; empty if they are
    whole."""
    whole = entry.get("whole_from")
    if whole is None or whole <= instant:
        return ""
    rows = awaited_rows(entry)
    if rows:
        return f"until {' and '.join(row.words for row in rows)}"
    return "for ever" if whole == NEVER else f"until {instant_text(whole)}"
