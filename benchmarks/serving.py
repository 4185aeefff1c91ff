"""Reads of a view of 1,000,000 rows from outside, by key and aggregated, beside other systems.

The checkpoint is made in this process by the runner of pipelines, without Spark. Mayfly answers in
this process (SQL, and a view by key) and over HTTP (``mayfly serve``, one client, one connection);
DuckDB has the same rows in a table with an index, RocksDB the values under their keys, Spark SQL a
Parquet file as the sink writes it. Every system must give the same answers before it is timed. The
last part feeds a pipeline with and without a client that asks all the time.

    python -m benchmarks.serving --record serving
    python -m benchmarks.serving --rows 20000 --calls 50 --without spark
    python -m benchmarks.serving --part cost
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import mayfly
from benchmarks.measure import commit, measured_before, median, record, seconds
from mayfly.client import Client
from mayfly.cql import catalog_after, parse
from mayfly.pipeline.declared_catalog import declarations
from mayfly.storage import SetProperties
from tests.property.shared_runs import HereRunner, runner_of

SECOND = 1_000_000
BATCHES = 10
CATALOG = catalog_after(
    parse("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) FROM json('in') TIMESTAMP BY ts;")
)
VIEW = "SELECT k, COUNT(*) AS n, SUM(v) AS v FROM s [RANGE 1 hour] GROUP BY k"
POINT = "SELECT k, n, v FROM totals WHERE k = {key}"
SMALL = "SELECT COUNT(*) AS n, SUM(v) AS v, MAX(n) AS most FROM totals"
WARM_UP = 5
LONGEST = 20_000.0
"""Milliseconds for which something is repeated."""
Row = tuple[int, ...]
Peer = tuple[str, Callable[[int], Row], Callable[[], Row] | None]
"""A name, a read by key, and the aggregate."""


def pipeline(folder: Path) -> HereRunner:
    runner = runner_of(folder, CATALOG, {"totals": VIEW})
    queries = {"totals": {"text": VIEW, "strategy": "UPA", "streams": ["s"], "since": None}}
    properties = {"queries": queries, "declared": declarations(CATALOG), "zone": "UTC"}
    runner.repository.commit(runner.repository.current(), [SetProperties(properties)])
    return runner


def batch(number: int, keys: int, rows: int) -> pa.Table:
    """Rows of one second; together the batches have every key."""
    chance = np.random.default_rng(number)
    first = number * rows % keys
    ts = number * SECOND + np.sort(chance.integers(0, SECOND, rows))
    columns = {
        "ts": pa.array(ts, pa.timestamp("us", "UTC")),
        "k": pa.array((np.arange(first, first + rows) * 7919 + 13) % keys),
        "v": pa.array(chance.integers(0, 1000, rows)),
    }
    return pa.table(columns)


def stored(folder: Path, keys: int) -> None:
    runner = pipeline(folder)
    for number in range(BATCHES):
        runner.feed({"s": batch(number, keys, keys // BATCHES)}, {})
    runner.feed({}, {"s": (BATCHES + 1) * SECOND})


@contextmanager
def server(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "mayfly", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def in_process(folder: Path) -> Iterator[Peer]:
    reader = mayfly.open(folder)

    def by_key(key: int) -> Row:
        return first_row(reader.view("totals", where={"k": key}).rows)

    def by_sql(key: int) -> Row:
        return first_row(reader.query(POINT.format(key=key)).rows)

    yield "Mayfly in-process, view by key", by_key, lambda: first_row(reader.query(SMALL).rows)
    yield "Mayfly in-process, SQL", by_sql, lambda: first_row(reader.query(SMALL).rows)


def over_http(url: str) -> Iterator[Peer]:
    client = Client(url)

    def by_key(key: int) -> Row:
        return first_row(client.view("totals", where={"k": key}).rows)

    def by_sql(key: int) -> Row:
        return first_row(client.query(POINT.format(key=key)).rows)

    yield "Mayfly over HTTP, view by key", by_key, lambda: first_row(client.query(SMALL).rows)
    yield "Mayfly over HTTP, SQL", by_sql, lambda: first_row(client.query(SMALL).rows)


def duck(rows: pa.Table) -> Iterator[Peer]:
    import duckdb

    database = duckdb.connect()
    database.register("given_rows", rows)
    database.execute("CREATE TABLE totals AS SELECT * FROM given_rows")
    database.execute("CREATE UNIQUE INDEX by_key ON totals (k)")

    def by_sql(key: int) -> Row:
        found = database.execute("SELECT k, n, v FROM totals WHERE k = ?", [key]).fetchone()
        return () if found is None else tuple(map(int, found))

    def small() -> Row:
        found = database.execute(SMALL).fetchone()
        assert found is not None
        return tuple(map(int, found))

    yield "DuckDB in-process, indexed", by_sql, small


def rocks(rows: pa.Table, folder: Path) -> Iterator[Peer]:
    from rocksdict import Rdict

    store = Rdict(str(folder))
    for key, count, total in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        store[key] = (count).to_bytes(8, "big") + total.to_bytes(8, "big")

    def by_key(key: int) -> Row:
        value = store[key]
        return key, int.from_bytes(value[:8], "big"), int.from_bytes(value[8:], "big")

    yield "RocksDB in-process", by_key, None


def spark_sql(rows: pa.Table, folder: Path) -> Iterator[Peer]:
    from mayfly.spark.cluster.local_spark import local_spark

    pq.write_table(rows, folder)
    spark = local_spark(2)
    spark.read.parquet(str(folder)).createOrReplaceTempView("totals")

    def answer(sql: str) -> Row:
        return tuple(map(int, spark.sql(sql).collect()[0]))

    yield "Spark SQL on Parquet", lambda key: answer(POINT.format(key=key)), lambda: answer(SMALL)
    spark.stop()


def first_row(rows: pa.Table) -> Row:
    return tuple(int(column[0].as_py()) for column in rows.columns)


def figures(calls: Sequence[Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of single calls, one after the other; the first ones warm up."""
    for call in calls[:WARM_UP]:
        call()
    spent: list[float] = []
    for call in calls[WARM_UP:]:
        spent.append(1000 * seconds(call))
        if sum(spent) > LONGEST:
            break
    return {
        "calls": len(spent),
        "p50_ms": median(spent),
        "p99_ms": float(np.percentile(spent, 99)),
        "per_second": 1000 * len(spent) / sum(spent),
    }


