"""A driver whose Spark gives each task several attempts, and whose first tasks die.

Usage: archive_driver FOLDER. It updates an archive in the folder eight times; in each update the
first attempt of one task is killed after it has written its part.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.cluster.local_spark import local_spark
from tests.integration.mortal_tasks import Mortal
from tests.unit.archive.small_archive import day_rows, said, small_settings, values

UPDATES, WINDOW = 8, 4


def run(folder: Path) -> None:
    spark = local_spark(master="local[2,4]")
    settings = small_settings("REINDEX++", window=WINDOW, parts=3)
    archive = SparkArchive.create(folder / "archive", settings, Mortal(spark), sync=False)
    for day in range(1, UPDATES + 1):
        archive.updates.committer.executor = Mortal(spark, marker=str(folder / f"died {day}"))
        archive.update(day_rows(day))
        assert values(archive.scan()) == said(range(max(1, day - WINDOW + 1), day + 1))
    spark.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
