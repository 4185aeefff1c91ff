"""Random queries over random streams, and what an independent engine answers at an instant.

A case is made from a seed: a query with its SQL, rows for its streams (ties, NULLs, bursts, long
silence, disorder, late rows), the cut of the rows into batches, heartbeats. The oracle finds the
tuples alive at an instant by the definition of each window, row by row, and lets DuckDB answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from mayfly.cql import bind_query, catalog_after, parse
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.plan.catalog import Catalog
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import Landmark, PartitionRows
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.random_queries import (
    DECLARATIONS,
    STREAMS,
    GeneratedQuery,
    WindowTable,
    alive_at,
    random_query,
)

SECOND = 1_000_000
Row = dict[str, Any]
Answer = Counter[tuple[Any, ...]]
_TYPES = {"number": "BIGINT", "text": "VARCHAR", "real": "DOUBLE"}
_KINDS = {"number": pa.int64(), "text": pa.string(), "real": pa.float64()}


@cache
def catalog(slack: int) -> Catalog:
    text = DECLARATIONS.replace("SEQUENCE seq", f"SEQUENCE seq SLACK {slack} us")
    return catalog_after(parse(text if slack else DECLARATIONS))


@dataclass(frozen=True)
class Case:
    """A query, and batches of rows (with ``ts`` in µs) in the order in which they come."""

    seed: int
    query: GeneratedQuery
    slack: int
    batches: list[dict[str, list[Row]]]
    heartbeats: list[dict[str, int]]

    @property
    def streams(self) -> list[str]:
        return sorted({table.stream for table in self.query.tables})

    def admitted(self) -> tuple[dict[str, list[Row]], int, int]:
        """The rows that are not late, how many are, and the clock after the last batch."""
        largest: dict[str, int] = {}
        promised: dict[str, int] = {}
        kept: dict[str, list[Row]] = {name: [] for name in self.streams}
        late, clock = 0, -(2**63)
        for batch, beats in zip(self.batches, self.heartbeats, strict=True):
            for name, rows in batch.items():
                kept[name] += [row for row in rows if row["ts"] >= clock]
                late += sum(row["ts"] < clock for row in rows)
                for row in rows:
                    largest[name] = max(largest.get(name, row["ts"]), row["ts"])
            for name, at in beats.items():
                promised[name] = max(promised.get(name, at), at)
            never = -(2**63)
            reached = [
                max(largest.get(n, never) - self.slack, promised.get(n, never))
                for n in self.streams
            ]
            clock = max(clock, min(reached))
        return kept, late, clock


def random_case(seed: int, shape: str | None = None) -> Case:
    rng = Random(seed)
    return _with_rows(seed, rng, random_query(rng, shape))


def other_rows(case: Case, seed: int) -> Case:
    """The query over other rows, with the same slack."""
    return replace(_with_rows(seed, Random(seed), case.query, case.slack), seed=seed)


def _with_rows(seed: int, rng: Random, query: GeneratedQuery, slack: int | None = None) -> Case:
    slack = rng.choice((0, 0, 3 * SECOND)) if slack is None else slack
    names = sorted({table.stream for table in query.tables})
    count = rng.choice((0, 2, 5, 9, 14))
    rows = {name: _rows(rng, name, rng.randint(0, count)) for name in names}
    batches = _cut(rng, rows, slack)
    beats: list[dict[str, int]] = [{} for _ in batches]
    if batches and rng.random() < 0.3:
        last = max((row["ts"] for listed in rows.values() for row in listed), default=0)
        batches.append({})
        beats.append(dict.fromkeys(names, last + rng.choice((1, 4, 30)) * SECOND))
    return Case(seed, query, slack, batches, beats)


def _rows(rng: Random, stream: str, count: int) -> list[Row]:
    """Rows with ties, bursts and silence, in the order of the stream."""
    at, rows = rng.randint(0, 4) * SECOND, []
    step = rng.choice((0, 1, 1, 2, 5))
    for seq in range(count):
        at += rng.choice((0, 0, step, step, 2 * step, 70 if rng.random() < 0.1 else 1)) * SECOND
        if rng.random() < 0.1:
            at += rng.randint(1, 3)
        row: Row = {"ts": at, "seq": seq}
        for name, kind in STREAMS[stream].items():
            row[name] = rng.choice(_VALUES[kind])
        rows.append(row)
    return rows


_VALUES: dict[str, tuple[Any, ...]] = {
    "number": (0, 1, 2, 3, None),
    "text": ("a", "b", "ab", "", None),
    "real": (0.5, 1.0, 2.0, None),
}


def _cut(rng: Random, rows: dict[str, list[Row]], slack: int) -> list[dict[str, list[Row]]]:
    """Batches: all streams in step with time, each with disorder, empty batches between."""
    arrivals = []
    for name, listed in rows.items():
        for row in listed:
            delay = rng.randint(0, slack) if slack else 0
            if rng.random() < 0.05:
                delay += 20 * SECOND
            arrivals.append((row["ts"] + delay, rng.random(), name, row))
    arrivals.sort(key=lambda one: one[:2])
    batches: list[dict[str, list[Row]]] = []
    while arrivals:
        size = rng.choice((0, 1, 2, 4, 8, 30))
        taken, arrivals = arrivals[:size], arrivals[size:]
        batch: dict[str, list[Row]] = {}
        for _, _, name, row in taken:
            batch.setdefault(name, []).append(row)
        batches.append(batch)
    return batches


# ── running ───────────────────────────────────────────────────────────────────────────────


def start(
    case: Case,
    strategy: Strategy = Strategy.UPA,
    without: Sequence[str] = (),
    buckets: int = 1,
    candidate: int = 0,
    known: Catalog | None = None,
) -> ContinuousRun:
    known = catalog(case.slack) if known is None else known
    bound = bind_query(case.query.cql, known)
    candidates = optimize(bound, strategy=strategy, without=without).candidates
    plan = candidates[candidate % len(candidates)].plan
    assert isinstance(plan, Output)
    weak = "weak-distinct" not in without
    return ContinuousRun(compile_plan(plan, known, strategy, weak), known, bucket_count=buckets)


def table_of(stream: str, rows: Sequence[Row]) -> pa.Table:
    kinds = {name: _KINDS[kind] for name, kind in STREAMS[stream].items()}
    if stream == "s1":
        kinds["k"] = pa.int32()
    fields = {"ts": pa.int64(), "seq": pa.int64(), **kinds}
    columns = [pa.array([row[n] for row in rows], kind) for n, kind in fields.items()]
    table = pa.table(columns, names=list(fields))
    return table.set_column(0, "ts", table.column(0).cast(pa.timestamp("us", "UTC")))


def fed(case: Case, run: ContinuousRun, finish: bool = True) -> ContinuousRun:
    for batch, beats in zip(case.batches, case.heartbeats, strict=True):
        run.feed({name: table_of(name, rows) for name, rows in batch.items()}, beats)
    if finish:
        run.finish()
    return run


# ── the oracle ────────────────────────────────────────────────────────────────────────────


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


class Oracle:
    """The answers of a case's query at some instants.

    An answer depends on the alive tuples alone, so instants with the same ones are asked once, and
    all in one statement: to a small query DuckDB gives most of its time before the first row.
    """

    def __init__(self, case: Case, rows: dict[str, list[Row]], instants: Sequence[int]) -> None:
        tables = case.query.tables
        states: dict[tuple[tuple[Any, ...], ...], int] = {}
        self._state_at: dict[int, int] = {}
        for at in instants:
            alive = tuple(
                tuple((row["ts"], row["seq"]) for row in alive_at(table, rows[table.stream], at))
                for table in tables
            )
            self._state_at[at] = states.setdefault(alive, len(states))
        self._answers = [Counter[tuple[Any, ...]]() for _ in states]
        if states:
            shared = ", ".join(
                _alive_rows(table, rows[table.stream], [alive[number] for alive in states])
                for number, table in enumerate(tables)
            )
            asked = " UNION ALL ".join(
                f"SELECT {state}, * FROM (WITH {_tables(tables, state)} {case.query.sql})"
                for state in range(len(states))
            )
            for state, *values in database().execute(f"WITH {shared} {asked}").fetchall():
                self._answers[state][tuple(map(comparable, values))] += 1

    def answer(self, at: int) -> Answer:
        return self._answers[self._state_at[at]]


def _tables(tables: Sequence[WindowTable], state: int) -> str:
    return ", ".join(
        f"{table.name} AS (SELECT * EXCLUDE (state) FROM alive_{table.name} WHERE state = {state})"
        for table in tables
    )


def _alive_rows(
    table: WindowTable, rows: Sequence[Row], states: Sequence[Sequence[tuple[int, int]]]
) -> str:
    """The rows of a stream that are alive in each state; the first line gives types, no row."""
    columns = {"ts": "number", "seq": "number", **STREAMS[table.stream]}
    by_order = {(row["ts"], row["seq"]): row for row in rows}
    assert len(by_order) == len(rows)
    types = ", ".join(f"NULL::{_TYPES[kind]}" for kind in columns.values())
    values = [f"(-1, {types})"]
    for state, alive in enumerate(states):
        for order in alive:
            row = by_order[order]
            values.append(f"({state}, {', '.join(_literal(row[name]) for name in columns)})")
    name = f"alive_{table.name}(state, {', '.join(columns)})"
    return f"{name} AS MATERIALIZED (VALUES {', '.join(values)})"


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


def comparable(value: Any) -> Any:
    """Sums of doubles depend on their order in the last digits."""
    if isinstance(value, float) and math.isfinite(value):
        return round(value, 9)
    if isinstance(value, dict):
        return tuple((name, comparable(part)) for name, part in value.items())
    return tuple(map(comparable, value)) if isinstance(value, list) else value


def rows_of(table: pa.Table) -> Answer:
    columns = [[comparable(value) for value in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter({(): table.num_rows})


def told(table: pa.Table, view: bool) -> Any:
    """The changes of the answer's multiset of values; of a stream, its rows."""
    columns = [[comparable(value) for value in column.to_pylist()] for column in table.columns]
    rows = list(zip(*columns, strict=True))
    if not view:
        return Counter(rows)
    changes: Counter[Any] = Counter()
    for *values, ts, exp in rows:
        changes[(*values, ts)] += 1
        changes[(*values, exp)] -= 1
    return {key: net for key, net in changes.items() if net}


def change_points(case: Case, rows: dict[str, list[Row]], clock: int) -> list[int]:
    """Every closed instant at which the answer may change, and those just before."""
    points: set[int] = set()
    for table in case.query.tables:
        for row in rows[table.stream]:
            points |= {row["ts"], *_ends(table, row)}
    slide = next((t.window.slide for t in case.query.tables if t.window.slide), None)
    if slide is not None and slide.period:
        period, origin = slide.period, slide.origin
        first = min((row["ts"] for listed in rows.values() for row in listed), default=clock)
        start = -((origin - first) // period) * period + origin
        points |= set(range(start, clock, period))
    points |= {at - 1 for at in points}
    return sorted(at for at in points if at < clock)


def _ends(table: WindowTable, row: Row) -> set[int]:
    window = table.window
    ends = {row["ts"] + window.lifetime} if window.lifetime else set()
    if isinstance(window, PartitionRows) and window.duration:
        ends.add(row["ts"] + window.duration)
    if isinstance(window, Landmark):
        ends.add(window.start)
    return ends
