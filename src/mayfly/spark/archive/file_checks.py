"""Files compared with their checksums before Spark's own readers, which know of none, get them.

Few bytes are compared by the driver, many by a job: what a later scan reads on the executors'
machines is then checked there. A driver compares a file once, unless its rows are to be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from mayfly.errors import MayflyError
from mayfly.spark.archive.jobs import decode_failure, encode_failure
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment, check_content

ON_THE_DRIVER = 64 * 2**20
"""Bytes that the driver compares itself."""
_checked: set[tuple[str, str]] = set()
"""Root and path of files that a job has compared."""


def check_files(
    spark: SparkSession, directory: Directory, segments: Sequence[Segment], *, again: bool = False
) -> None:
    """Raise CorruptFile if one of these files is missing or not as it was written."""
    root = directory.address
    left = [data_file for data_file in segments if again or (root, data_file.path) not in _checked]
    if sum(data_file.bytes for data_file in left) <= ON_THE_DRIVER:
        for segment in left:
            check_content(directory, segment, again=again)
        return
    tasks = min(len(left), spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(left), 1, tasks)
    failures = numbers.mapInArrow(_Compare(root, tuple(left)), "failure STRING").collect()
    if failures:
        raise decode_failure(failures[0][0])
    _checked.update((root, data_file.path) for data_file in left)


@dataclass(frozen=True)
class _Compare:
    """One task: it compares the files whose numbers it gets, and tells of the damaged ones."""

    root: str
    segments: tuple[Segment, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        directory = Directory.at(self.root)
        for batch in batches:
            failures = []
            for number in batch.column("id").to_pylist():
                try:
                    check_content(directory, self.segments[number])
                except MayflyError as error:
                    failures.append(encode_failure(error))
            yield pa.RecordBatch.from_pydict({"failure": pa.array(failures, pa.string())})
