"""Archives of the last W days in Mayfly and in other systems, behind one small interface.

Each peer is set up the way its documentation recommends for "keep the last W days, look up by key":
DuckDB: one table, INSERT and DELETE. ClickHouse: MergeTree ordered by key, partitioned by day, old
partitions dropped. Delta: partitioned by day, append and delete of whole partitions. Spark with
plain Parquet: one folder per day, sorted by key, old folders removed; probed by pyarrow's dataset
reader, which is faster than a Spark job.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.archive_rows import DAY, Rows, day_file

Probe = tuple[int, float]
Scan = tuple[int, int, int]
"""Rows, sum of keys, bytes of payload."""


class ArchiveRunner(Protocol):
    def update(self, day: int) -> None:
        """Take in a day and let the day that has expired go."""

    def probe(self, key: int) -> Probe: ...

    def scan(self) -> Scan: ...


def probe_of(rows: pa.Table) -> Probe:
    # The payload is part of what a probe returns, so it must have been read.
    assert rows.num_rows == 0 or rows["payload"].nbytes > 0
    return rows.num_rows, float(pc.sum(rows["amount"]).as_py() or 0.0)


def scan_of(rows: pa.Table) -> Scan:
    lengths = pc.sum(pc.binary_length(rows["payload"])).as_py() or 0
    return rows.num_rows, pc.sum(rows["k"]).as_py() or 0, lengths


class Mayfly:
    """``scheme/technique/n``, for example ``WATA/packed shadow/6``."""

    def __init__(self, rows: Rows, folder: Path, work: Path, variant: str) -> None:
        from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
        from mayfly.archive.model.calendar import FixedIntervals
        from mayfly.archive.model.settings import ArchiveSettings
        from mayfly.spark.archive.archives import SparkArchive
        from mayfly.spark.archive.jobs import OnSpark
        from mayfly.spark.cluster.local_spark import local_spark

        scheme, technique, n = variant.split("/")
        self.folder = folder
        self.spark = local_spark(2, memory="4g")
        settings = ArchiveSettings(
            columns={"k": "bigint", "ts": "timestamp", "amount": "double", "payload": "string"},
            key=("k",),
            time="ts",
            calendar=FixedIntervals(DAY),
            layout=WaveLayout(WaveScheme(scheme), rows.window, int(n)),
            technique=UpdateTechnique(technique),
            parts=2,
        )
        made = SparkArchive.create(work / "archive", settings, OnSpark(self.spark))
        self.archive = SparkArchive(made.repository, made.executor)
        self.reports: list[Any] = []

    def update(self, day: int) -> None:
        batch = self.spark.read.parquet(day_file(self.folder, day))
        self.reports.append(self.archive.update(batch, update=day))

    def probe(self, key: int) -> Probe:
        return probe_of(self.archive.probe(key))

    def scan(self) -> Scan:
        return scan_of(self.archive.scan())

    def probes_same_files_by_duckdb(self, key: int) -> Probe:
        import duckdb

        files = [str(self.archive.repository.directory.path(s.path))
                 for held in self.archive.version().state.constituent_runs().values()
                 for run in held for s in self.archive.version().segments_of(run.id)]  # fmt: skip
        as_of = self.archive.version().time
        rows = duckdb.execute(
            f"SELECT k, ts, amount, payload FROM read_parquet({files}) "
            f"WHERE k = {key} AND _exp > {as_of}"
        ).to_arrow_table()
        return probe_of(rows)

    def scan_same_files_by_duckdb(self) -> Scan:
        import duckdb

        duckdb.sql("SET threads = 2")
        version = self.archive.version()
        files = [str(self.archive.repository.directory.path(s.path))
                 for held in version.state.constituent_runs().values()
                 for run in held for s in version.segments_of(run.id)]  # fmt: skip
        rows = duckdb.execute(
            f"SELECT k, ts, amount, payload FROM read_parquet({files}) WHERE _exp > {version.time}"
        ).to_arrow_table()
        return scan_of(rows)


class SparkParquet:
    """One folder of key-sorted Parquet per day, written by Spark."""

    def __init__(self, rows: Rows, folder: Path, work: Path, variant: str) -> None:
        from mayfly.spark.cluster.local_spark import local_spark

        self.rows, self.folder, self.root = rows, folder, work / "table"
        self.spark = local_spark(2, memory="4g")

    def update(self, day: int) -> None:
        batch = self.spark.read.parquet(day_file(self.folder, day))
        target = str(self.root / f"day={day}")
        batch.repartition(2, "k").sortWithinPartitions("k").write.parquet(target)
        shutil.rmtree(self.root / f"day={day - self.rows.window}", ignore_errors=True)

    def _dataset(self) -> Any:
        return ds.dataset(self.root, format="parquet", partitioning="hive")

    def probe(self, key: int) -> Probe:
        columns = ["k", "ts", "amount", "payload"]
        return probe_of(self._dataset().to_table(columns=columns, filter=ds.field("k") == key))

    def scan(self) -> Scan:
        return scan_of(self._dataset().to_table(columns=["k", "ts", "amount", "payload"]))


class DuckDb:
    """One table; DuckDB keeps min-max indexes, which key-ordered inserts make useful."""

    columns = "k BIGINT, ts TIMESTAMPTZ, amount DOUBLE, payload VARCHAR"

    def __init__(self, rows: Any, folder: Path, work: Path, variant: str) -> None:
        import duckdb

        self.rows, self.folder = rows, folder
        self.db = duckdb.connect(str(work / "archive.duckdb"), config={"threads": 2})
        self.db.execute("SET TimeZone = 'UTC'")
        self.db.execute(f"CREATE TABLE t ({self.columns})")

    def expired(self, day: int) -> str:
        return f"epoch_us(ts) <= {(day - self.rows.window) * DAY}"

    def update(self, day: int) -> None:
        self.db.execute("BEGIN")
        self.db.execute(
            f"INSERT INTO t SELECT * FROM read_parquet('{day_file(self.folder, day)}') ORDER BY k"
        )
        self.db.execute(f"DELETE FROM t WHERE {self.expired(day)}")
        self.db.execute("COMMIT")
        self.db.execute("CHECKPOINT")

    def probe(self, key: int) -> Probe:
        return probe_of(self.db.sql(f"SELECT * FROM t WHERE k = {key}").to_arrow_table())

    def scan(self) -> Scan:
        return scan_of(self.db.sql("SELECT * FROM t").to_arrow_table())


class ClickHouse:
    """MergeTree by key, one partition per day; expiry drops a partition."""

    def __init__(self, rows: Rows, folder: Path, work: Path, variant: str) -> None:
        from chdb import session

        self.rows, self.folder = rows, folder
        self.chdb = session.Session(str(work / "clickhouse"))
        self.chdb.query("CREATE DATABASE IF NOT EXISTS b")
        self.chdb.query(
            "CREATE TABLE b.t (day UInt32, k Int64, ts DateTime64(6, 'UTC'), amount Float64, "
            "payload String) ENGINE = MergeTree PARTITION BY day ORDER BY k "
            "SETTINGS index_granularity = 1024"
        )

    def update(self, day: int) -> None:
        self.chdb.query(
            f"INSERT INTO b.t SELECT {day}, k, ts, amount, payload "
            f"FROM file('{day_file(self.folder, day)}', Parquet)"
        )
        old = day - self.rows.window
        if old >= 1:
            self.chdb.query(f"ALTER TABLE b.t DROP PARTITION {old}")

    def _table(self, sql: str) -> pa.Table:
        raw = self.chdb.query(sql, "ArrowStream").bytes()
        table = pa.ipc.open_stream(raw).read_all()
        at = table.schema.get_field_index("payload")
        return table.set_column(at, "payload", table["payload"].cast(pa.binary()))

    def probe(self, key: int) -> Probe:
        return probe_of(self._table(f"SELECT k, ts, amount, payload FROM b.t WHERE k = {key}"))

    def scan(self) -> Scan:
        return scan_of(self._table("SELECT k, ts, amount, payload FROM b.t"))


class Delta:
    """A Delta table partitioned by day, written without Spark (delta-rs)."""

    def __init__(self, rows: Rows, folder: Path, work: Path, variant: str) -> None:
        self.rows, self.folder, self.path = rows, folder, str(work / "delta")

    def update(self, day: int) -> None:
        import deltalake

        rows = pq.read_table(day_file(self.folder, day)).sort_by("k")
        rows = rows.append_column("day", pa.array([day] * rows.num_rows, pa.int32()))
        deltalake.write_deltalake(self.path, rows, mode="append", partition_by=["day"])
        old = day - self.rows.window
        if old >= 1:
            table = deltalake.DeltaTable(self.path)
            table.delete(f"day = {old}")
            table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def _table(self, key: int | None) -> pa.Table:
        import deltalake

        table = deltalake.DeltaTable(self.path)
        filters = None if key is None else [("k", "=", key)]
        return table.to_pyarrow_table(columns=["k", "ts", "amount", "payload"], filters=filters)

    def probe(self, key: int) -> Probe:
        return probe_of(self._table(key))

    def scan(self) -> Scan:
        return scan_of(self._table(None))


RUNNERS: dict[str, Any] = {
    "mayfly": Mayfly,
    "spark-parquet": SparkParquet,
    "duckdb": DuckDb,
    "clickhouse": ClickHouse,
    "delta": Delta,
}
