"""Restart from a large state: how long until the first new batch is committed?

Fills a window join with ten million rows of state, ends the process, and starts a new one on the
same checkpoint with one more small batch to read. Timed from the start of the new process to the
commit of that batch: Python, Java and Spark start, state found and opened, batch run. The final
results are compared with DuckDB's.

    python -m benchmarks.restart
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import median, record
from benchmarks.streaming import Load, expected, generate, run_mayfly

BEGAN = "MAYFLY_BENCH_BEGAN"


def child(load: Load, data: Path, work: Path) -> dict[str, Any]:
    result = run_mayfly(load, data, work, sync=True)
    result["seconds_since_start"] = result["first_commit_at"] - float(os.environ[BEGAN])
    return result


def run_child(load: Load, data: Path, work: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.restart", "--child", "--data", str(data),
             "--work", str(work), "--load", json.dumps(asdict(load))]  # fmt: skip
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, BEGAN: str(time.time())}
    )
    if done.returncode:
        sys.exit(f"failed:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(load: Load, restarts: int) -> dict[str, Any]:
    """Fill, then restart several times with one more batch each."""
    root = Path(tempfile.mkdtemp(prefix="mayfly-restart-"))
    try:
        everything = replace(load, batches=load.batches + restarts)
        generate(everything, root / "all")
        for side in ("left", "right"):
            (root / "data" / side).mkdir(parents=True)

        def offer(first: int, last: int) -> None:
            for side in ("left", "right"):
                for batch in range(first, last):
                    name = f"{batch:05d}.parquet"
                    (root / "all" / side / name).rename(root / "data" / side / name)

        offer(0, load.batches)
        filled = run_child(load, root / "data", root / "work")
        print(f"state: {filled['state']}", flush=True)
        seconds = []
        for number in range(restarts):
            offer(load.batches + number, load.batches + number + 1)
            again = run_child(everything, root / "data", root / "work")
            seconds.append(again["seconds_since_start"])
            print(f"restart {number + 1}: {seconds[-1]:.2f} s to the first commit", flush=True)
        wanted = expected(everything, root / "data")
        if again["found"] != wanted:
            sys.exit(f"wrong after the restarts: found {again['found']}, expected {wanted}")
        return {"state": filled["state"], "restart_seconds": seconds, "median": median(seconds)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--record", default="restart")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--load")
    options = parser.parse_args()
    if options.child:
        load = Load(**json.loads(options.load))
        options.work.mkdir(exist_ok=True)
        print(json.dumps(child(load, options.data, options.work)))
        return
    load = Load(rows=500_000, seconds=100, window=10_000, keys=20_000_000, batches=10, warm_up=0)
    results = measure(load, options.restarts)
    print(record(options.record, asdict(load), results))


if __name__ == "__main__":
    main()
