"""Running write jobs in this process, over Arrow tables: for tests, notebooks and small data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.model.array_keys import by_part
from mayfly.archive.model.key_hash import parts_of
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write.part_writer import PartResult, WriteJob, removed_on_failure, write_part
from mayfly.plan.row_intake import as_table
from mayfly.plan.types import parse_type
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment


@dataclass(frozen=True)
class InProcess:
    """Writes parts one after the other."""

    def earliest(self, batch: pa.Table, settings: ArchiveSettings) -> int | None:
        times = as_declared(batch, settings)[settings.time].cast(pa.int64())
        minimum: int | None = pc.min(times).as_py()
        return minimum

    def highest(self, batch: pa.Table, settings: ArchiveSettings) -> dict[str, int | None]:
        rows = as_declared(batch, settings)
        return {name: pc.max(rows[name]).as_py() for name in settings.family.counts}

    def late_days(self, batch: pa.Table, settings: ArchiveSettings, update: int) -> frozenset[int]:
        times = as_declared(batch, settings)[settings.time].drop_null().cast(pa.int64())
        days = np.unique(settings.calendar.updates_of(times.to_numpy()))
        oldest = update - settings.window
        return frozenset(day for day in days.tolist() if max(oldest, 0) < day < update)

    def write(self, batch: pa.Table | None, job: WriteJob) -> list[PartResult]:
        settings = job.settings
        parts = self._parts(as_declared(batch, settings), settings) if batch is not None else {}
        results: list[PartResult] = []
        written: list[Segment] = []
        with removed_on_failure(Directory.at(job.root), written):
            for part in range(settings.parts):
                results.append(write_part(job, partial(int, part), parts.get(part, ())))
                written += results[-1].segments
        return results

    def _parts(self, batch: pa.Table, settings: ArchiveSettings) -> dict[int, Sequence[pa.Table]]:
        if settings.array_key:
            return {part: [rows] for part, rows in by_part(batch, settings).items()}
        if settings.parts == 1:
            return {0: [batch]}
        keys = [batch[name].combine_chunks() for name in settings.sort_columns]
        numbers = parts_of(keys, settings.parts)
        return {part: [batch.filter(pa.array(numbers == part))] for part in range(settings.parts)}


def as_declared(batch: Any, settings: ArchiveSettings) -> pa.Table:
    """The batch with the archive's columns and types; columns added later may be missing."""
    kinds = {name: parse_type(kind) for name, kind in settings.all_columns.items()}
    added = [name for name in kinds if name not in settings.columns]
    return as_table("the archive", batch, kinds, added, strict=True)
