"""RESAMPLE: which rows there are, when they come, what is kept, what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mayfly import LocalSession
from mayfly.checkpoint.operator_state import next_event
from mayfly.errors import LimitExceeded
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage import Directory
from mayfly.storage.segment import Segment
from tests.property.test_neighbour_restarts import stored_and_loaded

S = 1_000_000
ROWS = [
    (1, "a", 10, 1.0),
    (3, "a", 30, None),
    (3, "b", 5, 2.0),
    (8, "a", 80, 3.0),
    (9, "b", 6, 4.0),
    (11, "a", 110, 3.0),
]


def started(cql: str, **options: Any) -> ContinuousRun:
    session = LocalSession()
    kinds = {"ts": "BIGINT", "seq": "BIGINT", "k": "STRING", "n": "INT", "x": "DOUBLE"}
    session.stream("s", kinds, sequence="seq")
    return session.query(cql, **options)


def row(seq: int, ts: int, k: str, n: int, x: float | None) -> dict[str, Any]:
    return {"ts": ts * S, "seq": seq, "k": k, "n": n, "x": x}


def told(run: ContinuousRun) -> list[tuple[Any, ...]]:
    """Every result with the instant at which it came."""
    life = run.lifetimes().to_pylist()
    return sorted(
        tuple(value / S if name == "ts" else value for name, value in each.items() if name != "exp")
        for each in life
    )


def fed(run: ContinuousRun, cuts: list[int]) -> ContinuousRun:
    rows = [row(seq, *values) for seq, values in enumerate(ROWS)]
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        run.feed({"s": rows[low:high]})
    run.finish()
    return run


LAST = "SELECT k, ts AS t, n, x FROM RESAMPLE s PARTITION BY k EVERY 2 SECONDS LAST"
LINEAR = LAST.replace("LAST", "LINEAR")
EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    LAST: [
        ("a", 2 * S, 10, 1.0, 2), ("a", 4 * S, 30, None, 4), ("a", 6 * S, 30, None, 6),
        ("a", 8 * S, 80, 3.0, 8), ("a", 10 * S, 80, 3.0, 10),
        ("b", 4 * S, 5, 2.0, 4), ("b", 6 * S, 5, 2.0, 6),
        ("b", 8 * S, 5, 2.0, 8), ("b", 10 * S, 6, 4.0, 10),
    ],
    LINEAR: [
        ("a", 2 * S, 20.0, None, 3), ("a", 4 * S, 40.0, None, 8), ("a", 6 * S, 60.0, None, 8),
        ("a", 8 * S, 80.0, 3.0, 8), ("a", 10 * S, 100.0, 3.0, 11),
        ("b", 4 * S, 5 + 1 / 6, 2 + 1 / 3, 9),
        ("b", 6 * S, 5.5, 3.0, 9), ("b", 8 * S, 5 + 5 / 6, 2 + 5 / 3, 9),
    ],
}  # fmt: skip


@pytest.mark.parametrize("cql", EXPECTED, ids=["last", "linear"])
@pytest.mark.parametrize("cuts", [[], [1], [2, 3], [1, 2, 3, 4]])
def test_a_row_per_key_and_multiple(cql: str, cuts: list[int]) -> None:
    answers = told(fed(started(cql), cuts))
    assert [a[:2] + a[4:] for a in answers] == [e[:2] + e[4:] for e in EXPECTED[cql]]
    for answer, expected in zip(answers, EXPECTED[cql], strict=True):
        assert answer[2:4] == pytest.approx(expected[2:4])


@pytest.mark.parametrize("cql", EXPECTED, ids=["last", "linear"])
def test_stored_states_go_on(cql: str, tmp_path: Path) -> None:
    run, segments = started(cql, buckets=2), dict[str, Segment]()
    directory = Directory.at(tmp_path, sync=False)
    for seq, values in enumerate(ROWS):
        run.feed({"s": [row(seq, *values)]})
        for task, states in stored_and_loaded(run, directory, segments).items():
            run.states[task][:] = states
    run.finish()
    assert [answer[:2] for answer in told(run)] == [expected[:2] for expected in EXPECTED[cql]]


def test_what_is_kept_is_one_row_per_key() -> None:
    for cql in EXPECTED:
        run = started(cql, buckets=3)
        for number in range(60):
            run.feed({"s": [row(number, number, "abc"[number % 3], number, 0.5)]})
            assert run.state_rows <= 4


def test_of_one_instant_the_last_row_counts() -> None:
    run = started(LAST)
    run.feed({"s": [row(2, 2, "a", 7, 0.0), row(1, 2, "a", 9, 0.0)]})
    run.finish()
    assert told(run) == [("a", 2 * S, 7, 0.0, 2)]


def test_silence_goes_on_with_last_and_not_with_linear() -> None:
    for cql, count in ((LAST, 5), (LINEAR, 0)):
        run = started(cql)
        run.feed({"s": [row(0, 1, "a", 1, 1.0)]}, {"s": 11 * S})
        assert len(told(run)) == count


def test_the_next_multiple_is_announced() -> None:
    """So that a bucket without rows is stepped when one is due."""
    for cql, due in ((LAST, 4 * S), (LINEAR, None)):
        run = started(cql)
        run.feed({"s": [row(0, 1, "a", 1, 1.0)]}, {"s": 3 * S})
        states = [state for states in run.states.values() for state in states]
        assert next_event(states, 3 * S) == due


def test_a_wrong_time_does_not_fill_memory() -> None:
    run = started(LAST.replace("2 SECONDS", "1 MICROSECOND"))
    with pytest.raises(LimitExceeded, match="MAX GAP"):
        run.feed({"s": [row(0, 1, "a", 1, 1.0), row(1, 1_000_000, "a", 1, 1.0)]})
