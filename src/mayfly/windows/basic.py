"""What windows of all kinds share: rows fill basic windows, and full ones make the window slide.

Idea (report section 3): tuples fill a buffer outside the window; when it is full, by rows or by
time, the window slides, and queries with factor k run at every k-th slide. Rows with times wait
until their instant is closed, so that disorder before the clock does no harm.
Invariant: rows enter in stream order, by (time, arrival). Cost: O(1) per row beside the slide.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import pairwise
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa

from mayfly.errors import BadInput, InvalidSetting
from mayfly.lifetime import instant, instant_text
from mayfly.windows.domain import Int64s, arrow_array, arrow_table
from mayfly.windows.pace import Refresh, Rows, Span

W = TypeVar("W", bound="PacedWindow")
Take = Callable[[int, int], None]
"""Puts the rows of a batch from one place up to another into the basic window that is filling."""
MOST_SLOTS = 2**24
_FARTHEST = 2**62


class Watch(Generic[W]):
    """A function that is called at every k-th refresh; assign ``every`` to change k."""

    def __init__(self, function: Callable[[W, Refresh], None], every: int) -> None:
        if not callable(function):
            raise InvalidSetting(
                f"{function!r} cannot be called", "give a function of a window and a Refresh"
            )
        self.function, self.every, self.runs = function, every, 0

    @property
    def every(self) -> int:
        return self._every

    @every.setter
    def every(self, value: int) -> None:
        self._every = at_least_one(value, "every")


class Intake(ABC):
    """What takes rows in: in the order of the stream, each batch whole or not at all."""

    def __init__(self, by: Rows | Span, slots: int, attribute: str, time: str) -> None:
        if not isinstance(by, Rows | Span):
            raise InvalidSetting(
                f"a window cannot go by {by!r}", 'give by=Rows(1000) or by=Span("1 min")'
            )
        self.by, self.slots = by, at_least_one(slots, "slots")
        if self.slots > MOST_SLOTS:
            raise InvalidSetting(
                f"{self.slots:,} basic windows are too many", "let the window slide less often"
            )
        self.attribute, self.time = _column_name(attribute), _column_name(time)
        if attribute == time:
            raise InvalidSetting(
                f"the column {time!r} holds both the values and their times",
                "give attribute= and time= different names",
            )
        self._pending: list[pa.Table] = []
        self._clock: int | None = None
        self._watches: list[Watch[Any]] = []
        self._busy = False
        self._failures: list[Exception] = []

    # ── input ─────────────────────────────────────────────────────────────────────────────

    def append(self, batch: object, times: object = None) -> None:
        """Tuples in stream order: values, or a table with a column ``attribute``.

        Where the window goes by time, or the table has times, tuples wait for ``advance``.
        """
        with self._alone():
            rows = self._as_rows(batch, times)
            timed = self.time in rows.schema.names
            if isinstance(self.by, Span) and not timed:
                raise BadInput(
                    "a window that goes by time needs the time of each row",
                    f"give append(values, times), or a table with a column {self.time!r}",
                )
            if timed:
                rows = self._on_time(rows)
            rows = self._admit(rows)
            if timed:
                self._pending.append(rows)
            else:
                self._take(rows, None)

    def advance(self, clock: int | date | str) -> None:
        """Close all instants before ``clock``: waiting rows enter, full basic windows attach."""
        moment = instant(clock)
        if self._clock is not None and moment < self._clock:
            raise BadInput(
                f"the clock cannot go back from {instant_text(self._clock)} "
                f"to {instant_text(moment)}",
                "advance to a later instant",
            )
        with self._alone():
            self._clock = moment
            self._take(*self._take_closed(moment))

    # ── what the kinds do ─────────────────────────────────────────────────────────────────

    @abstractmethod
    def _admit(self, rows: pa.Table) -> pa.Table:
        """The columns that the window keeps, in its types; refuses what it could not take in."""

    @abstractmethod
    def _take(self, rows: pa.Table, times: Int64s | None) -> None:
        """Take in rows that were admitted, whose instants are closed if they have ``times``."""

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A slide calls functions of users; none of them may move the window that is sliding."""
        if self._busy:
            raise BadInput(
                "the window is sliding, and cannot take rows or advance",
                "do that after append or advance has returned, not in a function of on_refresh",
            )
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._failures:
            first, self._failures = self._failures[0], []
            raise first

    # ── batches ───────────────────────────────────────────────────────────────────────────

    def _as_rows(self, batch: object, times: object) -> pa.Table:
        rows = arrow_table(batch, self.attribute)
        if times is not None:
            column = arrow_array(times)
            if self.time in rows.schema.names or len(column) != rows.num_rows:
                raise BadInput(
                    f"{len(column)} times for {rows.num_rows} rows with the columns "
                    f"{', '.join(rows.schema.names)}",
                    f"give every row one time: as times=, or as the column {self.time!r}",
                )
            rows = rows.append_column(self.time, column)
        if self.attribute not in rows.schema.names:
            raise BadInput(
                f"the batch has no column {self.attribute!r}, only "
                f"{', '.join(rows.schema.names) or 'none'}",
                "name the column of values with attribute=",
            )
        return rows

    def _on_time(self, rows: pa.Table) -> pa.Table:
        """Rows with their times in µs, of which none is late."""
        instants = _micros_of(rows.column(self.time))
        if self._clock is not None and len(instants) and instants.min() < self._clock:
            raise BadInput(
                f"a row of {instant_text(int(instants.min()))} is late: all instants before "
                f"{instant_text(self._clock)} are closed; nothing of the batch was taken",
                "advance the clock less far, or leave late rows out",
            )
        return rows.set_column(
            rows.schema.get_field_index(self.time), self.time, pa.array(instants)
        )

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


