"""Rows with their own lifetimes in Mayfly and in other systems, behind one small interface.

Each peer is set up the ways people keep such rows today.
DuckDB: one table, rows inserted in key order, expired ones deleted; ``indexed``: with an index.
ClickHouse: MergeTree by key. ``age-off``: partitioned by the day of expiration, partitions dropped;
``age-off in eights``: by eight days, dropped when all are over, and queries leave the dead out;
``ttl``: by TTL, moved along with the archive's clock and carried out at once.
Delta (delta-rs): append, DELETE, VACUUM, z-order by key every eighth update; ``age-off in eights``:
partitioned by eight days of expiration, partitions deleted.
RocksDB: a row under its key and a number, and an entry under its expiration by which it is found.
"""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.archive_rows import DAY, day_file
from benchmarks.lifetime_rows import LivingRows
from benchmarks.peers.archives import ClickHouse, DuckDb, Probe, Scan, probe_of, scan_of

DDL = "k BIGINT, ts TIMESTAMP, exp TIMESTAMP, amount DOUBLE, payload STRING"
COLUMNS = ["k", "ts", "exp", "amount", "payload"]


class Mayfly:
    """In this process; ``default`` or the name of a layout."""

    def __init__(self, rows: LivingRows, folder: Path, work: Path, variant: str) -> None:
        self.folder, self.reports = folder, list[Any]()
        self.archive = self._create(work / "archive", _settings(rows, variant))

    def _create(self, path: Path, settings: dict[str, Any]) -> Any:
        import mayfly.archive

        return mayfly.archive.create(path, DDL, **settings)

    def _batch(self, day: int) -> Any:
        return pq.read_table(day_file(self.folder, day))

    def update(self, day: int) -> None:
        self.reports.append(self.archive.update(self._batch(day), update=day))
        self.archive.maintain.vacuum(grace=0)

    def probe(self, key: int) -> Probe:
        return probe_of(self.archive.probe(key))

    def scan(self) -> Scan:
        return scan_of(self.archive.scan())


class MayflyOnSpark(Mayfly):
    """Updated by Spark jobs."""

    def _create(self, path: Path, settings: dict[str, Any]) -> Any:
        import mayfly
        from mayfly.spark.cluster.local_spark import local_spark

        self.spark = local_spark(2, memory="4g")
        return mayfly.Session(self.spark).create_archive(path, DDL, **settings)

    def _batch(self, day: int) -> Any:
        return self.spark.read.parquet(day_file(self.folder, day))


def _settings(rows: LivingRows, variant: str) -> dict[str, Any]:
    layout = {} if variant in ("", "default") else {"layout": variant}
    longest = f"{rows.rollover} days"
    return {"key": "k", "max_lifetime": longest, "refresh": "1 day", "origin": 0, **layout}


class DuckDbLifetimes(DuckDb):
    """One table; its min-max indexes are of use because rows come sorted by key."""

    columns = "k BIGINT, ts TIMESTAMPTZ, exp TIMESTAMPTZ, amount DOUBLE, payload VARCHAR"

    def __init__(self, rows: LivingRows, folder: Path, work: Path, variant: str) -> None:
        super().__init__(rows, folder, work, variant)
        if variant == "indexed":
            self.db.execute("CREATE INDEX by_key ON t (k)")

    def expired(self, day: int) -> str:
        return f"exp <= make_timestamptz({day * DAY})"


class ClickHouseLifetimes(ClickHouse):
    """MergeTree by key, in three ways to let rows go."""

    def __init__(self, rows: LivingRows, folder: Path, work: Path, variant: str) -> None:
        from chdb import session

        self.folder, self.variant, self.now = folder, variant, 0
        self.days = {"age-off": 1, "age-off in eights": 8, "ttl": 0}[variant]
        self.chdb = session.Session(str(work / "clickhouse"))
        self.chdb.query("CREATE DATABASE IF NOT EXISTS b")
        divided = "PARTITION BY part" if self.days else ""
        self.chdb.query(
            "CREATE TABLE b.t (part UInt32, k Int64, ts DateTime64(6, 'UTC'), "
            "exp DateTime64(6, 'UTC'), amount Float64, payload String) "
            f"ENGINE = MergeTree {divided} ORDER BY k "
            "SETTINGS index_granularity = 1024, old_parts_lifetime = 1"
        )

    def update(self, day: int) -> None:
        self.now = day * DAY
        width = max(self.days, 1) * DAY
        self.chdb.query(
            f"INSERT INTO b.t SELECT intDiv(toUnixTimestamp64Micro(exp) - 1, {width}) + 1, k, ts, "
            f"exp, amount, payload FROM file('{day_file(self.folder, day)}', Parquet) "
            f"WHERE toUnixTimestamp64Micro(exp) > {self.now} "
            "SETTINGS max_partitions_per_insert_block = 0"
        )
        if self.days:
            if day % self.days == 0:
                self.chdb.query(f"ALTER TABLE b.t DROP PARTITION {day // self.days}")
            return
        # A TTL counts whole seconds; queries leave out what it has not reached yet.
        behind = int(time.time()) - self.now // 1_000_000 + 10
        self.chdb.query(
            f"ALTER TABLE b.t MODIFY TTL toDateTime(exp) + INTERVAL {behind} SECOND "
            "SETTINGS materialize_ttl_after_modify = 1, mutations_sync = 2"
        )

    @property
    def _alive(self) -> str:
        if self.days == 1:
            return "1"
        return f"exp > fromUnixTimestamp64Micro({self.now}, 'UTC')"

    def probe(self, key: int) -> Probe:
        names = ", ".join(COLUMNS)
        return probe_of(self._table(f"SELECT {names} FROM b.t WHERE k = {key} AND {self._alive}"))

    def scan(self) -> Scan:
        return scan_of(self._table(f"SELECT {', '.join(COLUMNS)} FROM b.t WHERE {self._alive}"))


