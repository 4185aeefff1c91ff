"""Relations and NRRs that change while queries run, against their definitions."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.runtime.local_session import LocalSession
from tests.property.continuous_cases import database, rows_of

seeds = st.integers(0, 2**48)
many = settings(max_examples=max(80, settings().max_examples), phases=[Phase.generate])
STREAM = "CREATE STREAM s (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts;"
NEVER = 2**63 - 1
Version = tuple[int, int, int, int]


class Story:
    """Batches of a stream and changes of a table between them, with every version's lifetime."""

    def __init__(self, rng: Random, nrr: bool) -> None:
        self.rng, self.nrr = rng, nrr
        self.session = LocalSession()
        kind = "NRR" if nrr else "RELATION"
        self.session.execute(f"{STREAM} CREATE {kind} r (a BIGINT, b BIGINT) KEY a")
        self.rows: list[tuple[int, int, int]] = []
        self.versions: list[list[int]] = []
        self.used: set[int] = set()
        self.now = -(2**63)

    def change(self, at: int | None, clock: int) -> None:
        """One INSERT, UPDATE or DELETE, at an instant or now."""
        effective = max(self.now, clock if at is None else at)
        self.now = effective
        live = [one for one in self.versions if one[3] == NEVER]
        keys = {one[0] for one in live}
        free = [k for k in range(5) if k not in keys and not (self.nrr and k in self.used)]
        when = f" AT {_instant(effective)}" if effective > -(2**62) else ""
        choice = self.rng.choice(("insert", "insert", "update", "delete"))
        if choice == "insert" and free:
            key, value = self.rng.choice(free), self.rng.randint(0, 3)
            self.session.execute(f"INSERT INTO r VALUES ({key}, {value}){when}")
            self.used.add(key)
            self.versions.append([key, value, max(effective, clock), NEVER])
        elif choice == "update" and live:
            one = self.rng.choice(live)
            self.session.execute(f"UPDATE r SET b = b + 1 WHERE a = {one[0]}{when}")
            one[3] = max(effective, clock)
            self.versions.append([one[0], one[1] + 1, one[3], NEVER])
        elif choice == "delete" and live:
            one = self.rng.choice(live)
            self.session.execute(f"DELETE FROM r WHERE a = {one[0]}{when}")
            one[3] = max(effective, clock)

    def batch(self, start: int) -> pa.Table:
        rows = []
        for _ in range(self.rng.randint(0, 4)):
            start += self.rng.randint(0, 3)
            value = self.rng.randint(0, 3)
            rows.append((start, self.rng.choice((0, 1, 2, 3, None)), value))
        self.rows += rows  # type: ignore[arg-type]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        arrays = [pa.array(list(column), pa.int64()) for column in columns]
        return pa.table(arrays, names=["ts", "k", "v"])


def _instant(at: int) -> str:
    return f"'{pa.scalar(at, pa.timestamp('us', 'UTC')).as_py().isoformat(sep=' ')}'"


def told(rng: Random, nrr: bool, query: str, strategy: str) -> tuple[Story, Any]:
    story = Story(rng, nrr)
    for _ in range(rng.randint(0, 2)):
        story.change(None, -(2**63))
    run = story.session.query(query, strategy=strategy)
    at = 0
    for _ in range(rng.randint(1, 5)):
        run.feed({"s": story.batch(at)})
        at = max([at, *(row[0] for row in story.rows)])
        for _ in range(rng.randint(0, 2)):
            later = rng.choice((None, at - rng.randint(0, 3), at + rng.randint(0, 4)))
            story.change(later, max(run.clocks.query, -(2**63)))
    run.finish()
    return story, run


@pytest.mark.parametrize("strategy", ["UPA", "NT", "DIRECT"])
@many
@given(seed=seeds)
def test_a_relation_is_read_as_it_is_at_every_instant(strategy: str, seed: int) -> None:
    rng = Random(seed)
    d = rng.choice((1, 3, 6))
    query = f"SELECT v, b FROM s [RANGE {d} us] x, r WHERE x.k = r.a AND v >= b"
    story, run = told(rng, False, query, strategy)
    for at in range(-1, run.clocks.query):
        left = [(k, v) for ts, k, v in story.rows if ts <= at < ts + d]
        right = [(a, b) for a, b, start, end in story.versions if start <= at < end]
        assert rows_of(run.snapshot(at)) == joined(left, right), (query, at)


