"""Waves: all rows of an update live equally long, for W updates, and leave together.

Runs are labelled by the updates that brought their rows. A wave scheme says which constituent holds
which update, and what is prepared for later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.advice.wave_advice import ArchiveAdvice, Workload, advise_archive
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.advice.wave_constants import Prediction, predictions
from mayfly.archive.change.relabels import Relabelled
from mayfly.archive.change.requested_changes import Advised, Changes
from mayfly.archive.change.wave_migration import every_index, left_aside
from mayfly.archive.erase.erasure import noted_void
from mayfly.archive.layouts import plan_lines
from mayfly.archive.model.admission import AdmissionSummary, LateRows
from mayfly.archive.model.calendar import DAY, FixedIntervals, Int64Array, UpdateCalendar
from mayfly.archive.model.contract import HARD
from mayfly.archive.model.family import WAVES, Description, Family
from mayfly.archive.model.reports import CHANGED_AT, reports_of
from mayfly.archive.model.row_counts import Positions, refuse_announced
from mayfly.archive.model.sequence import Turn
from mayfly.archive.model.settings import ArchiveSettings, with_values
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection, Window
from mayfly.archive.read.smaller_windows import first_of_window, times_within
from mayfly.archive.write.job_plan import PlannedCommit, plan_next
from mayfly.archive.write.part_writer import Arrivals, PartResult
from mayfly.archive.write.update_report import (
    lasting_rows,
    newly_hidden,
    rows_past,
    rows_with,
)
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Format


class Waves:
    """The family of archives of a window of updates."""

    name: ClassVar[str] = WAVES
    columns: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}
    exp: str | None = None
    lifetime_columns: tuple[str, ...] = ()
    longest_lifetime: int | None = None
    clustered = True

    def __init__(self, settings: ArchiveSettings) -> None:
        self.settings = settings
        self.layout = settings.wave

    # -- the declaration ---------------------------------------------------------------------

    def check(self) -> None:
        settings = self.settings
        if settings.contract != HARD:
            raise InvalidSetting(
                f"a wave archive cannot promise {settings.contract}",
                "give rows their own lifetimes (max_lifetime), or leave the contract out",
            )
        if settings.late is LateRows.THIS_UPDATE:
            raise InvalidSetting(
                "a wave archive cannot keep late rows with the update they come with: they would "
                "outlive their day",
                'use late="own day", or refuse them',
            )

    def layout_json(self) -> dict[str, Any]:
        return {
            "scheme": self.layout.scheme.value,
            "window": self.layout.window,
            "constituents": self.layout.constituents,
            "spread": self.layout.spread,
            "technique": self.settings.technique.value,
        }

    def description(self) -> Description:
        scheme, technique = self.layout.scheme, self.settings.technique.value
        window = f"{self.layout.window} updates ({'hard' if scheme.hard else 'soft'} window)"
        kept = f"{scheme.value} over {window}, {technique}"
        return Description(scheme.value, technique, kept)

    def __str__(self) -> str:
        layout = self.layout
        spread = ", spread" if layout.spread else ""
        scheme = f"{layout.scheme} in {layout.constituents} constituents"
        return f"{scheme}, {self.settings.technique}{spread}"

    # -- rows --------------------------------------------------------------------------------

    @property
    def longest(self) -> int:
        """A row waits up to one update to be stored, then stays for W."""
        calendar = self.settings.calendar
        return (self.layout.window + 1) * (
            calendar.interval if isinstance(calendar, FixedIntervals) else DAY
        )

    def format_of(self, level: int) -> Format:
        return "parquet"

    def expirations(
        self, rows: pa.Table, ts: Int64Array, update: int, positions: Positions
    ) -> pa.Array:
        calendar = self.settings.calendar
        days = calendar.updates_of(ts)
        # Rows from the future are refused; their own update may lie beyond the last date.
        future = ts > calendar.time_of(update)
        lasting = self._expirations_of(np.where(future, update, days))
        return pa.array(np.where(future, ts + 1, lasting), pa.int64())

    def _expirations_of(self, days: Int64Array) -> Int64Array:
        distinct, inverse = np.unique(days, return_inverse=True)
        times = [self._expiration(int(day)) for day in distinct]
        expirations: Int64Array = np.array(times, dtype=np.int64)[inverse]
        return expirations

    def _expiration(self, day: int) -> int:
        """exp of all rows of an update: update day + W removes them."""
        return self.settings.calendar.time_of(day + self.layout.window)

    def labels_of(self, rows: pa.Table) -> Int64Array:
        return self.settings.calendar.updates_of(rows[TS].to_numpy())

    def belongs(self, rows: pa.Table, labels: Iterable[int]) -> pa.ChunkedArray | pa.Array:
        """Not by their expiration: where a time zone skipped a date, two updates share it."""
        ts, mask, calendar = rows[TS], None, self.settings.calendar
        for first, last in _stretches(labels):
            after, until = calendar.time_of(first - 1), calendar.time_of(last)
            inside = pc.and_(pc.greater(ts, after), pc.less_equal(ts, until))
            mask = inside if mask is None else pc.or_(mask, inside)
        return pa.chunked_array([pa.repeat(False, len(ts))]) if mask is None else mask

    def horizon(self, update: int) -> int:
        return update - self.layout.window

    def hidden_until(self, moment: int) -> int | None:
        return None

    # -- reads -------------------------------------------------------------------------------

    def within(self, selection: Selection, window: Window | None) -> Selection:
        if window is None:
            return selection
        if isinstance(window, Mapping):
            return replace(selection, inputs=times_within(self.settings, window))
        first = first_of_window(self.settings, selection.as_of, window)
        low = selection.generated_from
        return replace(selection, generated_from=first if low is None else max(low, first))

    # -- updates -----------------------------------------------------------------------------

    def positions_after(
        self,
        version: ArchiveVersion,
        highest: Callable[[], Mapping[str, int | None]],
        announced: Mapping[str, int] | None,
        updates: int,
    ) -> Positions:
        refuse_announced(announced)
        return version.positions

    def plan(
        self,
        version: ArchiveVersion,
        turn: Turn,
        positions: Positions,
        late_days: Callable[[], frozenset[int]] | None,
    ) -> PlannedCommit:
        number, late, arrived = turn.update, frozenset[int](), frozenset[int]()
        if late_days is not None:
            if self.settings.late is LateRows.OWN_DAY:
                late = late_days() - {number}
            arrived = late | {number}
        return plan_next(version, turn.empty_updates, number, arrived, late)

    def rows_by_label(
        self, version: ArchiveVersion, planned: PlannedCommit, results: Sequence[PartResult]
    ) -> dict[int, int]:
        rows = rows_with(version, planned, results)
        rows.subtract(newly_hidden(version, planned.runs))
        return lasting_rows(rows, planned)

    def removed_rows(
        self,
        version: ArchiveVersion,
        planned: PlannedCommit,
        summary: AdmissionSummary,
        results: Sequence[PartResult],
    ) -> int:
        return rows_past(version, planned.update)

    def expected_seconds(
        self, version: ArchiveVersion, planned: PlannedCommit, rows: int | None
    ) -> float | None:
        return None  # ``predictions`` tells: here it follows from the number of the update

    # -- inspection and advice ---------------------------------------------------------------

    def plan_lines(self, version: ArchiveVersion, updates: range) -> list[str]:
        return plan_lines(self.layout, version.state.wave, updates)

    def predictions(self, properties: Mapping[str, Any]) -> list[Prediction]:
        return predictions(self.settings, reports_of(properties), properties.get(CHANGED_AT, 0))

    def need(self, *, soft: bool) -> Need | None:
        return Need(self.layout.window, hard=not soft)

    def advise(
        self, directory: Directory, version: ArchiveVersion, workload: Workload, need: Need | None
    ) -> ArchiveAdvice:
        return advise_archive(directory, version, workload, need)

    # -- migration ---------------------------------------------------------------------------

    def changed(
        self, changes: Changes, calendar: UpdateCalendar, advised: Advised
    ) -> ArchiveSettings:
        return changes.of_window(self.settings, calendar)

    def require_lasting(self, after: ArchiveSettings) -> None:
        before = self.settings
        alike = (after.family.name, after.window, after.calendar)
        if alike != (self.name, before.window, before.calendar):
            raise InvalidSetting(
                "another window, another refresh or own lifetimes change when stored rows expire: "
                "files that are not moved would keep the old expirations",
                'use method="rebuild"',
            )

    def last_expiration(self, version: ArchiveVersion, after: ArchiveSettings) -> int:
        return version.time + after.family.longest  # rows get lifetimes of their own

    def note_of_change(self, version: ArchiveVersion, after: ArchiveSettings) -> dict[str, Any]:
        if after.contract.erased_within is None:
            return {}
        # What lies in older versions says when it expires by the window, which holds no more.
        return noted_void(version)

    def move(self, rows: pa.Table, part: int, after: Family, arrivals: Arrivals, now: int) -> None:
        after.receive(rows, part, arrivals, now)

    def receive(self, rows: pa.Table, part: int, arrivals: Arrivals, now: int) -> None:
        """They live as the new window says."""
        days = self.labels_of(rows)
        lasting = with_values(rows, EXP, self._expirations_of(days))
        arrivals.hold(lasting.filter(pc.greater(lasting[EXP], now)))

    def plan_of_everything(self, version: ArchiveVersion, update: int) -> PlannedCommit:
        return every_index(self.layout, update)

    def set_aside(self, directory: Directory, version: ArchiveVersion, update: int) -> Relabelled:
        return Relabelled(left_aside(version, self.layout), ())


def _stretches(days: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each stretch of days in a row."""
    for _, stretch in groupby(enumerate(sorted(days)), lambda item: item[1] - item[0]):
        together = [day for _, day in stretch]
        yield together[0], together[-1]
