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
    flink        Flink SQL's HOP, all queries in one job; MAYFLY_FLINK_PYTHON names its Python

State is told beside the seconds: of Mayfly what its checkpoint holds for operators, of window()
what its state stores take in memory, by hand the files of partial sums, of which none is removed.

One grouped SUM is timed besides at windows of 10, 60 and 288 slides, at two sizes, beside window()
and Flink. What is recorded already for the same configuration is kept, each result with its commit,
so a record is made in pieces: ``--minutes`` begins nothing that would probably end later,
``--task`` and ``--runner`` choose. ``--again`` measures anew. ``--limit`` ends a runner after so
many seconds; that it was ended is recorded.

    python -m benchmarks.periodic --record periodic --limit 240
    python -m benchmarks.periodic --record periodic --minutes 6 --task "240 queries"
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
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import commit, machine, measured_before, median, record
from benchmarks.peers.periodic_runs import RUNNERS
from benchmarks.periodic_load import (
    COUNTS,
    COUNTS_OF,
    LARGE,
    RATIOS,
    SMALL,
    Load,
    Periodic,
    database,
    expected,
    generate,
    last_refresh,
    queries_of,
)
from mayfly.display import counted

CHECKED = {"mayfly": 16, "apart": 16, "window()": 2, "by hand": 16, "flink": 8}
"""How many queries' answers are compared with DuckDB's before anything is timed."""


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
    words += ["--work", str(work), "--given", json.dumps(task)]
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
        failure = f"{runner} failed:\n{out[-2000:]}\n{errors[-6000:]}"
        if limit is None:  # its answers are to be checked
            sys.exit(failure)
        print(failure, flush=True)
        causes = [line for line in errors.splitlines() if line.startswith("Caused by")]
        return {"failed": (causes or ["see the output"])[-1][:200]}
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    shutil.rmtree(work, ignore_errors=True)
    return result


def check(runner: str, root: Path) -> dict[str, Any]:
    """The answers of a small load, at the last refresh of every query."""
    folder, count = root / "small", CHECKED[runner]
    if not folder.exists():
        generate(SMALL, folder)
    queries, connection = queries_of(count, SMALL.seed), database(folder)
    answers = in_child(runner, queries, SMALL, folder, root)["answers"]
    for query, answer in zip(queries, answers, strict=True):
        correct = sorted(map(list, expected(connection, query, last_refresh(query, SMALL))))
        if runner == "flink" and query.call.startswith("AVG"):  # of whole numbers: a whole number
            correct = [[*keys, int(value)] for *keys, value in correct]
        if correct != sorted(map(list, answer)):
            sys.exit(f"{runner} is wrong: {query.cql}\n{answer[:5]}\n{correct[:5]}")
    print(f"{runner}: answers to {count} queries are those of DuckDB", flush=True)
    return {"queries": count, "commit": commit()}


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
            Task(_called(count), runner, queries, load, "data")
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
                for runner in ("mayfly", "window()", "flink")
                if runner in only
            ]
    return listed


def timed(
    task: Task, root: Path, clock: Clock, expected_seconds: float, limit: float | None
) -> dict[str, Any]:
    if not clock.has(expected_seconds):
        print(f"{task.name:34} {task.runner:10} left out: no time", flush=True)
        return {"left_out": "no time"}
    folder = root / task.folder
    if not folder.exists():
        generate(task.load, folder)
    before = machine()["load_average"]
    ends = min((seconds for seconds in (clock.left, limit) if seconds is not None), default=None)
    result = in_child(task.runner, list(task.queries), task.load, folder, root, ends)
    result.pop("answers", None)
    result |= {"commit": commit(), "load_average": before}
    if "batch_seconds" not in result:
        print(f"{task.name:34} {task.runner:10} no figure: {result}", flush=True)
        return result
    result["median_seconds"] = median(result["batch_seconds"][task.load.warm_up :])
    seconds = result["median_seconds"]
    print(f"{task.name:34} {task.runner:10} median {seconds:8.3f} s a batch", flush=True)
    return result


def measure(
    listed: list[Task],
    minutes: float | None,
    results: dict[str, Any],
    again: bool = False,
    limit: float | None = None,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Add to results what they lack; ``limit``: end a runner after so many seconds; ``keep`` is
    called after each."""
    root, clock = Path(tempfile.mkdtemp(prefix="mayfly-periodic-")), Clock(minutes)
    missing = [
        task
        for task in listed
        if again or "median_seconds" not in results.get(task.name, {}).get(task.runner, {})
    ]
    try:
        checks = results.setdefault("checked", {})
        for runner in dict.fromkeys(task.runner for task in missing):
            if runner in CHECKED and (again or checks.get(runner, {}).get("commit") != commit()):
                checks[runner] = check(runner, root)
        last: dict[str, float] = {}
        for task in missing:
            began = time.monotonic()
            result = timed(task, root, clock, last.get(task.runner, 20.0), limit)
            last[task.runner] = time.monotonic() - began
            results.setdefault(task.name, {})[task.runner] = result
            keep()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _called(count: int) -> str:
    """The task of so many queries, in records and tables."""
    return counted(count, "query", "queries")


def summary(results: dict[str, Any]) -> dict[str, float]:
    """What the aims are about; only what was timed."""

    def seconds(name: str, runner: str) -> float | None:
        value: float | None = results.get(name, {}).get(runner, {}).get("median_seconds")
        return value

    figures: dict[str, float] = {}
    first, most = seconds(_called(1), "mayfly"), seconds(_called(240), "mayfly")
    floor = seconds(_called(1), "floor")
    if first and most:
        figures["an added query, share of the first"] = (most - first) / 239 / first
    if floor and most:
        figures["240 queries, times the bare micro-batch"] = most / floor
    for runner, count in (("window()", 10), ("window()", 40), ("by hand", 240)):
        other = seconds(_called(count), runner)
        if other and most:
            figures[f"{runner}, of {count}, times 240 queries"] = other * 240 / count / most
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
    parser.add_argument("--task", action="append", help="how a task begins: d/s, 240 queries")
    parser.add_argument("--minutes", type=float, help="end after so many minutes")
    parser.add_argument("--limit", type=float, help="end a runner after so many seconds")
    parser.add_argument("--again", action="store_true", help="measure what is recorded anew")
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    for name in ("child", "data", "work", "given"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        task = json.loads(options.given)
        queries = [Periodic(**query) for query in task["queries"]]
        run = RUNNERS[options.child]
        result = run(queries, Load(**task["load"]), Path(options.data), Path(options.work))
        print(json.dumps(result))
        return
    load = SMALL if options.small else replace(Load(), rows=options.rows)
    counts = tuple(options.count or ((1, 10) if options.small else COUNTS))
    listed = [
        task
        for task in tasks(load, counts, options.runner or list(RUNNERS), options.small)
        if not options.task or task.name.startswith(tuple(options.task))
    ]
    of = {name: list(some) for name, some in COUNTS_OF.items()}
    configuration = {**asdict(load), "counts": list(counts), "counts_of": of, "large": LARGE}
    results = measured_before(options.record, configuration) if options.record else {}

    def keep() -> None:
        results["summary"] = summary(results)
        if options.record:
            record(options.record, configuration, results)

    measure(listed, options.minutes, results, options.again, options.limit, keep)
    keep()
    for name, figure in results["summary"].items():
        print(f"{name}: {figure:.4g}")


if __name__ == "__main__":
    main()
