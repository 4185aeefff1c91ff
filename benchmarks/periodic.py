"""Many periodic queries over one stream: from shared panes, beside other ways to answer them.

Up to 240 queries in eight groups as in the thesis (8.5.1): windows of 20 to 100 s, slides of 1 s to
half the window, drawn from a seed; sums, counts, averages and maxima of bytes by address, protocol
and port. Every runner reads the same files, one micro-batch at a time, on local[2], in a JVM of its
own. Before anything is timed its answers at several refreshes of a smaller load are compared with
DuckDB's; a wrong answer ends the benchmark.

    floor        the bare micro-batch: rows are read and counted
    mayfly       the queries in one pipeline
    apart        the same without sharing (SS1 and CS1 off)
    window()     one Spark streaming query each, with window(), into the noop sink
    by hand      one Spark job: foreachBatch adds up rows by key and second, then one SQL a query
    duckdb       every query asked again at each of its refreshes, over the rows alive

    python -m benchmarks.periodic --record periodic
    python -m benchmarks.periodic --small
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import commit, machine, median, record
from benchmarks.streaming import batch_seconds, session

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
    batches: int = 9
    warm_up: int = 5
    seed: int = 20
    addresses: int = 1000
    ports: int = 100


SMALL = Load(rows=4_000, seconds=20, batches=7, warm_up=2, addresses=40, ports=10)
MOST = {"apart": 80, "window()": 10, "by hand": 240, "duckdb": 40}
"""How many queries a runner gets: more would take longer than all the others together."""
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


def generate(load: Load, folder: Path) -> None:
    """One file per batch, to be read in this order."""
    random, folder = np.random.default_rng(load.seed), folder / "s"
    folder.mkdir(parents=True)
    span = load.seconds * SECOND
    for batch in range(load.batches):
        ts = np.sort(random.integers(batch * span, (batch + 1) * span, load.rows))
        domains = {"src": load.addresses, "dst": load.addresses}
        domains |= {"protocol": load.ports, "port": load.ports, "bytes": 1500}
        columns = {name: random.integers(1, size + 1, load.rows) for name, size in domains.items()}
        path = folder / f"{batch:05d}.parquet"
        pq.write_table(pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC")), **columns}), path)
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


# ── runners ───────────────────────────────────────────────────────────────────────────────


def source(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "s"))


def run_floor(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    def count(frame: Any, _: int) -> None:
        frame.groupBy("src").agg({"bytes": "sum", "ts": "max"}).write.format("noop").mode(
            "append"
        ).save()

    stream = source(session({"spark.sql.shuffle.partitions": "2"}), folder).writeStream
    stream = stream.foreachBatch(count).option("checkpointLocation", str(work / "ck"))
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    return {"batch_seconds": batch_seconds(query)}


def run_mayfly(
    queries: list[Periodic], load: Load, folder: Path, work: Path, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    import mayfly
    from mayfly.spark.api.queries import Queries

    spark = session({})
    mf = mayfly.Session(spark)
    mf.stream("s", source(spark, folder))
    asked = {
        f"q{number}": mf.query(query.cql, without=without) for number, query in enumerate(queries)
    }
    runs = Queries(mf, asked).start(work / "ck", available_now=True, history="1 minute")
    first = runs["q0"]
    first.await_done()
    status = first.status()
    return {
        "batch_seconds": batch_seconds(first.query),
        "state": {"rows": status.state_rows, "bytes": status.state_bytes},
        "answers": [
            _mayfly_rows(runs[f"q{number}"].snapshot(_last(query, load)))
            for number, query in enumerate(queries)
        ],
    }


def _mayfly_rows(table: Any) -> list[Any]:
    return sorted((list(row.values()) for row in table.to_pylist()), key=str)


def _last(query: Periodic, load: Load) -> int:
    """A refresh in the last batch that is closed at the end."""
    end = load.batches * load.seconds * SECOND
    return refreshes(query, 0, end - 2 * SECOND)[-1]


def run_apart(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    return run_mayfly(queries, load, folder, work, ("SS1", "CS1"))


def run_window(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """One streaming query each, all at the same time; a batch takes as long as the slowest."""
    from pyspark.sql.functions import expr, window

    spark = session({"spark.sql.shuffle.partitions": "2"})
    began, started = time.perf_counter(), []
    for number, query in enumerate(queries):
        # Spark's windows are [a, b), ours (a, b]: a microsecond later they hold the same rows.
        rows = source(spark, folder).selectExpr("ts - INTERVAL '0.000001' SECOND AS at", "*")
        times = window("at", f"{query.window} seconds", f"{query.slide} seconds")
        keys = [name for name in query.keys.split(", ") if name]
        frame = rows.withWatermark("at", "0 seconds").groupBy(times, *keys)
        frame = frame.agg(expr(query.call).alias("x"))
        stream = frame.writeStream.format("noop").outputMode("append")
        stream = stream.option("checkpointLocation", str(work / f"ck{number}"))
        started.append(stream.trigger(availableNow=True).start())
    for each in started:
        each.awaitTermination()
    seconds = time.perf_counter() - began
    batches = [batch_seconds(each)[: load.batches] for each in started]
    slowest = [max(times) for times in zip(*batches, strict=False)]
    return {"batch_seconds": slowest, "total_seconds": seconds}


def run_by_hand(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """What an engineer would write: partial sums by key and second in files, one SQL a query."""
    spark = session({"spark.sql.shuffle.partitions": "2"})
    groupings = list(dict.fromkeys(query.keys for query in queries))
    partial = "sum(bytes) AS total, count(*) AS n, max(bytes) AS largest"
    calls = {
        "SUM(bytes)": "sum(total)", "COUNT(*)": "sum(n)", "MAX(bytes)": "max(largest)",
        "AVG(bytes)": "sum(total) / sum(n)",
    }  # fmt: skip
    answers: dict[int, list[Any]] = {}

    def answer(frame: Any, batch: int) -> None:
        pane = f"CAST(ceil(unix_micros(ts) / {SECOND}) AS BIGINT) AS pane"
        rows = frame.selectExpr("*", pane).persist()
        for place, keys in enumerate(groupings):
            names = [name for name in keys.split(", ") if name]
            made = rows.groupBy(*names, "pane").agg(*_expressions(partial))
            made.write.mode("append").parquet(str(work / f"panes{place}"))
            kept = spark.read.parquet(str(work / f"panes{place}"))
            kept.where(f"pane > {batch * load.seconds - 110}").persist().createOrReplaceTempView(
                f"panes{place}"
            )
        end = (batch + 1) * load.seconds - 1
        for number, query in enumerate(queries):
            due = refreshes(query, (end - load.seconds) * SECOND, end * SECOND)
            if not len(due):
                continue
            listed = ", ".join(f"({refresh // SECOND}L)" for refresh in due)
            keys = f"{query.keys}, " if query.keys else ""
            text = (
                f"SELECT {keys}u, {calls[query.call]} AS x FROM panes{groupings.index(query.keys)} "
                f"JOIN VALUES {listed} AS refreshes(u) ON pane > u - {query.window} AND pane <= u "
                f"GROUP BY {keys}u"
            )
            asked = spark.sql(text)
            if load == SMALL and _last(query, load) in due:
                last = asked.where(f"u = {_last(query, load) // SECOND}").drop("u")
                answers[number] = sorted(([*row] for row in last.collect()), key=str)
            asked.write.format("noop").mode("append").save()
        spark.catalog.clearCache()

    stream = source(spark, folder).writeStream.foreachBatch(answer)
    stream = stream.option("checkpointLocation", str(work / "ck")).trigger(availableNow=True)
    started = stream.start()
    started.awaitTermination()
    if started.exception():
        sys.exit(str(started.exception()))
    listed = [answers[number] for number in range(len(queries))] if load == SMALL else []
    return {"batch_seconds": batch_seconds(started), "answers": listed}


def _expressions(text: str) -> list[Any]:
    from pyspark.sql.functions import expr

    return [expr(part) for part in text.split(", ")]


def run_duckdb(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    connection, seconds = database(folder), []
    span = load.seconds * SECOND
    for batch in range(load.batches):
        began = time.perf_counter()
        for query in queries:
            for refresh in refreshes(query, batch * span, (batch + 1) * span):
                rows = f"SELECT * FROM s WHERE us > {refresh - query.window * SECOND}"
                connection.execute(query.sql(f"{rows} AND us <= {refresh}")).to_arrow_table()
        seconds.append(time.perf_counter() - began)
    return {"batch_seconds": seconds}


RUNNERS = {
    "floor": run_floor,
    "mayfly": run_mayfly,
    "apart": run_apart,
    "window()": run_window,
    "by hand": run_by_hand,
    "duckdb": run_duckdb,
}


# ── measuring ─────────────────────────────────────────────────────────────────────────────


def in_child(
    runner: str, queries: list[Periodic], load: Load, folder: Path, root: Path
) -> dict[str, Any]:
    """Each in a fresh JVM, so that none profits from another's warm-up."""
    work = Path(tempfile.mkdtemp(dir=root))
    task = {"queries": [asdict(query) for query in queries], "load": asdict(load)}
    words = [sys.executable, "-m", "benchmarks.periodic", "--child", runner, "--data", str(folder)]
    words += ["--work", str(work), "--task", json.dumps(task)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{runner} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    shutil.rmtree(work, ignore_errors=True)
    return result


def check(runner: str, count: int, root: Path) -> None:
    """The answers of a small load, at the last refresh of every query."""
    folder = root / "small"
    if not folder.exists():
        generate(SMALL, folder)
    queries, connection = queries_of(count, SMALL.seed), database(folder)
    answers = in_child(runner, queries, SMALL, folder, root)["answers"]
    for query, answer in zip(queries, answers, strict=True):
        correct = map(list, expected(connection, query, _last(query, SMALL)))
        if sorted(correct, key=str) != sorted(map(list, answer), key=str):
            sys.exit(f"{runner} is wrong: {query.cql}")


def timed(
    runner: str, name: str, queries: list[Periodic], load: Load, folder: Path, root: Path
) -> dict[str, Any]:
    result = in_child(runner, queries, load, folder, root)
    result.pop("answers", None)
    steady = result["batch_seconds"][load.warm_up :]
    result |= {"median_seconds": median(steady), "commit": commit()}
    result["load_average"] = machine()["load_average"]
    print(f"{name:24} {runner:10} median {result['median_seconds']:8.3f} s a batch", flush=True)
    return result


def measure(load: Load, counts: tuple[int, ...], only: list[str]) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="mayfly-periodic-"))
    results: dict[str, Any] = {}
    try:
        generate(load, root / "data")
        for runner in filter(only.__contains__, ("mayfly", "apart", "by hand")):
            check(runner, 16, root)
        for count in counts:
            queries = queries_of(count, load.seed)
            for runner in only:
                if count <= MOST.get(runner, count) and (runner != "floor" or count == counts[0]):
                    name = f"{count} queries"
                    timing = timed(runner, name, queries, load, root / "data", root)
                    results.setdefault(name, {})[runner] = timing
        for ratio in RATIOS:
            queries = [Periodic("src", "SUM(bytes)", ratio, 1)]
            for runner in filter(only.__contains__, ("mayfly", "window()")):
                name = f"d/s = {ratio}"
                timing = timed(runner, name, queries, load, root / "data", root)
                results.setdefault(name, {})[runner] = timing
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a load of seconds, to see it work")
    parser.add_argument("--rows", type=int, default=Load.rows, help="a batch")
    parser.add_argument("--count", type=int, action="append", help="queries; may be repeated")
    parser.add_argument("--runner", action="append", choices=list(RUNNERS))
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    for name in ("child", "data", "work", "task"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        task = json.loads(options.task)
        queries = [Periodic(**query) for query in task["queries"]]
        run = RUNNERS[options.child]
        result = run(queries, Load(**task["load"]), Path(options.data), Path(options.work))
        print(json.dumps(result))
        return
    load = SMALL if options.small else replace(Load(), rows=options.rows)
    counts = tuple(options.count or ((1, 10) if options.small else COUNTS))
    results = measure(load, counts, options.runner or list(RUNNERS))
    if options.record:
        configuration = {**asdict(load), "counts": counts, "most": MOST}
        print(record(options.record, configuration, results))


if __name__ == "__main__":
    main()