def reads(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    folder = work / "p.state"
    stored(folder, options.rows)
    rows = mayfly.open(folder).view("totals").rows.sort_by("k")
    assert rows.num_rows == options.rows
    keys = np.random.default_rng(1).integers(0, options.rows, WARM_UP + options.calls).tolist()
    expected = {key: first_row(rows.slice(key, 1)) for key in keys[:WARM_UP]}
    counts, totals = rows["n"].to_numpy(), rows["v"].to_numpy()
    small = (rows.num_rows, int(totals.sum()), int(counts.max()))
    results: dict[str, Any] = {}

    def measure(peers: Iterator[Peer]) -> None:
        for name, point, aggregate in peers:
            assert all(point(key) == row for key, row in expected.items()), name
            entry = {"point": figures([partial(point, key) for key in keys])}
            if aggregate is not None:
                assert aggregate() == small, name
                entry["aggregate"] = figures([aggregate] * (WARM_UP + options.calls // 10))
            results[name] = entry
            print(name, json.dumps(entry), flush=True)

    measure(in_process(folder))
    with server(folder) as url:
        measure(over_http(url))
    if "duckdb" not in options.without:
        measure(duck(rows))
    if "rocksdb" not in options.without:
        measure(rocks(rows, work / "rocks"))
    if "spark" not in options.without:
        measure(spark_sql(rows, work / "totals.parquet"))
    return results


def fed(runner: HereRunner, batches: int, rows: int) -> float:
    """CPU seconds of this process."""
    began = time.process_time()
    for number in range(1, batches):
        runner.feed({"s": batch(number, rows * batches, rows)}, {})
    return time.process_time() - began


def fed_alone(work: Path, batches: int, rows: int) -> float:
    with tempfile.TemporaryDirectory(dir=work) as folder:
        runner = pipeline(Path(folder))
        runner.feed({"s": batch(0, rows * batches, rows)}, {})
        return fed(runner, batches, rows)


def fed_beside_a_reader(work: Path, batches: int, rows: int) -> tuple[float, int]:
    """The same, and how many answers the reader got meanwhile."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        runner = pipeline(Path(folder))
        runner.feed({"s": batch(0, rows * batches, rows)}, {})
        command = [sys.executable, "-c", ASKING]
        with (
            server(Path(folder)) as url,
            subprocess.Popen(
                [*command, url], stdout=subprocess.PIPE, stdin=subprocess.PIPE
            ) as client,
        ):
            assert client.stdout is not None
            client.stdout.readline()
            spent = fed(runner, batches, rows)
            return spent, int(client.communicate()[0])


ASKING = """
import select, sys, time
from mayfly.client import Client
client, answers = Client(sys.argv[1]), 0
client.view("totals", where={"k": 0})
print("asking", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    client.view("totals", where={"k": answers})
    answers += 1
print(answers)
"""
"""Asks twenty times a second, in a process of its own, until its input is closed; says so once it
has had its first answer."""


def cost(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """What a reader costs the process of the pipeline, alternately."""
    alone, beside, answers = [], [], 0
    load = 40, options.rows // 50  # some seconds, of which a reader's share can be told
    for turn in range(options.rounds):
        for with_reader in (turn % 2 == 1, turn % 2 == 0):
            if with_reader:
                spent, count = fed_beside_a_reader(work, *load)
                beside.append(spent)
                answers += count
            else:
                alone.append(fed_alone(work, *load))
    ratio = median(beside) / median(alone)
    print(f"a pipeline beside a reader ({answers} answers): {ratio:.3f} of its CPU alone")
    return {"alone_s": alone, "beside_a_reader_s": beside, "answers": answers, "ratio": ratio}


PARTS = {"reads": reads, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=PARTS, help="One of them (default: both).")
    parser.add_argument(
        "--without", action="append", default=[], choices=["duckdb", "rocksdb", "spark"]
    )
    parser.add_argument("--record", help="Write the figures to benchmarks/results under this name.")
    options = parser.parse_args()
    configuration = {"rows": options.rows, "calls": options.calls, "rounds": options.rounds}
    results = measured_before(options.record, configuration) if options.record else {}
    for part in [options.part] if options.part else PARTS:
        with tempfile.TemporaryDirectory(prefix="mayfly-serving-") as folder:
            results[part] = {"commit": commit(), "figures": PARTS[part](options, Path(folder))}
        if options.record:
            record(options.record, configuration, results)


if __name__ == "__main__":
    main()
