"""Cells: every row has its own lifetime, up to the longest, and leaves with an update of its own.

A row inserted by update i and removed by update j lies in cell (i, j), and a doubly partitioned
layout says which sub-index holds the cell. Runs are labelled by the updates that remove their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from mayfly.archive.advice.cell_advice import advise_lifetimes
from mayfly.archive.advice.cell_advisor import CellAdvice
from mayfly.archive.advice.cell_constants import expected_seconds, seconds_of
from mayfly.archive.advice.wave_advice import Workload
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.advice.wave_constants import Prediction
from mayfly.archive.change.cell_migration import emptying, every_run
from mayfly.archive.change.relabels import Relabelled, relabelled
from mayfly.archive.change.requested_changes import Advised, Changes
from mayfly.archive.layouts.printed_plan import cell_lines
from mayfly.archive.model.admission import AdmissionSummary, LateRows
from mayfly.archive.model.array_keys import whole_rows
from mayfly.archive.model.calendar import Int64Array, UpdateCalendar
from mayfly.archive.model.contract import longest_interval
from mayfly.archive.model.family import CELLS, Description, Family
from mayfly.archive.model.lifetimes import Lifetimes
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.row_counts import Positions, refuse_announced, times_of
from mayfly.archive.model.sequence import Turn
from mayfly.archive.model.settings import INSERTED, ArchiveSettings, with_values
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection, Window
from mayfly.archive.read.smaller_windows import shorter_by, times_within
from mayfly.archive.write.job_plan import PlannedCommit, plan_cells
from mayfly.archive.write.part_writer import Arrivals, PartResult
from mayfly.archive.write.update_report import dead_rows, lasting_rows, rows_past, rows_with
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Format

MOST_UPDATES = 1_000_000
"""Of a roll-over: an update looks at each one that may remove its rows."""


class Cells:
    """The family of archives whose rows have their own lifetimes."""

    name: ClassVar[str] = CELLS
    columns: tuple[str, ...] = (INSERTED,)

    def __init__(self, settings: ArchiveSettings) -> None:
        self.settings = settings
        self.layout = settings.cells

    @property
    def lifetimes(self) -> Lifetimes:
        return cast("Lifetimes", self.settings.lifetimes)  # by them the family was chosen

    # -- the declaration ---------------------------------------------------------------------

    def check(self) -> None:
        settings = self.settings
        self.lifetimes.check({name: settings.type_of(name) for name in settings.all_columns})
        if settings.late is LateRows.OWN_DAY:
            raise InvalidSetting(
                "rows with their own lifetimes belong to no day",
                'use late="this update", or refuse late rows',
            )
        if settings.window > MOST_UPDATES:
            raise InvalidSetting(
                f"a window of {settings.window:,} updates, {settings.calendar}",
                f"where rows have their own lifetimes, keep at most {MOST_UPDATES:,} updates: "
                "refresh less often",
            )

    def layout_json(self) -> dict[str, Any]:
        return {
            "layout": self.layout.to_json(),
            "lifetimes": self.lifetimes.to_json(),
            "contract": self.settings.contract.to_json(),
            "young": self.settings.young,
        }

    def description(self) -> Description:
        technique = "rebuild" if self.layout.rebuild else "no rebuild"
        lifetimes = f"lifetimes up to {self.layout.rollover} updates"
        kept = f"{self.layout}, {lifetimes}, {self.settings.contract}"
        return Description(str(self.layout), technique, kept)

    def __str__(self) -> str:
        return str(self.layout)

    # -- rows --------------------------------------------------------------------------------

    @property
    def counts(self) -> Mapping[str, int]:
        return self.lifetimes.counts

    @property
    def exp(self) -> str | None:
        return self.lifetimes.exp

    @property
    def lifetime_columns(self) -> tuple[str, ...]:
        return self.lifetimes.told_by or (EXP,)

    @property
    def longest(self) -> int:
        return self.lifetimes.longest

    @property
    def longest_lifetime(self) -> int | None:
        return self.lifetimes.longest

    @property
    def clustered(self) -> bool:
        return self.layout.clustered

    def format_of(self, level: int) -> Format:
        merges = not self.layout.rebuild
        return "arrow" if merges and level < self.settings.young else "parquet"

    def expirations(
        self, rows: pa.Table, ts: Int64Array, update: int, positions: Positions
    ) -> pa.Array:
        return self.lifetimes.expirations(rows, ts)

    def labels_of(self, rows: pa.Table) -> Int64Array:
        return self.settings.calendar.updates_of(rows[EXP].to_numpy())

    def belongs(self, rows: pa.Table, labels: Iterable[int]) -> pa.ChunkedArray | pa.Array:
        return pa.array(np.isin(self.labels_of(rows), np.fromiter(labels, np.int64)))

    def horizon(self, update: int) -> int:
        return update

    def hidden_until(self, moment: int) -> int | None:
        return self.settings.contract.returned_until(self.settings.calendar, moment)

    # -- reads -------------------------------------------------------------------------------

    def within(self, selection: Selection, window: Window | None) -> Selection:
        if window is None:
            as_of = selection.as_of
            until = self.settings.contract.returned_until(self.settings.calendar, as_of)
            return replace(selection, shorter=until - as_of)
        if isinstance(window, Mapping):
            return replace(selection, inputs=times_within(self.settings, window))
        return replace(selection, shorter=shorter_by(self.lifetimes.longest, window))

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
        return plan_cells(version, self.layout, turn.update, has_batch=late_days is not None)

    def rows_by_label(
        self, version: ArchiveVersion, planned: PlannedCommit, results: Sequence[PartResult]
    ) -> dict[int, int]:
        """The dead of one label may be gone from one sub-index and linger in another: those are
        counted in the files."""
        rows, horizon = rows_with(version, planned, results), self.horizon(planned.update)
        lingering = dead_rows(horizon, version, planned.runs, results)
        alive = Counter({label: count for label, count in rows.items() if label > horizon})
        return lasting_rows(alive + lingering, planned)

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
        return expected_seconds(version, planned, reports_of(version.manifest.properties), rows)

    # -- inspection and advice ---------------------------------------------------------------

    def plan_lines(self, version: ArchiveVersion, updates: range) -> list[str]:
        return cell_lines(self.layout, updates)

    def predictions(self, properties: Mapping[str, Any]) -> list[Prediction]:
        return [
            Prediction(report["update"], report.get("expected_seconds"), seconds_of(report))
            for report in reports_of(properties)
        ]

    def need(self, *, soft: bool) -> Need | None:
        if soft:
            raise InvalidSetting(
                "soft (--soft) is for archives of a window",
                "leave it out: here expired rows may linger unless PHYSICAL is promised",
            )
        return None

    def advise(
        self, directory: Directory, version: ArchiveVersion, workload: Workload, need: Need | None
    ) -> CellAdvice:
        reports = reports_of(version.manifest.properties)
        return advise_lifetimes(directory, version, reports, workload, need)

    # -- migration ---------------------------------------------------------------------------

    def changed(
        self, changes: Changes, calendar: UpdateCalendar, advised: Advised
    ) -> ArchiveSettings:
        return changes.of_lifetimes(self.settings, self.lifetimes, calendar, advised)

    def require_lasting(self, after: ArchiveSettings) -> None:
        asked, kept = after.contract, self.settings.contract
        again = 'use method="rebuild"'
        if not kept.keeps(replace(kept, erased_within=asked.erased_within)):
            raise InvalidSetting(
                f"{asked} cannot be promised side by side: rows that expired under {kept} would "
                "stay in files that are not moved",
                again,
            )
        waits = asked.late or asked.erased_within is not None
        before = longest_interval(self.settings.calendar)
        if waits and longest_interval(after.calendar) > before:
            raise InvalidSetting(
                f"{asked} counts in updates, and these would be further apart: expired rows "
                "would stay for longer in files that are not moved",
                again,
            )

    def last_expiration(self, version: ArchiveVersion, after: ArchiveSettings) -> int:
        ends = (segment.exp.high for segment in version.manifest.segments.values())
        return max(ends, default=version.time)

    def note_of_change(self, version: ArchiveVersion, after: ArchiveSettings) -> dict[str, Any]:
        return {}

    def move(self, rows: pa.Table, part: int, after: Family, arrivals: Arrivals, now: int) -> None:
        """They keep their expiration."""
        came = times_of(self.settings.calendar, rows[INSERTED].to_numpy())
        inserted = after.settings.calendar.updates_of(came)
        arrivals.hold(with_values(rows, INSERTED, inserted))

    def receive(self, rows: pa.Table, part: int, arrivals: Arrivals, now: int) -> None:
        """They get lifetimes of their own, as if they arrived."""
        if self.settings.array_key:
            rows = whole_rows(rows, self.settings, part)
        days = self.settings.calendar.updates_of(rows[TS].to_numpy())
        arrivals.add(rows.drop_columns([TS, EXP]), days)

    def plan_of_everything(self, version: ArchiveVersion, update: int) -> PlannedCommit:
        return every_run(version, self.settings, update)

    def set_aside(self, directory: Directory, version: ArchiveVersion, update: int) -> Relabelled:
        aside = Relabelled(version.state, ())
        if self.settings.calendar != version.settings.calendar:
            aside = relabelled(directory, version, self.settings)
        return replace(aside, state=emptying(aside.state, self.layout, update))
