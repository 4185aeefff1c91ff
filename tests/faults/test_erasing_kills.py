"""Drivers of a pipeline whose archives promise PHYSICAL WITHIN, killed where bytes are erased.

A batch whose changes were erased must not be delivered again without them, and nothing that a kill
left behind may outlive the promise.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.serving.pipeline_places import ARCHIVES
from mayfly.spark.api.pipelines import load_pipeline
from tests.faults.pipeline_driver import SETTINGS
from tests.faults.test_pipeline_kills import live, rows_in
from tests.integration.recorded import record
from tests.integration.test_erasing import ARCHIVED, LIFE, STREAMS, round_of, tags_in

POINTS = (
    "batch.committed",
    "staging.before-update",
    "staging.taken",
    "archive.ends-applied",
    "batch.delivered",
    "batch.erased",
    "vacuum.manifest-removed",
    "vacuum.file-removed",
)
ROUNDS = 5


def world(folder: Path) -> Path:
    record(folder / "streams", [round_of(number) for number in range(ROUNDS)])
    streams = STREAMS.replace("')", "', maxFilesPerTrigger => '1')")
    made = [
        f"CREATE ARCHIVE {name} {ARCHIVED[name].format('PHYSICAL WITHIN 10 us')};"
        for name in ("pairs", "totals")
    ]
    copies = "CREATE QUERY copies TO parquet('out') AS SELECT k, tag FROM a [RANGE 30 us];"
    (folder / "pipeline.cql").write_text("\n".join([streams, *made, copies]))
    return folder / "pipeline.cql"


@pytest.mark.slow
def test_an_erasing_pipeline_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    quiet = world(tmp_path / "quiet")
    state = quiet.with_suffix(".state")
    runs = load_pipeline(spark, quiet).start(state, available_now=True, **SETTINGS)
    assert next(iter(runs.values())).await_done(300)
    file = world(tmp_path / "disturbed")
    points = Random(1).sample(POINTS, len(POINTS))
    killed = [live(file, f"{point}:1") != 0 for point in points]
    assert sum(killed) >= len(POINTS) // 2, "most points are reached"
    assert live(file) == 0, (file.parent / "log").read_text()
    given = pa.concat_tables([round_of(number)["a"] for number in range(ROUNDS)])
    for one in (quiet, file):
        found = pq.read_table(one.parent / "out")
        assert sorted(found["tag"].to_pylist()) == sorted(given["tag"].to_pylist())
    session = load_pipeline(spark, file).session
    for name in ("pairs", "totals"):
        left, right = (session.open_archive(one.parent / ARCHIVES / name) for one in (quiet, file))
        assert rows_in(left.scan()) == rows_in(right.scan())
        assert left.version().time == right.version().time
        assert right.maintain.verify().problems == ()
        due = right.version().time  # within one refresh interval
        tags = tags_in(file.with_suffix(".state"), file.parent / ARCHIVES / name)
        assert min(int(tag.split("-")[1]) for tag in tags) + LIFE >= due
