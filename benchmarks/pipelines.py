"""Queries of the language as Spark pipelines, beside Spark's own operators.

Every runner reads the same recorded files, one micro-batch at a time, on local[2], and reads them
twice in its JVM: first to be checked, then, over a new checkpoint, to be timed. Mayfly's answers
are compared with DuckDB's over the alive rows at several instants, the peers' whole output with
DuckDB's reading of what they promise; a wrong answer ends the benchmark. Batches are timed as Spark
reports them (triggerExecution), the first ones left out as warm-up.

Where Spark has no such query, its nearest operator stands in, which does less: a duplicate is told
by ``dropDuplicatesWithinWatermark`` but not when a value has left the window; an outer join tells
who stayed alone for a whole window, not who is alone now. OVER and ASOF JOIN are not for streams
there: ``transformWithStateInPandas`` keeps what they need, and takes rows as they come.

    python -m benchmarks.pipelines --query DISTINCT --record pipelines
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.alive_rows import ALIVE, REFRESHED, differs
from benchmarks.measure import commit, measured_before, median, record
from benchmarks.peers.pipelines import PEERS, SESSIONS
from benchmarks.stream_rows import Int64s, record_stream
from benchmarks.streaming import batch_seconds, read_side, session

SECOND = 1_000_000


@dataclass(frozen=True)
class Load:
    """Rows per batch over all streams, event time per batch, batches, those left out."""

    rows: int = 500_000
    seconds: int = 100
    batches: int = 8
    warm_up: int = 3
    seed: int = 7


@dataclass(frozen=True)
class Question:
    """One or more queries in CQL, the first also in SQL over its alive rows, the number of
    keys at 500,000 rows a batch, and the peer."""

    cql: tuple[str, ...]
    sql: str
    keys: int
    streams: tuple[str, ...] = ("s",)
    alive: str = ALIVE
    peer: str | None = None


_TEN = tuple(
    f"SELECT k, SUM(v) AS x FROM s [RANGE 10 s SLIDE 1 s] WHERE v >= {part * 90000} GROUP BY k"
    for part in range(10)
)
QUESTIONS = {
    "three-way join": Question(
        (
            "SELECT a.k, a.v, b.v AS w, c.v AS x FROM a [RANGE 10 s], b [RANGE 10 s], "
            "c [RANGE 10 s] WHERE a.k = b.k AND b.k = c.k",
        ),
        "SELECT a.k, a.v, b.v AS w, c.v AS x FROM a JOIN b USING (k) JOIN c USING (k)",
        50_000,
        ("a", "b", "c"),
        peer="chained joins",
    ),
    "DISTINCT": Question(
        ("SELECT DISTINCT k FROM s [RANGE 10 s]",),
        "SELECT DISTINCT k FROM s",
        10_000,
        peer="dropDuplicatesWithinWatermark",
    ),
    "NOT EXISTS": Question(
        (
            "SELECT a.k, a.v FROM a [RANGE 10 s] "
            "WHERE NOT EXISTS (SELECT * FROM b [RANGE 10 s] WHERE b.k = a.k)",
        ),
        "SELECT k, v FROM a ANTI JOIN b USING (k)",
        20_000,
        ("a", "b"),
        peer="left outer join",
    ),
    "NOT EXISTS, counted": Question(
        (
            "SELECT a.k, COUNT(*) AS x FROM a [RANGE 10 s] "
            "WHERE NOT EXISTS (SELECT * FROM b [RANGE 10 s] WHERE b.k = a.k) GROUP BY a.k",
        ),
        "SELECT k, COUNT(*) AS x FROM a ANTI JOIN b USING (k) GROUP BY k",
        20_000,
        ("a", "b"),
    ),
    "NOT EXISTS with a larger": Question(
        (
            "SELECT a.k, a.v FROM a [RANGE 10 s] "
            "WHERE NOT EXISTS (SELECT * FROM b [RANGE 10 s] WHERE b.k = a.k AND b.v > a.v)",
        ),
        "SELECT k, v FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.k = a.k AND b.v > a.v)",
        20_000,
        ("a", "b"),
    ),
    "grouped SUM": Question(
        ("SELECT k, SUM(v) AS x FROM s [RANGE 10 s SLIDE 1 s] GROUP BY k",),
        "SELECT k, SUM(v)::BIGINT AS x FROM s GROUP BY k",
        1_000,
        alive=REFRESHED,
        peer="window() with sum",
    ),
    "grouped MAX": Question(
        ("SELECT k, MAX(v) AS x FROM s [RANGE 10 s SLIDE 1 s] GROUP BY k",),
        "SELECT k, MAX(v) AS x FROM s GROUP BY k",
        1_000,
        alive=REFRESHED,
        peer="window() with max",
    ),
    **{
        f"{word} {size} s by {slide} s": Question(
            (
                f"SELECT k, SUM(v) AS x FROM HOP(s, ts, INTERVAL '{slide}' SECOND, "
                f"INTERVAL '{size}' SECOND) GROUP BY k, window_start, window_end",
            ),
            f"SELECT k, sum(x)::BIGINT AS x FROM (SELECT k, ts // {slide}000000 AS b, sum(v) AS x "
            f"FROM s GROUP BY ALL), range(1, {size // slide + 1}) u(j) "
            f"WHERE (b + j) * {slide}000000 - 1 <= {{at}} GROUP BY k, b + j",
            1_000,
            alive="ts <= {at}",
            peer=f"window() of {size} by {slide}",
        )
        for word, size, slide in (("TUMBLE", 10, 10), ("HOP", 10, 1), ("HOP", 60, 1))
    },
    "SESSION": Question(
        (
            "SELECT k, SUM(v) AS x FROM SESSION(s PARTITION BY k, ts, INTERVAL '10' SECOND) "
            "GROUP BY k, window_start, window_end",
        ),
        f"SELECT k, x FROM ({SESSIONS}) WHERE e <= {{at}}",
        50_000,
        alive="ts <= {at}",
        peer="session_window()",
    ),
    "last ten per key": Question(
        ("SELECT k, v FROM s [PARTITION BY k ROWS 10]",),
        "SELECT k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts DESC, v DESC)"
        " <= 10",
        10_000,
        alive="ts <= {at}",
        peer="transformWithStateInPandas",
    ),
    "OVER": Question(
        (
            "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN "
            "INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW) AS x FROM s",
        ),
        "SELECT k, v, (sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN 10000000 PRECEDING "
        "AND CURRENT ROW))::BIGINT AS x FROM s",
        10_000,
        alive="ts <= {at}",
        peer="transformWithStateInPandas, sums",
    ),
    "ASOF": Question(
        (
            "SELECT a.k, a.v, b.v AS w FROM a ASOF JOIN b MATCH_CONDITION (b.ts <= a.ts) "
            "ON a.k = b.k",
        ),
        "SELECT a.k, a.v, b.v AS w FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts",
        10_000,
        ("a", "b"),
        alive="ts <= {at}",
        peer="transformWithStateInPandas, latest",
    ),
    **{
        f"{count} of ten queries": Question(
            _TEN[:count],
            "SELECT k, SUM(v)::BIGINT AS x FROM s GROUP BY k",
            1_000,
            alive=REFRESHED,
        )
        for count in (1, 5, 9, 10)
    },
}


def generate(question: Question, load: Load, folder: Path) -> None:
    """One Parquet file per stream and batch; times and keys uniform; no two rows of a stream
    share an instant, so that "the last ten" is the same for everyone."""
    random = np.random.default_rng(load.seed)
    number_of_keys = max(10, question.keys * load.rows // Load.rows)
    span, size = load.seconds * SECOND, load.rows // len(question.streams)

    def batches() -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        for batch in range(load.batches):
            ts = np.sort(random.choice(span, size, replace=False)) + batch * span
            keys = random.integers(0, number_of_keys, size)
            yield ts, keys, random.integers(0, 1_000_000, size)

    for stream in question.streams:
        record_stream(folder / stream, batches())


def wrong_rows(question: Question, folder: Path, at: int, found: pa.Table) -> int:
    """By how many rows the answer at an instant is not DuckDB's."""
    database = duckdb.connect(":memory:")
    alive = question.alive.format(at=at)
    tables = ", ".join(
        f"{name} AS (SELECT * FROM (SELECT epoch_us(ts) AS ts, k, v FROM "
        f"read_parquet('{folder}/{name}/*.parquet')) WHERE {alive})"
        for name in question.streams
    )
    wanted = database.sql(f"WITH {tables} {question.sql.format(at=at)}").to_arrow_table()
    if not wanted.num_rows:
        sys.exit(f"nothing to compare at {at}: {question.cql[0]}")
    return differs(database, wanted, found)