class Delta:
    """A Delta table written without Spark (delta-rs), put in key order every eighth update."""

    def __init__(self, rows: LivingRows, folder: Path, work: Path, variant: str) -> None:
        self.folder, self.path, self.now = folder, str(work / "delta"), 0
        self.divided = variant == "age-off in eights"

    def update(self, day: int) -> None:
        import deltalake

        self.now = day * DAY
        rows = pq.read_table(day_file(self.folder, day)).sort_by("k")
        until = rows["exp"].cast(pa.int64())
        part = pc.divide(pc.subtract(until, 1), 8 * DAY) if self.divided else pc.multiply(until, 0)
        rows = rows.append_column("until", until).append_column("part", part)
        rows = rows.filter(pc.greater(rows["until"], self.now))
        deltalake.write_deltalake(self.path, rows, mode="append", partition_by=["part"])
        table = deltalake.DeltaTable(self.path)
        if not self.divided:
            table.delete(f"until <= {self.now}")
        elif day % 8 == 0:
            table.delete(f"part = {day // 8 - 1}")
        if day % 8 == 0:
            table.optimize.z_order(["k"])
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    def _table(self, key: int | None) -> pa.Table:
        import deltalake

        wanted = [("until", ">", self.now)] if self.divided else []
        wanted += [] if key is None else [("k", "=", key)]
        table = deltalake.DeltaTable(self.path)
        return table.to_pyarrow_table(columns=COLUMNS, filters=wanted or None)

    def probe(self, key: int) -> Probe:
        return probe_of(self._table(key))

    def scan(self) -> Scan:
        return scan_of(self._table(None))


class RocksDb:
    """Rows as bytes under (key, number), and (expiration, key, number) to find the dead."""

    ROW = struct.Struct("<qqd")

    def __init__(self, rows: LivingRows, folder: Path, work: Path, variant: str) -> None:
        from rocksdict import Options, Rdict

        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.increase_parallelism(2)
        options.set_write_buffer_size(64 * 2**20)
        self.folder, self.numbered = folder, 0
        self.rows: Any = Rdict(str(work / "rows"), options)
        self.ends: Any = Rdict(str(work / "ends"), options)

    def update(self, day: int) -> None:
        from rocksdict import WriteBatch

        new, ends = WriteBatch(raw_mode=True), WriteBatch(raw_mode=True)
        table = pq.read_table(day_file(self.folder, day))
        columns = (
            table["k"].to_pylist(),
            table["ts"].cast(pa.int64()).to_pylist(),
            table["exp"].cast(pa.int64()).to_pylist(),
            table["amount"].to_pylist(),
            table["payload"].cast(pa.binary()).to_pylist(),
        )
        for k, ts, exp, amount, payload in zip(*columns, strict=True):
            if exp <= day * DAY:
                continue
            self.numbered += 1
            name = struct.pack(">qq", k, self.numbered)
            new.put(name, self.ROW.pack(ts, exp, amount) + payload)
            ends.put(struct.pack(">q", exp) + name, b"")
        for end in self._dead(day * DAY):
            new.delete(end[8:])
            ends.delete(end)
        self.rows.write(new)
        self.ends.write(ends)

    def _dead(self, now: int) -> list[bytes]:
        found = []
        for end in self.ends.keys():  # noqa: SIM118 - an Rdict is no dict
            if int.from_bytes(end[:8], "big") > now:
                break
            found.append(end)
        return found

    def _from(self, first: bytes | None, key: int | None) -> pa.Table:
        wanted = None if key is None else struct.pack(">q", key)
        names, values = [], []
        for name, value in self.rows.items(from_key=first):
            if wanted is not None and not name.startswith(wanted):
                break
            names.append(name)
            values.append(value)
        fixed = [self.ROW.unpack_from(value) for value in values]
        ts, exp, amounts = zip(*fixed, strict=True) if fixed else ((), (), ())
        stamp = pa.timestamp("us", tz="UTC")
        return pa.table(
            {
                "k": pa.array([int.from_bytes(name[:8], "big") for name in names], pa.int64()),
                "ts": pa.array(ts, stamp),
                "exp": pa.array(exp, stamp),
                "amount": pa.array(amounts, pa.float64()),
                "payload": pa.array([value[self.ROW.size :] for value in values], pa.binary()),
            }
        )

    def probe(self, key: int) -> Probe:
        return probe_of(self._from(struct.pack(">q", key), key))

    def scan(self) -> Scan:
        return scan_of(self._from(None, None))


RUNNERS: dict[str, Any] = {
    "mayfly": Mayfly,
    "mayfly-spark": MayflyOnSpark,
    "duckdb": DuckDbLifetimes,
    "clickhouse": ClickHouseLifetimes,
    "delta": Delta,
    "rocksdb": RocksDb,
}
