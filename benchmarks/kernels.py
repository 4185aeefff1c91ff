"""Operators in this process, one by one: UPA, NT and DIRECT beside DuckDB and a bare loop.

One second of rows is a batch, and windows are ten seconds long, so that after the warm-up as many
rows expire as arrive. Before anything is timed, every answer of a smaller load is compared with
DuckDB's. ``duckdb`` recomputes the answer from the alive rows after each batch; ``limit`` is what
a bare compiled loop needs for the same rows, without lifetimes, state that can be asked, or
columns: a filter, a hash join, or counting by hash. All on one core.

    python -m benchmarks.kernels --operator join --operator select

``--steps`` tells instead what a step costs in CPU time by the number of its rows, UPA only: the
floor under small batches.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.alive_rows import ALIVE, REFRESHED, differs
from benchmarks.measure import median, record
from mayfly import LocalSession

if TYPE_CHECKING:  # versions before these names run this module, too
    from mayfly.runtime.in_process import ContinuousRun

STRATEGIES = ("UPA", "NT", "DIRECT")
SECOND = 1_000_000
WINDOW = 10 * SECOND
Int64s = npt.NDArray[np.int64]
Batch = dict[str, pa.Table]


@dataclass(frozen=True)
class Load:
    """Rows per batch over all streams, batches left out of the figures, batches timed."""

    rows: int = 100_000
    warm_up: int = 12
    batches: int = 9
    seed: int = 7


@dataclass(frozen=True)
class Operator:
    """A query, the same in SQL over the alive rows, its number of keys at 100,000 rows a batch."""

    cql: str
    sql: str
    keys: int
    limit: str
    streams: tuple[str, ...] = ("s",)
    alive: str = ALIVE


OPERATORS = {
    "select": Operator(
        "SELECT k, v FROM s [RANGE 10 s] WHERE v > 500",
        "SELECT k, v FROM s WHERE v > 500",
        10_000,
        "filter",
    ),
    "join": Operator(
        "SELECT a.k, a.v, b.v AS w FROM s [RANGE 10 s] a, t [RANGE 10 s] b WHERE a.k = b.k",
        "SELECT s.k, s.v, t.v AS w FROM s JOIN t ON s.k = t.k",
        500_000,
        "hash join",
        ("s", "t"),
    ),
    "DISTINCT": Operator(
        "SELECT DISTINCT k FROM s [RANGE 10 s]", "SELECT DISTINCT k FROM s", 10_000, "hash count"
    ),
    "grouped SUM": Operator(
        "SELECT k, SUM(v) AS x FROM s [RANGE 10 s SLIDE 1 s] GROUP BY k",
        "SELECT k, SUM(v)::BIGINT AS x FROM s GROUP BY k",
        10_000,
        "hash count",
        alive=REFRESHED,
    ),
    "grouped SUM at every instant": Operator(
        "SELECT k, SUM(v) AS x FROM s [RANGE 10 s] GROUP BY k",
        "SELECT k, SUM(v)::BIGINT AS x FROM s GROUP BY k",
        10_000,
        "hash count",
    ),
    "grouped MAX": Operator(
        "SELECT k, MAX(v) AS x FROM s [RANGE 10 s SLIDE 1 s] GROUP BY k",
        "SELECT k, MAX(v) AS x FROM s GROUP BY k",
        10_000,
        "hash count",
        alive=REFRESHED,
    ),
    "NOT EXISTS": Operator(
        "SELECT k, v FROM s [RANGE 10 s] a"
        " WHERE NOT EXISTS (SELECT * FROM t [RANGE 10 s] b WHERE b.k = a.k)",
        "SELECT k, v FROM s ANTI JOIN t USING (k)",
        100_000,
        "hash count",
        ("s", "t"),
    ),
    "EXCEPT ALL": Operator(
        "SELECT k FROM s [RANGE 10 s] EXCEPT ALL SELECT k FROM t [RANGE 10 s]",
        "SELECT k FROM s EXCEPT ALL SELECT k FROM t",
        100_000,
        "hash count",
        ("s", "t"),
    ),
    "count window": Operator(
        "SELECT k, v FROM s [ROWS 50000]",
        "SELECT k, v FROM (SELECT * FROM s ORDER BY ts DESC, k DESC, v DESC LIMIT 50000)",
        10_000,
        "filter",
    ),
    "NRR join": Operator(
        "SELECT s.k, s.v, r.w FROM s [RANGE 10 s], r WHERE s.k = r.k",
        "SELECT s.k, s.v, r.w FROM s JOIN r USING (k)",
        10_000,
        "hash join",
    ),
}


def batches(operator: Operator, load: Load) -> Iterator[Batch]:
    """Rows in order of time, keys and values uniform; the number of keys goes with the rows."""
    random = np.random.default_rng(load.seed)
    keys = max(10, operator.keys * load.rows // 100_000)
    size = load.rows // len(operator.streams)

    def second(number: int) -> pa.Table:
        ts = np.sort(random.integers(number * SECOND, (number + 1) * SECOND, size))
        return pa.table(
            {"ts": ts, "k": random.integers(0, keys, size), "v": random.integers(0, 1000, size)}
        )

    for number in range(load.warm_up + load.batches):
        yield {name: second(number) for name in operator.streams}


def relation(operator: Operator, load: Load) -> pa.Table:
    keys = np.arange(max(10, operator.keys * load.rows // 100_000))
    return pa.table({"k": keys, "w": keys % 97})


def start(operator: Operator, strategy: str, load: Load) -> ContinuousRun:
    session = LocalSession()
    for name in ("s", "t"):
        session.stream(name, {"ts": "bigint", "k": "bigint", "v": "bigint"})
    session.relation("r", relation(operator, load), key=["k"], retroactive=False)
    return session.query(operator.cql, strategy=strategy)


# ── DuckDB ────────────────────────────────────────────────────────────────────────────────


class Recomputed:
    """DuckDB with the rows of the last window."""

    def __init__(self, operator: Operator, load: Load) -> None:
        self.operator = operator
        self.database = duckdb.connect(":memory:", config={"threads": 1})
        for name in ("s", "t"):
            self.database.execute(f"CREATE TABLE all_{name} (ts BIGINT, k BIGINT, v BIGINT)")
        self.database.register("given", relation(operator, load))
        self.database.execute("CREATE TABLE r AS SELECT * FROM given")

    def add(self, batch: Batch, at: int) -> None:
        for name, rows in batch.items():
            self.database.register("given", rows)
            self.database.execute(f"INSERT INTO all_{name} SELECT * FROM given")
            self.database.execute(f"DELETE FROM all_{name} WHERE ts < {at - 2 * WINDOW}")

    def answer(self, at: int) -> pa.Table:
        alive = self.operator.alive.format(at=at)
        if "ROWS" in self.operator.cql:
            alive = f"ts <= {at}"
        tables = ", ".join(
            f"{name} AS (SELECT * FROM all_{name} WHERE {alive})" for name in self.operator.streams
        )
        return self.database.sql(f"WITH {tables} {self.operator.sql}").to_arrow_table()


def check(operator: Operator, strategy: str, load: Load) -> None:
    """Compare the answer after every batch with DuckDB's; stop the benchmark at a difference."""
    run, database = start(operator, strategy, load), Recomputed(operator, load)
    compared = 0
    for batch in batches(operator, load):
        run.feed(batch)
        at = run.clocks.query - 1
        database.add(batch, at)
        found = run.snapshot(at)
        compared += found.num_rows
        if wrong := differs(database.database, database.answer(at), found):
            sys.exit(f"{strategy} is wrong: {operator.cql} differs by {wrong} rows at {at}")
    if not compared:
        sys.exit(f"nothing was compared: {operator.cql} had no answer")


