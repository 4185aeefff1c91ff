"""Archives on Spark: created, updated and read through a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import mayfly
import mayfly.archive
from mayfly.archive import ReadReport, Workload
from mayfly.errors import BadInput, InvalidSetting, StorageError
from mayfly.testing import assert_same_rows

DAY = 86_400_000_000
FIRST = 20_000 * DAY
DDL = "k STRING, ts TIMESTAMP, v BIGINT"


def rows(first_day: int, last_day: int, count: int, seed: int = 0) -> pa.Table:
    """Rows spread over these days, the first being day 1."""
    chance = np.random.default_rng(seed)
    times = chance.integers(FIRST + (first_day - 1) * DAY + 1, FIRST + last_day * DAY + 1, count)
    return pa.table(
        {
            "k": [f"c{one}" for one in chance.integers(0, 10, count)],
            "ts": pa.array(np.sort(times), pa.timestamp("us", "UTC")),
            "v": np.arange(count),
        }
    )


def of_days(table: pa.Table, first_day: int, last_day: int) -> pa.Table:
    times = table["ts"].cast(pa.int64())
    after, until = FIRST + (first_day - 1) * DAY, FIRST + last_day * DAY
    return table.filter(pc.and_(pc.greater(times, after), pc.less_equal(times, until)))


def with_keys(table: pa.Table, *keys: str) -> pa.Table:
    return table.filter(pc.is_in(table["k"], value_set=pa.array(keys)))


def test_rows_may_come_in_every_form(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    archive = session.create_archive(tmp_path / "a", DDL, key="K", time="TS", window="9 days")
    archive.update([{"K": "a", "ts": datetime(2026, 1, 1, 12), "V": 1}])
    archive.update(pd.DataFrame({"k": ["a"], "TS": [date(2026, 1, 3)], "v": [2]}))
    archive.update(spark.sql("SELECT 'a' AS K, timestamp_micros(1767480000000000) AS Ts, 3L AS V"))
    archive.load([{"k": "a", "ts": datetime(2026, 1, 4, 12), "v": 4}])
    assert sorted(archive.probe("a", columns=["V"])["v"].to_pylist()) == [1, 2, 3, 4]
    with pytest.raises(BadInput, match="would lose a part of its value"):
        archive.update([{"k": "a", "ts": datetime(2026, 1, 5, 12), "v": 1.9}])


def test_columns_may_be_text_a_schema_or_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    frame = spark.createDataFrame(rows(1, 1, 1))
    forms: list[Any] = [DDL, {"k": "string", "ts": "timestamp", "v": "long"}, frame, frame.schema]
    forms += [rows(1, 1, 1), rows(1, 1, 1).schema, rows(1, 1, 1).to_pandas()]
    forms.append([{"k": "a", "ts": datetime(2026, 1, 1), "v": 1}])
    settings = [
        session.create_archive(tmp_path / str(at), form, key="k", window="9 days").settings
        for at, form in enumerate(forms)
    ]
    assert all(one == settings[0] for one in settings)
    assert settings[0].parts == spark.sparkContext.defaultParallelism
    assert (settings[0].window, settings[0].layout.constituents) == (9, 3)


def test_history_is_loaded_interval_by_interval(spark: SparkSession, tmp_path: Path) -> None:
    archive = mayfly.Session(spark).create_archive(tmp_path / "a", DDL, key="k", window=2, parts=2)
    given = of_days(rows(1, 3, 200), 1, 1), of_days(rows(1, 3, 200), 3, 3)  # nothing on day 2
    told: list[int] = []
    batch = spark.createDataFrame(pa.concat_tables(given))
    reports = archive.load(batch, done=lambda one: told.append(one.update))
    assert [one.update for one in reports] == told == [1, 3]
    assert [one.stored for one in reports] == [one.num_rows for one in given]
    assert_same_rows(archive.scan(), given[1])
    with pytest.raises(BadInput, match="no row is newer than update 3"):
        archive.load(batch)


def test_every_way_to_read_gives_the_same(spark: SparkSession, tmp_path: Path) -> None:
    given = rows(1, 6, 300)
    alone = mayfly.archive.create(
        tmp_path / "a", DDL, key="k", window=4, parts=3, constituents=2, origin=FIRST
    )
    for day in range(1, 7):
        alone.update(of_days(given, day, day))
    archive = mayfly.Session(spark).open_archive(tmp_path / "a")
    alive = of_days(given, 3, 6)
    assert_same_rows(archive.scan(), alive)
    assert_same_rows(archive.frame().toArrow(), alive)
    assert archive.frame().toArrow().schema == archive.scan().schema
    assert_same_rows(archive.probe("c3", "c4"), with_keys(alive, "c3", "c4"))
    assert_same_rows(archive.frame(keys=["c3", "c4"]).toArrow(), with_keys(alive, "c3", "c4"))
    wanted = with_keys(alive, "c3", "c4", "c5")
    assert_same_rows(archive.frame(key_range=("c3", "c5")).toArrow(), wanted)
    between = (FIRST + 4 * DAY + 1, FIRST + 5 * DAY)
    assert_same_rows(archive.frame(generated_between=between).toArrow(), of_days(given, 5, 5))
    stored = archive.scan(soft=True)
    assert stored.num_rows > alive.num_rows
    assert_same_rows(archive.frame(soft=True).toArrow(), stored)
    assert_same_rows(archive.frame(as_of=FIRST + 5 * DAY).toArrow(), of_days(given, 2, 5))

    archive.register("kept")
    counted = spark.sql("SELECT count(*) FROM kept WHERE k = 'c3'").collect()[0][0]
    assert counted == with_keys(alive, "c3").num_rows
    report, everything = ReadReport(), ReadReport()
    archive.frame(keys=["c3"], report=report)
    archive.frame(report=everything)
    assert 0 < report.files < everything.files == archive.inspect.status().files
    assert 0 < report.bytes < everything.bytes == archive.inspect.status().bytes
    with pytest.raises(InvalidSetting, match="both keys and a key range"):
        archive.frame(keys=["c3"], key_range=("c3", None))


@pytest.mark.parametrize("keys", [["a"], ["a", "b"], ["c", "b", "a"], ["absent"]])
def test_a_row_found_under_several_values_comes_once(
    spark: SparkSession, tmp_path: Path, keys: list[str]
) -> None:
    alone = mayfly.archive.create(
        tmp_path / "a", "k ARRAY<STRING>, ts TIMESTAMP, v INT", key="k", window=3, parts=3
    )
    tags = [["a", "b"], ["b", "c", "b"], ["c"], ["d", "a"]]
    given = pa.table(
        {"k": tags, "ts": pa.array([FIRST + 5] * 4, pa.timestamp("us", "UTC")), "v": [1, 2, 3, 4]},
        pa.schema([("k", pa.list_(pa.string())), ("ts", pa.timestamp("us", "UTC")),
                   ("v", pa.int32())]),
    )  # fmt: skip
    alone.update(given)
    expected = given.filter(pa.array([bool(set(one) & set(keys)) for one in tags]))
    assert_same_rows(alone.probe(*keys), expected)
    frame = mayfly.Session(spark).open_archive(tmp_path / "a").frame(keys=keys)
    assert_same_rows(frame.toArrow(), expected)


def test_reads_without_spark_start_no_java(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=3)
    archive.update(rows(1, 1, 20))
    program = """
