"""Two streams joined over sliding windows: Mayfly beside Spark's stream-stream join.

Every runner reads the same recorded files, one micro-batch at a time, on local[2]. First its
results are compared with DuckDB's (count and checksum over all rows and lifetimes); a runner with
a wrong answer is not timed. Then batches are timed as Spark reports them (triggerExecution), the
first ones left out as warm-up.

    python -m benchmarks.streaming --runner mayfly --runner spark-memory --runner floor
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import median, record
from benchmarks.stream_rows import Int64s, record_stream

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
LOGGED_ROCKSDB = {
    **ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
STATE_STORES: dict[str, dict[str, str]] = {
    "spark-memory": {},
    "spark-rocksdb": ROCKSDB,
    "spark-rocksdb-v4": {**LOGGED_ROCKSDB, "spark.sql.streaming.join.stateFormatVersion": "4"},
}
RUNNERS = ("floor", "mayfly", *STATE_STORES)
SCHEMA = "ts TIMESTAMP, k BIGINT, v BIGINT"


@dataclass(frozen=True)
class Load:
    """Rows per side and batch, event time per batch, window length, and number of keys."""

    rows: int = 250_000
    seconds: int = 100
    window: int = 10
    keys: int = 10_000
    batches: int = 8
    warm_up: int = 3
    seed: int = 7


def generate(load: Load, folder: Path) -> None:
    """One Parquet file per side and batch; ts uniform within the batch's span, keys uniform."""
    random = np.random.default_rng(load.seed)
    span = load.seconds * 1_000_000

    def batches() -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        for batch in range(load.batches):
            ts = np.sort(random.integers(batch * span, (batch + 1) * span, load.rows))
            keys = random.integers(0, load.keys, load.rows)
            yield ts, keys, random.integers(0, 1_000_000, load.rows)

    for side in ("left", "right"):
        record_stream(folder / side, batches())


def expected(load: Load, folder: Path) -> dict[str, int]:
    """Count and checksums of the whole result, by DuckDB."""
    import duckdb

    window = f"INTERVAL {load.window} SECOND"
    sql = f"""
        SELECT count(*), sum(l.k), sum(l.v::HUGEINT * 3 + r.v),
               sum(epoch_us(greatest(l.ts, r.ts))::HUGEINT),
               sum(epoch_us(least(l.ts, r.ts) + {window})::HUGEINT)
        FROM read_parquet('{folder}/left/*.parquet') l
        JOIN read_parquet('{folder}/right/*.parquet') r ON l.k = r.k
        WHERE l.ts < r.ts + {window} AND r.ts < l.ts + {window}
    """
    row = duckdb.execute(sql).fetchall()[0]
    return dict(zip(("rows", "k", "v", "ts", "exp"), map(int, row), strict=True))


def session(settings: dict[str, str]) -> Any:
    from mayfly.spark.cluster.local_spark import local_spark

    return local_spark(2, memory="6g", settings=settings)


def read_side(spark: Any, folder: Path, side: str) -> Any:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / side))


def batch_seconds(query: Any) -> list[float]:
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000 for one in progress]


@dataclass(frozen=True)
class _Stamp:
    """A sink that only notes when a committed batch reached it."""

    moments: list[float]

    def deliver(self, delivery: Any) -> None:
        self.moments.append(time.time())


def run_mayfly(load: Load, folder: Path, work: Path, sync: bool) -> dict[str, Any]:
    import mayfly

    spark = session({})
    mf = mayfly.Session(spark)
    sides = [mf.stream(name, read_side(spark, folder, name)) for name in ("left", "right")]
    windows = [side.window(f"{load.window} s") for side in sides]
    query = windows[0].join(windows[1], "k", select={"k": "left.k", "a": "left.v", "b": "right.v"})
    began = time.perf_counter()
    committed: list[float] = []
    run = query.start(
        work / "checkpoint",
        available_now=True,
        history="forever",
        sync=sync,
        sinks=[_Stamp(committed)],
    )
    run.await_done()
    seconds = time.perf_counter() - began
    found = {"rows": 0, "k": 0, "v": 0, "ts": 0, "exp": 0}
    for batch in run.change_batches():
        columns = {name: batch.column(name) for name in batch.schema.names}
        numbers = {n: c.cast(pa.int64()).to_numpy().astype(object) for n, c in columns.items()}
        found["rows"] += batch.num_rows
        found["k"] += int(numbers["k"].sum())
        found["v"] += int(numbers["a"].sum()) * 3 + int(numbers["b"].sum())
        found["ts"] += int(numbers["ts"].sum())
        found["exp"] += int(numbers["exp"].sum())
    status = run.status()
    return {
        "batch_seconds": batch_seconds(run.query),
        "total_seconds": seconds,
        "first_commit_at": committed[0],
        "found": found,
        "state": {"rows": status.state_rows, "bytes": status.state_bytes,
                  "segments": status.segments},
    }  # fmt: skip


def spark_join(spark: Any, load: Load, folder: Path) -> Any:
    window = f"INTERVAL {load.window} SECONDS"
    left = read_side(spark, folder, "left").withWatermark("ts", "0 seconds").alias("l")
    right = read_side(spark, folder, "right").withWatermark("ts", "0 seconds").alias("r")
    from pyspark.sql import functions as sql

    condition = sql.expr(f"l.k = r.k AND l.ts < r.ts + {window} AND r.ts < l.ts + {window}")
    return left.join(right, condition).selectExpr(
        "l.k AS k", "l.v AS a", "r.v AS b",
        "greatest(l.ts, r.ts) AS ts", f"least(l.ts, r.ts) + {window} AS exp",
    )  # fmt: skip


