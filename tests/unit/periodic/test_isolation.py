"""The thesis's histories, its order of reads, and how often each policy aborts."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import pytest

from mayfly.periodic.isolation import (
    BrokenHistory,
    IsolationLevel,
    IsolationPolicy,
    PaneTransactions,
    ScanAnswer,
    check_history,
    isolation_named,
    verdicts,
)
from mayfly.periodic.isolation.checker import conflicts
from mayfly.periodic.isolation.latest_window import LatestWindow
from mayfly.periodic.isolation.scan_history import (
    Operation,
    PaneRead,
    ScanCommitted,
    ScanHistory,
    ScanStarted,
    parsed,
)
from tests.contract.scan_model import VERSIONS, Versions

N = 5
NONE, WINDOW, LATEST = IsolationLevel
HISTORIES = {
    "Ha": ("r0 w5 c5 w6 c6 r1 r2 r3 r4 c", 4, [0, 2, 3, 4, 6], [5], NONE, False),
    "Hb": ("r0 w5 c5 r1 w6 c6 r2 r3 r4 c", 4, [0, 1, 2, 3, 4], [5, 6], WINDOW, False),
    "Hc": ("w5 c5 r0 r1 r2 r3 w6 c6 r4 c", 4, [1, 2, 3, 4, 5], [6], WINDOW, False),
    "Hd": ("w5 c5 r0 w6 c6 r1 r2 r3 r4 c", 4, [2, 3, 4, 5, 6], [], LATEST, True),
    "He": ("r4 w5 c5 r0 r3 r2 w6 c6 r1 c", 4, [2, 3, 4, 5, 6], [], LATEST, True),
    "Hf": ("r0 w5 c5 r1 r2 r3 w6 c6 r4 c", 4, [0, 1, 2, 3, 4], [5, 6], WINDOW, False),
    "Hg": ("r0 w5 w6 c6 r1 r2 r3 r4 c c5", 4, [0, 2, 3, 4, 6], [5], NONE, True),
    "Hh": ("r0 r1 r2 r3 w9 r4 c c9", 8, [5, 6, 7, 8, 9], [], LATEST, False),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_the_eight_histories(name: str) -> None:
    text, top, versions, after, level, in_order = HISTORIES[name]
    history = parsed(text, N, top)
    (verdict,) = verdicts(history)
    assert (list(verdict.versions), verdict.level) == (versions, level)
    around = conflicts(history)
    assert (list(around.after), around.commit_order_preserved) == (after, in_order)


def test_the_graph_is_wrong_for_windows_shorter_than_the_ring() -> None:
    history = parsed("r3 w5 c5 r4 c", N, 4, panes=2)
    (verdict,) = verdicts(history)
    assert (verdict.versions, verdict.level) == ((3, 4), WINDOW)
    assert (conflicts(history).after, conflicts(history).commit_order_preserved) == ((), True)


def test_the_graph_agrees_for_windows_of_the_whole_ring() -> None:
    """Theorems 7.1, 7.2 and 7.5, all histories of rings up to 3 with up to n + 1 updates."""
    for size in (2, 3):
        for order in permutations(range(size)):
            for updates in range(size + 2):
                for places in combinations_with_replacement(range(size + 1), updates):
                    history = parsed(text_of(order, places, size), size, size - 1)
                    (verdict,) = verdicts(history)
                    around = conflicts(history)
                    before = [*range(size), *around.before]
                    in_window = all(b < a for b in before for a in around.after)
                    assert in_window == (verdict.level is not NONE)
                    latest = verdict.level is LATEST
                    assert latest == (not around.after) == around.commit_order_preserved


def text_of(order: tuple[int, ...], places: tuple[int, ...], size: int) -> str:
    words, update = [], size
    for number in range(size + 1):
        for _ in range(places.count(number)):
            words.append(f"w{update} c{update}")
            update += 1
        words.append(f"r{order[number]}" if number < size else "c")
    return " ".join(words)


def test_the_checker_notices_what_cannot_have_happened() -> None:
    broken: dict[str, list[Operation]] = {
        "overwritten": [PaneRead(1, 0)],
        "before it was written": [PaneRead(1, 9)],
        "read twice": [PaneRead(1, 5), PaneRead(1, 5)],
        "never read": [PaneRead(1, 5, undo=True)],
        "ended twice": [PaneRead(1, 5), ScanCommitted(1, "Q", 5), ScanCommitted(1, "Q", 5)],
        "is not for P": [ScanCommitted(1, "P", 5)],
    }
    for problem, operations in broken.items():
        history = ScanHistory(N, 0, 5, [ScanStarted(1, (("Q", 2),)), *operations])
        with pytest.raises(BrokenHistory, match=problem):
            verdicts(history)
    claim: list[Operation] = [PaneRead(1, 4), PaneRead(1, 5), ScanCommitted(1, "Q", 4)]
    history = ScanHistory(N, 0, 5, [ScanStarted(1, (("Q", 2),)), *claim])
    with pytest.raises(BrokenHistory, match="claims to be as of 4"):
        check_history(history, WINDOW)
    with pytest.raises(BrokenHistory, match="no level, not window-serializable"):
        check_history(parsed(HISTORIES["Ha"][0], N, 4), WINDOW)


def filled(policy: IsolationPolicy, **options: bool) -> PaneTransactions[Versions]:
    run: PaneTransactions[Versions] = PaneTransactions(VERSIONS, N, policy, **options)
    for version in range(N):
        run.update(frozenset({version}))
    return run


def first_attempt_aborts(policy: IsolationPolicy, places: tuple[int, ...], panes: int = N) -> bool:
    """Whether a scan does not survive updates that come after so many of its reads."""
    run = filled(policy)
    run.start({"Q": panes})
    for number in range(panes):
        for _ in range(places.count(number)):
            run.update(frozenset({run.ring.top + 1}))
            if run.aborts:
                return True
        run.step()
    return False


def spots(updates: int, panes: int = N) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(panes), updates))


def in_order(ages: tuple[int, ...]) -> LatestWindow:
    return LatestWindow(lambda window: [window[-1 - age] for age in ages])


@pytest.mark.parametrize(
    ("updates", "oldest", "youngest", "ttu"),
    [
        (1, 4, 0, []),
        (2, 13, 5, [(4, 4)]),
        (3, 30, 25, [(0, 4, 4), (1, 4, 4), (2, 4, 4), (3, 3, 3), (3, 3, 4), (3, 4, 4), (4, 4, 4)]),
    ],
)  # fmt: skip
def test_how_often_a_first_attempt_aborts(
    updates: int, oldest: int, youngest: int, ttu: list[tuple[int, ...]]
) -> None:
    def aborts(policy: IsolationPolicy) -> list[tuple[int, ...]]:
        return [places for places in spots(updates) if first_attempt_aborts(policy, places)]

    assert len(aborts(isolation_named("lws"))) == oldest
    assert len(aborts(in_order((0, 1, 2, 3, 4)))) == youngest
    assert aborts(isolation_named("ttu")) == ttu
    assert aborts(isolation_named("snapshot")) == []


def test_how_often_any_order_aborts() -> None:
    """Of all 120 orders, by the places of one and of two updates."""
    orders = [in_order(ages) for ages in permutations(range(N))]
    single = [sum(first_attempt_aborts(o, places) for o in orders) for places in spots(1)]
    assert single == [0, 24, 48, 72, 96]
    for p, q in spots(2):
        aborts = sum(first_attempt_aborts(order, (p, q)) for order in orders)
        assert aborts == 120 - 6 * (5 - q) * (4 - p)


@pytest.mark.slow
def test_how_often_any_order_aborts_with_three_updates() -> None:
    orders = [in_order(ages) for ages in permutations(range(N))]
    assert sum(first_attempt_aborts(o, places) for o in orders for places in spots(3)) == 3360


def test_aborts_of_shorter_windows_and_of_ws() -> None:
    for panes in range(1, N + 1):
        ttu = [p for p in spots(2, panes) if first_attempt_aborts(isolation_named("ttu"), p, panes)]
        assert ttu == ([] if panes == 1 else [(panes - 1, panes - 1)])
    ws = [p for p in spots(2) if first_attempt_aborts(isolation_named("ws"), p)]
    assert ws == [(1, 1)]
    assert not any(first_attempt_aborts(isolation_named("ws"), p) for p in spots(1))
    assert not first_attempt_aborts(isolation_named("ws"), (1, 1), 4)


def test_no_order_aborts_less_than_ttu() -> None:
    """Where TTU aborts, every adaptive order does: all choices tried, up to three updates."""

    def avoidable(places: tuple[int, ...], panes: int) -> bool:
        def go(number: int, top: int, read: frozenset[int]) -> bool:
            for _ in range(places.count(number)):
                top += 1
                if top - panes in read:
                    return False
            window = range(top - panes + 1, top + 1)
            return number == panes or any(
                go(number + 1, top, read | {v}) for v in window if v not in read
            )

        return go(0, N - 1, frozenset())

    for panes in range(1, N + 1):
        for updates in (1, 2, 3):
            for places in spots(updates, panes):
                aborts = first_attempt_aborts(isolation_named("ttu"), places, panes)
                assert aborts == (not avoidable(places, panes))


def test_times_to_update() -> None:
    run = filled(isolation_named("ttu"))
    assert run.ring.times_to_update == [1, 2, 3, 4, 5]
    run.update(frozenset({5}))
    assert run.ring.times_to_update == [5, 1, 2, 3, 4]
    run.update(frozenset({6}))
    assert run.ring.times_to_update == [4, 5, 1, 2, 3]


def test_ttu_reads_as_in_the_thesis() -> None:
    run = filled(isolation_named("ttu"))
    run.start({"Q": N})
    run.step()
    run.update(frozenset({5}))
    for _ in range(3):
        run.step()
    run.update(frozenset({6}))
    (answer,) = run.step()
    assert str(run.history).split("c4 ")[1] == "r[4] w5[0] c5 r[0] r[3] r[2] w6[1] c6 r[1] cQ"
    assert (sorted(answer.value), answer.level, answer.reads) == ([2, 3, 4, 5, 6], LATEST, N)


def test_a_one_time_query_suspends_a_periodic_one() -> None:
    run = filled(isolation_named("ttu"))
    run.start({"P": 5})
    run.step()
    run.step()
    run.start({"O": 3}, priority=1)
    for _ in range(3):
        run.step()
    run.update(frozenset({5}))
    run.run()
    expected = "rQ1[4] rQ1[3] rQ2[4] rQ2[3] rQ2[2] cO w5[0] c5 rQ1[0] rQ1[2] rQ1[1] cP"
    assert str(run.history).split("c4 ")[1] == expected
    assert {v.level for v in check_history(run.history, LATEST)} == {LATEST}


def test_serial_suspends_nothing() -> None:
    run = filled(isolation_named("serial"))
    run.start({"P": 5})
    run.step()
    run.start({"O": 1}, priority=1)
    assert [answer.query for answer in run.run()] == ["P", "O"]


def test_serial_updates_wait() -> None:
    run = filled(isolation_named("serial"))
    run.start({"P": 5})
    run.step()
    run.update(frozenset({5}))
    run.start({"O": 1}, priority=9)
    answers = run.run()
    assert [(a.query, a.as_of, sorted(a.value)) for a in answers] == [
        ("P", 4, [0, 1, 2, 3, 4]),
        ("O", 5, [5]),
    ]


def test_a_joint_scan_answers_along_the_way() -> None:
    run = filled(isolation_named("ttu"))
    run.start({"long": 5, "short": 2, "middle": 3})
    answers = [(step, a.query, sorted(a.value)) for step in range(1, 6) for a in run.step()]
    assert answers == [(2, "short", [3, 4]), (3, "middle", [2, 3, 4]), (5, "long", [0, 1, 2, 3, 4])]
    assert run.reads == 5


def test_a_member_of_a_joint_scan_is_aborted_alone() -> None:
    run = filled(isolation_named("ttu"))
    run.start({"long": 5, "short": 2})
    run.step()
    run.update(frozenset({5}))
    run.update(frozenset({6}))
    answers = {a.query: (a.as_of, a.attempts) for a in run.run()}
    assert answers == {"long": (6, 1), "short": (6, 2)}


def test_after_three_aborts_a_query_reads_a_snapshot_and_says_so() -> None:
    run = filled(isolation_named("lws"))
    run.start({"Q": N})
    for _ in range(3):
        run.step()
        run.update(frozenset({run.ring.top + 1}))
    assert run.aborts == 3
    run.step()
    run.update(frozenset({run.ring.top + 1}))
    (answer,) = run.run()
    assert (answer.isolation, answer.level, answer.attempts, answer.as_of) == (
        "snapshot", WINDOW, 4, 7,
    )  # fmt: skip


def test_undo_and_rescan_costs_two_reads_a_conflict() -> None:
    """All orders, two updates anywhere: no abort, and the latest state."""
    for ages in permutations(range(N)):
        for places in ((0, 4), (2, 3), (4, 4)):
            run = filled(in_order(ages), undo=True)
            run.start({"Q": N})
            scan = run._running[0]
            undone = 0
            pending = list(places)
            answers: list[ScanAnswer[Versions]] = []
            while not answers:
                while pending and pending[0] == len(scan.read):
                    pending.pop(0)
                    run.update(frozenset({run.ring.top + 1}))
                undone = sum(isinstance(op, PaneRead) and op.undo for op in run.history.operations)
                answers = run.step()
            (answer,) = answers
            assert (run.aborts, answer.reads) == (0, N + 2 * undone)
            assert sorted(answer.value) == list(range(run.ring.top - N + 1, run.ring.top + 1))
            check_history(run.history, LATEST)


def test_an_incremental_scan_reads_what_changed() -> None:
    run: PaneTransactions[Versions] = PaneTransactions(VERSIONS, 8, isolation_named("incremental"))
    reads = []
    for version in range(20):
        run.update(frozenset({version}))
        if version in (7, 9, 9, 10, 17):
            run.start({"Q": 6})
            (answer,) = run.run()
            assert sorted(answer.value) == list(range(version - 5, version + 1))
            reads.append(answer.reads)
    run.start({"Q": 6})
    run.run()
    run.start({"Q": 6})
    assert run.run()[0].reads == 0
    assert reads == [6, 4, 2, 6]
