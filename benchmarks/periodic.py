"""Many periodic queries over one stream: from shared panes, beside other ways to answer them.

Up to 240 queries in eight groups as in the thesis (8.5.1): windows of 20 to 100 s, slides of 1 s to
half the window, drawn from a seed; sums, counts, averages and maxima of bytes by address, protocol
and port. Every runner reads the same files, one micro-batch at a time, on local[2], in a JVM of its
own. Before anything is timed its answers to a smaller load are compared with DuckDB's, at the last
refresh of every query; a wrong answer ends the benchmark.

    floor        the bare micro-batch: rows are read, summed by address and counted
    mayfly       the queries in one pipeline
    apart        the same without sharing (SS1, CS1 and CS2 off)
    window()     one Spark streaming query each, with window(), into the noop sink
    by hand      one Spark job: foreachBatch adds up rows by key and second into files; one SQL for
                 each grouping joins these with the refreshes that are due
    duckdb       every query asked again at each of its refreshes, over the rows alive

One grouped SUM is timed besides at windows of 10, 60 and 288 slides, at two sizes, beside window().
Flink is not among the peers: its environment takes longer to set up than all the others to run.
With ``--minutes`` no run begins that would probably end later, judged by the one before it, and a
run that is not done by then is ended: both are in the results.

    python -m benchmarks.periodic --record periodic --minutes 15
    python -m benchmarks.periodic --small
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
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
    batches: int = 8
    warm_up: int = 5
    seed: int = 20
    addresses: int = 1000
    ports: int = 100


SMALL = Load(rows=4_000, seconds=20, batches=7, warm_up=2, addresses=40, ports=10)
COUNTS_OF = {
    "floor": (1,), "apart": (1, 40), "window()": (1, 10), "by hand": (1, 40, 240),
    "duckdb": (1, 10),
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
    return run_mayfly(queries, load, folder, work, ("SS1", "CS1", "CS2"))


def run_window(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """One streaming query each, all at the same time; a batch takes as long as the slowest."""
    from pyspark.sql.functions import expr, window

    spark = session({"spark.sql.shuffle.partitions": "2"})
    began, started = time.perf_counter(), []
    for number, query in enumerate(queries):
        # Spark's windows are [a, b), ours (a, b]: a microsecond later they hold the same rows.
        rows = source(spark, folder).selectExpr("ts - INTERVAL '0.000001' SECOND AS at", "*")
        # Spark's begin at multiples of the slide, ours end there.
        start = -query.window % query.slide
        times = window(
            "at", f"{query.window} seconds", f"{query.slide} seconds", f"{start} seconds"
        )
        keys = [name for name in query.keys.split(", ") if name]
        frame = rows.withWatermark("at", "0 seconds").groupBy(times, *keys)
        frame = frame.agg(expr(query.call).alias("x"))
        stream = frame.writeStream.outputMode("append")
        stream = stream.option("checkpointLocation", str(work / f"ck{number}"))
        if is_small(load):
            stream = stream.format("memory").queryName(f"w{number}")
        else:
            stream = stream.format("noop")
        started.append(stream.trigger(availableNow=True).start())
    for each in started:
        each.awaitTermination()
    seconds = time.perf_counter() - began
    batches = [batch_seconds(each)[: load.batches] for each in started]
    slowest = [max(times) for times in zip(*batches, strict=False)]
    answers = []
    for number, query in enumerate(queries if is_small(load) else ()):
        end = f"unix_micros(window.end) = {_last(query, load)}"
        shown = spark.table(f"w{number}").where(end).drop("window")
        answers.append(sorted(([*row] for row in shown.collect()), key=str))
    return {"batch_seconds": slowest, "total_seconds": seconds, "answers": answers}


def run_by_hand(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """What an engineer would write: partial sums by key and second in files, one SQL a grouping."""
    spark = session({"spark.sql.shuffle.partitions": "2"})
    groupings = list(dict.fromkeys(query.keys for query in queries))
    partial = "sum(bytes) AS total, count(*) AS n, max(bytes) AS largest"
    calls = {
        "SUM(bytes)": "total", "COUNT(*)": "n", "MAX(bytes)": "largest", "AVG(bytes)": "total / n"
    }  # fmt: skip
    answers: dict[int, list[Any]] = {}

    def answer(frame: Any, batch: int) -> None:
        pane = f"CAST(ceil(unix_micros(ts) / {SECOND}) AS BIGINT) AS pane"
        rows = frame.selectExpr("*", pane).persist()
        end = (batch + 1) * load.seconds - 1
        for place, keys in enumerate(groupings):
            names = [name for name in keys.split(", ") if name]
            made = rows.groupBy(*names, "pane").agg(*_expressions(partial))
            made.write.mode("append").parquet(str(work / f"panes{place}"))
            kept = spark.read.parquet(str(work / f"panes{place}"))
            kept.where(f"pane > {batch * load.seconds - 110}").createOrReplaceTempView("panes")
            due = [
                (number, refresh // SECOND, query.window)
                for number, query in enumerate(queries)
                if query.keys == keys
                for refresh in refreshes(query, (end - load.seconds) * SECOND, end * SECOND)
            ]
            if not due:
                continue
            listed = ", ".join(f"({n}, {u}L, {window}L)" for n, u, window in due)
            columns = ", ".join([*names, "query", "u"])
            asked = spark.sql(
                f"SELECT /*+ BROADCAST(due) */ {columns}, sum(total) AS total, sum(n) AS n, "
                f"max(largest) AS largest FROM panes JOIN VALUES {listed} AS due(query, u, w) "
                f"ON pane > u - w AND pane <= u GROUP BY {columns}"
            )
            if is_small(load):
                note(asked.collect(), names)
            asked.write.format("noop").mode("append").save()
        rows.unpersist()

    def note(rows: list[Any], names: list[str]) -> None:
        for row in rows:
            query = queries[row["query"]]
            if row["u"] * SECOND == _last(query, load):
                values = {part: row[part] for part in ("total", "n", "largest")}
                value = eval(calls[query.call], {}, values)
                answers.setdefault(row["query"], []).append([*(row[n] for n in names), value])

    stream = source(spark, folder).writeStream.foreachBatch(answer)
    stream = stream.option("checkpointLocation", str(work / "ck")).trigger(availableNow=True)
    started = stream.start()
    started.awaitTermination()
    if started.exception():
        sys.exit(str(started.exception()))
    listed = [answers.get(number, []) for number in range(len(queries))]
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


class Clock:
    """How long the benchmark may still run."""

    def __init__(self, minutes: float | None) -> None:
        self.end = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def left(self) -> float | None:
        return None if self.end is None else self.end - time.monotonic()

    def has(self, seconds: float) -> bool:
        return self.left is None or self.left > seconds


def in_child(
    runner: str, queries: list[Periodic], load: Load, folder: Path, root: Path,
    limit: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Each in a fresh JVM, so that none profits from another's warm-up; ended after a limit."""
    work = Path(tempfile.mkdtemp(dir=root))
    task = {"queries": [asdict(query) for query in queries], "load": asdict(load)}
    words = [sys.executable, "-m", "benchmarks.periodic", "--child", runner, "--data", str(folder)]
    words += ["--work", str(work), "--task", json.dumps(task)]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, errors = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # its JVM, too
        child.communicate()
        return {"ended_after_seconds": limit}
    if child.returncode:
        sys.exit(f"{runner} failed:\n{out[-2000:]}\n{errors[-6000:]}")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    shutil.rmtree(work, ignore_errors=True)
    return result