def run_spark(load: Load, folder: Path, work: Path, settings: dict[str, str]) -> dict[str, Any]:
    """Spark's join: once with sums to check it, once into the noop sink to time it."""
    from pyspark.sql import functions as sql

    spark = session(settings)
    found = {"rows": 0, "k": 0, "v": 0, "ts": 0, "exp": 0}

    def add(frame: Any, _: int) -> None:
        sums = frame.agg(
            sql.count("*"), sql.sum("k"), sql.expr("sum(a * 3 + b)"),
            sql.expr("sum(CAST(unix_micros(ts) AS DECIMAL(38, 0)))"),
            sql.expr("sum(CAST(unix_micros(exp) AS DECIMAL(38, 0)))"),
        ).collect()[0]  # fmt: skip
        for name, value in zip(found, sums, strict=True):
            found[name] += int(value or 0)

    checked = spark_join(spark, load, folder).writeStream.foreachBatch(add)
    checked.option("checkpointLocation", str(work / "check")).trigger(
        availableNow=True
    ).start().awaitTermination()
    timed = spark_join(spark, load, folder).writeStream.format("noop")
    began = time.perf_counter()
    query = (
        timed.option("checkpointLocation", str(work / "timed")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return {
        "batch_seconds": batch_seconds(query),
        "total_seconds": time.perf_counter() - began,
        "found": found,
    }


def sort_and_write(batches: Any) -> Any:
    """The floor's task: everything a bucket must do anyway, without joining."""
    import uuid

    table = pa.Table.from_batches(list(batches))
    if table.num_rows:
        keys, times = table["k"].to_numpy(), table["us"].to_numpy()
        table = table.take(pa.array(np.lexsort((times, keys))))
        path = f"{tempfile.gettempdir()}/mayfly-floor-{uuid.uuid4().hex}.arrow"
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        Path(path).unlink()
    yield pa.RecordBatch.from_arrays([pa.array([table.num_rows])], names=["n"])


def run_floor(load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """Read, exchange, find the clock, cross to Python, sort, write: no join."""
    from pyspark.sql.functions import expr

    spark = session({})
    parts = [
        read_side(spark, folder, side).selectExpr(f"{number} AS side", "unix_micros(ts) AS us",
                                                  "k", "v")
        for number, side in enumerate(("left", "right"))
    ]  # fmt: skip
    rows: list[int] = []

    def step(frame: Any, _: int) -> None:
        frame.selectExpr("max(us)").collect()
        done = frame.mapInArrow(sort_and_write, "n BIGINT").collect()
        rows.append(sum(row[0] for row in done))

    exchanged = (
        parts[0].unionAll(parts[1]).repartitionById(2, expr("CAST(pmod(xxhash64(k), 2) AS INT)"))
    )
    query = (
        exchanged.writeStream.foreachBatch(step)
        .option("checkpointLocation", str(work / "floor"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    assert rows == [2 * load.rows] * load.batches, f"the floor lost rows: {rows}"
    return {"batch_seconds": batch_seconds(query)}


def run_one(name: str, load: Load, folder: Path, work: Path, sync: bool) -> dict[str, Any]:
    if name == "mayfly":
        return run_mayfly(load, folder, work, sync)
    if name == "floor":
        return run_floor(load, folder, work)
    return run_spark(load, folder, work, STATE_STORES[name])


def in_child(name: str, load: Load, folder: Path, work: Path, sync: bool) -> dict[str, Any]:
    """Each runner gets a fresh JVM, so that none profits from another's warm-up."""
    words = [sys.executable, "-m", "benchmarks.streaming", "--child", name, "--data", str(folder),
             "--work", str(work), "--load", json.dumps(asdict(load))]  # fmt: skip
    words += [] if sync else ["--no-sync"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(load: Load, runners: list[str], sync: bool, name_of_record: str | None) -> None:
    """Run every runner over the same files; wrong answers end the benchmark.

    Results are recorded after each runner, so that those before a failure are kept.
    """
    results: dict[str, Any] = {}
    root = Path(tempfile.mkdtemp(prefix="mayfly-bench-"))
    try:
        generate(load, root / "data")
        wanted = expected(load, root / "data")
        print(f"{load}\nexpected results: {wanted['rows']:,} rows", flush=True)
        for name in runners:
            work = root / name
            work.mkdir()
            result = in_child(name, load, root / "data", work, sync)
            if "found" in result and result["found"] != wanted:
                sys.exit(f"{name} is wrong: found {result['found']}, expected {wanted}")
            steady = result["batch_seconds"][load.warm_up :]
            result["median_seconds"] = median(steady)
            result["rows_per_second"] = 2 * load.rows / result["median_seconds"]
            results[name] = result
            print(
                f"{name:18} median {result['median_seconds']:7.3f} s a batch   "
                f"{result['rows_per_second']:>12,.0f} rows/s   steady: "
                + " ".join(f"{one:.2f}" for one in steady),
                flush=True,
            )
            shutil.rmtree(work)
            if name_of_record:
                settings = {**asdict(load), "sync": sync}
                record(name_of_record, settings, {"expected": wanted, "runners": results})
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", action="append", choices=RUNNERS)
    for name, default in asdict(Load()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--no-sync", dest="sync", action="store_false")
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument("--child")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--load")
    options = parser.parse_args()
    if options.child:
        load = Load(**json.loads(options.load))
        result = run_one(options.child, load, options.data, options.work, options.sync)
        print(json.dumps(result))
        return
    load = Load(**{name: getattr(options, name) for name in asdict(Load())})
    compare(load, options.runner or list(RUNNERS), options.sync, options.record)


if __name__ == "__main__":
    main()
