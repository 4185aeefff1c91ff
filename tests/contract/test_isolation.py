"""One suite for every isolation policy: whatever runs at the same time, promises are kept."""

from __future__ import annotations

import random
from threading import Barrier, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.patterns import STR, WK
from mayfly.periodic.isolation import (
    ISOLATION_POLICIES,
    IsolationLevel,
    MaterializedTransactions,
    PaneTransactions,
    ScanAnswer,
    check_history,
    isolation_named,
)
from tests.contract.scan_model import VERSIONS, Versions

every_policy = pytest.mark.parametrize("name", ISOLATION_POLICIES)
Run = PaneTransactions[Versions]


def check(run: Run, answers: list[ScanAnswer[Versions]], windows: dict[str, int]) -> None:
    """The history satisfies the level that was promised, and answers are what it says."""
    promised = run.policy.level
    if any(answer.isolation == "snapshot" for answer in answers):
        promised = IsolationLevel.WINDOW
    by_query = {(v.query, v.scan): v for v in check_history(run.history, promised)}
    assert len(by_query) == len(answers)
    committed = sorted((v.query, v.versions) for v in by_query.values())
    assert committed == sorted((a.query, tuple(sorted(a.value))) for a in answers)
    for answer in answers:
        first = max(0, answer.as_of - windows[answer.query] + 1)
        assert answer.value == frozenset(range(first, answer.as_of + 1))
        assert answer.partial == (len(answer.value) < windows[answer.query])


@every_policy
@settings(max_examples=20, deadline=None)
@given(data=st.data(), undo=st.booleans())
def test_random_schedules_keep_their_promise(name: str, data: st.DataObject, undo: bool) -> None:
    """Updates, periodic scans of several queries and one-time queries in any order."""
    size = data.draw(st.integers(1, 6))
    run: Run = PaneTransactions(VERSIONS, size, isolation_named(name), undo=undo)
    windows: dict[str, int] = {}
    answers: list[ScanAnswer[Versions]] = []
    readings = []
    written = 0
    for action in data.draw(st.lists(st.sampled_from("uuusrrrrrrbe"), max_size=60)):
        if action == "u":
            run.update(frozenset({written}))
            written += 1
        elif action == "s":
            members = {
                f"Q{len(windows) + number}": length
                for number, length in enumerate(
                    data.draw(st.lists(st.integers(1, size), min_size=1, max_size=3))
                )
            }
            windows |= members
            run.start(members, priority=data.draw(st.integers(0, 2)))
        elif action == "r":
            answers += run.step()
        elif action == "b" and (reading := run.reserve()) is not None:
            readings.append(reading)
        elif action == "e" and readings:
            answers += run.complete(readings.pop(data.draw(st.integers(0, len(readings) - 1))))
    for reading in readings:
        answers += run.complete(reading)
    answers += run.run()
    assert run.idle
    assert sorted(answer.query for answer in answers) == sorted(windows)
    assert run.ring.top == written - 1, "no update is forgotten"
    check(run, answers, windows)


@every_policy
@pytest.mark.parametrize("size", [2, 5])
def test_busy_schedules_keep_their_promise(name: str, size: int) -> None:
    """A full ring, and more going on at any time than chance would draw: bursts of updates between
    the reads of several scans."""
    rng = random.Random(size)
    run: Run = PaneTransactions(VERSIONS, size, isolation_named(name))
    windows: dict[str, int] = {}
    answers: list[ScanAnswer[Versions]] = []
    for step in range(400):
        if step < size or rng.random() < 0.2:
            for _ in range(rng.randint(1, 2)):
                run.update(frozenset({run.ring.top + 1 + len(run._pending)}))
        if rng.random() < 0.15:
            lengths = [rng.randint(1, size) for _ in range(rng.randint(1, 2))]
            members = {f"Q{step}.{number}": length for number, length in enumerate(lengths)}
            windows |= members
            run.start(members, priority=rng.randint(0, 1))
        answers += run.step()
    answers += run.run()
    assert sorted(answer.query for answer in answers) == sorted(windows)
    check(run, answers, windows)


