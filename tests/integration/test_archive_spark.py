"""Archives updated by Spark jobs, against the model of the contract tests."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import mayfly.archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals
from mayfly.archive.model.key_hash import key_parts
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import PART
from mayfly.errors import BadInput, CorruptFile
from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.jobs import OnSpark
from mayfly.storage import open_segment
from tests.contract.archive_history import History
from tests.contract.archive_model import KEY_KINDS, ArchiveModel, KeyKind, as_table, found
from tests.integration.mortal_tasks import Mortal
from tests.unit.archive.small_archive import day_rows, said, small_settings, values


def created(spark: SparkSession, root: Path, settings: ArchiveSettings) -> SparkArchive:
    return SparkArchive.create(root, settings, OnSpark(spark), sync=False)


# -- the same as in this process -----------------------------------------------------------------

HISTORIES = {
    "REINDEX++ by arrays": ArchiveSettings(
        columns={"k": "array<double>", "ts": "timestamp", "id": "bigint", "note": "string"},
        key=("k",),
        time="ts",
        calendar=CalendarDays("Europe/Berlin", date(2026, 3, 27)),
        layout=WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, 2, 1),
        technique=UpdateTechnique.PACKED_SHADOW,
        parts=2,
        keep_versions=3,
    ),
    "DEL by two columns": ArchiveSettings(
        columns={"a": "string", "b": "int", "ts": "bigint", "id": "bigint", "note": "string"},
        key=("a", "b"),
        time="ts",
        calendar=FixedIntervals(100, origin=-5),
        layout=WaveLayout(WaveScheme.DEL, 2, 1),
        technique=UpdateTechnique.IN_PLACE,
        late=LateRows.OWN_DAY,
        parts=3,
    ),
    "WATA by doubles": ArchiveSettings(
        columns={"k": "double", "ts": "bigint", "id": "bigint", "note": "string"},
        key=("k",),
        time="ts",
        calendar=FixedIntervals(1_000_000),
        layout=WaveLayout(WaveScheme.WATA, 3, 2),
        technique=UpdateTechnique.SIMPLE_SHADOW,
    ),
}
KINDS = {
    "REINDEX++ by arrays": "array of doubles",
    "DEL by two columns": "two columns",
    "WATA by doubles": "double",
}


@pytest.mark.halved
@pytest.mark.parametrize("name", HISTORIES)
def test_an_archive_on_spark_is_its_list_of_rows(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Every update is checked as the contract does; then DataFrames must show the same."""
    settings, keys, chance = HISTORIES[name], KEY_KINDS[KINDS[name]], Random(name)
    archive = created(spark, tmp_path / "archive", settings)
    history = History(settings, keys, chance, archive, ArchiveModel(settings, keys))
    history.note_commit(0)
    for update in range(1, 5):
        batch = None if update == 3 else history.draw_batch(update)
        while batch is not None and len(batch) < 12:
            batch += history.draw_batch(update)
        history.update(batch, update)
    history.check()
    check_frames(history, archive)


def check_frames(history: History, archive: SparkArchive) -> None:
    model, update = history.model, history.model.update
    now, columns = model.time_of(update), list(history.settings.all_columns)
    alive, stored = model.alive(update, now), model.stored(update)
    assert alive
    keys = history.keys.values
    single = len(history.settings.sort_columns) == 1
    low, high = sorted((keys[0][0], keys[-1][0]), key=lambda value: (value != value, value))
    middle = model.time_of(update - 1)
    asked: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, alive),
        ({"soft": True}, stored),
        ({"as_of": now + 1}, model.alive(update, now + 1)),
        ({"generated_between": (middle, now)}, [row for row in alive if row.ts >= middle]),
        ({"keys": [key[0] if single else key for key in keys[:2]]}, model.under(alive, keys[:2])),
        ({"key_range": (low, high)}, model.between(alive, low, high)),
    ]
    for question, rows in asked:
        table = archive.frame(**question).toArrow()
        assert table.column_names == columns
        assert found(table) == model.shown(rows, columns), question


ATOMIC: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [-128, 0, 127],
    "smallint": [-32768, 5],
    "int": [-(2**31), 0, 2**31 - 1],
    "bigint": [-(2**63), 0, 2**63 - 1],
    "float": [0.0, -0.0, 0.25, float("nan"), float("-inf")],
    "double": [0.0, -0.0, 0.1, float("nan"), float("inf")],
    "decimal(9,2)": [Decimal("-0.01"), Decimal("1234567.89")],
    "decimal(18,3)": [Decimal("-999999999999999.999"), Decimal(0)],
    "decimal(38,10)": [Decimal("-1e27"), Decimal("0.0000000001"), Decimal(128)],
    "string": ["", "a", "é🐞", "x" * 100, "nul\0nul"],
    "binary": [b"", b"\0\xff", bytes(70)],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 2, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, 0, 7, UTC)],
    "timestamp_ntz": [datetime(1, 1, 2), datetime(2026, 3, 29, 2, 30)],
    "interval day to second": [timedelta(0), timedelta(-3, 5, 7)],
}
ALL_TYPES = KeyKind({f"c{at}": kind for at, kind in enumerate(ATOMIC)}, [])


