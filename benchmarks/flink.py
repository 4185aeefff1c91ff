"""Two streams joined over sliding windows: Mayfly beside Flink SQL's interval join.

Both get the same rows, made by a formula: Mayfly reads them from files and commits every batch,
Flink makes them itself and keeps nothing for a crash. Each result is compared with DuckDB's first.
Flink's rate is that of the later two thirds of a run, so that starting does not count.

    MAYFLY_FLINK_PYTHON=/path/to/python python -m benchmarks.flink --record flink

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

import numpy as np

from benchmarks.measure import median, record
from benchmarks.stream_rows import Int64s, record_stream
from benchmarks.streaming import Load, expected, in_child

FORMULA = {"left": (31, 17), "right": (37, 11)}
"""The key of the n-th row is (a n² + b n) mod keys, its value n mod 1,000,003."""
LOAD = Load(keys=10_007)


def generate(load: Load, folder: Path) -> None:
    """One file per side and batch, of rows by formula with times in milliseconds."""

    def batches(a: int, b: int) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
        for batch in range(load.batches):
            n = np.arange(batch * load.rows, (batch + 1) * load.rows)
            ts = n * 1000 * load.seconds // load.rows * 1000
            yield ts, (n * n * a + n * b) % load.keys, n % 1_000_003

    for side, (a, b) in FORMULA.items():
        record_stream(folder / side, batches(a, b))


def run_flink(load: Load, python: str) -> dict[str, Any]:
    script = Path(__file__).parent / "peers" / "flink_join.py"
    given = json.dumps({**asdict(load), "formula": FORMULA})
    done = subprocess.run([python, str(script), given], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"Flink failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    later = median(result["seconds_of_three_times"]) - median(result["seconds"])
    result["rows_per_second"] = 2 * 2 * load.rows * load.batches / later
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=LOAD.rows)
    parser.add_argument("--batches", type=int, default=LOAD.batches)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    python = os.environ.get("MAYFLY_FLINK_PYTHON")
    if not python:
        sys.exit("set MAYFLY_FLINK_PYTHON to a Python with apache-flink, see --help")
    load = Load(rows=options.rows, batches=options.batches, keys=LOAD.keys)
    root = Path(tempfile.mkdtemp(prefix="mayfly-flink-"))
    try:
        generate(load, root / "data")
        wanted = expected(load, root / "data")
        flink = run_flink(load, python)
        sums = [wanted[name] for name in ("rows", "k", "v")]
        if flink["found"] != sums:
            sys.exit(f"Flink's result is another: {flink['found']}, expected {sums}")
        (root / "work").mkdir()
        mayfly = in_child("mayfly", load, root / "data", root / "work", True)
        if mayfly["found"] != wanted:
            sys.exit(f"mayfly is wrong: {mayfly['found']}, expected {wanted}")
        steady = median(mayfly["batch_seconds"][load.warm_up :])
        mayfly["rows_per_second"] = 2 * load.rows / steady
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for name, one in (("flink", flink), ("mayfly", mayfly)):
        print(f"{name:8} {one['rows_per_second']:>12,.0f} rows/s")
    if options.record:
        print(record(options.record, asdict(load), {"flink": flink, "mayfly": mayfly}))


if __name__ == "__main__":
    main()
