"""What windows of all kinds share: rows fill basic windows, and full ones make the window slide.

Idea (report section 3): tuples fill a buffer outside the window; when it is full, by rows or by
time, the window slides, and queries with factor k run at every k-th slide. Rows with times wait
until their instant is closed, so that disorder before the clock does no harm.
Invariant: rows enter in stream order, by (time, arrival). Cost: O(1) per row beside the slide.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from mayfly.errors import BadInput, InvalidSetting
from mayfly.lifetime import instant, instant_text
from mayfly.windows.domain import Int64s, arrow_array
from mayfly.windows.pace import Refresh, Rows, Span

W = TypeVar("W", bound="PacedWindow")


@dataclass(eq=False)
class Watch(Generic[W]):
    """A function that is called at every k-th slide; assign ``every`` to change k."""

    function: Callable[[W, Refresh], None]
    every: int
    runs: int = 0


class PacedWindow(ABC):
    """A window that slides by whole basic windows."""

    def __init__(self, by: Rows | Span, slots: int, attribute: str, time: str) -> None:
        self.by, self.slots = by, at_least_one(slots, "slots")
        self.attribute, self.time = attribute, time
        self._pending: list[pa.Table] = []
        self._filled = 0
        self._slides = 0
        self._number: int | None = None
        self._clock: int | None = None
        self._watches: list[Watch[Any]] = []

    # ── input ─────────────────────────────────────────────────────────────────────────────

    def append(self, batch: object, times: object = None) -> None:
        """Tuples in stream order: values, or a table with a column ``attribute``.

        Where the window goes by time, or the table has times, tuples wait for ``advance``.
        """
        rows = self._as_rows(batch, times)
        if self.time not in rows.schema.names:
            if isinstance(self.by, Span):
                raise BadInput(
                    "a window that goes by time needs the time of each row",
                    f"give append(values, times), or a table with a column {self.time!r}",
                )
            self._fill_rows(rows, None)
            return
        instants = _micros_of(rows.column(self.time))
        if self._clock is not None and len(instants) and instants.min() < self._clock:
            raise BadInput(
                f"a row of {instant_text(int(instants.min()))} is late: all instants before "
                f"{instant_text(self._clock)} are closed; nothing of the batch was taken",
                "advance the clock less far, or leave late rows out",
            )
        self._pending.append(
            rows.set_column(rows.schema.get_field_index(self.time), self.time, pa.array(instants))
        )

    def advance(self, clock: int | datetime | str) -> None:
        """Close all instants before ``clock``: waiting rows enter, full basic windows attach."""
        moment = instant(clock)
        if self._clock is not None and moment < self._clock:
            raise BadInput(
                f"the clock cannot go back from {instant_text(self._clock)} "
                f"to {instant_text(moment)}",
                "advance to a later instant",
            )
        self._clock = moment
        closed, times = self._take_closed(moment)
        if isinstance(self.by, Rows):
            self._fill_rows(closed, times)
            return
        numbers = -((instant(self.by.origin) - times) // self.by.micros)
        starts = np.flatnonzero(np.append(True, np.diff(numbers) != 0)[: len(numbers)]).tolist()
        for start, end in pairwise([*starts, len(numbers)]):
            if self._number is None:
                self._number = int(numbers[start])
            self._reach(int(numbers[start]))
            self._fill(closed.slice(start, end - start))
        # The basic window of the last closed instant is full only if that instant is its last.
        last = self.by.of(moment - 1)
        self._reach(last if self.by.end(last) >= moment else last + 1)

    def on_refresh(self, function: Callable[[Self, Refresh], None], every: int = 1) -> Watch[Self]:
        """Have a function called after every k-th slide."""
        watch = Watch(function, at_least_one(every, "every"))
        self._watches.append(watch)
        return watch

    @property
    def partial(self) -> bool:
        """Whether fewer basic windows than slots have been attached."""
        return self._slides < self.slots

    @property
    def slides(self) -> int:
        """How many basic windows have been attached."""
        return self._slides

    # ── what the kinds do ─────────────────────────────────────────────────────────────────

    @abstractmethod
    def _take_in(self, rows: pa.Table) -> None:
        """Put rows into the basic window that is filling."""

    @abstractmethod
    def _replace_oldest(self) -> None:
        """Expire the oldest basic window if there is one, and attach the buffer."""

    @abstractmethod
    def _is_empty(self) -> bool:
        """Whether no row is attached."""

    @abstractmethod
    def _clear(self) -> None:
        """Make every slot that of an empty basic window."""

    # ── slides ────────────────────────────────────────────────────────────────────────────

    def _fill_rows(self, rows: pa.Table, times: Int64s | None) -> None:
        """Cut rows into basic windows of a number of rows."""
        assert isinstance(self.by, Rows)
        start, size, due = 0, rows.num_rows, list[Watch[Any]]()
        while start < size:
            end = min(size, start + self.by.count - self._filled)
            self._fill(rows.slice(start, end - start))
            start = end
            if self._filled < self.by.count:
                continue
            self._slide()
            due += [watch for watch in self._due(self._slides) if watch not in due]
            last = start + self.by.count
            if times is not None and last <= size and times[last - 1] == times[start - 1]:
                continue  # one evaluation for all slides of an instant
            as_of = self._slides * self.by.count if times is None else int(times[start - 1])
            self._evaluate(due, as_of)
            due = []

    def _reach(self, number: int) -> None:
        """Attach every basic window before the given one."""
        assert isinstance(self.by, Span)
        while self._number is not None and self._number < number:
            if self._filled == 0 and self._is_empty() and number - self._number > 1:
                self._skip(number)
                return
            self._slide()
            self._evaluate(self._due(self._number), self.by.end(self._number))
            self._number += 1

    def _skip(self, number: int) -> None:
        """Slides of an empty window change nothing: all of them at once."""
        assert isinstance(self.by, Span)
        assert self._number is not None
        first, last = self._number, number - 1
        self._slides += number - first
        self._number = number
        self._clear()
        for watch in self._watches:
            due = last - last % watch.every
            repeats = last // watch.every - (first - 1) // watch.every
            if repeats > 0:
                self._run(watch, Refresh(self._slides, self.by.end(due), self.partial, repeats))

    def _fill(self, rows: pa.Table) -> None:
        self._filled += rows.num_rows
        self._take_in(rows)

    def _slide(self) -> None:
        self._replace_oldest()
        self._slides += 1
        self._filled = 0

    def _due(self, number: int) -> list[Watch[Any]]:
        return [watch for watch in self._watches if number % watch.every == 0]

    def _evaluate(self, due: Sequence[Watch[Any]], as_of: int) -> None:
        for watch in due:
            self._run(watch, Refresh(self._slides, as_of, self.partial))

    def _run(self, watch: Watch[Any], refresh: Refresh) -> None:
        watch.runs += refresh.repeats
        watch.function(self, refresh)

    def _as_rows(self, batch: object, times: object) -> pa.Table:
        rows = self._table(batch)
        if times is not None:
            rows = rows.append_column(self.time, arrow_array(times))
        if self.attribute not in rows.schema.names:
            raise BadInput(
                f"the batch has no column {self.attribute!r}, only "
                f"{', '.join(rows.schema.names) or 'none'}",
                "name the column of values with attribute=",
            )
        return rows

    def _table(self, batch: object) -> pa.Table:
        if isinstance(batch, pa.Table):
            return batch
        if isinstance(batch, pa.RecordBatch):
            return pa.Table.from_batches([batch])
        if type(batch).__module__.startswith("pandas") and hasattr(batch, "columns"):
            return pa.Table.from_pandas(batch, preserve_index=False)
        return pa.table({self.attribute: arrow_array(batch)})

    def _take_closed(self, clock: int) -> tuple[pa.Table, Int64s]:
        """Waiting rows whose instants are closed, in stream order, and their times."""
        if not self._pending:
            return pa.table({self.attribute: pa.nulls(0)}), np.empty(0, np.int64)
        waiting = pa.concat_tables(self._pending, promote_options="default")
        times = _micros_of(waiting.column(self.time))
        order = np.argsort(times, kind="stable")
        closed = order[times[order] < clock]
        rest = np.sort(order[times[order] >= clock])
        self._pending = [waiting.take(pa.array(rest))] if len(rest) else []
        return waiting.take(pa.array(closed)), times[closed]


def at_least_one(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidSetting(f"{name} is {value!r}", "give a whole number of 1 or more")
    return value


def _micros_of(column: pa.ChunkedArray) -> Int64s:
    array = arrow_array(column)
    if array.null_count:
        raise BadInput("a row has no time", "leave out rows whose time is NULL")
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    if not pa.types.is_integer(array.type):
        raise BadInput(f"times of type {array.type}", "give timestamps, or whole µs since 1970")
    return np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