# ── timing ────────────────────────────────────────────────────────────────────────────────


def timed(load: Load, stream: Iterator[Batch], step: Callable[[Batch], Any]) -> dict[str, Any]:
    seconds = []
    for batch in stream:
        began = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - began)
    return figures(load, seconds)


def figures(load: Load, seconds: list[float]) -> dict[str, Any]:
    steady = seconds[load.warm_up :]
    middle = median(steady)
    return {
        "batch_seconds": steady,
        "median_seconds": middle,
        "rows_per_second": load.rows / middle,
    }


def time_strategies(operator: Operator, load: Load) -> dict[str, Any]:
    """Batch by batch in turn, so that a disturbance of the machine meets all of them."""
    runs = {strategy: start(operator, strategy, load) for strategy in STRATEGIES}
    seconds: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for number, batch in enumerate(batches(operator, load)):
        for turn in range(len(STRATEGIES)):
            strategy = STRATEGIES[(number + turn) % len(STRATEGIES)]
            run = runs[strategy]
            began = time.perf_counter()
            run.feed(batch)
            seconds[strategy].append(time.perf_counter() - began)
            # A run remembers its answer for snapshots; that memory is not an operator's.
            run._log.clear()
    return {
        strategy: {
            **figures(load, seconds[strategy]),
            "state_rows": sum(report.state_rows for report in run.reports()),
            "state_bytes": sum(report.state_bytes for report in run.reports()),
        }
        for strategy, run in runs.items()
    }


