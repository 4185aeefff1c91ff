"""One join of four windows on a common attribute, evaluated as asked, and what that costs.

A loop makes one tuple per iteration, of stream i with probability λ_i / Σλ, its value uniform in
1 … v_i (thesis 5.4.1). Σλ iterations are one time unit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import median
from mayfly.kernels.evaluation import Algorithm, Evaluation
from mayfly.kernels.multiway import MultiwayJoin
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.program import Task
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Joining
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession

TICK = 1000
"""Microseconds per iteration of the loop."""


@dataclass(frozen=True)
class Streams:
    """λ, T and v of every stream; times in time units."""

    rates: tuple[int, ...]
    lengths: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def unit(self) -> int:
        return sum(self.rates) * TICK

    def tuples(self, count: int, seed: int) -> list[pa.Table]:
        """Each stream's tuples among the first ``count`` iterations."""
        rng = np.random.default_rng(seed)
        origin = rng.choice(len(self.rates), count, p=np.array(self.rates) / sum(self.rates))
        tables = []
        for stream, values in enumerate(self.values):
            ts = np.flatnonzero(origin == stream) * TICK
            a = rng.integers(1, values + 1, len(ts))
            tables.append(pa.table({"ts": pa.array(ts).cast(pa.timestamp("us", "UTC")), "a": a}))
        return tables


@dataclass(frozen=True)
class Point:
    """One way to run the join; times and counts are per 1000 input tuples."""

    algorithm: str
    buckets: int
    every: int
    order: str
    milliseconds: float
    repetitions: list[float]
    scanned: float
    probes: float
    results: float
    kept: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(
    streams: Streams,
    algorithm: Algorithm,
    buckets: int,
    every: int,
    order: tuple[int, ...],
    config: dict[str, Any],
) -> Point:
    """``every`` in time units; 0 expires always and is for Algorithm 2 only."""
    times = []
    for repetition in range(config["repetitions"]):
        run = start(streams, Evaluation(algorithm, buckets, every * streams.unit or None), order)
        batch, fill = config["batch"], max(streams.lengths) * sum(streams.rates)
        count = fill + config["steps"] * batch
        tables = streams.tuples(count, config["seed"] + repetition)
        feed(run, tables, 0, fill)
        before = join_of(run)
        began = perf_counter()
        for at in range(fill, count, batch):
            feed(run, tables, at, at + batch)
        spent = perf_counter() - began
        after = join_of(run)
        thousands = (count - fill) / 1000
        times.append(spent * 1000 / thousands)
    return Point(
        algorithm.value, buckets, every, "".join(map(str, order)), median(times), times,
        (after.scanned - before.scanned) / thousands, (after.probes - before.probes) / thousands,
        (after.results - before.results) / thousands, after.kept,
    )  # fmt: skip


@dataclass(frozen=True)
class Counts:
    scanned: int
    probes: int
    results: int
    kept: int


def join_of(run: ContinuousRun) -> Counts:
    """What the join has done so far."""
    task, (state,) = next(
        (task, states)
        for task, states in run.states.items()
        if isinstance(task.operator, MultiwayJoin)
    )
    results = next(one.rows_out for one in run.reports() if one.name == task.operator.name)
    return Counts(state.scanned, state.probes, results, state.rows)


def start(streams: Streams, evaluation: Evaluation, order: tuple[int, ...]) -> ContinuousRun:
    """The join with a fixed global order; a lazy one without restore slides its windows."""
    session = LocalSession()
    slide = ""
    if evaluation.algorithm is Algorithm.LAZY:
        slide = f" SLIDE {evaluation.every} us"
    sources = []
    for number, length in enumerate(streams.lengths, start=1):
        session.stream(f"s{number}", {"ts": "TIMESTAMP", "a": "BIGINT"})
        sources.append(f"s{number} [RANGE {length * streams.unit} us{slide}]")
    equal = " AND ".join(f"s1.a = s{number}.a" for number in range(2, len(sources) + 1))
    bound = session._bound(f"SELECT s1.a FROM {', '.join(sources)} WHERE {equal}")
    plan = optimize(bound, without=("order-joins",), joining=Joining.MULTIWAY).plan
    assert isinstance(plan, Output)
    program = compile_plan(plan, session.catalog, joins=evaluation)
    places = tuple(number - 1 for number in order)
    return ContinuousRun(replace(program, answer=_ordered(program.answer, places)), session.catalog)


def _ordered(task: Task, order: tuple[int, ...]) -> Task:
    inputs = tuple(_ordered(one, order) if isinstance(one, Task) else one for one in task.inputs)
    operator = task.operator
    if isinstance(operator, MultiwayJoin):
        operator = replace(operator, ordering=lambda _: order)
    return replace(task, operator=operator, inputs=inputs)


def feed(run: ContinuousRun, tables: list[pa.Table], low: int, high: int) -> None:
    """The tuples of some iterations; the clock of every stream reaches their end."""
    batch, beats = {}, {}
    for number, table in enumerate(tables, start=1):
        ts = table["ts"].cast(pa.int64()).to_numpy()
        first, last = np.searchsorted(ts, [low * TICK, high * TICK])
        batch[f"s{number}"] = table.slice(first, last - first)
        beats[f"s{number}"] = high * TICK
    run.feed({name: rows for name, rows in batch.items() if rows.num_rows}, beats)
