"""Restore, INTERNAL windows and output windows against their definitions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.plan.strategy import Strategy
from mayfly.plan.window_kinds import Slide
from mayfly.runtime.local_session import LocalSession, replay
from tests.property.continuous_cases import (
    Answer,
    Case,
    Oracle,
    change_points,
    fed,
    random_case,
    rows_of,
    start,
)
from tests.property.test_continuous import by_instant, oracle_before

seeds = st.integers(0, 2**48)
many = settings(max_examples=max(60, settings().max_examples), phases=[Phase.generate])
few = settings(max_examples=max(40, settings().max_examples // 4), phases=[Phase.generate])


def with_slide(seed: int, shape: str) -> Case:
    """The next case whose windows slide, without ORDER BY."""
    for number in itertools.count(seed):
        cql = (case := random_case(number, shape)).query.cql
        sends = "Istream(" in cql or "Rstream(" in cql
        if sends and "SLIDE" in cql and "ORDER BY" not in cql:
            return case
    raise AssertionError("there is always a next one")


def at_every_instant(case: Case) -> Case:
    tables = tuple(
        replace(table, window=replace(table.window, slide=None)) for table in case.query.tables
    )
    return replace(case, query=replace(case.query, tables=tables))


@pytest.mark.parametrize("shape", ["select", "join", "group", "not_exists", "distinct"])
@few
@given(seed=seeds)
def test_restore_reports_what_rose_and_fell_between_refreshes(shape: str, seed: int) -> None:
    case = with_slide(seed, shape)
    cql = case.query.cql.replace("stream(", "stream-restore(", 1)
    restored = replace(case, query=replace(case.query, cql=cql))
    run = fed(restored, start(restored))
    rows, _, _ = case.admitted()
    slide = next(t.window.slide for t in case.query.tables if t.window.slide)
    assert slide is not None
    plain = at_every_instant(case)
    points = sorted({
        *change_points(plain, rows, run.clocks.query),
        *change_points(case, rows, run.clocks.query),
    })  # fmt: skip
    oracle = Oracle(plain, rows, points)
    sent = by_instant(run)
    for at, wanted in restored_by_definition(case, oracle, points, slide, rows).items():
        found = sent.pop(at, Counter())
        assert found == wanted, (cql, at, wanted - found, found - wanted)
    assert not sent, (cql, sent)


def restored_by_definition(
    case: Case, oracle: Oracle, points: Sequence[int], slide: Slide, rows: dict[str, list[Any]]
) -> dict[int, Answer]:
    """Walk each row's multiplicity from refresh to refresh: rises that fall again come extra."""
    first = min((row["ts"] for listed in rows.values() for row in listed), default=0)
    refreshes = [
        at for at in points if at >= first and (at - slide.origin) % (slide.period or 1) == 0
    ]
    answers, wanted, place = {at: oracle.answer(at) for at in points}, {}, 0
    paths = [oracle_before(case)]
    for at in refreshes:
        while place < len(points) and points[place] <= at:
            paths.append(answers[points[place]])
            place += 1
        extra: Answer = Counter()
        for value in {value for one in paths for value in one}:
            levels = [one[value] for one in paths]
            rises = sum(max(b - a, 0) for a, b in itertools.pairwise(levels))
            extra[value] = rises - (levels[-1] - min(levels))
        now = paths[-1]
        plain = now if "Rstream" in case.query.cql else now - paths[0]
        if total := plain + extra:
            wanted[at] = total
        paths = [now]
    return wanted


@pytest.mark.parametrize("shape", ["select", "join"])
@many
@given(seed=seeds)
def test_results_of_internal_windows_stay(shape: str, seed: int) -> None:
    case = random_case(seed, shape)
    bare = case.query.cql
    for word in ("Istream(", "Dstream(", "Rstream("):
        if word in bare:
            return
    external = fed(case, start(case))
    inside = replace(case, query=replace(case.query, cql=bare.replace("]", " INTERNAL]")))
    strategy = Random(seed).choice(("UPA", "NT", "DIRECT"))
    internal = fed(inside, start(inside, Strategy(strategy)))
    if external.clocks.query == -(2**63):
        return
    lives = external.lifetimes()
    rows, _, _ = case.admitted()
    for at in change_points(case, rows, external.clocks.query)[:20]:
        begun = lives.filter(pa.compute.less_equal(lives["ts"], at)).drop_columns(["ts", "exp"])
        assert rows_of(internal.snapshot(at)) == rows_of(begun), (inside.query.cql, at)