def time_duckdb(operator: Operator, load: Load) -> dict[str, Any]:
    database = Recomputed(operator, load)

    def recompute(batch: Batch) -> None:
        at = max(int(rows["ts"][-1].as_py()) for rows in batch.values()) - 1
        database.add(batch, at)
        database.answer(at)

    return timed(load, batches(operator, load), recompute)


def time_limit(operator: Operator, load: Load) -> dict[str, Any]:
    """The bare loop; a table by hash has room for all keys, and join chains for all rows."""
    bits = int(operator.keys * 2).bit_length()
    total = (load.warm_up + load.batches) * load.rows
    sides = {
        name: (np.full(1 << bits, -1), np.empty(total, np.int64), np.empty((3, total), np.int64))
        for name in (*operator.streams, "other")
    }
    counts = {name: np.zeros((2, 1 << bits), np.int64) for name in operator.streams}
    stored = dict.fromkeys(sides, 0)
    if operator.limit == "hash join" and operator.streams == ("s",):
        given = relation(operator, load)
        columns = np.array([np.full(given.num_rows, 0), given["k"], given["w"]])
        _chained(*sides["other"], 0, columns)
        stored["other"] = given.num_rows

    def step(batch: Batch) -> None:
        columns = {
            name: tuple(rows[one].to_numpy() for one in ("ts", "k", "v"))
            for name, rows in batch.items()
        }
        if operator.limit == "filter":
            for _, keys, values in columns.values():
                _filtered(keys, values)
        elif operator.limit == "hash count":
            for name, (_, keys, values) in columns.items():
                _counted(counts[name], keys, values)
        else:
            pairs = [("s", "t"), ("t", "s")] if len(columns) > 1 else [("s", "other")]
            for mine, other in pairs:
                rows = np.array(columns[mine])
                _met(*sides[other], rows, 0 if other == "other" else WINDOW)
                if other != "other":
                    _chained(*sides[mine], stored[mine], rows)
                    stored[mine] += rows.shape[1]

    return timed(load, batches(operator, load), step)


@numba.njit(cache=True)
def _slot(key: int, size: int) -> int:
    return (key * 0x9E3779B1 & 0xFFFFFFFF) % size


@numba.njit(cache=True)
def _filtered(keys: Int64s, values: Int64s) -> tuple[Int64s, Int64s]:
    one, other = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    found = 0
    for i in range(len(keys)):
        one[found], other[found] = keys[i], values[i]
        found += values[i] > 500
    return one[:found], other[:found]