import json, sys
import mayfly.archive
archive = mayfly.archive.open(sys.argv[1])
print(json.dumps([archive.probe("c3").num_rows, archive.scan().num_rows, "pyspark" in sys.modules]))
"""
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == [archive.probe("c3").num_rows, 20, False]


def test_late_rows_go_to_their_own_day_if_the_archive_takes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = mayfly.Session(spark)
    given, forgotten = rows(1, 4, 200), rows(2, 3, 30, seed=1)
    strict = session.create_archive(tmp_path / "strict", DDL, key="k", window=3, origin=FIRST)
    with pytest.raises(BadInput, match="belongs to an earlier update"):
        strict.update(given, update=4)
    alone = mayfly.archive.create(tmp_path / "kind", DDL, key="k", window=3, late="own day")
    for day in (1, 2, 3):
        alone.update(of_days(given, day, day))
    kind = session.open_archive(tmp_path / "kind")
    report = kind.update(pa.concat_tables([of_days(given, 4, 4), forgotten]), update=4)
    assert report.late == forgotten.num_rows
    assert_same_rows(kind.scan(), pa.concat_tables([of_days(given, 2, 4), forgotten]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["k", "v"], "missing: ts"),
        (["k", "ts", "v", "1 AS more"], "not in the archive: more"),
        (["k", "ts", "CAST(v AS STRING) AS v"], "v is string, not bigint"),
        (["k", "ts", "v", "v"], "a name occurs twice"),
    ],
)
def test_a_batch_with_other_columns_is_refused(
    spark: SparkSession, tmp_path: Path, change: list[str], said: str
) -> None:
    archive = mayfly.Session(spark).create_archive(tmp_path / "a", DDL, key="k", window=3)
    batch = spark.createDataFrame(rows(1, 1, 3)).selectExpr(*change)
    with pytest.raises(BadInput, match=said):
        archive.update(batch)
    assert archive.version().state.update == 0


def test_a_narrower_integer_is_widened(spark: SparkSession, tmp_path: Path) -> None:
    archive = mayfly.Session(spark).create_archive(tmp_path / "a", DDL, key="k", window=3)
    given = rows(1, 1, 5)
    archive.update(spark.createDataFrame(given).selectExpr("CAST(v AS INT) AS v", "ts", "k"))
    assert_same_rows(archive.scan(), given)


def test_a_streaming_dataframe_is_sent_to_the_sink(spark: SparkSession, tmp_path: Path) -> None:
    archive = mayfly.Session(spark).create_archive(tmp_path / "a", DDL, key="k", window=3)
    with pytest.raises(InvalidSetting, match="streaming") as refusal:
        archive.update(spark.readStream.format("rate").load())
    assert "sink()" in refusal.value.hint


def test_frames_outlive_updates_and_vacuums(spark: SparkSession, tmp_path: Path) -> None:
    alone = mayfly.archive.create(
        tmp_path / "a", DDL, key="k", window=2, scheme="REINDEX", keep_versions=1
    )
    given = rows(1, 3, 90)
    for day in (1, 2):
        alone.update(of_days(given, day, day))
    archive = mayfly.Session(spark).open_archive(tmp_path / "a")
    derived = archive.frame().where("v >= 0")  # the frame itself is gone at once
    alone.update(of_days(given, 3, 3))
    alone.maintain.vacuum(keep_versions=1, grace=0)
    assert_same_rows(derived.toArrow(), of_days(given, 1, 2))
    assert_same_rows(archive.frame().toArrow(), of_days(given, 2, 3))


def test_who_may_not_write_reads_without_a_pin(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = rows(1, 1, 10)
    mayfly.archive.create(tmp_path / "a", DDL, key="k", window=2).update(given)
    archive = mayfly.Session(spark).open_archive(tmp_path / "a")

    def refused(*_: Any, **__: Any) -> None:
        raise StorageError("cannot write", "ask") from PermissionError(13, "Permission denied")

    monkeypatch.setattr("mayfly.storage.directory.Directory.put_if_absent", refused)
    assert not archive.repository.pin().held
    assert_same_rows(archive.frame().toArrow(), given)


def test_a_column_that_came_later_is_null_before(spark: SparkSession, tmp_path: Path) -> None:
    given = rows(1, 2, 40)
    alone = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=3)
    alone.update(of_days(given, 1, 1))
    archive = mayfly.Session(spark).open_archive(tmp_path / "a")
    archive.maintain.add_column("note", "STRING")
    newer = spark.createDataFrame(of_days(given, 2, 2)).selectExpr("*", "'x' AS note")
    archive.update(newer)
    found = archive.frame().toArrow()
    assert_same_rows(found, archive.scan())
    notes = pc.equal(found["note"], "x").to_pylist()
    new = [at > datetime.fromtimestamp(0, UTC) + timedelta(microseconds=FIRST + DAY)
           for at in found["ts"].to_pylist()]  # fmt: skip
    assert [bool(one) for one in notes] == new
    archive.maintain.rollback(archive.repository.versions()[-2])
    assert "note" in archive.settings.all_columns
    assert_same_rows(archive.scan(columns=["k", "ts", "v"]), of_days(given, 1, 1))


def test_progress_is_told_part_by_part(spark: SparkSession, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    archive = mayfly.Session(spark).create_archive(
        tmp_path / "a",
        DDL,
        key="k",
        window=3,
        parts=3,
        progress=lambda done, parts: told.append((done, parts)),
    )
    archive.update(rows(1, 1, 50))
    assert told[-1] == (3, 3)
    assert told == sorted(told)


def test_auto_takes_what_the_advisor_recommends(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    load = Workload(megabytes=20, probes=10, scans=1)
    archive = session.create_archive(
        tmp_path / "a", DDL, key="k", window=6, scheme="auto", expect=load, technique="in-place"
    )
    assert archive.settings.technique == "in-place"
    assert archive.settings.wave.scheme.hard
    with pytest.raises(InvalidSetting, match="needs to know what to expect"):
        session.create_archive(tmp_path / "b", DDL, key="k", window=6, scheme="auto")
    assert not os.path.exists(tmp_path / "b")