def run_mayfly(question: Question, load: Load, folder: Path, work: Path) -> dict[str, Any]:
    import mayfly

    spark = session({})
    mf = mayfly.Session(spark)
    for name in question.streams:
        mf.stream(name, read_side(spark, folder, name))
    queries = mf.queries(**{f"q{number}": cql for number, cql in enumerate(question.cql)})

    def run(checkpoint: str) -> Any:
        runs = queries.start(work / checkpoint, available_now=True, history="forever")
        runs["q0"].await_done()
        return runs

    runs, span = run("check"), load.seconds * SECOND
    for at in (span // 2, 2 * span - 1, load.batches * span - span // 3):
        if wrong := wrong_rows(question, folder, at, runs["q0"].snapshot(at)):
            sys.exit(f"mayfly is wrong: {question.cql[0]} differs by {wrong} rows at {at}")
    runs = run("timed")
    status = runs["q0"].status()
    return {
        "batch_seconds": batch_seconds(runs["q0"].query),
        "state": {"rows": status.state_rows, "bytes": status.state_bytes},
        "changes": sum(run.status().changes for run in runs.values()),
    }


def run_one(name: str, runner: str, load: Load, folder: Path, work: Path) -> dict[str, Any]:
    question = QUESTIONS[name]
    if runner == "mayfly":
        return run_mayfly(question, load, folder, work)
    peer = PEERS[runner]
    spark = session(dict(peer.settings))
    seconds = load.seconds * load.batches
    return peer.run(spark, folder, work, seconds * SECOND)


def in_child(name: str, runner: str, load: Load, folder: Path, work: Path) -> dict[str, Any]:
    """Each runner gets a fresh JVM, so that none profits from another's warm-up."""
    words = [sys.executable, "-m", "benchmarks.pipelines", "--child", runner, "--query", name]
    words += ["--data", str(folder), "--work", str(work), "--load", json.dumps(asdict(load))]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{runner} failed at {name}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    steady = result["batch_seconds"][load.warm_up :]
    result["median_seconds"] = median(steady)
    result["rows_per_second"] = load.rows / result["median_seconds"]
    print(
        f"{name:18} {runner:30} median {result['median_seconds']:7.3f} s a batch "
        f"{result['rows_per_second']:>10,.0f} rows/s   steady: "
        + " ".join(f"{one:.2f}" for one in steady),
        flush=True,
    )
    return result


def measure(name: str, load: Load, only: str | None) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="mayfly-pipelines-"))
    results: dict[str, Any] = {}
    try:
        generate(QUESTIONS[name], load, root / "data")
        for runner in filter(None, ("mayfly", QUESTIONS[name].peer)):
            if only in (None, runner):
                work = root / str(len(results))
                work.mkdir()
                found = in_child(name, runner, load, root / "data", work)
                results[runner] = {"commit": commit(), **found}
                shutil.rmtree(work)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", action="append", choices=list(QUESTIONS))
    parser.add_argument("--runner", help="only this one: mayfly or the peer's name")
    for name, default in asdict(Load()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument("--child")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--load")
    options = parser.parse_args()
    if options.child:
        load = Load(**json.loads(options.load))
        found = run_one(options.query[0], options.child, load, options.data, options.work)
        print(json.dumps(found))
        return
    load = Load(**{name: getattr(options, name) for name in asdict(Load())})
    results = measured_before(options.record, asdict(load)) if options.record else {}
    for name in options.query or list(QUESTIONS):
        results[name] = {**results.get(name, {}), **measure(name, load, options.runner)}
        if options.record:
            ordered = {one: results[one] for one in QUESTIONS if one in results}
            record(options.record, asdict(load), ordered)


if __name__ == "__main__":
    main()
