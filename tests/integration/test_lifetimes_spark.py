"""Archives of rows with their own lifetimes on Spark, against the same archive in one process."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import mayfly
import mayfly.archive
from mayfly.errors import BadInput, InvalidSetting
from mayfly.testing import assert_same_rows

HOUR = 3_600_000_000
DDL = "k STRING, ts TIMESTAMP, exp TIMESTAMP, v BIGINT"
SETTINGS: dict[str, Any] = {
    "key": "k", "max_lifetime": "6 hours", "refresh": "1 hour", "origin": 0,
}  # fmt: skip


def rows(update: int, count: int, seed: int = 0) -> pa.Table:
    chance = Random(f"{seed} {update}")
    ts = [chance.randint((update - 1) * HOUR + 1, update * HOUR) for _ in range(count)]
    exp = [at + chance.randint(1, 6 * HOUR) for at in ts]
    stamp = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "k": [f"c{chance.randint(0, 9)}" for _ in ts],
            "ts": pa.array(ts, stamp),
            "exp": pa.array(exp, stamp),
            "v": [update * 1000 + at for at in range(count)],
        }
    )


@pytest.mark.parametrize(
    "layout", [pytest.param("Rebuild 2x2", marks=pytest.mark.slow), "NoRebuild 2x3"]
)
def test_spark_and_one_process_agree(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    session = mayfly.Session(spark)
    ours = session.create_archive(tmp_path / "spark", DDL, layout=layout, parts=2, **SETTINGS)
    alone = mayfly.archive.create(tmp_path / "alone", DDL, layout=layout, parts=2, **SETTINGS)
    batches: list[pa.Table] = []
    for update in range(1, 9):
        batch = None if update == 5 else rows(update, 20)
        batches += [] if batch is None else [batch]
        given = pa.concat_tables(batches)
        one = ours.update(batch)
        other = alone.update(batch)
        assert (one.stored, one.removed, one.dead_on_arrival) == (
            other.stored, other.removed, other.dead_on_arrival,
        )  # fmt: skip
        now = pa.scalar(update * HOUR, pa.int64()).cast(given["exp"].type)
        alive = given.filter(pc.greater(given["exp"], now))
        assert_same_rows(ours.scan(), alive)
        assert_same_rows(ours.frame().toArrow(), alive)
        assert_same_rows(alone.scan(), alive)
    assert ours.maintain.verify().ok
    # what one writes, the other carries on
    mayfly.archive.open(tmp_path / "spark").update(rows(9, 5))
    assert session.open_archive(tmp_path / "spark").version().state.update == 9


def test_every_read_path_shows_the_same(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    archive = session.create_archive(tmp_path / "a", DDL, layout="lazy 2x2", parts=2, **SETTINGS)
    for update in range(1, 9):
        archive.update(rows(update, 30))
    mayfly.register(spark)
    later = 8 * HOUR + HOUR // 2
    for asked in ({}, {"as_of": later}, {"window": "2 hours"}):
        found = archive.scan(**asked)
        assert found.num_rows
        assert_same_rows(archive.frame(**asked).toArrow(), found)
        options = {name: str(value) for name, value in asked.items()}
        source = spark.read.format("mayfly").options(**options).load(str(tmp_path / "a"))
        assert_same_rows(source.toArrow(), found)
        probed = archive.probe("c3", "c4", **asked)
        assert_same_rows(archive.frame(keys=["c3", "c4"], **asked).toArrow(), probed)
    soft = archive.scan(soft=True)
    assert soft.num_rows > archive.scan().num_rows  # lazy keeps some dead rows
    assert_same_rows(archive.frame(soft=True).toArrow(), soft)


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["HARD", pytest.param("SOFT(1)", marks=pytest.mark.slow)])
def test_no_read_path_shows_what_was_declared_void(
    spark: SparkSession, tmp_path: Path, contract: str
) -> None:
    mayfly.register(spark)
    path = tmp_path / "a"
    alone = mayfly.archive.create(
        path, DDL, layout="Rebuild 2x2", contract=contract, parts=2, **SETTINGS
    )
    for update in range(1, 5):
        alone.update(rows(update, 25))
    archive = mayfly.Session(spark).open_archive(path)
    before = archive.scan()
    void_rows = before.filter(pc.starts_with(before["k"], "c1")).slice(0, 2)
    archive.invalidate(["c3", "c4"])
    archive.invalidate(rows=void_rows)
    hidden = [row["v"] for row in before.to_pylist() if row["k"] in ("c3", "c4")]
    hidden += void_rows["v"].to_pylist()
    expected = before.filter(pc.invert(pc.is_in(before["v"], value_set=pa.array(hidden))))
    assert 0 < expected.num_rows < before.num_rows
    assert_same_rows(archive.scan(), expected)

    def agree(found: pa.Table, **asked: Any) -> None:
        assert_same_rows(archive.frame(**asked).toArrow(), found)
        options = {name: str(value) for name, value in asked.items() if name != "keys"}
        if "keys" in asked:
            options["keys"] = json.dumps(asked["keys"])
        source = spark.read.format("mayfly").options(**options).load(str(path))
        assert_same_rows(source.toArrow(), found)

    agree(archive.scan())
    agree(archive.scan(soft=True), soft=True)
    assert archive.scan(soft=True).num_rows >= before.num_rows  # they are still stored
    agree(archive.probe("c1", "c3"), keys=["c1", "c3"])
    later = 4 * HOUR + HOUR // 3
    agree(archive.scan(as_of=later), as_of=later)
    # What comes later under the same keys is not meant; what an older version showed, it shows.
    alone.update(rows(5, 25))
    assert archive.probe("c3", generated_between=(4 * HOUR + 1, None)).num_rows
    agree(archive.scan())
    assert not archive.probe("c3", generated_between=(None, 4 * HOUR)).num_rows
    agree(archive.scan(as_of=later), as_of=later)
    assert not archive.probe("c4", as_of=later).num_rows


@pytest.mark.slow
def test_lifetimes_of_classes_and_intervals(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ddl = "k STRING, ts TIMESTAMP, tier STRING, ttl INTERVAL DAY TO SECOND"
    data = [
        ("a", now, "free", timedelta(hours=1)),
        ("b", now, "paid", timedelta(hours=3)),
    ]
    by_class = session.create_archive(
        tmp_path / "classes", ddl, key="k", max_lifetime="5 hours", refresh="1 hour",
        lifetime={"tier": {"free": "2 hours", "paid": "5 hours"}},
    )  # fmt: skip
    by_column = session.create_archive(
        tmp_path / "column", ddl, key="k", max_lifetime="5 hours", refresh="1 hour",
        lifetime="ttl",
    )  # fmt: skip
    by_expression = session.create_archive(
        tmp_path / "expression", ddl, key="k", max_lifetime="5 hours", refresh="1 hour",
        lifetime="CASE WHEN tier = 'paid' THEN ttl + INTERVAL 1 HOUR ELSE INTERVAL 2 HOURS END",
    )  # fmt: skip
    for archive, hours in ((by_class, (2, 5)), (by_column, (1, 3)), (by_expression, (2, 4))):
        archive.update(spark.createDataFrame(data, ddl))
        for key, lived in zip("ab", hours, strict=True):
            end = now + timedelta(hours=lived)
            assert archive.probe(key, as_of=end - timedelta(microseconds=1)).num_rows == 1
            assert archive.probe(key, as_of=end).num_rows == 0
    with pytest.raises(BadInput, match="expiration time is NULL"):
        by_class.update(spark.createDataFrame([("c", now + timedelta(hours=1), "gold", None)], ddl))


@pytest.mark.slow
def test_windows_of_a_number_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    archive = mayfly.Session(spark).create_archive(
        tmp_path / "a", "k BIGINT, ts BIGINT, pos BIGINT", key="k", max_lifetime="60 us",
        refresh="10 us", origin=0, parts=2, counts={"pos": 25}, layout="CountNoRebuild2x2",
    )  # fmt: skip
    mayfly.register(spark)
    for update, first in ((1, 1), (2, 21), (3, 41)):
        positions = range(first, first + 20)
        batch = pa.table({"k": positions, "ts": [10 * update] * 20, "pos": positions})
        archive.update(batch)
        alive = list(range(max(1, first + 20 - 25), first + 20))
        assert sorted(archive.scan()["pos"].to_pylist()) == alive
    for found in (archive.frame(), spark.read.format("mayfly").load(str(tmp_path / "a"))):
        assert sorted(found.toArrow()["pos"].to_pylist()) == alive
    assert archive.frame(keys=[35, 36]).toArrow()["pos"].to_pylist() == [36]
    source = spark.read.format("mayfly").option("window", "7")
    for found in (archive.frame(window=7), source.load(str(tmp_path / "a"))):
        assert sorted(found.toArrow()["pos"].to_pylist()) == alive[-7:]


@pytest.mark.slow
def test_an_archive_of_a_window_is_changed_step_by_step(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = mayfly.Session(spark).create_archive(
        tmp_path / "a", DDL, key="k", window=5, refresh="1 hour", origin=0, parts=2
    )
    batches = [rows(update, 12) for update in range(1, 7)]
    for batch in batches:
        archive.update(batch)
    archive.migrate(window=4)
    assert_same_rows(archive.scan(), pa.concat_tables(batches[2:]))
    archive.migrate(scheme="DEL", method="side by side")
    assert_same_rows(archive.frame().toArrow(), pa.concat_tables(batches[2:]))
    report = archive.migrate(max_lifetime="6 hours", exp="exp", layout="Rebuild 2x2")
    given = pa.concat_tables(batches[2:])
    now = pa.scalar(6 * HOUR, pa.int64()).cast(given["exp"].type)
    alive = given.filter(pc.greater(given["exp"], now))
    assert (report.rows, report.ended) == (alive.num_rows, 48 - alive.num_rows)
    archive.migrate(refresh="30 minutes", method="side by side")
    assert_same_rows(archive.frame().toArrow(), alive)
    archive.update(None)
    now = pa.scalar(6 * HOUR + HOUR // 2, pa.int64()).cast(given["exp"].type)
    assert_same_rows(archive.frame().toArrow(), alive.filter(pc.greater(alive["exp"], now)))
    assert archive.maintain.verify().ok


def test_rows_that_live_too_long_are_refused_with_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = mayfly.Session(spark).create_archive(tmp_path / "a", DDL, **SETTINGS)
    batch = rows(1, 3)
    exp = pc.add(batch["ts"], pa.scalar(7 * HOUR, pa.duration("us")))
    with pytest.raises(BadInput, match="migrate the archive to a longer one"):
        archive.update(batch.set_column(2, "exp", exp))
    assert archive.version().state.update == 0


def test_a_window_or_lifetimes(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    with pytest.raises(InvalidSetting, match="max_lifetime"):
        session.create_archive(tmp_path / "a", DDL, key="k")
    with pytest.raises(InvalidSetting, match="max_lifetime"):
        session.create_archive(tmp_path / "a", DDL, key="k", window=3, exp="exp")
    for other in ({"window": 3}, {"scheme": "RATA"}, {"spread": True}):
        with pytest.raises(InvalidSetting, match=f"{next(iter(other))} does not go with"):
            session.create_archive(tmp_path / "a", DDL, **SETTINGS, **other)
    for late in ("refuse", "this update"):
        archive = session.create_archive(tmp_path / late, DDL, **SETTINGS, late=late)
        assert archive.settings.late == late


def test_a_stream_of_rows_with_their_own_lifetimes(spark: SparkSession, tmp_path: Path) -> None:
    session = mayfly.Session(spark)
    archive = session.create_archive(tmp_path / "a", DDL, layout="NoRebuild 2x2", **SETTINGS)
    sink = archive.sink("s")
    everything = [rows(update, 15) for update in range(1, 7)]
    for number, batch in enumerate(everything):
        sink.accept(spark.createDataFrame(batch), number)
    late = rows(2, 10, seed=1)
    sink.accept(spark.createDataFrame(late), 6)
    sink.flush()
    update = archive.version().state.update
    assert update == 6
    given = pa.concat_tables([*everything, late])
    alive = given.filter(pc.greater(given["exp"].cast(pa.int64()), update * HOUR))
    assert_same_rows(archive.scan(), alive)
