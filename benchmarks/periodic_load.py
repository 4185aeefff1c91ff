"""Rows and queries of the benchmark of periodic queries.

Rows are made by a formula, so that Flink can make the same ones where the others read files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000
SCHEMA = "ts TIMESTAMP, src BIGINT, dst BIGINT, protocol BIGINT, port BIGINT, bytes BIGINT"
COUNTS = (1, 10, 40, 80, 160, 240)
RATIOS = (10, 60, 288)
"""Windows of so many slides of 1 s, for one grouped sum."""


@dataclass(frozen=True)
class Load:
    """Rows and seconds of event time a batch, batches, those left out, and the seed."""

    rows: int = 500_000
    seconds: int = 20
    batches: int = 8
    warm_up: int = 5
    seed: int = 20
    addresses: int = 1000
    ports: int = 100


SMALL = Load(rows=4_000, seconds=20, batches=7, warm_up=2, addresses=40, ports=10)
COUNTS_OF = {
    "floor": (1,), "apart": (1, 40, 240), "window()": (1, 10, 40), "duckdb": (1, 10, 40),
    "flink": (1, 10, 40, 240),
}  # fmt: skip
"""How many queries runners get: more would take longer than all the others together."""
LARGE = 2_000_000
"""Rows a batch, for one grouped sum."""
GROUPS = (
    ("src", "SUM(bytes)"),
    ("src", "MAX(bytes)"),
    ("dst", "SUM(bytes)"),
    ("dst", "AVG(bytes)"),
    ("protocol", "SUM(bytes)"),
    ("port", "COUNT(*)"),
    ("protocol, port", "SUM(bytes)"),
    ("", "SUM(bytes)"),
)


@dataclass(frozen=True)
class Periodic:
    """A query: keys, function, window and slide in seconds."""

    keys: str
    call: str
    window: int
    slide: int

    @property
    def cql(self) -> str:
        group = f" GROUP BY {self.keys}" if self.keys else ""
        return f"SELECT {self._columns} FROM s [RANGE {self.window} s SLIDE {self.slide} s]{group}"

    @property
    def _columns(self) -> str:
        return ", ".join(filter(None, (self.keys, f"{self.call} AS x")))

    def sql(self, rows: str) -> str:
        group = f" GROUP BY {self.keys}" if self.keys else ""
        call = self.call.replace("SUM(bytes)", "SUM(bytes)::BIGINT")
        return f"SELECT {self._columns.replace(self.call, call)} FROM ({rows}){group}"


def queries_of(count: int, seed: int) -> list[Periodic]:
    """Of every group in turn, so that the first eight have one each."""
    chance, drawn = Random(seed), []
    for number in range(count):
        window = chance.randint(20, 100)
        drawn.append(
            Periodic(*GROUPS[number % len(GROUPS)], window, chance.randint(1, window // 2))
        )
    return drawn


COLUMNS = ("src", "dst", "protocol", "port", "bytes")


def formula(load: Load, column: str) -> tuple[int, int, int, int, int]:
    """(a, b, c, d, m): the value of row n is 1 + mod(n a + mod(n, b) mod(n, c) d, m)."""
    place = COLUMNS.index(column)
    sizes = (load.addresses, load.addresses, load.ports, load.ports, 1500)
    primes = ((7919, 997, 991, 13), (6151, 983, 977, 17), (4051, 971, 967, 7),
              (3067, 953, 947, 11), (2053, 941, 937, 19))  # fmt: skip
    return (*primes[place], sizes[place])


def generate(load: Load, folder: Path) -> None:
    """One file per batch, to be read in this order; times in whole milliseconds."""
    folder = folder / "s"
    folder.mkdir(parents=True)
    for batch in range(load.batches):
        n = np.arange(batch * load.rows, (batch + 1) * load.rows)
        columns = {}
        for name in COLUMNS:
            a, b, c, d, m = formula(load, name)
            columns[name] = 1 + (n * a + n % b * (n % c) * d) % m
        ts = pa.array(n * (1000 * load.seconds) // load.rows * 1000, pa.timestamp("us", "UTC"))
        path = folder / f"{batch:05d}.parquet"
        pq.write_table(pa.table({"ts": ts, **columns}), path)
        os.utime(path, (1_600_000_000 + batch,) * 2)


def database(folder: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 2})
    connection.execute(
        f"CREATE TABLE s AS SELECT epoch_us(ts) AS us, * FROM read_parquet('{folder}/s/*.parquet')"
    )
    return connection


def expected(connection: duckdb.DuckDBPyConnection, query: Periodic, refresh: int) -> list[Any]:
    rows = f"SELECT * FROM s WHERE us > {refresh - query.window * SECOND} AND us <= {refresh}"
    return sorted(connection.sql(query.sql(rows)).fetchall(), key=str)


def refreshes(query: Periodic, after: int, until: int) -> range:
    """Those of event time in (after, until], in microseconds."""
    slide = query.slide * SECOND
    return range(after // slide * slide + slide, until + 1, slide)


def last_refresh(query: Periodic, load: Load) -> int:
    """A refresh in the last batch that is closed at the end."""
    end = load.batches * load.seconds * SECOND
    return refreshes(query, 0, end - 2 * SECOND)[-1]


def is_small(load: Load) -> bool:
    """Whether answers are compared."""
    return load.rows == SMALL.rows
