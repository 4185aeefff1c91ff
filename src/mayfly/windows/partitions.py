"""``PARTITION BY p ROWS n SLIDE b ROWS``: a window of its own for each value of a column.

Idea: each partition has a circular array and a buffer, and slides when its own buffer is full; an
idle partition keeps its rows. Rows wait for the clock together, so that a batch is taken or refused
whole. Cost: as that of a window, and a search for the partition of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, NoReturn, Unpack

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.display import counted
from mayfly.errors import BadInput, InvalidSetting
from mayfly.keywords import known_settings
from mayfly.windows.basic import Intake, Watch
from mayfly.windows.domain import Domain, Int64s
from mayfly.windows.pace import Refresh, Rows
from mayfly.windows.window import SlidingWindow, WindowIndexes


class Partition(SlidingWindow):
    """The window of one partition, to be asked; its rows come through the window of all."""

    partition: Any = None

    def append(self, batch: object, times: object = None) -> NoReturn:
        raise BadInput("a partition takes no rows of its own", "append to the window of all")

    def advance(self, clock: int | date | str) -> NoReturn:
        raise BadInput("a partition has no clock of its own", "advance the window of all")


class PartitionedWindow(Intake):
    """The last ``slots`` basic windows of each value of the column ``partition``.

    >>> window = PartitionedWindow(by=Rows(2), slots=2, partition="p")
    >>> window.append({"p": ["a", "b", "a", "a", "b", "a"], "value": [1, 9, 2, 3, 8, 4]})
    >>> window.partitions, window["a"].histogram(), window["b"].max()
    (['a', 'b'], [(1, 1), (2, 1), (3, 1), (4, 1)], 9)
    """

    @known_settings(WindowIndexes)
    def __init__(
        self,
        by: Rows,
        slots: int,
        partition: str,
        *,
        attribute: str = "value",
        time: str = "ts",
        **settings: Unpack[WindowIndexes],
    ) -> None:
        super().__init__(by, slots, attribute, time)
        if not isinstance(by, Rows):
            raise InvalidSetting(
                "by time, rows of a partition do not leave with its basic windows",
                "give by=Rows(n), or group one window by time in a query",
            )
        if not isinstance(partition, str) or partition in ("", attribute, time):
            raise InvalidSetting(
                f"partition is {partition!r}", "name a column beside those of values and times"
            )
        self.partition = partition
        self._settings: dict[str, Any] = {"attribute": attribute, "time": time, **settings}
        self._windows: dict[Any, Partition] = {}
        self._values, self._keys = Domain(), Domain()
        self._new()  # refuses wrong settings now

    def __repr__(self) -> str:
        return (
            f"PartitionedWindow({self.by}, slots={self.slots}, partition={self.partition!r}): "
            f"{counted(len(self._windows), 'partition')}"
        )

    @property
    def partitions(self) -> list[Any]:
        """The partitions that have come, in the order in which they came."""
        return list(self._windows)

    def __getitem__(self, partition: object) -> Partition:
        try:
            window = self._windows.get(_plain(partition))
        except TypeError:  # a list is no value of a column
            window = None
        if window is None:
            raise BadInput(
                f"no row of a partition {partition!r} has come", "ask one of .partitions"
            )
        return window

    def on_refresh(
        self, function: Callable[[Partition, Refresh], None], every: int = 1
    ) -> Watch[Partition]:
        """Have a function called at every k-th slide of each partition."""
        watch: Watch[Partition] = Watch(function, every)
        self._watches.append(watch)
        return watch

    @property
    def rows(self) -> int:
        """The tuples in all windows."""
        return sum(window.rows for window in self._windows.values())

    # ── rows ──────────────────────────────────────────────────────────────────────────────

    def _new(self) -> Partition:
        return Partition(self.by, self.slots, **self._settings)

    def _admit(self, rows: pa.Table) -> pa.Table:
        if self.partition not in rows.schema.names:
            raise BadInput(
                f"the batch has no column {self.partition!r}, only {', '.join(rows.schema.names)}",
                "give a table with the column of partitions",
            )
        for name, domain in ((self.partition, self._keys), (self.attribute, self._values)):
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, domain.admit(rows[name]))
        return rows

    def _take(self, rows: pa.Table, times: Int64s | None) -> None:
        """Give each partition its rows, in the order of the stream."""
        if not rows.num_rows:
            return
        coded = pc.dictionary_encode(rows[self.partition].combine_chunks(), null_encoding="encode")
        # NaN may be listed more than once.
        listed = [_plain(value) for value in coded.dictionary.to_pylist()]
        first = {value: number for number, value in reversed(list(enumerate(listed)))}
        number = np.array([first[value] for value in listed])[coded.indices.to_numpy()]
        order = np.argsort(number, kind="stable")
        bounds = np.append(np.flatnonzero(np.diff(number[order], prepend=-1)), len(order))
        for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            mine = order[start:end]
            self._pass_on(
                listed[number[mine[0]]],
                rows.take(pa.array(mine)).drop_columns([self.partition]),
                None if times is None else times[mine],
            )

    def _pass_on(self, partition: Any, rows: pa.Table, times: Int64s | None) -> None:
        window = self._windows.get(partition)
        if window is None:
            window = self._windows[partition] = self._new()
            window.partition, window._watches = partition, self._watches
        window._take(window._admit(rows), times)
        self._failures += window._failures
        window._failures = []


_NAN = float("nan")


def _plain(value: Any) -> Any:
    """A value that finds itself: NaN is one partition."""
    return _NAN if isinstance(value, float) and value != value else value
