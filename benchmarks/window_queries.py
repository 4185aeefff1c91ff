"""Aggregates that need the values of a group: one group of 1,000,000 rows, and 100,000 groups.

One group: every row arrives and expires at an instant of its own, and every instant has its answer;
``query`` is a whole query in this process, ``kernel`` the aggregate alone over the events of a step
and the rows alive before it. 100,000 groups: the same query beside the version before aggregates
kept counts by rank, in processes that take turns, over batches of 100,000 and of 10,000 rows, and
with a large group of 5,000 rows among the small ones. MIN and MAX also run without
early pruning, over values in any order, and that rise or fall. Before anything is timed, every
answer of a smaller load is compared with DuckDB's. Seconds are those of the processor, on one core.

    python -m benchmarks window-queries window-groups
    python -m benchmarks.window_queries --part groups --rounds 10
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.kernels import Batch, Load, Operator, batches, check
from benchmarks.measure import median, record
from mayfly import LocalSession

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


def _by_key(aggregate: str, sql: str | None = None) -> Operator:
    plain = f"SELECT k, {aggregate} AS x FROM s"
    same = f"SELECT k, {sql or aggregate} AS x FROM s"
    return Operator(f"{plain} [RANGE 10 s] GROUP BY k", f"{same} GROUP BY k", 100_000, "")


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
    "MIN": _by_key("MIN(v)"),
    "COUNT": _by_key("COUNT(v)"),
    "SUM": _by_key("SUM(v)", "SUM(v)::BIGINT"),
    "SUM of DOUBLE": _by_key("SUM(CAST(v AS DOUBLE))"),
    "AVG": _by_key("AVG(v)"),
    "AVG of DOUBLE": _by_key("AVG(CAST(v AS DOUBLE))"),
    "VAR": _by_key("VAR(v)", "var_samp(v)"),
}
LARGE = -1
"""The key of a large group among small ones."""
BESIDE_LARGE = ("MEDIAN", "COUNT DISTINCT", "MAX", "MIN", "SUM of DOUBLE")
WORK = {
    "100,000 rows a batch": (1, False, tuple(MANY_GROUPS)),
    "100,000 rows a batch, one large group": (1, True, BESIDE_LARGE),
    "10,000 rows a batch": (10, False, tuple(MANY_GROUPS)),
    "10,000 rows a batch, one large group": (10, True, BESIDE_LARGE),
}
"""By what the rows of a batch are divided (groups stay as many), whether a group is large, and what
is asked."""


def timed_groups(operator: Operator, load: Load, work: str) -> dict[str, Any]:
    """A query over many groups."""
    fewer, large, _ = WORK[work]
    load = replace(load, rows=load.rows // fewer)
    if not large:  # as many rows in small batches; before, a large group took a second a batch
        load = replace(load, batches=load.batches * fewer)
    fed = batches(replace(operator, keys=operator.keys * fewer), load)
    if large:
        fed = (_with_large_group(batch, load.rows // 500) for batch in fed)
    return figures(timed(operator, fed)[load.warm_up :], 2 * load.rows)


def _with_large_group(batch: Batch, every: int) -> Batch:
    """The batch with every so many-th row in one group."""
    keys = batch["s"]["k"].to_numpy().copy()
    keys[::every] = LARGE
    return {"s": batch["s"].set_column(1, "k", pa.array(keys))}


def timed_query(operator: Operator, load: Load) -> dict[str, Any]:
    """A whole query: every row is an event when it comes and another when it goes."""
    seconds = timed(operator, batches(operator, load))
    return figures(seconds[load.warm_up :], 2 * load.rows)


def timed(operator: Operator, fed: Iterator[Batch], without: Sequence[str] = ()) -> list[float]:
    """The seconds of every batch."""
    session, seconds = LocalSession(), []
    session.stream("s", {"ts": "BIGINT", "k": "BIGINT", "v": "BIGINT"})
    run = session.query(operator.cql, without=without)
    for batch in fed:
        began = time.process_time()
        run.feed(batch)
        seconds.append(time.process_time() - began)
        # A run remembers its answer for snapshots; that memory is not an operator's.
        for memory in ("_log", "_born", "_cut"):  # the last two in the version before
            if hasattr(run, memory):
                getattr(run, memory).clear()
    return seconds


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


def beside_before(load: Load, rounds: int, works: Sequence[str]) -> dict[str, Any]:
    """Both versions in turn, each in a process of its own; all batches of all rounds."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", BEFORE, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        sources = {"before": Path(folder) / "src", "now": ROOT / "src"}
        seconds: dict[str, dict[str, dict[str, list[float]]]] = {}
        for _ in range(rounds):
            for version, source in sources.items():
                for work, named in _in_process(source, load, works).items():
                    for name, one in named.items():
                        mine = seconds.setdefault(work, {}).setdefault(name, {})
                        mine.setdefault(version, []).extend(one["cpu_seconds"])
    return {
        work: {
            name: {
                version: figures(each, 2 * load.rows // WORK[work][0])
                for version, each in versions.items()
            }
            for name, versions in named.items()
        }
        for work, named in seconds.items()
    }


def _in_process(source: Path, load: Load, works: Sequence[str]) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    command = [
        sys.executable,
        "-m",
        "benchmarks.window_queries",
        "--load",
        json.dumps(asdict(load)),
        *(word for work in works for word in ("--work", work)),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=source)
    if done.returncode:
        sys.exit(f"{source}: {done.stderr}")
    return dict(json.loads(done.stdout))


# ── early pruning ─────────────────────────────────────────────────────────────────────────


EXTREMES = {
    "MAX, one group": _whole("MAX(v)"),
    "MIN and MAX, one group": _whole("MIN(v) AS y, MAX(v)"),
    "MAX, 100,000 groups": _by_key("MAX(v)"),
}
ORDERS = ("any order", "rising", "falling", "falling with noise")


def ordered(operator: Operator, load: Load, order: str) -> Iterator[Batch]:
    """The batches, with values in some order."""
    random = np.random.default_rng(load.seed)
    for number, batch in enumerate(batches(operator, load)):
        rows = batch["s"]
        place = np.arange(number * load.rows, (number + 1) * load.rows)
        values = {
            "any order": random.integers(0, 1 << 40, load.rows),
            "rising": place,
            "falling": -place,
            "falling with noise": random.integers(0, 1_000, load.rows) - place,
        }[order]
        yield {"s": rows.set_column(2, "v", pa.array(values))}


def timed_pruning(load: Load, rounds: int) -> dict[str, Any]:
    """With early pruning and without, in turn."""
    results: dict[str, Any] = {}
    for name, operator in EXTREMES.items():
        for order in ORDERS:
            seconds: dict[str, list[float]] = {"pruned": [], "whole": []}
            ways: list[tuple[str, tuple[str, ...]]] = [
                ("pruned", ()),
                ("whole", ("early-pruning",)),
            ]
            for turn in range(rounds):
                for way, without in ways[:: -1 if turn % 2 else 1]:
                    each = timed(operator, ordered(operator, load, order), without)
                    seconds[way] += each[load.warm_up :]
            figured = {way: figures(each, 2 * load.rows) for way, each in seconds.items()}
            results[f"{name}, {order}"] = figured
            show(f"{name}, {order}", figured)
    return results


# ── the benchmark ─────────────────────────────────────────────────────────────────────────


def timed_one_group(load: Load, rounds: int) -> dict[str, Any]:
    results = {}
    for name, operator in ONE_GROUP.items():
        results[name] = {"query": timed_query(operator, load), "kernel": timed_kernel(name, load)}
        show(f"one group, {name}", results[name])
    return results


def timed_many_groups(load: Load, rounds: int, works: Sequence[str] = ()) -> dict[str, Any]:
    results = beside_before(load, rounds, works or list(WORK))
    for work, named in results.items():
        for name, versions in named.items():
            show(f"{work}, {name}", versions)
    return results


PARTS: dict[str, Callable[[Load, int], dict[str, Any]]] = {
    "one group": timed_one_group,
    "groups": timed_many_groups,
    "pruning": timed_pruning,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of both versions in turn")
    parser.add_argument(
        "--part", choices=list(PARTS), action="append", help="all, if none is named"
    )
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument(
        "--work", choices=list(WORK), action="append", help="of the groups: all, if none is named"
    )
    parser.add_argument("--load", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    if options.load:
        load = Load(**json.loads(options.load))
        print(json.dumps({
            work: {name: timed_groups(MANY_GROUPS[name], load, work) for name in WORK[work][2]}
            for work in options.work
        }))  # fmt: skip
        return
    load = replace(LOAD, rows=LOAD.rows // 10) if options.small else LOAD
    for operator in (*ONE_GROUP.values(), *MANY_GROUPS.values(), *EXTREMES.values()):
        if "VAR" in operator.cql:  # DuckDB's differs in the last digits; tests compare it
            continue
        check(operator, "UPA", Load(rows=4_000, warm_up=0, batches=15, seed=load.seed))
    rounds, parts = 1 if options.small else options.rounds, options.part or list(PARTS)
    groups = partial(timed_many_groups, works=options.work)
    timed_parts: dict[str, Callable[[Load, int], dict[str, Any]]] = {**PARTS, "groups": groups}
    results = {part: timed_parts[part](load, rounds) for part in parts}
    if options.record:
        queries = {"one group": ONE_GROUP, "groups": MANY_GROUPS, "pruning": EXTREMES}
        texts = {k: {name: one.cql for name, one in queries[k].items()} for k in parts}
        configuration = {**asdict(load), "rounds": rounds, "before": BEFORE, "queries": texts}
        record(options.record, configuration, results)


def show(title: str, runners: dict[str, Any]) -> None:
    rates = "  ".join(
        f"{name} {one['events_per_second'] / 1e6:.2f}" for name, one in runners.items()
    )
    print(f"{title:52} M events/s: {rates}", flush=True)


if __name__ == "__main__":
    main()