def is_small(load: Load) -> bool:
    """Whether answers are compared."""
    return load.rows == SMALL.rows


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
    print(f"{runner}: answers to {count} queries are those of DuckDB", flush=True)


@dataclass(frozen=True)
class Task:
    """Something to time: a runner, and what it is given."""

    name: str
    runner: str
    queries: tuple[Periodic, ...]
    load: Load
    folder: str


def tasks(load: Load, counts: tuple[int, ...], only: list[str], small: bool) -> list[Task]:
    """What matters most comes first: time may be short."""
    listed: list[Task] = []
    for count in sorted(counts, key=lambda count: (count not in (1, max(counts)), count)):
        queries = tuple(queries_of(count, load.seed))
        listed += [
            Task(f"{count} queries", runner, queries, load, "data")
            for runner in only
            if count in COUNTS_OF.get(runner, counts) or (small and runner != "floor")
        ]
    sizes = [load] if small else [load, replace(load, rows=LARGE, batches=5, warm_up=2)]
    for size in sizes:
        for ratio in RATIOS:
            name = f"d/s = {ratio}, {size.rows:,} rows a batch"
            query = (Periodic("src", "SUM(bytes)", ratio, 1),)
            listed += [
                Task(name, runner, query, size, "data" if size is load else "large")
                for runner in ("mayfly", "window()")
                if runner in only
            ]
    return listed


