"""Writing staged rows: one file per interval and task, and few large files from many small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.admission import (
    Admission,
    AdmissionSummary,
    LateRows,
    Verdict,
    summarize,
)
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write.part_writer import PartResult, removed_on_failure, with_lifetimes
from mayfly.archive.write.staged_rows import LETTERS, day_group
from mayfly.lifetime import NEVER
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, TS, Segment, SegmentWriter, segment_batches

BYTES_HELD = 4 * 2**20
"""Rows of an interval are written in pieces of about this size."""


COUNTED = {Verdict.LATE_REFUSED: "late", Verdict.BEYOND_GAP: "beyond MAX GAP"}
"""Rows that are left out and counted, while the others of their batch are staged, and why."""
REASON = "_reason"


@dataclass(frozen=True)
class StageRows:
    """Stages the rows of one task; rows that cannot be archived make it write nothing."""

    root: str
    sync: bool
    settings: ArchiveSettings
    update: int
    """The last update of the archive: rows up to it are late."""
    beyond: int = NEVER
    """Rows after this instant are too far ahead to be true."""
    letters: bool = False
    """Whether rows that are left out are kept as dead letters."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> PartResult:
        directory = Directory.at(self.root, sync=self.sync)
        files: dict[str, _File] = {}
        summary = AdmissionSummary()
        written: list[Segment] = []
        with removed_on_failure(directory, written):
            try:
                for batch in batches:
                    for group, rows, group_summary in self._by_group(
                        pa.Table.from_batches([batch])
                    ):
                        summary = summary + group_summary
                        if rows.num_rows:
                            files.setdefault(group, _File(directory, group)).add(rows)
                for file in files.values():
                    written += file.close()
            except BaseException:
                for file in files.values():
                    file.abandon()
                raise
        if any(v.refused and v not in COUNTED for v in summary.counts):
            for segment in written:
                directory.remove(segment.path)
            written = []
        return PartResult(0, summary, tuple(written), {}, directory.io.to_json())

    def _by_group(self, rows: pa.Table) -> Iterator[tuple[str, pa.Table, AdmissionSummary]]:
        """The rows of each interval that are staged, and those that are dead letters."""
        settings = self.settings
        times = rows[settings.time].cast(pa.int64())
        days = settings.calendar.updates_of(pc.fill_null(times, 0).to_numpy())
        shown = list(dict.fromkeys([*settings.key, settings.time]))
        ahead = pc.fill_null(pc.greater(times, self.beyond), False).to_numpy()
        if ahead.any():
            far = rows.filter(pa.array(ahead))
            verdicts = np.full(far.num_rows, Verdict.BEYOND_GAP, np.uint8)
            none = np.zeros(far.num_rows, np.int64)
            yield (
                LETTERS,
                self._letters(far, verdicts),
                summarize(Admission(verdicts, none, none), far, shown),
            )
            rows, days = rows.filter(pa.array(~ahead)), days[~ahead]
        for day in np.unique(days).tolist():
            own = with_lifetimes(rows.filter(pa.array(days == day)), settings, day)
            admission = settings.rule.admit(day, own, ts=settings.time, exp=EXP, key=settings.key)
            verdicts = admission.verdicts.copy()
            fine = verdicts <= Verdict.LATE
            verdicts[fine] = self._verdicts(day, own.filter(pa.array(fine)))
            group_admission = type(admission)(verdicts, admission.inserted_by, admission.removed_by)
            yield (
                day_group(day),
                own.filter(pa.array(group_admission.stored)),
                summarize(group_admission, own, shown),
            )
            late = own.filter(pa.array(verdicts == Verdict.LATE_REFUSED))
            refused = np.full(late.num_rows, Verdict.LATE_REFUSED, np.uint8)
            yield LETTERS, self._letters(late, refused), AdmissionSummary()

    def _letters(self, rows: pa.Table, verdicts: np.ndarray) -> pa.Table:
        """The rows as dead letters, with the reason; none where they are not kept."""
        settings = self.settings
        rows = rows.select(list(settings.all_columns)).slice(0, None if self.letters else 0)
        reasons = [COUNTED[Verdict(verdict)] for verdict in verdicts.tolist()[: rows.num_rows]]
        times = rows[settings.time].cast(pa.int64())
        rows = rows.append_column(TS, times)
        rows = rows.append_column(EXP, pa.array([NEVER] * rows.num_rows, pa.int64()))
        return rows.append_column(REASON, pa.array(reasons, pa.string()))

    def _verdicts(self, day: int, rows: pa.Table) -> np.ndarray:
        """What becomes of the rows of an interval that nothing else is wrong with."""
        settings = self.settings
        if day > self.update:
            verdict = Verdict.ADMITTED if day > 0 else Verdict.LATE_REFUSED
            return np.full(rows.num_rows, verdict)
        kept = settings.late is LateRows.THIS_UPDATE or (
            settings.late is LateRows.OWN_DAY and day > 0
        )
        late = Verdict.LATE if kept else Verdict.LATE_REFUSED
        dead = settings.family.labels_of(rows) <= settings.family.horizon(self.update)
        return np.where(dead, Verdict.DEAD_ON_ARRIVAL, late)


@dataclass(frozen=True)
class MergeFiles:
    """Makes one file of several of the same interval."""

    root: str
    sync: bool
    files: tuple[Segment, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> PartResult:
        for _ in batches:  # the row that starts the task
            pass
        directory = Directory.at(self.root, sync=self.sync)
        first = self.files[0]
        merged = _File(directory, first.group, first.level + 1)
        try:
            for segment in self.files:
                for batch in segment_batches(directory, segment):
                    merged.add(pa.Table.from_batches([batch]))
        except BaseException:
            merged.abandon()
            raise
        return PartResult(0, AdmissionSummary(), tuple(merged.close()), {}, directory.io.to_json())


class _File:
    """A staged file under construction."""

    def __init__(self, directory: Directory, group: str, level: int = 0) -> None:
        self._directory, self._group, self._level = directory, group, level
        self._held: list[pa.Table] = []
        self._writer: SegmentWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self._held.append(rows)
        if sum(table.nbytes for table in self._held) > BYTES_HELD:
            self._write()

    def close(self) -> list[Segment]:
        self._write()
        closed = self._writer.close() if self._writer else None
        return [closed] if closed else []

    def abandon(self) -> None:
        if self._writer:
            self._writer.abandon()

    def _write(self) -> None:
        if not self._held:
            return
        rows = pa.concat_tables(self._held, promote_options="default")
        self._held = []
        if self._writer is None:
            self._writer = SegmentWriter(
                self._directory,
                self._group,
                rows.schema,
                format="parquet",
                level=self._level,
                compression="zstd",
                row_group_rows=max(1, rows.num_rows),
            )
        self._writer.write(rows)
