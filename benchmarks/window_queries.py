"""Aggregates that need the values of a group: one group of 1,000,000 rows, and 100,000 groups.

One group: every row arrives and expires at an instant of its own, and every instant has its answer;
``query`` is a whole query in this process, ``kernel`` the aggregate alone over the events of a step
and the rows alive before it. 100,000 groups: the same query beside the version before aggregates
kept counts by rank, in processes that take turns. Before anything is timed, every answer of a
smaller load is compared with DuckDB's. Seconds are those of the processor, on one core.

    python -m benchmarks.window_queries --record window-queries
    python -m benchmarks.window_queries --small
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kernels import Load, Operator, batches, check, start
from benchmarks.measure import median, record

BEFORE = "eb46367"
"""The last commit at which aggregates read the rows of a group again."""
ROOT = Path(__file__).parent.parent
LOAD = Load(batches=5)
ROUNDS = 3
TOP_10 = (
    "SELECT list({'value': k, 'count': n} ORDER BY n DESC, k)[:10] AS x "
    "FROM (SELECT k, count(*) AS n FROM s GROUP BY k)"
)


def _whole(aggregate: str, values: int = 10_000, sql: str | None = None) -> Operator:
    plain = f"SELECT {aggregate} AS x FROM s"
    return Operator(f"{plain} [RANGE 10 s]", sql or plain, values, "")


def _by_key(aggregate: str) -> Operator:
    plain = f"SELECT k, {aggregate} AS x FROM s"
    return Operator(f"{plain} [RANGE 10 s] GROUP BY k", f"{plain} GROUP BY k", 100_000, "")


ONE_GROUP = {
    "MEDIAN": _whole("MEDIAN(k)"),
    "COUNT DISTINCT": _whole("COUNT(DISTINCT k)"),
    "TOP 10": _whole("TOP(k, 10)", sql=TOP_10),
    "MAX": _whole("MAX(k)"),
    "MEDIAN of 1,000,000 values": _whole("MEDIAN(k)", 1_000_000),
}
MANY_GROUPS = {
    "MEDIAN": _by_key("MEDIAN(v)"),
    "COUNT DISTINCT": _by_key("COUNT(DISTINCT v)"),
    "MAX": _by_key("MAX(v)"),
}


def timed_query(operator: Operator, load: Load) -> dict[str, Any]:
    """A whole query: every row is an event when it comes and another when it goes."""
    run, seconds = start(operator, "UPA", load), []
    for batch in batches(operator, load):
        began = time.process_time()
        run.feed(batch)
        seconds.append(time.process_time() - began)
        # A run remembers its answer for snapshots; that memory is not an operator's.
        run._born.clear()
        run._cut.clear()
    return figures(seconds[load.warm_up :], 2 * load.rows)


def figures(seconds: list[float], events: int) -> dict[str, Any]:
    return {"cpu_seconds": seconds, "events_per_second": events / median(seconds)}


def timed_kernel(name: str, load: Load) -> dict[str, Any]:
    """The aggregate alone: as many rows go as come, one after the other."""
    from mayfly.windows.rank_counts import LARGEST, MEDIAN, Ranked, Script

    operator, random = ONE_GROUP[name], np.random.default_rng(load.seed)
    values = random.integers(0, operator.keys, 10 * load.rows + load.rows)
    alive, fresh = values[: 10 * load.rows], values[10 * load.rows :]
    events = np.stack([fresh, alive[: load.rows]], axis=1).ravel()
    sign = np.tile(np.array([1, -1]), load.rows)
    one = np.zeros(2 * load.rows, np.int64)
    script = Script(sign, np.arange(2 * load.rows), one)

    def answer(ranked: Ranked) -> object:
        if name == "COUNT DISTINCT":
            return ranked.distinct(script)
        if name == "TOP 10":
            return ranked.top(script, 10)
        return ranked.positions(script, LARGEST if name == "MAX" else MEDIAN)

    def step() -> None:
        owner = np.zeros(len(alive), np.int64)
        answer(Ranked.of(pa.array(alive), owner, pa.array(events), one, 1))

    seconds = []
    for _ in range(1 + load.batches):
        began = time.process_time()
        step()
        seconds.append(time.process_time() - began)
    return figures(seconds[1:], 2 * load.rows)


# ── the version before ────────────────────────────────────────────────────────────────────


def beside_before(load: Load, rounds: int) -> dict[str, Any]:
    """Both versions in turn, each in a process of its own; all batches of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        sources = {"before": Path(folder) / "src", "now": ROOT / "src"}
        seconds: dict[str, dict[str, list[float]]] = {name: {} for name in MANY_GROUPS}
        for _ in range(rounds):
            for version, source in sources.items():
                for name, one in _in_process(source, load).items():
                    seconds[name].setdefault(version, []).extend(one["cpu_seconds"])
    return {
        name: {version: figures(each, 2 * load.rows) for version, each in versions.items()}
        for name, versions in seconds.items()
    }


def _in_process(source: Path, load: Load) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    command = [
        sys.executable,
        "-m",
        "benchmarks.window_queries",
        "--load",
        json.dumps(asdict(load)),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=source)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr}")
    return dict(json.loads(done.stdout))


# ── the benchmark ─────────────────────────────────────────────────────────────────────────


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of both versions in turn")
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    if options.load:
        load = Load(**json.loads(options.load))
        print(json.dumps({name: timed_query(one, load) for name, one in MANY_GROUPS.items()}))
        return
    load = replace(LOAD, rows=LOAD.rows // 10) if options.small else LOAD
    for operator in (*ONE_GROUP.values(), *MANY_GROUPS.values()):
        check(operator, "UPA", Load(rows=4_000, warm_up=0, batches=15, seed=load.seed))
    one_group = {}
    for name, operator in ONE_GROUP.items():
        one_group[name] = {
            "query": timed_query(operator, load),
            "kernel": timed_kernel(name, load),
        }
        show(f"one group, {name}", one_group[name])
    rounds = 1 if options.small else options.rounds
    groups = beside_before(load, rounds)
    for name, versions in groups.items():
        show(f"100,000 groups, {name}", versions)
    if options.record:
        queries = {"one group": ONE_GROUP, "100,000 groups": MANY_GROUPS}
        texts = {k: {name: one.cql for name, one in each.items()} for k, each in queries.items()}
        configuration = {**asdict(load), "rounds": rounds, "before": BEFORE, "queries": texts}
        record(options.record, configuration, {"one group": one_group, "100,000 groups": groups})


def show(title: str, runners: dict[str, Any]) -> None:
    rates = "  ".join(
        f"{name} {one['events_per_second'] / 1e6:.2f}" for name, one in runners.items()
    )
    print(f"{title:38} M events/s: {rates}", flush=True)


if __name__ == "__main__":
    main()