def test_what_comes_into_a_sub_window_that_was_read() -> None:
    run: MaterializedTransactions[Versions] = MaterializedTransactions(VERSIONS, 3, WK)
    run.advance({2: frozenset({0}), 4: frozenset({1})})
    run.start({"Q": 3})
    assert run.step() == []  # reads what expires last, at 4
    run.advance({4: frozenset({2}), 5: frozenset({3})})
    (answer,) = run.run()
    assert answer.value == {1, 2, 3}


@every_policy
def test_threads(name: str) -> None:
    """Updates and two readers at the same time, released together."""
    run: Run = PaneTransactions(VERSIONS, 8, isolation_named(name))
    windows = {f"Q{number}": 1 + number % 8 for number in range(40)}
    begin = Barrier(3)
    answers: list[ScanAnswer[Versions]] = []

    def write() -> None:
        begin.wait()
        for version in range(200):
            run.update(frozenset({version}))

    def read(mine: dict[str, int]) -> None:
        begin.wait()
        for query, length in mine.items():
            run.start({query: length})
            answers.extend(run.run())

    queries = list(windows.items())
    threads = [
        Thread(target=write),
        Thread(target=read, args=(dict(queries[::2]),)),
        Thread(target=read, args=(dict(queries[1::2]),)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers += run.run()
    assert sorted(answer.query for answer in answers) == sorted(windows)
    check(run, answers, windows)


@every_policy
def test_a_ring_grows_while_it_is_read(name: str) -> None:
    run: Run = PaneTransactions(VERSIONS, 2, isolation_named(name))
    for version in range(4):
        run.update(frozenset({version}))
    run.start({"short": 2})
    run.step()
    run.resize(4)
    with pytest.raises(InvalidSetting, match="5 sub-windows over a ring of 4"):
        run.start({"long": 5})
    run.start({"long": 4})
    answers = run.run()
    run.update(frozenset({4}))
    run.start({"again": 4})
    answers += run.run()
    by_query = {answer.query: sorted(answer.value) for answer in answers}
    assert by_query == {"short": [2, 3], "long": [2, 3], "again": [2, 3, 4]}
    check_history(run.history, run.policy.level)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_materialized_result(data: st.DataObject) -> None:
    """Rows come into any sub-window; a query has all of its window that are alive as it commits."""
    size = data.draw(st.integers(1, 5))
    run: MaterializedTransactions[Versions] = MaterializedTransactions(VERSIONS, size, WK)
    rows: dict[int, int] = {}
    windows: dict[str, int] = {}
    for action in data.draw(st.lists(st.sampled_from("uusrrr"), max_size=40)):
        if action == "u":
            update = run.last_update + 1
            expirations = data.draw(st.lists(st.integers(update + 1, update + size), max_size=3))
            inserts: dict[int, Versions] = {}
            for expiration in expirations:
                inserts[expiration] = inserts.get(expiration, frozenset()) | {len(rows)}
                rows[len(rows)] = expiration
            run.advance(inserts)
        elif action == "s":
            windows[f"Q{len(windows)}"] = length = data.draw(st.integers(1, size))
            run.start({f"Q{len(windows) - 1}": length})
        else:
            for answer in run.step():
                if answer.isolation == "snapshot":
                    continue  # after three aborts: as of its start
                after = run.last_update + size - windows[answer.query]
                alive = {row for row, expiration in rows.items() if expiration > after}
                assert answer.value == alive
    check_history(run.history, IsolationLevel.WINDOW)


def test_a_materialized_result_that_is_strict_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="pattern STR"):
        MaterializedTransactions(VERSIONS, 3, STR)
    with pytest.raises(InvalidSetting, match="use LATEST, LATEST UNDO, WINDOW, SNAPSHOT, serial"):
        isolation_named("dirty")