@numba.njit(cache=True)
def _counted(table: Int64s, keys: Int64s, values: Int64s) -> None:
    """Sum by key with open addressing; row 0 is the key plus one, row 1 the sum."""
    size = table.shape[1]
    for i in range(len(keys)):
        at = _slot(keys[i], size)
        while table[0, at] != 0 and table[0, at] != keys[i] + 1:
            at = (at + 1) % size
        table[0, at] = keys[i] + 1
        table[1, at] += values[i]


@numba.njit(cache=True)
def _chained(heads: Int64s, following: Int64s, stored: Int64s, size: int, rows: Int64s) -> None:
    """Append rows (ts, key, value) to the chains of their slots, the youngest first."""
    for i in range(rows.shape[1]):
        at = _slot(rows[1, i], len(heads))
        following[size + i] = heads[at]
        heads[at] = size + i
        stored[:, size + i] = rows[:, i]


@numba.njit(cache=True)
def _met(
    heads: Int64s, following: Int64s, stored: Int64s, rows: Int64s, window: int
) -> tuple[Int64s, Int64s]:
    """Pairs of rows with stored ones of the same key; a window's chains end with the dead."""
    mine, other = np.empty(4 * rows.shape[1], np.int64), np.empty(4 * rows.shape[1], np.int64)
    found = 0
    for i in range(rows.shape[1]):
        at = heads[_slot(rows[1, i], len(heads))]
        while at >= 0 and found < len(mine):
            if window and stored[0, at] <= rows[0, i] - window:
                break
            if stored[1, at] == rows[1, i]:
                mine[found], other[found] = rows[2, i], stored[2, at]
                found += 1
            at = following[at]
    return mine[:found], other[:found]


# ── what a step costs ─────────────────────────────────────────────────────────────────────

SIZES = (1, 100, 10_000, 100_000)
SMALL = 1_000
"""Of batches below this size many more are fed, as one says little."""


def time_steps(name: str) -> dict[str, Any]:
    """The median CPU time of a step by its number of rows, in each stream of the query."""
    operator, milliseconds = OPERATORS[name], {}
    for size in SIZES:
        fed = {"warm_up": 30, "batches": 60} if size < SMALL else {"warm_up": 11, "batches": 5}
        load = Load(rows=size * len(operator.streams), **fed)
        run, seconds = start(operator, "UPA", load), []
        for batch in batches(operator, load):
            began = time.process_time()
            run.feed(batch)
            seconds.append(time.process_time() - began)
        milliseconds[str(size)] = 1000 * median(seconds[load.warm_up :])
    line = "  ".join(f"{size}: {cost:8.2f}" for size, cost in milliseconds.items())
    print(f"{name:30} ms by rows a step: {line}", flush=True)
    return {"step_milliseconds": milliseconds}


# ── the benchmark ─────────────────────────────────────────────────────────────────────────


def measure(name: str, load: Load) -> dict[str, Any]:
    operator = OPERATORS[name]
    small = Load(rows=4_000, warm_up=0, batches=load.warm_up + 3, seed=load.seed)
    for strategy in STRATEGIES:
        check(operator, strategy, small)
    found = time_strategies(operator, load)
    found["duckdb"] = time_duckdb(operator, load)
    found["limit"] = {"kind": operator.limit, **time_limit(operator, load)}
    rates = "  ".join(f"{k} {one['rows_per_second'] / 1e6:8.2f}" for k, one in found.items())
    print(f"{name:30} M rows/s: {rates}   state {found['UPA']['state_bytes']:,}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operator", action="append", choices=list(OPERATORS))
    for name, default in asdict(Load()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    parser.add_argument("--steps", action="store_true", help="what a step costs, by its rows")
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    load = Load(**{name: getattr(options, name) for name in asdict(Load())})
    chosen = options.operator or list(OPERATORS)
    results = {name: time_steps(name) if options.steps else measure(name, load) for name in chosen}
    if options.record:
        queries = {name: asdict(OPERATORS[name]) for name in chosen}
        record(options.record, {**asdict(load), "cores": 1, "queries": queries}, results)


if __name__ == "__main__":
    main()
