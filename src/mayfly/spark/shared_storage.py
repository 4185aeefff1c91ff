"""Whether workers see what the driver does: files they write elsewhere would be lost."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from mayfly.errors import StorageError
from mayfly.storage import Repository
from mayfly.storage.commit import manifest_name


@dataclass(frozen=True)
class Unseen:
    """Per task the host that does not see a file, if it does not."""

    path: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            if not Path(self.path).exists():
                yield pa.record_batch({"host": [platform.node()]})


def unseen_on(spark: SparkSession, path: Path) -> list[str]:
    """The machines whose workers do not see a file, as far as one small job gets around."""
    tasks = 2 * spark.sparkContext.defaultParallelism
    asked = spark.range(0, tasks, 1, tasks).mapInArrow(Unseen(str(path)), "host STRING")
    return sorted({row[0] for row in asked.collect()})


def check_shared(spark: SparkSession, repository: Repository) -> None:
    """Refuse a checkpoint that some worker of a cluster does not see."""
    if (spark.sparkContext.master or "local").startswith("local"):
        return
    root = repository.directory.root
    hosts = unseen_on(spark, root / manifest_name(repository.current().version))
    if hosts:
        raise StorageError(
            f"workers on {', '.join(hosts)} do not see the checkpoint {root}",
            "put it on storage that all machines of the cluster have under the same path",
        )