def rows_of_all_types(count: int, seed: int) -> list[dict[str, Any]]:
    chance = Random(seed)
    return [
        {
            **{f"c{at}": chance.choice(values) for at, values in enumerate(ATOMIC.values())},
            "ts": chance.randint(1, 100),
        }
        for _ in range(count)
    ]


def test_keys_of_every_type_lie_where_probes_look(spark: SparkSession, tmp_path: Path) -> None:
    """All types in one key: Spark's hash must be ours, and rows must come back as they went in."""
    settings = small_settings(
        columns={**ALL_TYPES.columns, "ts": "bigint"}, key=tuple(ALL_TYPES.columns), parts=5
    )
    rows = rows_of_all_types(60, 1)
    table = as_table(rows, settings, settings.columns)
    declared = ", ".join(f"{name} {kind}" for name, kind in settings.columns.items())
    batch = spark.createDataFrame(table, declared)
    hashes = batch.selectExpr(*[f"xxhash64({name}) AS {name}" for name in ALL_TYPES.columns])
    printed = hashes.toArrow()
    for name, kind in ALL_TYPES.columns.items():
        own = xxhash64([table[name].combine_chunks()], len(rows)).tolist()
        assert own == printed[name].to_pylist(), kind

    archive = created(spark, tmp_path / "archive", settings)
    archive.update(batch)
    assert found(archive.scan()) == found(archive.frame().toArrow()) == found(table)
    for segment in archive.version().manifest.segments.values():
        stored = open_segment(archive.repository.directory, segment)
        for row in stored.to_pylist():
            key = [row[name] for name in settings.key]
            assert key_parts([key], settings.key_types, 5)[0] == segment.tags[PART]
    for row in rows[:10]:
        assert archive.probe(tuple(row[name] for name in settings.key)).num_rows >= 1


# -- what is refused -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkArchive:
    """Three days of ten keys in two parts; tests that use it leave it as it is."""
    root = tmp_path_factory.mktemp("refusing") / "archive"
    archive = created(spark, root, small_settings("WATA", parts=2))
    for day in (1, 2, 3):
        archive.update(day_rows(day))
    archive.maintain.vacuum(grace=0)
    return archive


def check_unchanged(archive: SparkArchive) -> None:
    assert archive.version().state.update == 3
    assert values(archive.scan()) == said([1, 2, 3])
    named = {path for version in archive.inspect.history() for path in version.manifest.segments}
    assert set(archive.repository.directory.all_names("data")) == named


def test_refused_rows_are_counted_over_all_parts(archive: SparkArchive) -> None:
    good = day_rows(4, range(30))
    bad = pa.table(
        {
            "k": pa.array([None, 1, 2, 3, None], pa.int64()),
            "ts": pa.array([310, None, 401, 300, 311], pa.int64()),
            "v": ["no key", "no time", "from the future", "late", "no key either"],
        }
    )
    with pytest.raises(BadInput) as caught:
        archive.update(pa.concat_tables([good, bad]))
    message = caught.value.message
    assert message.startswith("update 4: 5 of 35 rows were refused, nothing was written")
    for line in (
        "1 row: the generation time is NULL",
        "2 rows: the search key is NULL",
        "1 row: the row was generated after the time of this update",
        "1 row: the row belongs to an earlier update",
        "k=None, ts=310",
        "k=None, ts=311",
        "k=2, ts=401",
    ):
        assert line in message
    check_unchanged(archive)


@pytest.mark.parametrize(
    ("expressions", "problem"),
    [
        (["k", "ts"], "missing: v"),
        (["k", "ts", "v", "1 AS w"], "not in the archive: w"),
        (["CAST(k AS STRING) AS k", "ts", "v"], "k is string, not bigint"),
        (["k", "timestamp_micros(ts) AS ts", "v"], "ts is timestamp, not bigint"),
    ],
)
def test_other_columns_are_refused_before_anything_runs(
    spark: SparkSession, archive: SparkArchive, expressions: list[str], problem: str
) -> None:
    batch = spark.createDataFrame(day_rows(4)).selectExpr(*expressions)
    with pytest.raises(BadInput, match="does not have the archive's columns") as caught:
        archive.update(batch)
    assert problem in caught.value.message
    check_unchanged(archive)


def test_a_view_shows_the_rows(spark: SparkSession, archive: SparkArchive) -> None:
    archive.register("three_days")
    asked = spark.sql("SELECT count(*), count(DISTINCT k), max(ts) FROM three_days WHERE k < 5")
    assert tuple(asked.collect()[0]) == (15, 5, 200 + 1 + 4 * 11)