@pytest.mark.parametrize("strategy", ["UPA", "NT", "DIRECT"])
@many
@given(seed=seeds)
def test_an_nrr_is_read_as_it_was_before_each_tuple(strategy: str, seed: int) -> None:
    rng = Random(seed)
    d = rng.choice((1, 3, 6))
    query = f"SELECT v, b FROM s [RANGE {d} us] x, r WHERE x.k = r.a AND v >= b"
    story, run = told(rng, True, query, strategy)
    for at in range(-1, run.clocks.query):
        expected: Counter[Any] = Counter()
        for ts, k, v in story.rows:
            if ts <= at < ts + d:
                # A change at τ concerns tuples with ts > τ only.
                right = [(a, b) for a, b, start, end in story.versions if start < ts <= end]
                expected += joined([(k, v)], right)
        assert rows_of(run.snapshot(at)) == expected, (query, at)


def joined(left: list[Any], right: list[Any]) -> Counter[Any]:
    return _joined(tuple(left), tuple(right))


@lru_cache(maxsize=4096)
def _joined(left: tuple[Any, ...], right: tuple[Any, ...]) -> Counter[Any]:
    """The join, by an independent engine; asked once for the same rows, as at instants in a row."""

    def table(rows: tuple[Any, ...]) -> str:
        shown = [["NULL" if value is None else str(value) for value in row] for row in rows]
        listed = ", ".join(f"({', '.join(row)})" for row in shown)
        return f"(SELECT * FROM (VALUES {listed}) t(x, y))"

    if not left or not right:
        return Counter()
    sql = f"SELECT l.y, r.y FROM {table(left)} l JOIN {table(right)} r ON l.x = r.x AND l.y >= r.y"
    return Counter(database().execute(sql).fetchall())


def left_joined(left: list[Any], right: list[Any]) -> Counter[Any]:
    pairs: Counter[Any] = Counter()
    for k, v in left:
        partners = [b for a, b in right if a == k and k is not None and v >= b]
        pairs.update([(v, b) for b in partners] or [(v, None)])
    return pairs


@pytest.mark.parametrize("strategy", ["UPA", "NT", "DIRECT"])
@many
@given(seed=seeds)
def test_a_left_join_follows_a_relation(strategy: str, seed: int) -> None:
    rng = Random(seed)
    d = rng.choice((1, 3, 6))
    query = f"SELECT v, b FROM s [RANGE {d} us] x LEFT JOIN r ON x.k = r.a AND v >= b"
    story, run = told(rng, False, query, strategy)
    for at in range(-1, run.clocks.query):
        left = [(k, v) for ts, k, v in story.rows if ts <= at < ts + d]
        right = [(a, b) for a, b, start, end in story.versions if start <= at < end]
        assert rows_of(run.snapshot(at)) == left_joined(left, right), (query, at)


@pytest.mark.parametrize("strategy", ["UPA", "NT", "DIRECT"])
@many
@given(seed=seeds)
def test_a_left_join_with_an_nrr_never_changes_its_padding(strategy: str, seed: int) -> None:
    rng = Random(seed)
    d = rng.choice((1, 3, 6))
    query = f"SELECT v, b FROM s [RANGE {d} us] x LEFT JOIN r ON x.k = r.a AND v >= b"
    story, run = told(rng, True, query, strategy)
    for at in range(-1, run.clocks.query):
        expected: Counter[Any] = Counter()
        for ts, k, v in story.rows:
            if ts <= at < ts + d:
                right = [(a, b) for a, b, start, end in story.versions if start < ts <= end]
                expected += left_joined([(k, v)], right)
        assert rows_of(run.snapshot(at)) == expected, (query, at)
