"""Who answers periodic queries: Mayfly, and what one would take instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.periodic_load import (
    COLUMNS,
    SCHEMA,
    SECOND,
    Load,
    Periodic,
    database,
    formula,
    is_small,
    last_refresh,
    refreshes,
)
from benchmarks.streaming import batch_seconds, session


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
    status = mayfly.open(work / "ck").status()  # of all queries together
    return {
        "batch_seconds": batch_seconds(first.query),
        "state": {"rows": status.state_rows, "bytes": status.state_bytes},
        "answers": [
            _mayfly_rows(runs[f"q{number}"].snapshot(last_refresh(query, load)))
            for number, query in enumerate(queries)
        ],
    }


def _mayfly_rows(table: Any) -> list[Any]:
    return sorted((list(row.values()) for row in table.to_pylist()), key=str)


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
        end = f"unix_micros(window.end) = {last_refresh(query, load)}"
        shown = spark.table(f"w{number}").where(end).drop("window")
        answers.append(sorted(([*row] for row in shown.collect()), key=str))
    state = [part for each in started for part in each.lastProgress["stateOperators"]]
    kept = {
        "rows": sum(part["numRowsTotal"] for part in state),
        "bytes": sum(part["memoryUsedBytes"] for part in state),
    }
    timed = {"batch_seconds": slowest, "total_seconds": seconds}
    return {**timed, "state": kept, "answers": answers}


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
            if row["u"] * SECOND == last_refresh(query, load):
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
    files = sum(file.stat().st_size for file in work.glob("panes*/*.parquet"))
    return {"batch_seconds": batch_seconds(started), "state": {"bytes": files}, "answers": listed}


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


def run_flink(queries: list[Periodic], load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """All queries in one job; rows are made by the formula. The rate of a run's later batches."""
    python = os.environ.get("MAYFLY_FLINK_PYTHON")
    if not python:
        sys.exit("MAYFLY_FLINK_PYTHON has to name a Python with benchmarks/requirements-flink.txt")
    asked = [
        {"keys": query.keys, "call": query.call, "window": query.window, "slide": query.slide}
        | {"last": last_refresh(query, load), "moved": is_small(load)}
        for query in queries
    ]
    task = {"queries": asked, "check": is_small(load), "rows": load.rows}
    task |= {"seconds": load.seconds, "batches": load.batches, "warm_up": load.warm_up}
    task |= {"columns": {name: formula(load, name) for name in COLUMNS}}
    script = Path(__file__).parent / "flink_windows.py"
    done = subprocess.run([python, str(script), json.dumps(task)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


RUNNERS = {
    "floor": run_floor,
    "mayfly": run_mayfly,
    "apart": run_apart,
    "window()": run_window,
    "by hand": run_by_hand,
    "duckdb": run_duckdb,
    "flink": run_flink,
}
