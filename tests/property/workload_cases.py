"""Random workloads of periodic queries, and what DuckDB says of each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import isclose
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

from mayfly.periodic import (
    EVERYTHING,
    Aggregate,
    Answer,
    PeriodicQuery,
    Predicate,
    QueryWorkload,
    Term,
    any_of,
)
from mayfly.periodic.restart import restore, store

SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "proto": pa.string(), "x": pa.int64()})
TCP, UDP, LONG = Term("proto", "=", "tcp"), Term("proto", "=", "udp"), Term("x", ">", 2)
WHERE: dict[Predicate, str] = {
    EVERYTHING: "TRUE",
    any_of(TCP): "proto = 'tcp'",
    any_of(UDP): "proto = 'udp'",
    any_of(TCP, UDP): "proto IN ('tcp', 'udp')",
    any_of(LONG): "x > 2",
    any_of(LONG, TCP): "x > 2 OR proto = 'tcp'",
}
CALLS = {
    Aggregate("COUNT"): "COUNT(*)",
    Aggregate("COUNT", "x"): "COUNT(x)",
    Aggregate("SUM", "x"): "SUM(x)",
    Aggregate("AVG", "x"): "AVG(x)",
    Aggregate("MIN", "x"): "MIN(x)",
    Aggregate("MAX", "x"): "MAX(x)",
    Aggregate("STDDEV", "x"): "stddev_samp(x)",
    Aggregate("COUNT DISTINCT", "x"): "COUNT(DISTINCT x)",
    Aggregate("MEDIAN", "x"): "median(x)",
}


@dataclass
class Step:
    """A batch, and the queries that come and go before it."""

    rows: list[tuple[int, str | None, str, int | None]]
    clock: int
    come: list[PeriodicQuery] = field(default_factory=list)
    go: list[int] = field(default_factory=list)


@st.composite
def queries(draw: st.DrawFn, name: str) -> PeriodicQuery:
    return PeriodicQuery(
        name,
        draw(st.sampled_from(list(CALLS))),
        (draw(st.integers(1, 20)),),
        draw(st.integers(1, 12)),
        draw(st.sampled_from([0, 0, 3, 5])),
        draw(st.sampled_from(list(WHERE))),
        draw(st.sampled_from([(), ("k",)])),
    )


@st.composite
def cases(draw: st.DrawFn) -> list[Step]:
    steps, clock, number = [], draw(st.integers(-5, 5)), 0
    for place in range(draw(st.integers(1, 6))):
        row = st.tuples(
            st.integers(clock - 3, clock + 15),
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["tcp", "udp", "icmp"]),
            st.none() | st.integers(-2, 6),
        )
        clock += draw(st.sampled_from([0, 1, 4, 9, 12, 30]))
        step = Step(draw(st.lists(row, max_size=8)), clock)
        for _ in range(draw(st.integers(1 if place == 0 else 0, 4 if place == 0 else 2))):
            step.come.append(draw(queries(f"q{number}")))
            number += 1
        if place and draw(st.booleans()):
            step.go.append(draw(st.integers(0, number - 1)))
        steps.append(step)
    return steps


def drawn_steps(
    rng: Random, *, queries: int, rows: int, batches: int, at_once: bool = True
) -> list[Step]:
    """A long workload, by a generator: queries of eight kinds of input come at once, or some before
    each batch while others go."""
    asked = [
        PeriodicQuery(
            f"q{number}",
            rng.choice(list(CALLS)),
            (rng.randint(5, 40),),
            rng.randint(1, 20),
            rng.choice([0, 0, 3]),
            rng.choice(list(WHERE)),
            rng.choice([(), ("k",)]),
        )
        for number in range(queries)
    ]
    drawn = [
        (number // 4, rng.choice(["a", "b", None]), rng.choice(["tcp", "udp", "icmp"]),
         rng.choice([None, *range(-2, 7)]))
        for number in range(rows)
    ]  # fmt: skip
    steps = []
    for batch in range(batches):
        part = drawn[rows * batch // batches : rows * (batch + 1) // batches]
        # A clock closes the instants before the last row of its batch; the last one closes all.
        clock = part[-1][0] if batch + 1 < batches else rows // 4 + 50
        come = asked if at_once else asked[batch::batches]
        go = [] if at_once else rng.sample(range(queries), queries // batches // 2)
        steps.append(Step(part, clock, list(come) if batch == 0 or not at_once else [], go))
    return steps


@dataclass
class Run:
    """What a workload answered, and what it should have."""

    workload: QueryWorkload
    answers: list[Answer] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    expected: list[tuple[str, int]] = field(default_factory=list)
    """Each refresh of each query that is to be answered."""
    known: dict[str, PeriodicQuery] = field(default_factory=dict)


def run(steps: Sequence[Step], without: Sequence[str] = (), restart: bool = False) -> Run:
    """Feed the steps, and note each refresh that is due while its query is there; perhaps each to
    another workload, restored from the one before."""
    result = Run(QueryWorkload(SCHEMA, without=without))
    clock: int | None = None
    for step in steps:
        if restart:
            result.workload = restore(store(result.workload), SCHEMA, without=without)
        present = list(result.workload.shares())
        for number in step.go:
            if f"q{number}" in present:
                result.workload.remove(f"q{number}")
        for query in step.come:
            result.workload.add(query)
            result.known[query.name] = query
        in_time = [row for row in step.rows if clock is None or row[0] >= clock]
        result.rows += in_time
        table = pa.Table.from_pylist(
            [dict(zip(SCHEMA.names, row, strict=True)) for row in step.rows], SCHEMA
        )
        result.answers += result.workload.feed(table, step.clock)
        first = min((row[0] for row in result.rows), default=step.clock)
        for name, share in result.workload.shares().items():
            low = first if clock is None else max(first, clock)
            due = share.query.slide.at_or_after(low)
            while due < step.clock:
                if due >= share.since:
                    result.expected.append((name, due))
                due += share.query.period
        clock = step.clock
    return result


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One for all cases: to open one takes longer than a case."""
    return duckdb.connect(config={"threads": 1})


def oracle(result: Run, answer: Answer) -> dict[Any, Any]:
    """The groups of a window as of a refresh, from the rows themselves."""
    query = result.known[answer.query]
    key, by = ("k", "GROUP BY k") if query.keys else ("NULL", "")
    sql = (
        f"SELECT {key}, {CALLS[query.call]} FROM seen WHERE ts > {answer.as_of - query.length}"
        f" AND ts <= {answer.as_of} AND ({WHERE[query.where]}) {by}"
    )
    return dict(connection().execute(sql).fetchall())


def assert_same(answer: Answer, expected: dict[Any, Any]) -> None:
    rows = answer.rows.to_pylist()
    given = {row.get("k"): row["value"] for row in rows}
    assert given.keys() == expected.keys(), answer
    for key, value in expected.items():
        same = given[key] == value
        if isinstance(value, float) and given[key] is not None:
            same = isclose(given[key], value, rel_tol=1e-9, abs_tol=1e-9)
        assert same, (answer, key, given[key], value)
    assert len(rows) == len(given)


def check(result: Run) -> None:
    """Every refresh is answered once, in order, as DuckDB says."""
    asked = sorted(result.expected)
    assert sorted((answer.query, answer.as_of) for answer in result.answers) == asked
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in result.rows], SCHEMA
    )
    connection().register("seen", table)
    for answer in result.answers:
        assert_same(answer, oracle(result, answer))
