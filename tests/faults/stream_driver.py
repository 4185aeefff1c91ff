"""A driver that streams into an archive, and that tests kill and restart.

    python -m tests.faults.stream_driver rows|results <folder>

It takes the recorded input of the folder to its end, and ends with 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.cluster.local_spark import local_spark
from mayfly.testing import JoinCase
from tests.integration.archived_streams import DDL, results_archive
from tests.integration.recorded import drained, pair_case, pair_query

WINDOW = 3


def join_case() -> JoinCase:
    return pair_case(160, 40, seed=7)


def new_archive(session: Session, kind: str, path: Path) -> SparkArchive:
    if kind == "results":
        return results_archive(session, path, scheme="RATA", window=WINDOW)
    return session.create_archive(
        path, DDL, key="k", window=WINDOW, refresh="1 h", origin=0, scheme="RATA", parts=2
    )


def stream_rows(session: Session, archive: SparkArchive, folder: Path) -> None:
    stream = session.spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    writer = stream.parquet(f"{folder}/in").writeStream.foreachBatch(archive.sink("rows"))
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def main(kind: str, folder: Path) -> None:
    session = Session(local_spark(2))
    archive = session.open_archive(folder / "archive")
    if kind == "results":
        query = pair_query(session, folder, join_case())
        drained(query, folder / "checkpoint", archive=archive, sync=False)
    else:
        stream_rows(session, archive, folder)
    session.spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
