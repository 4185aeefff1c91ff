"""An archive that promises PHYSICAL WITHIN, fed by queries: no byte is left of what must be gone.

Every input row has a text of its own, so its bytes can be looked for in every file there is: of the
archive, of what is staged for it, and of the checkpoint with its states, logs and changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.serving.pipeline_places import ARCHIVES
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from tests.integration.recorded import declare, record

SCHEMA = pa.schema(
    {"ts": pa.timestamp("us", "UTC"), "seq": pa.int64(), "k": pa.int32(), "tag": pa.string()}
)
LIFE, REFRESH, ROUNDS, STEP = 30, 10, 4, 45
STREAMS = """
CREATE STREAM a (ts TIMESTAMP, seq BIGINT, k INT, tag STRING)
  FROM parquet('streams/a') TIMESTAMP BY ts SEQUENCE seq;
CREATE STREAM b (ts TIMESTAMP, seq BIGINT, k INT, tag STRING)
  FROM parquet('streams/b') TIMESTAMP BY ts SEQUENCE seq;
"""
ARCHIVED = {
    "pairs": "KEY k REFRESH 10 us {} AS SELECT l.k, l.tag, r.tag AS other"
    " FROM a [RANGE 30 us] l, b [RANGE 20 us] r WHERE l.k = r.k",
    "totals": "KEY tag REFRESH 10 us {} AS SELECT tag, COUNT(*) AS n FROM a [RANGE 30 us]"
    " GROUP BY tag",
    "lonely": "KEY tag REFRESH 10 us {} AS SELECT l.k, l.tag FROM a [RANGE 30 us] l"
    " WHERE NOT EXISTS (SELECT * FROM b [RANGE 20 us] r WHERE r.tag = l.tag)",
    "last": "KEY tag REFRESH 10 us MAX LIFETIME 60 us {} AS SELECT k, tag"
    " FROM a [PARTITION BY k ROWS 2 RANGE 25 us]",
}


def round_of(number: int) -> dict[str, pa.Table]:
    """The rows of one round: about one per instant in each stream."""
    chance = Random(number)
    found = {}
    for name in ("a", "b"):
        rows = [
            {"ts": at, "seq": at, "k": chance.randint(0, 3), "tag": f"{name}-{at:05}-"}
            for at in range(number * STEP, (number + 1) * STEP)
        ]
        found[name] = pa.Table.from_pylist(rows, schema=SCHEMA)
    return found


def tags_in(*folders: Path) -> set[str]:
    """Every text in every column of every data file, whatever names the file."""
    found: set[str] = set()
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.suffix == ".arrow":
                rows = pa.ipc.open_file(file.read_bytes()).read_all()
            elif file.suffix == ".parquet":
                rows = pq.read_table(file)
            else:
                continue
            for column in rows.columns:
                if pa.types.is_string(column.type):
                    found |= set(column.drop_null().to_pylist())
    return found


def run_round(spark: SparkSession, folder: Path, number: int, **more: Any) -> dict[str, QueryRun]:
    record(folder / "streams", [round_of(number)], number)
    pipeline = load_pipeline(spark, folder / "pipeline.cql")
    settings: dict[str, Any] = {"available_now": True, "sync": False, "buckets": 2, **more}
    runs = pipeline.start(folder / "state", **settings)
    assert all(run.await_done(240) for run in runs.values())
    return runs


def prepared(folder: Path, contract: str, names: list[str]) -> None:
    record(folder / "streams", [round_of(0)])
    made = [f"CREATE ARCHIVE {name} {ARCHIVED[name].format(contract)};" for name in names]
    (folder / "pipeline.cql").write_text(STREAMS + "\n".join(made))


def archives(spark: SparkSession, folder: Path) -> dict[str, SparkArchive]:
    session = Session(spark)
    return {one.name: session.open_archive(one) for one in (folder / ARCHIVES).iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("within", [10, 35])
def test_no_byte_is_left_in_the_checkpoint(
    spark: SparkSession, tmp_path: Path, within: int
) -> None:
    prepared(tmp_path, f"PHYSICAL WITHIN {within} us", list(ARCHIVED))
    for number in range(ROUNDS):
        runs = run_round(spark, tmp_path, number)
        last = (number + 1) * STEP - 1
        for name, archive in archives(spark, tmp_path).items():
            update = archive.version().state.update
            assert archive.version().time >= last - REFRESH, name
            due = archive.settings.contract.due(archive.settings.calendar, update)
            assert due is not None
            left = tags_in(tmp_path / "state", tmp_path / ARCHIVES / name)
            ends = {tag: int(tag.split("-")[1]) + LIFE for tag in left}
            assert not {tag for tag, end in ends.items() if end < due}
            assert f"a-{last:05}-" in left
            assert archive.maintain.verify().problems == ()
            status = archive.inspect.status()
            assert status.erased_until is not None
            assert due - 1 <= status.erased_until <= archive.version().time
            assert archive.scan().num_rows
        assert runs["pairs"].snapshot().num_rows
    assert runs["totals"].status().last_changes > 0


@pytest.mark.slow
def test_a_join_built_in_python_keeps_the_promise_too(spark: SparkSession, tmp_path: Path) -> None:
    """The archive gets pairs of the last round only, and nothing keeps older ones."""
    columns = {"a_k": "INT", "a_tag": "STRING", "b_tag": "STRING", "ts": "TIMESTAMP",
               "exp": "TIMESTAMP"}  # fmt: skip
    archive = Session(spark).create_archive(
        tmp_path / "pairs", columns, key="a_k", max_lifetime="30 us", exp="exp", refresh="10 us",
        origin=0, contract="PHYSICAL WITHIN 10 us",
    )  # fmt: skip
    for number in range(3):
        record(tmp_path / "streams", [round_of(number)], number)
        streams = declare(Session(spark), tmp_path / "streams", dict.fromkeys("ab", SCHEMA))
        left, right = streams["a"].window("30 us"), streams["b"].window("20 us")
        run = left.join(right, ["k"]).start(
            tmp_path / "state", archive=archive, available_now=True, sync=False, buckets=2
        )
        assert run.await_done(240)
        due = archive.settings.contract.due(
            archive.settings.calendar, archive.version().state.update
        )
        assert due is not None
        assert due > number * STEP
        tags = tags_in(tmp_path / "state", tmp_path / "pairs")
        assert not {tag for tag in tags if int(tag.split("-")[1]) + LIFE < due}
        assert archive.scan().num_rows
        assert archive.maintain.verify().problems == ()


@pytest.mark.slow
def test_without_the_promise_bytes_linger(spark: SparkSession, tmp_path: Path) -> None:
    """The check above can fail."""
    prepared(tmp_path, "", ["pairs"])
    for number in range(2):
        run_round(spark, tmp_path, number)
    left = tags_in(tmp_path / "state")
    assert min(int(tag.split("-")[1]) for tag in left) < STEP - LIFE


@pytest.mark.slow
def test_verify_looks_into_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    prepared(tmp_path, "PHYSICAL WITHIN 10 us", ["totals"])
    run_round(spark, tmp_path, 0)
    (archive,) = archives(spark, tmp_path).values()
    assert archive.maintain.verify().ok
    some = min((tmp_path / "state" / "data").glob("*.arrow"))
    old = pa.ipc.open_file(some.read_bytes()).read_all()
    at = old.schema.get_field_index("_exp")
    old = old.set_column(at, "_exp", pa.array([1] * old.num_rows, pa.int64()))
    forgotten = some.with_name("forgotten.arrow")
    with pa.OSFile(str(forgotten), "wb") as file, pa.ipc.new_file(file, old.schema) as writer:
        writer.write_table(old)
    os.utime(forgotten, (1, 1))
    (problem,) = archive.maintain.verify().problems
    assert problem.path == str(forgotten)
    assert "should be gone" in problem.what
    assert archive.inspect.status().erased_until == MIN_TIME
    run_round(spark, tmp_path, 1)  # the next batch removes what nobody names
    assert archive.maintain.verify().ok


@pytest.mark.slow
def test_a_contract_that_comes_later_holds_from_the_next_batch_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    prepared(tmp_path, "", ["pairs"])
    run_round(spark, tmp_path, 0, history="forever")
    (archive,) = archives(spark, tmp_path).values()
    archive.migrate(contract="PHYSICAL WITHIN 10 us")
    assert not archive.maintain.verify().ok  # the query has not run since
    run_round(spark, tmp_path, 1, history="forever")
    assert archive.maintain.verify().ok


def test_promises_that_cannot_be_kept_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    prepared(tmp_path, "PHYSICAL WITHIN 10 us", ["pairs"])
    pipeline = load_pipeline(spark, tmp_path / "pipeline.cql")
    with pytest.raises(InvalidSetting, match="dead letters of stream a are kept"):
        pipeline.start(tmp_path / "state", sync=False, dead_letters=tmp_path / "late")
