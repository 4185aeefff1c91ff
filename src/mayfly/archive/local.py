"""Running write jobs in this process, over Arrow tables: for tests, notebooks and small data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.hashing import spark_hash
from mayfly.archive.settings import KEY, NTH, ArchiveSettings
from mayfly.archive.writing import PartResult, WriteJob, write_part


@dataclass(frozen=True)
class InProcess:
    """Writes parts one after the other."""

    def late_days(self, batch: pa.Table, settings: ArchiveSettings, update: int) -> frozenset[int]:
        times = batch[settings.time].drop_null()
        if pa.types.is_timestamp(times.type):
            times = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())
        days = np.unique(settings.calendar.updates_of(times.to_numpy()))
        oldest = update - settings.window
        return frozenset(day for day in days.tolist() if max(oldest, 0) < day < update)

    def write(self, batch: pa.Table | None, job: WriteJob) -> list[PartResult]:
        parts = self._parts(batch, job.settings) if batch is not None else {}
        return [
            write_part(job, partial(int, part), parts.get(part, ()))
            for part in range(job.settings.parts)
        ]

    def _parts(self, batch: pa.Table, settings: ArchiveSettings) -> dict[int, Sequence[pa.Table]]:
        rows = by_key_value(batch, settings) if settings.array_key else batch
        if settings.parts == 1:
            return {0: [rows]}
        keys = zip(*(rows[name].to_pylist() for name in settings.sort_columns), strict=True)
        numbers = np.array([self._part(key, settings) for key in keys], dtype=np.int64)
        return {part: [rows.filter(pa.array(numbers == part))] for part in range(settings.parts)}

    def _part(self, key: tuple[Any, ...], settings: ArchiveSettings) -> int:
        if any(value is None for value in key):
            return 0
        return spark_hash(key, settings.key_types) % settings.parts


def by_key_value(rows: pa.Table, settings: ArchiveSettings) -> pa.Table:
    """One copy of a row for each distinct value of its array key; rows without any stay once."""
    copies, values, numbers = [], [], []
    for at, key in enumerate(rows[settings.key[0]].to_pylist()):
        distinct = list(dict.fromkeys(key or [None]))
        for number, value in enumerate(distinct):
            copies.append(at)
            values.append(value)
            numbers.append(number)
    taken = rows.take(pa.array(copies, pa.int64()))
    kind = settings.stored.field(KEY).type
    taken = taken.append_column(KEY, pa.array(values, kind))
    return taken.append_column(NTH, pc.cast(pa.array(numbers, pa.int64()), pa.int32()))
