"""What is done to streams before any query sees them: shedding and punctuations."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.session import Session
from mayfly.spark.query_run import QueryRun
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import SCHEMA, batches

CQL = "SELECT seq FROM a [RANGE 30 us]"
ROWS = sum(batch["a"].num_rows for batch in batches())


def processed(
    spark: SparkSession, folder: Path, checkpoint: Path, shed: float = 0.0, **settings: bool
) -> QueryRun:
    session = Session(spark)
    declare(session, folder, {"a": SCHEMA}, sequence=["seq"], **settings)
    run = session.query(CQL).start(checkpoint, buckets=2, sync=False, shed=shed, history="forever")
    assert run.query is not None
    run.query.processAllAvailable()
    run.stop()
    return run


@pytest.mark.slow
def test_what_is_left_out_is_counted_and_the_same_every_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "in", [{"a": batch["a"]} for batch in batches()])
    one, other = (processed(spark, tmp_path / "in", tmp_path / name, 0.4) for name in ("x", "y"))
    status = one.status()
    assert status.shed["a"] + status.rows["a"] == ROWS
    assert 0.25 < status.shed["a"] / ROWS < 0.55
    assert one.changes().sort_by("seq") == other.changes().sort_by("seq")
    with pytest.raises(InvalidSetting, match="to leave out"):
        processed(spark, tmp_path / "in", tmp_path / "z", 1.0)


@pytest.mark.slow
def test_a_punctuation_moves_the_clock(spark: SparkSession, tmp_path: Path) -> None:
    promise = pa.Table.from_pylist([{"ts": 500}], schema=SCHEMA)
    record(tmp_path / "in", [{"a": batches()[0]["a"]}, {"a": promise}])
    run = processed(spark, tmp_path / "in", tmp_path / "ck", punctuations=True)
    status = run.status()
    assert status.clock == 500
    assert status.rows["a"] == batches()[0]["a"].num_rows
    assert run.changes().num_rows == status.rows["a"]
    assert run.snapshot(499).num_rows == 0
