"""Archive updates on Spark whose tasks die once, after they have written their part."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.archive.write.part_writer import PartResult, WriteJob
from mayfly.spark.archive.jobs import RESULT, OnSpark, _WriteParts, decode_result


@dataclass(frozen=True)
class DiesOnce:
    """A task whose process is killed after it has written its part, the first time."""

    task: _WriteParts
    marker: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = list(self.task(batches))
        if not os.path.exists(self.marker):
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from results


@dataclass(frozen=True)
class Mortal(OnSpark):
    """Spark on which one task dies."""

    marker: str = ""

    def write(self, batch: DataFrame | None, job: WriteJob) -> list[PartResult]:
        rows = self._markers(self.spark, job.settings)
        if batch is not None:
            rows = self._arriving(batch, job.settings).unionAll(rows)
        task = DiesOnce(_WriteParts(job), self.marker)
        parts = rows.repartitionById(job.settings.parts, "_part")
        return [
            decode_result(row[0]) for row in parts.mapInArrow(task, f"{RESULT} STRING").collect()
        ]
