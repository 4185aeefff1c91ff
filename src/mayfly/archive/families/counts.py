"""Counts: rows live in windows of a number of rows; which update removes one is an estimate.

Everything is laid out as cells by the estimate. What is alive, the positions of rows say
(``model.row_counts``): an update looks again into runs whose estimates are due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pyarrow as pa

from mayfly.archive.families.cells import Cells
from mayfly.archive.model.admission import AdmissionSummary
from mayfly.archive.model.calendar import Int64Array
from mayfly.archive.model.contract import HARD
from mayfly.archive.model.family import COUNTS
from mayfly.archive.model.row_counts import Positions, announced_positions
from mayfly.archive.model.sequence import Turn
from mayfly.archive.model.settings import UNBOUNDED
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection, Window
from mayfly.archive.read.smaller_windows import fewer_rows
from mayfly.archive.write.job_plan import PlannedCommit, plan_cells
from mayfly.archive.write.part_writer import PartResult
from mayfly.archive.write.update_report import rows_in_files
from mayfly.errors import InvalidSetting


class Counts(Cells):
    """The family of archives of windows of a number of rows."""

    name: ClassVar[str] = COUNTS

    def check(self) -> None:
        super().check()
        if self.settings.contract != HARD:
            raise InvalidSetting(
                f"windows of a number of rows cannot promise {self.settings.contract}",
                "leave the contract out: no dead row is returned",
            )

    @property
    def longest(self) -> int:
        """By the clock a row may stay for any time."""
        return UNBOUNDED

    def expirations(
        self, rows: pa.Table, ts: Int64Array, update: int, positions: Positions
    ) -> pa.Array:
        current = replace(positions, sizes=self.counts)
        settings = self.settings
        return current.expirations(rows, ts, update, settings.calendar, settings.window)

    def within(self, selection: Selection, window: Window | None) -> Selection:
        if window is None:
            return selection
        return replace(selection, rows=fewer_rows(self.counts, window))

    def positions_after(
        self,
        version: ArchiveVersion,
        highest: Callable[[], Mapping[str, int | None]],
        announced: Mapping[str, int] | None,
        updates: int,
    ) -> Positions:
        reached: dict[str, int | None] = dict.fromkeys(self.counts) | dict(highest())
        for name, position in announced_positions(announced or {}, self.counts).items():
            reached[name] = max(position, reached[name] or position)
        return version.positions.after(reached, updates)

    def plan(
        self,
        version: ArchiveVersion,
        turn: Turn,
        positions: Positions,
        late_days: Callable[[], frozenset[int]] | None,
    ) -> PlannedCommit:
        """Rows that are alive in runs whose estimates are due come again as if they arrived."""
        number = turn.update
        stored = [run for runs in version.state.runs.values() for run in runs]
        dead = frozenset(r.id for r in stored if positions.all_dead(version.segments_of(r.id)))
        examined = frozenset(run.id for run in stored if min(run.days) <= number + 1) - dead
        return plan_cells(
            version,
            self.layout,
            number,
            has_batch=late_days is not None,
            positions=positions,
            dead=dead,
            examined=examined,
        )

    def rows_by_label(
        self, version: ArchiveVersion, planned: PlannedCommit, results: Sequence[PartResult]
    ) -> dict[int, int]:
        return dict(sorted(rows_in_files(version, planned.runs, results).items()))

    def removed_rows(
        self,
        version: ArchiveVersion,
        planned: PlannedCommit,
        summary: AdmissionSummary,
        results: Sequence[PartResult],
    ) -> int:
        left = sum(rows_in_files(version, planned.runs, results).values())
        return sum(version.state.day_rows.values()) + summary.stored - left