# -- what fails ----------------------------------------------------------------------------------


def test_a_task_that_dies_leaves_files_for_the_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    """Without a second attempt the job fails: the archive is as it was, and the update can be
    sent again."""
    archive = created(spark, tmp_path / "archive", small_settings("REINDEX", parts=2))
    archive.update(day_rows(1))
    archive.updates.committer.executor = Mortal(spark, marker=str(tmp_path / "died"))
    with pytest.raises(Exception, match=r"(?i)worker|job aborted|crashed"):
        archive.update(day_rows(2))
    assert (tmp_path / "died").exists()
    assert values(archive.scan()) == said([1])
    named = set(archive.version().manifest.segments)
    assert set(archive.repository.directory.all_names("data")) > named
    archive.update(day_rows(2))
    assert values(archive.scan()) == said([1, 2])
    archive.maintain.vacuum(keep_versions=1, grace=0)
    assert set(archive.repository.directory.all_names("data")) == set(
        archive.version().manifest.segments
    )


def test_damaged_files_are_named_by_the_job(spark: SparkSession, tmp_path: Path) -> None:
    archive = created(spark, tmp_path / "archive", small_settings("REINDEX", constituents=1))
    archive.update(day_rows(1))
    (segment,) = archive.version().manifest.segments.values()
    os.truncate(tmp_path / "archive" / segment.path, segment.bytes // 2)
    with pytest.raises(CorruptFile, match=segment.path):
        archive.update(day_rows(2))
    assert archive.version().state.update == 1


@pytest.mark.parametrize("on_the_driver", [True, False])
@pytest.mark.parametrize("young", [0, 2])
def test_damaged_files_are_named_before_they_are_scanned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, young: int,
    on_the_driver: bool,
) -> None:  # fmt: skip
    """Spark's own reader of Parquet and our tasks over Arrow files, by the driver and by a job."""
    if not on_the_driver:
        monkeypatch.setattr("mayfly.spark.archive.file_checks.ON_THE_DRIVER", 0)
    times = pa.array([1 + at for at in range(200)], pa.timestamp("us", "UTC"))
    rows = pa.table({"k": pa.array([at % 9 for at in range(200)], pa.int64()), "ts": times})
    plain = mayfly.archive.create(
        tmp_path / "a", rows.schema, key="k", max_lifetime="9 days", lifetime="9 days", origin=0,
        young=young, parts=2,
    )  # fmt: skip
    plain.update(rows)
    plain.invalidate([3])
    archive = SparkArchive.open(tmp_path / "a", OnSpark(spark))
    assert archive.frame().count() == rows.num_rows - 22
    for name in archive.repository.directory.names("data"):
        moved = Path(shutil.copytree(tmp_path / "a", tmp_path / f"without {name[5:]}"))
        file = moved / name
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        with pytest.raises(CorruptFile, match=f"{name} differs from its checksum"):
            SparkArchive.open(moved, OnSpark(spark)).frame()


# -- many rows -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["WATA", "REINDEX++"])
def test_several_million_rows(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    """Six days of 700,000 rows under 10,000 keys; the window is four days."""
    count, keys, window = 700_000, 10_000, 4
    settings = replace(
        small_settings(scheme, window=window, constituents=2, parts=4),
        columns={"k": "string", "ts": "bigint", "v": "string", "n": "bigint"},
        calendar=FixedIntervals(1_000_000),
    )
    archive = created(spark, tmp_path / "archive", settings)
    for day in range(1, 7):
        rows = spark.range(count, numPartitions=4).selectExpr(
            f"concat('customer ', pmod(xxhash64(id, {day}), {keys})) AS k",
            f"{(day - 1) * 1_000_000} + 1 + id AS ts",
            "repeat(sha2(CAST(id AS STRING), 256), 2) AS v",
            f"id * 10 + {day} AS n",
        )
        report = archive.update(rows)
        assert (report.rows_in, report.stored) == (count, count)
        assert report.removed == (count if day > window else 0)
    alive = [3, 4, 5, 6]
    whole = archive.frame().selectExpr("count(*)", "sum(n)", "count(DISTINCT k)").collect()[0]
    expected = sum(int(np.arange(count).sum()) * 10 + count * day for day in alive)
    assert tuple(whole) == (len(alive) * count, expected, keys)
    scanned = sum(table.num_rows for table in archive.read.scan_tables())
    assert scanned == len(alive) * count
    sample = archive.frame(keys=["customer 17", "customer 4711"]).toArrow()
    probed = archive.probe("customer 17", "customer 4711")
    assert sample.num_rows > 100
    assert found(sample) == found(probed)
    assert pc.all(pc.greater(probed["ts"], 2_000_000)).as_py()
    assert archive.maintain.verify().ok
