"""TUMBLE, HOP, SESSION and OVER over one stream: Mayfly beside Flink SQL.

Both get the same rows, made by a formula: Mayfly reads them from files and commits every batch,
Flink makes them itself and keeps nothing for a crash. Mayfly's answers are compared with DuckDB's
at several instants, and so are sums over all that Flink sends. Flink's rate is that of the later
two thirds of a run, so that starting does not count.

    MAYFLY_FLINK_PYTHON=/path/to/python python -m benchmarks.flink_forms --record flink-forms

The other Python needs ``pip install -r benchmarks/requirements-flink.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.measure import commit, measured_before, median, record
from benchmarks.peers.pipelines import SESSIONS, sums_by_ends
from benchmarks.pipelines import QUESTIONS, Load, in_child
from benchmarks.stream_rows import Int64s, record_stream

LOAD = Load()
FLINK_BATCHES = 4
_TEN = "INTERVAL '10' SECOND"
_WINDOWS = "SELECT k, SUM(v) AS x FROM TABLE({}) GROUP BY window_start, window_end, k"
FORMS: dict[str, tuple[int, str, str]] = {
    # how many keys, Flink's SQL, and DuckDB's sums over all results
    "TUMBLE 10 s by 10 s": (
        1009,
        _WINDOWS.format(f"TUMBLE(TABLE s, DESCRIPTOR(ts), {_TEN})"),
        sums_by_ends(10, 10).format(end=2**60),
    ),
    "HOP 10 s by 1 s": (
        1009,
        _WINDOWS.format(f"HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND, {_TEN})"),
        sums_by_ends(10, 1).format(end=2**60),
    ),
    "HOP 60 s by 1 s": (
        1009,
        _WINDOWS.format("HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '60' SECOND)"),
        sums_by_ends(60, 1).format(end=2**60),
    ),
    "SESSION": (
        50_021,
        _WINDOWS.format(f"SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), {_TEN})"),
        f"SELECT count(*), sum(k::HUGEINT), sum(x::HUGEINT) FROM ({SESSIONS})",
    ),
    "OVER": (
        10_007,
        "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN "
        f"{_TEN} PRECEDING AND CURRENT ROW) AS x FROM s",
        "SELECT count(*), sum(k::HUGEINT), sum(x::HUGEINT) FROM (SELECT k, sum(v) OVER "
        "(PARTITION BY k ORDER BY ts RANGE BETWEEN 10000000 PRECEDING AND CURRENT ROW) AS x "
        "FROM s)",
    ),
}


def generate(load: Load, keys: int, folder: Path) -> None:
    def batches() -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        for batch in range(load.batches):
            n = np.arange(batch * load.rows, (batch + 1) * load.rows)
            ts = n * 1000 * load.seconds // load.rows * 1000
            yield ts, (n * n * 31 + n * 17) % keys, n % 1_000_003

    record_stream(folder / "s", batches())


def expected(sql: str, folder: Path) -> list[int]:
    files = ", ".join(f"'{folder}/s/{batch:05d}.parquet'" for batch in range(FLINK_BATCHES))
    rows = f"SELECT epoch_us(ts) AS ts, k, v FROM read_parquet([{files}])"
    row = duckdb.execute(f"WITH s AS ({rows}) {sql}").fetchall()[0]
    return [int(value) for value in row]


def run_flink(load: Load, keys: int, sql: str, python: str) -> dict[str, Any]:
    script = Path(__file__).parent / "peers" / "flink_queries.py"
    given = {"sql": sql, "columns": "k BIGINT, x BIGINT", "keys": keys, "rows": load.rows}
    given |= {"seconds": load.seconds, "batches": FLINK_BATCHES}
    done = subprocess.run([python, str(script), json.dumps(given)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    later = median(result["seconds_of_three_times"]) - median(result["seconds"])
    result["rows_per_second"] = 2 * load.rows * FLINK_BATCHES / later
    result["median_seconds"] = load.rows / result["rows_per_second"]
    return result


def measure(name: str, load: Load, python: str) -> dict[str, Any]:
    keys, sql, sums = FORMS[name]
    root = Path(tempfile.mkdtemp(prefix="mayfly-flink-forms-"))
    try:
        generate(load, keys, root / "data")
        flink = run_flink(load, keys, sql, python)
        if flink["found"] != (correct := expected(sums, root / "data")):
            sys.exit(f"Flink's {name} is another: {flink['found']}, expected {correct}")
        print(f"{name:18} Flink  {flink['median_seconds']:7.3f} s a batch", flush=True)
        (root / "work").mkdir()
        mayfly = in_child(name, "mayfly", load, root / "data", root / "work")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {"mayfly": {"commit": commit(), **mayfly}, "flink": {"commit": commit(), **flink}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", action="append", choices=list(FORMS))
    parser.add_argument("--rows", type=int, default=LOAD.rows)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    python = os.environ.get("MAYFLY_FLINK_PYTHON")
    if not python:
        sys.exit("set MAYFLY_FLINK_PYTHON to a Python with apache-flink, see --help")
    load = Load(rows=options.rows)
    assert set(FORMS) <= set(QUESTIONS)
    configuration = {**asdict(load), "flink_batches": FLINK_BATCHES}
    results = measured_before(options.record, configuration) if options.record else {}
    for name in options.query or list(FORMS):
        results[name] = measure(name, load, python)
        if options.record:
            ordered = {form: results[form] for form in FORMS if form in results}
            print(record(options.record, configuration, ordered))


if __name__ == "__main__":
    main()