class PacedWindow(Intake):
    """A window that slides by whole basic windows."""

    def __init__(self, by: Rows | Span, slots: int, attribute: str, time: str) -> None:
        super().__init__(by, slots, attribute, time)
        self._filled = 0
        self._slides = 0
        self._number: int | None = None
        self._step = 1

    def on_refresh(self, function: Callable[[Self, Refresh], None], every: int = 1) -> Watch[Self]:
        """Have a function called at every k-th refresh, after the slide."""
        watch: Watch[Self] = Watch(function, every)
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
    def _open(self, rows: pa.Table) -> Take:
        """Begin to take rows in, which is done part by part."""

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

    def _take(self, rows: pa.Table, times: Int64s | None) -> None:
        if isinstance(self.by, Rows):
            self._fill_rows(rows, times)
        else:
            assert times is not None
            self._fill_spans(self.by, rows, times)

    def _fill_rows(self, rows: pa.Table, times: Int64s | None) -> None:
        """Cut rows into basic windows of a number of rows."""
        assert isinstance(self.by, Rows)
        start, size, due = 0, rows.num_rows, list[Watch[Any]]()
        take = self._open(rows)
        while start < size:
            end = min(size, start + self.by.count - self._filled)
            self._fill(take, start, end)
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

    def _fill_spans(self, by: Span, rows: pa.Table, times: Int64s) -> None:
        """Cut rows, and the silence up to the clock, into basic windows of a span."""
        numbers = -((instant(by.origin) - times) // by.micros)
        starts = np.flatnonzero(np.append(True, np.diff(numbers) != 0)[: len(numbers)]).tolist()
        take = self._open(rows)
        for start, end in pairwise([*starts, len(numbers)]):
            if self._number is None:
                self._number = int(numbers[start])
            self._reach(int(numbers[start]))
            self._fill(take, start, end)
        # The basic window of the last closed instant is full only if that instant is its last.
        assert self._clock is not None
        last = by.of(self._clock - 1)
        self._reach(last if by.end(last) >= self._clock else last + 1)

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
            every = watch.every * self._step
            due = last - last % every
            repeats = last // every - (first - 1) // every
            if repeats > 0:
                self._run(watch, Refresh(self._slides, self.by.end(due), self.partial, repeats))

    def _fill(self, take: Take, start: int, end: int) -> None:
        self._filled += end - start
        take(start, end)

    def _slide(self) -> None:
        self._replace_oldest()
        self._slides += 1
        self._filled = 0

    def _due(self, number: int) -> list[Watch[Any]]:
        return [watch for watch in self._watches if number % (watch.every * self._step) == 0]

    def _evaluate(self, due: Sequence[Watch[Any]], as_of: int) -> None:
        for watch in due:
            self._run(watch, Refresh(self._slides, as_of, self.partial))

    def _run(self, watch: Watch[Any], refresh: Refresh) -> None:
        """A function that fails costs no rows: the batch is taken whole, then it is raised."""
        watch.runs += refresh.repeats
        try:
            watch.function(self, refresh)
        except Exception as error:
            self._failures.append(error)


def at_least_one(value: int, name: str, least: int = 1) -> int:
    if not isinstance(value, bool) and hasattr(value, "__index__") and value >= least:
        return operator.index(value)
    raise InvalidSetting(f"{name} is {value!r}", f"give a whole number of {least} or more")


def _column_name(name: str) -> str:
    if isinstance(name, str) and name:
        return name
    raise InvalidSetting(f"{name!r} is not the name of a column", "give a text")


def _micros_of(column: pa.ChunkedArray) -> Int64s:
    array = arrow_array(column)
    if array.null_count:
        raise BadInput("a row has no time", "leave out rows whose time is NULL")
    if pa.types.is_null(array.type):
        array = array.cast(pa.int64())
    try:
        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("us"))
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us", array.type.tz))
        elif not pa.types.is_integer(array.type):
            raise BadInput(f"times of type {array.type}", "give timestamps, or whole µs since 1970")
        micros = np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False))
    except pa.ArrowInvalid as error:
        raise BadInput(
            f"times that are not whole microseconds: {error}", "round them to microseconds"
        ) from None
    if len(micros) and max(-int(micros.min()), int(micros.max())) > _FARTHEST:
        raise BadInput(
            "a time lies more than 146,000 years from 1970", "give µs since 1970, not ns"
        )
    return micros