def timed(task: Task, root: Path, clock: Clock, expected_seconds: float) -> dict[str, Any]:
    if not clock.has(expected_seconds):
        print(f"{task.name:34} {task.runner:10} left out: no time", flush=True)
        return {"left_out": "no time"}
    folder = root / task.folder
    if not folder.exists():
        generate(task.load, folder)
    result = in_child(task.runner, list(task.queries), task.load, folder, root, clock.left)
    result.pop("answers", None)
    result |= {"commit": commit(), "load_average": machine()["load_average"]}
    if "batch_seconds" not in result:
        print(f"{task.name:34} {task.runner:10} ended: no time", flush=True)
        return result
    result["median_seconds"] = median(result["batch_seconds"][task.load.warm_up :])
    print(
        f"{task.name:34} {task.runner:10} median {result['median_seconds']:8.3f} s a batch",
        flush=True,
    )
    return result


def measure(
    load: Load, counts: tuple[int, ...], only: list[str], minutes: float | None
) -> dict[str, Any]:
    root, clock = Path(tempfile.mkdtemp(prefix="mayfly-periodic-")), Clock(minutes)
    results: dict[str, Any] = {}
    try:
        for runner in filter(only.__contains__, ("mayfly", "apart", "window()", "by hand")):
            check(runner, 2 if runner == "window()" else 16, root)
        last: dict[str, float] = {}
        for task in tasks(load, counts, only, is_small(load)):
            began = time.monotonic()
            result = timed(task, root, clock, last.get(task.runner, 20.0))
            last[task.runner] = time.monotonic() - began
            results.setdefault(task.name, {})[task.runner] = result
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return results


def summary(results: dict[str, Any]) -> dict[str, float]:
    """What the aims are about; only what was timed."""

    def seconds(name: str, runner: str) -> float | None:
        value: float | None = results.get(name, {}).get(runner, {}).get("median_seconds")
        return value

    figures: dict[str, float] = {}
    first, most = seconds("1 queries", "mayfly"), seconds("240 queries", "mayfly")
    floor = seconds("1 queries", "floor")
    if first and most:
        figures["an added query, share of the first"] = (most - first) / 239 / first
    if floor and most:
        figures["240 queries, times the bare micro-batch"] = most / floor
    for runner, name, count in (("window()", "10 queries", 10), ("by hand", "240 queries", 240)):
        other = seconds(name, runner)
        if other and most:
            figures[f"{runner}, times 240 queries"] = other * 240 / count / most
    for name in results:
        mine, other = seconds(name, "mayfly"), seconds(name, "window()")
        if name.startswith("d/s") and mine and other:
            figures[f"window(), times {name}"] = other / mine
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a load of seconds, to see it work")
    parser.add_argument("--rows", type=int, default=Load.rows, help="a batch")
    parser.add_argument("--count", type=int, action="append", help="queries; may be repeated")
    parser.add_argument("--runner", action="append", choices=list(RUNNERS))
    parser.add_argument("--minutes", type=float, help="end after so many minutes")
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
    results = measure(load, counts, options.runner or list(RUNNERS), options.minutes)
    for name, figure in summary(results).items():
        print(f"{name}: {figure:.4g}")
    if options.record:
        configuration = {**asdict(load), "counts": counts, "counts_of": COUNTS_OF, "large": LARGE}
        results["summary"] = summary(results)
        print(record(options.record, configuration, results))


if __name__ == "__main__":
    main()
