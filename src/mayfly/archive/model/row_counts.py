"""Windows of a number of rows: positions say when a row is dead, estimates where it is stored.

Idea: a row holds its position in the stream of each window, and is alive while every stream went on
by fewer rows than its window holds. Which update will remove it is estimated from the observed
rates, and decides its cell. An update examines the runs whose estimates are up to the next update:
rows that are dead by their positions go, the others are stored anew under a new estimate. A run
that is dead by the bounds of its positions is dropped unread, wherever its estimates lie.
Invariant: a row that is alive by its positions has an estimate after the last update; reads check
positions. So a wrong estimate costs work or space, and never shows a dead row or loses a live one.
Cost: each update reads and writes the rows that two updates were expected to remove.
results-index-2005, 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.calendar import BoolArray, Int64Array, UpdateCalendar
from mayfly.archive.model.column_names import by_column
from mayfly.errors import InvalidSetting
from mayfly.keywords import whole
from mayfly.lifetime import NEVER
from mayfly.storage.segment import Segment

BOUNDS = "positions"
"""Tag of a file: the smallest and the largest position of each window in it."""
SMOOTHING = 0.5


@dataclass(frozen=True)
class Positions:
    """The windows, how far each stream has come, and by how much an update moves it."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Rows of each window, by the column that holds positions in it; none where rows live by the
    clock."""
    now: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)

    def after(self, highest: Mapping[str, int | None], updates: int) -> Positions:
        """The positions some updates later, with these seen; no stream goes back."""
        now, rates = dict(self.now), dict(self.rates)
        for name, seen in highest.items():
            if seen is None and name not in now:
                continue
            reached = now.get(name, seen) if seen is None else max(seen, now.get(name, seen))
            assert reached is not None
            if name in now:
                rate = (reached - now[name]) / updates
                before = rates.get(name)
                rates[name] = rate if before is None else before + SMOOTHING * (rate - before)
            now[name] = reached
        return Positions(self.sizes, now, rates)

    def within(self, rows: Iterable[tuple[str, int]]) -> Positions:
        """The positions with windows of fewer rows."""
        return replace(self, sizes={**self.sizes, **dict(rows)})

    @property
    def gone(self) -> dict[str, int]:
        """The last position of each window's stream that has left the window."""
        return {
            name: self.now[name] - size for name, size in self.sizes.items() if name in self.now
        }

    def alive(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Which rows are in all of the windows."""
        marks = pa.repeat(True, rows.num_rows)
        for name, last in self.gone.items():
            marks = pc.and_(marks, pc.fill_null(pc.greater(rows[name], last), False))
        return marks

    def dead(self, rows: pa.Table) -> BoolArray | None:
        """Which rows have left a window; None where none can have."""
        if not self.gone:
            return None
        left: BoolArray = ~self.alive(rows).to_numpy(zero_copy_only=False).astype(bool)
        return left

    def all_dead(self, segments: tuple[Segment, ...]) -> bool:
        """Whether no row of these files is in all of the windows, by their bounds."""
        gone = self.gone
        return all(
            any(segment.tags[BOUNDS][name][1] <= last for name, last in gone.items())
            for segment in segments
        )

    def labels(self, rows: pa.Table, update: int, rollover: int) -> Int64Array:
        """The update that is expected to remove each row, between the next one and a roll-over."""
        steps = np.full(rows.num_rows, float(rollover))
        for name, last in self.gone.items():
            left = pc.fill_null(rows[name], last).to_numpy().astype(np.float64) - last
            rate = self.rates.get(name, 0.0)
            if rate > 0:
                steps = np.minimum(steps, np.ceil(left / rate))
        updates: Int64Array = update + np.clip(steps, 1, rollover).astype(np.int64)
        return updates

    def expirations(
        self, rows: pa.Table, ts: Int64Array, update: int, calendar: UpdateCalendar, rollover: int
    ) -> pa.Array:
        """The estimated exp of arriving rows, NULL without a position."""
        exp = times_of(calendar, self.labels(rows, update, rollover))
        missing = np.zeros(len(ts), dtype=bool)
        for name in self.sizes:
            missing |= rows[name].is_null().to_numpy()
        return pa.array(np.maximum(exp, ts + 1), pa.int64(), mask=missing)

    def to_json(self) -> dict[str, Any]:
        return {name: [position, self.rates.get(name)] for name, position in self.now.items()}

    @staticmethod
    def from_json(sizes: Mapping[str, int], stored: Mapping[str, Any]) -> Positions:
        return Positions(
            sizes,
            {name: position for name, (position, _) in stored.items()},
            {name: rate for name, (_, rate) in stored.items() if rate is not None},
        )


NO_WINDOWS = Positions()


def refuse_announced(announced: Mapping[str, int] | None) -> None:
    """Refuse positions where there are no windows of a number of rows."""
    if announced is not None:
        raise InvalidSetting(
            "positions were given to an archive without windows of a number of rows",
            "leave them out, or declare the windows (counts)",
        )


def announced_positions(announced: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """How far streams are said to have come, by the columns of positions as they are declared."""
    if not isinstance(announced, Mapping):
        raise InvalidSetting(f"positions is {announced!r}", 'give them like {"position": 100}')
    positions = by_column(announced, sizes)
    for name, position in positions.items():
        if name not in sizes:
            raise InvalidSetting(
                f"there is no window with positions {name!r}",
                f"the windows are {', '.join(sizes)}",
            )
        if not 0 <= whole(f"the position in {name}", position) < NEVER:
            raise InvalidSetting(
                f"the position in {name} is {position}", "give one from 0 up that fits 64 bits"
            )
    return positions


def times_of(calendar: UpdateCalendar, updates: Int64Array) -> Int64Array:
    """The times of many updates."""
    distinct, inverse = np.unique(updates, return_inverse=True)
    times: Int64Array = np.array([calendar.time_of(int(u)) for u in distinct], dtype=np.int64)
    return times[inverse]


def bounds_of(rows: pa.Table, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The smallest and the largest position of each window."""
    bounds = {}
    for name in sizes:
        ends = pc.min_max(rows[name])
        bounds[name] = ends["min"].as_py(), ends["max"].as_py()
    return bounds