STREAM = {"ts": "bigint", "a": "bigint"}


def sums(query: str, values: Sequence[int]) -> list[list[Any]]:
    """The answer after each value of a stream, one per microsecond."""
    session = LocalSession()
    session.stream("s", STREAM)
    rows = pa.table({"ts": list(range(len(values))), "a": list(values)})
    run = replay(session.query(query), [{"s": rows.slice(at, 2)} for at in range(0, len(rows), 2)])
    return [sorted(run.snapshot(at).column(0).to_pylist()) for at in range(len(values))]


def test_four_semantics_of_an_aggregate() -> None:
    """{internal, external} x {sliding, unbounded} (thesis, Figure 3.2), window of two rows."""
    values = [3, 1, 4, 1, 5]
    assert sums("SELECT SUM(a) FROM s [ROWS 2]", values) == [[3], [4], [5], [5], [6]]
    assert sums("SELECT SUM(a) FROM s", values) == [[3], [4], [8], [9], [14]]
    assert sums("SELECT SUM(a) FROM s [ROWS 2 INTERNAL]", values) == [
        [3], [3, 4], [3, 4, 5], [3, 4, 5, 5], [3, 4, 5, 5, 6],
    ]  # fmt: skip
    assert sums("SELECT SUM(a) FROM s [UNBOUNDED INTERNAL]", values) == [
        [3], [3, 4], [3, 4, 8], [3, 4, 8, 9], [3, 4, 8, 9, 14],
    ]  # fmt: skip


def test_the_sum_of_the_last_sums_is_the_sum_over_the_longer_window() -> None:
    """Two-level aggregation (thesis 3.4), also over chunks without rows."""
    session = LocalSession()
    session.stream("s", STREAM)
    rows = pa.table({"ts": [0, 1, 1, 5, 6, 14, 15, 30], "a": [1, 2, 3, 4, 5, 6, 7, 8]})
    two = replay(
        session.query("SELECT SUM(Wstream(SUM(a))[ROWS 3]) FROM s [RANGE 4 us SLIDE 4 us]"),
        [{"s": rows}],
    )
    nested = replay(
        session.query(
            "SELECT SUM(x) FROM (SELECT SUM(a) AS x FROM s [RANGE 4 us SLIDE 4 us INTERNAL])"
            " [ROWS 3]"
        ),
        [{"s": rows}],
    )
    one = replay(session.query("SELECT SUM(a) FROM s [RANGE 12 us SLIDE 4 us]"), [{"s": rows}])
    for at in range(one.clocks.query):
        assert two.snapshot(at).to_pydict()["sum_value"] == [one.snapshot(at).column(0)[0].as_py()]
        assert nested.snapshot(at).column(0).to_pylist() == one.snapshot(at).column(0).to_pylist()


@pytest.mark.parametrize("window", ["ROWS 3", "RANGE 5 us"])
@many
@given(seed=seeds)
def test_wstream_keeps_the_last_results(window: str, seed: int) -> None:
    rng = Random(seed)
    session = LocalSession()
    session.stream("s", {**STREAM, "k": "bigint"})
    session.stream("t", {**STREAM, "k": "bigint"})
    batches, at = [], 0
    for _ in range(rng.randint(1, 4)):
        batch = {}
        for name in ("s", "t"):
            times = sorted(at + rng.randint(0, 6) for _ in range(rng.randint(0, 4)))
            numbers = [rng.randint(0, 2) for _ in times]
            columns = {"ts": times, "a": numbers, "k": numbers}
            batch[name] = pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()})
        at += 7
        batches.append(batch)
    join = "s [RANGE 4 us] x, t [RANGE 3 us] y WHERE x.k = y.k"
    plain = replay(session.query(f"SELECT x.a AS a, y.ts AS b FROM {join}"), batches)
    windowed = f"SELECT Wstream(x.a AS a, y.ts AS b)[{window}] FROM {join}"
    kept = replay(session.query(windowed), batches)
    if plain.clocks.query == -(2**63):
        return
    # The order of the output stream: by ts, then by value.
    results = sorted((row["ts"], row["a"], row["b"]) for row in plain.lifetimes().to_pylist())
    for now in range(plain.clocks.query):
        begun = [one for one in results if one[0] <= now]
        last = begun[-3:] if window == "ROWS 3" else [r for r in begun if now < r[0] + 5]
        assert rows_of(kept.snapshot(now)) == Counter(one[1:] for one in last)
