"""Whether workers see what the driver does: files they write elsewhere would be lost."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from mayfly.errors import StorageError
from mayfly.storage import Repository
from mayfly.storage.commit import manifest_name
from mayfly.storage.store import open_store


@dataclass(frozen=True)
class Unseen:
    """Per task the paths that it does not see, and on which host."""

    paths: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            missing = [path for path in self.paths if not _is_there(path)]
            yield pa.record_batch(
                {"host": [platform.node()] * len(missing), "path": missing},
                schema=pa.schema([("host", pa.string()), ("path", pa.string())]),
            )


def _is_there(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return open_store(folder or "/").info(name) is not None


def unseen_on(spark: SparkSession, paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths that some worker does not see, and where, as far as one small job gets around."""
    tasks = 2 * spark.sparkContext.defaultParallelism
    asking = Unseen(tuple(paths))
    asked = spark.range(0, tasks, 1, tasks).mapInArrow(asking, "host STRING, path STRING")
    hosts: dict[str, set[str]] = {}
    for host, path in asked.collect():
        hosts.setdefault(path, set()).add(host)
    return {path: sorted(hosts[path]) for path in sorted(hosts)}


def check_shared(
    spark: SparkSession, repositories: Sequence[Repository], folders: Iterable[str] = ()
) -> None:
    """Refuse checkpoints, archives and folders of input that some worker of a cluster does not
    see; sinks and dead letters are written by the driver."""
    if (spark.sparkContext.master or "local").startswith("local"):
        return
    looked_for = {
        repository.directory.address_of(
            manifest_name(repository.current().version)
        ): repository.directory.address
        for repository in repositories
    }
    looked_for |= {folder: folder for folder in folders if "://" not in folder}
    for path, hosts in unseen_on(spark, looked_for).items():
        raise StorageError(
            f"workers on {', '.join(hosts)} do not see {looked_for[path]}",
            "put it on storage that all machines of the cluster have under the same path",
        )
