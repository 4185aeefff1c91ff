"""Archives through Spark's data source: the same columns, types and rows as every other read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

import mayfly
import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.read.selection import KeyRange, Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import MayflyError
from mayfly.spark.archive.data_source import PUSHDOWN
from mayfly.spark.archive.pushed_filters import narrowed
from mayfly.spark.archive.read_options import PlannedRead, ReadRequest, spark_schema
from mayfly.testing import assert_same_rows

DAY = 86_400_000_000
FIRST = 20_000 * DAY
DDL = """
    k STRING, n INT, ts TIMESTAMP, flag BOOLEAN, tiny TINYINT, small SMALLINT, big BIGINT,
    single FLOAT, real DOUBLE, price DECIMAL(12, 3), raw BINARY, day DATE, wall TIMESTAMP_NTZ,
    lasted INTERVAL DAY TO SECOND, list ARRAY<STRUCT<x: INT, y: STRING>>, map MAP<STRING, INT>,
    both STRUCT<p: DOUBLE, q: ARRAY<INT>>
"""


def of_every_type(schema: pa.Schema) -> pa.Table:
    """350 rows over 7 days, with NULLs in every column but key and time."""
    start = datetime(2020, 1, 1)
    values: dict[str, Callable[[int], Any]] = {
        "k": lambda i: f"c{i % 7}",
        "n": lambda i: i % 3,
        "ts": lambda i: FIRST + 1 + i * DAY // 50,
        "flag": lambda i: i % 2 == 0,
        "tiny": lambda i: i % 100 - 50,
        "small": lambda i: i - 200,
        "big": lambda i: i * 2**40,
        "single": lambda i: i / 4,
        "real": lambda i: i / 7,
        "price": lambda i: Decimal(i) / 8,
        "raw": lambda i: bytes([i % 256, 0]),
        "day": lambda i: (start + timedelta(days=i)).date(),
        "wall": lambda i: start + timedelta(hours=i),
        "lasted": lambda i: timedelta(seconds=i, microseconds=i),
        "list": lambda i: [{"x": i, "y": None}, None],
        "map": lambda i: [("z", i), ("y", None)],
        "both": lambda i: {"p": i / 2, "q": [1, None]},
    }
    columns = {
        name: [None if name not in ("k", "n", "ts") and i % 5 == at % 5 else of(i)
               for i in range(350)]
        for at, (name, of) in enumerate(values.items())
    }  # fmt: skip
    return pa.table([pa.array(columns[one.name], one.type) for one in schema], schema=schema)


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    made = mayfly.archive.create(
        tmp_path_factory.mktemp("source") / "a", DDL, key=("k", "n"), window=5, parts=3,
        constituents=2, origin=FIRST,
    )  # fmt: skip
    columns = list(made.settings.all_columns)
    given = of_every_type(pa.schema([made.settings.stored.field(name) for name in columns]))
    days = pc.divide(pc.subtract(given["ts"].cast(pa.int64()), FIRST + 1), DAY)
    for day in range(7):
        made.update(given.filter(pc.equal(days, day)))
    mayfly.register(spark)
    yield made
    mayfly.register(spark)


def loaded(spark: SparkSession, archive: Archive, **options: Any) -> DataFrame:
    path = str(archive.repository.directory.root)
    return spark.read.format("mayfly").options(**options).load(path)


@pytest.mark.slow
def test_columns_types_and_rows_are_those_of_the_other_reads(
    spark: SparkSession, archive: Archive
) -> None:
    frame = mayfly.Session(spark).open_archive(archive.repository.directory.root).frame()
    source = loaded(spark, archive)
    assert source.schema == frame.schema
    rows = archive.scan()
    assert rows.num_rows == 250
    for found in (source.toArrow(), frame.toArrow()):
        assert found.schema == rows.schema
        assert_same_rows(found, rows)


def test_options_say_what_is_read(spark: SparkSession, archive: Archive) -> None:
    at = FIRST + 6 * DAY
    pairs = json.dumps([["c3", 0], ["c4", 1]])
    for options, expected in (
        ({"keys": pairs}, archive.probe(("c3", 0), ("c4", 1))),
        ({"key_from": "c3", "key_to": "c4"}, archive.probe_range("c3", "c4")),
        ({"as_of": "2024-10-10"}, archive.scan(as_of="2024-10-10")),
        ({"soft": "true", "version": archive.version().manifest.version}, archive.scan(soft=True)),
        (
            {"generated_from": at - DAY, "generated_to": at},
            archive.scan(generated_between=(at - DAY, at)),
        ),
    ):
        assert expected.num_rows > 0
        assert_same_rows(loaded(spark, archive, **options).toArrow(), expected)
    path = str(archive.repository.directory.root)
    chosen = spark.read.format("mayfly").schema("big BIGINT, k STRING").load(path).toArrow()
    assert_same_rows(chosen, archive.scan(columns=["big", "k"]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"soft": "maybe"}, "the option soft is 'maybe'"),
        ({"version": "last"}, "the version 'last' is not a number"),
        ({"version": "99"}, "version 99 of"),
        ({"key": "c3"}, "the archive's key has 2"),
        ({"keys": "c3"}, "are not a JSON list"),
        ({"keys": '[["c3", "x"]]'}, "'x' is not a INT"),
        ({"as_of": "1999-01-01"}, "no retained version"),
        ({"key_from": "a", "keys": '[["c3", 1]]'}, "keys and a range of keys"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(
    archive: Archive, options: dict[str, str], said: str
) -> None:
    path = str(archive.repository.directory.root)
    with pytest.raises(MayflyError, match=re.escape(said)):
        PlannedRead.of({"path": path, **options}, spark_schema(archive.settings))


def test_a_refusal_reaches_the_user_of_spark(spark: SparkSession, archive: Archive) -> None:
    path = str(archive.repository.directory.root)
    with pytest.raises(Exception, match="the archive has no column k int"):
        spark.read.format("mayfly").schema("k INT").load(path).count()


@pytest.mark.slow
def test_a_table_shows_the_last_update_and_a_view_the_first_it_saw(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k STRING, ts TIMESTAMP, v INT", key="k", window=3, origin=0
    )

    def update(day: int) -> None:
        times = pa.array([day * DAY], pa.timestamp("us", "UTC"))
        archive.update(pa.table({"k": ["a"], "ts": times, "v": pa.array([day], pa.int32())}))

    def values(name: str) -> list[int]:
        return sorted(row[0] for row in spark.sql(f"SELECT v FROM {name}").collect())

    update(1)
    update(2)
    mayfly.register(spark)
    spark.sql(f"CREATE TABLE located USING mayfly LOCATION '{tmp_path}/a'")
    options = f"path '{tmp_path}/a', generated_from '{2 * DAY}'"
    spark.sql(f"CREATE TABLE chosen USING mayfly OPTIONS ({options})")
    spark.sql(f"CREATE TEMPORARY VIEW seen USING mayfly OPTIONS (path '{tmp_path}/a')")
    try:
        assert [values(name) for name in ("located", "chosen", "seen")] == [[1, 2], [2], [1, 2]]
        for day in (3, 4):
            update(day)
        archive.maintain.vacuum(keep_versions=1, grace=0)
        assert [values(name) for name in ("located", "chosen")] == [[2, 3, 4], [2, 3, 4]]
        assert values("seen") == [1, 2]  # Spark plans a view's read once; it is pinned
    finally:
        for statement in ("TABLE located", "TABLE chosen", "VIEW seen"):
            spark.sql(f"DROP {statement}")


def test_pushed_filters_leave_nothing_out(spark: SparkSession, archive: Archive) -> None:
    mayfly.register(spark, pushdown=True)
    try:
        frame = mayfly.Session(spark).open_archive(archive.repository.directory.root).frame()
        for condition in (
            "k IN ('c3', 'c9') AND n <=> 2 AND price > 3",
            "k > 'c3' AND ts > timestamp'2024-10-09 00:00:00Z' AND (n = 1 OR k = 'c5')",
        ):
            found = loaded(spark, archive).where(condition).toArrow()
            assert found.num_rows > 0
            assert_same_rows(found, frame.where(condition).toArrow())
        spark.conf.set(PUSHDOWN, "false")
        with pytest.raises(Exception, match=PUSHDOWN):
            loaded(spark, archive).count()
        assert loaded(spark, archive, pushdown="false").count() == 250
    finally:
        spark.conf.unset(PUSHDOWN)
        mayfly.register(spark)


def test_without_push_down_a_dataframe_may_be_used_again(
    spark: SparkSession, archive: Archive
) -> None:
    """With push-down Spark 4.3 would answer both halves from the plan of one of them."""
    source = loaded(spark, archive)
    a, b = source.where("k = 'c1'"), source.where("k = 'c2'")
    assert a.unionAll(b).count() == archive.probe_range("c1", "c2").num_rows
    assert source.count() == 250


def test_a_warning_tells_that_push_down_is_missing() -> None:
    registered: list[Any] = []

    class Conf:
        def set(self, name: str, value: str) -> None:
            raise RuntimeError(f"cannot modify {name}")

    class Sources:
        def register(self, source: type) -> None:
            registered.append(source)

    class Stub:
        conf, dataSource = Conf(), Sources()  # noqa: N815

    with pytest.warns(UserWarning, match="cannot be switched on"):
        mayfly.register(Stub(), pushdown=True)  # type: ignore[arg-type]
    assert [one.pushes for one in registered] == [False]


def test_what_filters_narrow_a_read_to(archive: Archive) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not

    reader = Reader(archive.repository.directory, archive.version())
    whole = ReadRequest(Selection(archive.version().time))

    def under(*filters: Any) -> ReadRequest:
        return narrowed(whole, reader, filters)

    k, n, ts = ("k",), ("n",), ("ts",)
    assert under(IsNotNull(k), EqualTo(k, "c1"), In(n, (1, 2))).keys == (("c1", 1), ("c1", 2))
    assert under(EqualTo(k, "c1")).key_range == KeyRange("c1", "c1")
    ranged = under(GreaterThan(k, "b"), GreaterThan(k, "c"), LessThanOrEqual(k, "d"))
    assert ranged.key_range == KeyRange("c", "d")
    assert under(Not(EqualTo(k, "c1")), EqualTo(n, 1)) == whole
    assert under(EqualTo(k, "c1"), EqualTo(n, "no number")).keys is None
    assert under(EqualTo(k, "c1"), In(n, tuple(range(2000)))).keys is None
    timed = under(GreaterThan(ts, 5), LessThanOrEqual(ts, 9)).selection
    assert (timed.generated_from, timed.generated_to) == (5, 9)


def test_damaged_files_are_named_by_the_source(spark: SparkSession, tmp_path: Path) -> None:
    mayfly.register(spark)
    times = pa.array([1 + at for at in range(200)], pa.timestamp("us", "UTC"))
    rows = pa.table({"k": pa.array([at % 9 for at in range(200)], pa.int64()), "ts": times})
    made = mayfly.archive.create(tmp_path / "a", rows.schema, key="k", window=3, origin=0, parts=1)
    made.update(rows)
    (file,) = (tmp_path / "a" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(Exception, match="CorruptFile") as caught:
        spark.read.format("mayfly").load(str(tmp_path / "a")).count()
    assert f"{file.name} differs from its checksum" in str(caught.value)
    assert "restore it from a copy" in str(caught.value)
