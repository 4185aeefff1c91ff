"""What is done to streams before any query sees them: shedding and punctuations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.stream.micro_batch import STREAM_SETTINGS
from mayfly.spark.stream.start import ADAPTIVE_STREAMS
from tests.integration.recorded import declare, record
from tests.integration.test_spark_queries import SCHEMA, batches

CQL = "SELECT seq FROM a [RANGE 30 us]"
JOIN = "SELECT l.seq, r.seq AS other FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k"
SLIDING = "SELECT Rstream(g, COUNT(*) AS n) FROM a [RANGE 20 us SLIDE 5 us] GROUP BY g"
ROWS = sum(batch["a"].num_rows for batch in batches())


def processed(
    spark: SparkSession,
    folder: Path,
    checkpoint: Path,
    cql: str = CQL,
    punctuations: bool = False,
    **settings: Any,
) -> QueryRun:
    session = Session(spark)
    schemas = {one.name: SCHEMA for one in folder.iterdir()}
    declare(session, folder, schemas, sequence=["seq"], punctuations=punctuations)
    run = session.query(cql).start(checkpoint, buckets=2, sync=False, history="forever", **settings)
    assert run.query is not None
    run.query.processAllAvailable()
    run.stop()
    return run


def counted(run: QueryRun, *columns: str) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(run.changes()[name].to_pylist() for name in columns), strict=True))


@pytest.mark.slow
def test_what_is_left_out_is_counted_and_the_same_every_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "in", [{"a": batch["a"]} for batch in batches()])
    one, other = (
        processed(spark, tmp_path / "in", tmp_path / name, shed=0.4) for name in ("x", "y")
    )
    status = one.status()
    assert status.shed["a"] + status.rows["a"] == ROWS
    assert 0.25 < status.shed["a"] / ROWS < 0.55
    assert one.changes().sort_by("seq") == other.changes().sort_by("seq")
    with pytest.raises(InvalidSetting, match="to leave out"):
        processed(spark, tmp_path / "in", tmp_path / "z", shed=1.0)


@pytest.mark.slow
def test_rows_with_few_partners_are_left_out_of_a_join(spark: SparkSession, tmp_path: Path) -> None:
    record(tmp_path / "in", batches())
    whole = processed(spark, tmp_path / "in", tmp_path / "whole", JOIN)
    part = processed(spark, tmp_path / "in", tmp_path / "part", JOIN, shed=0.4, shed_by="partners")
    all_pairs, pairs = counted(whole, "seq", "other"), counted(part, "seq", "other")
    assert pairs < all_pairs, "fewer, and none that is wrong"
    assert pairs.total() > 0.36 * all_pairs.total(), "leaving out at random keeps 0.6 * 0.6"
    shed = part.status().shed
    assert set(shed) == {"a", "b"}
    joined = sum(len(one["k"].drop_null()) for batch in batches() for one in batch.values())
    assert abs(sum(shed.values()) - 0.4 * joined) <= 12, "rounded in each bucket of each batch"
    assert not any(whole.status().shed.values())


@pytest.mark.slow
def test_large_batches_answer_the_last_refresh_they_close(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path / "in", [{"a": batch["a"]} for batch in batches()])
    whole = processed(spark, tmp_path / "in", tmp_path / "whole", SLIDING)
    part = processed(spark, tmp_path / "in", tmp_path / "part", SLIDING, stretch_above=10)
    every, found = counted(whole, "g", "n", "ts"), counted(part, "g", "n", "ts")
    answered = {row[-1] for row in found}
    assert found == Counter({row: n for row, n in every.items() if row[-1] in answered})
    status = part.status()
    assert status.refreshes[0] == len(answered) < len({row[-1] for row in every})
    assert sum(status.refreshes) == sum(whole.status().refreshes)
    assert status.stretch > 1 == whole.status().stretch


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


def test_rows_that_are_late_or_that_no_query_selects_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What depends on the batch reaches those who split it, and the session stays as it was."""

    def rows(*listed: tuple[int, int]) -> dict[str, pa.Table]:
        filled = [
            {"ts": ts, "seq": at, "k": 1, "g": "x", "v": v, "x": 0.5}
            for at, (ts, v) in enumerate(listed)
        ]
        return {"a": pa.Table.from_pylist(filled, schema=SCHEMA)}

    parts = [rows((10, 9), (20, 1)), rows((15, 9), (19, 1), (30, 1)), rows((31, 9), (29, 9))]
    record(tmp_path / "in", parts)
    settings = {name: spark.conf.get(name) for name in (ADAPTIVE_STREAMS, *STREAM_SETTINGS)}
    cql = "SELECT k, v FROM a [RANGE 100 us] WHERE v > 5"
    run = processed(spark, tmp_path / "in", tmp_path / "state", cql)
    assert {name: spark.conf.get(name) for name in settings} == settings
    status = run.status()
    assert (status.rows, status.late) == ({"a": 7}, {"a": 3})
    assert counted(run, "v") == {(9,): 1}, "the second one waits for its instant to close"
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(InvalidSetting, match="PYSPARK_PIN_THREAD"):
        processed(spark, tmp_path / "in", tmp_path / "other", cql)
