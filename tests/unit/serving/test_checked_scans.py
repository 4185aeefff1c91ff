"""A server reads its own histories while it answers, and says when a scan broke its isolation."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly.periodic.isolation import BrokenHistory
from mayfly.periodic.isolation.isolation_policy import LatestPolicy
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from tests.property.served_cases import SECOND, ServedCase, ServedRun, random_rows


def case(isolation: str = "LATEST", period: int = 1) -> ServedCase:
    served = ServedCase(Random(1))
    served.length, served.period, served.overload = 6, period, "LATE"
    served.calls, served.keys, served.where, served.having = "SUM(x) AS total", "a", "", ""
    served.scan, served.isolation = "SYNOPSIS", isolation
    return served


def interrupted(run: ServedRun, served: ServedPipeline) -> None:
    """Updates come between the reads of a query."""
    run.follow(served)
    for second in range(9, 30):
        run.feed([{"ts": second * SECOND, "a": "u", "b": 2, "x": 1}])
        served.catch_up()
        for board in served.boards.values():
            assert board.server is not None
            for _ in range((5, 0, 0)[second % 3]):
                board.server.step()
    served.work_through()


def test_a_scheduler_that_never_aborts_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checked_histories: list[Any]
) -> None:
    def slide(policy: LatestPolicy, scan: Any, ring: Any, version: int) -> list[str]:
        scan.aim = version
        return []

    run = ServedRun(tmp_path / "ck", {"q": case()})
    run.feed(random_rows(Random(1), 0, 9))
    monkeypatch.setattr(LatestPolicy, "slide", slide)
    served = ServedPipeline(tmp_path / "ck")
    interrupted(run, served)
    with pytest.raises(BrokenHistory, match="not latest-window-serializable"):
        served.check()
    assert any("did not have the isolation it claims" in note for note in served.status()["notes"])
    assert checked_histories.pop().checks.broken is not None


def test_what_was_checked_is_counted_while_threads_work(tmp_path: Path) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case()})
    run.feed(random_rows(Random(1), 0, 9))
    with ServedPipeline(tmp_path / "ck") as served:
        for _ in range(200):
            if served.status()["levels"]:
                break
            time.sleep(0.05)
        assert set(served.status()["levels"]) <= {"latest-window-serializable"}
        assert served.levels.total() >= 1


@pytest.mark.parametrize("isolation", ["ttu", "lws", "serial"])
def test_a_server_keeps_latest_as_it_is_told(tmp_path: Path, isolation: str) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case(), "pinned": case("SNAPSHOT")})
    run.feed(random_rows(Random(1), 0, 9))
    served = ServedPipeline(tmp_path / "ck", isolation=isolation)
    interrupted(run, served)
    run.check(served)
    kept = {a.isolation for a in run.answers if a.query == "q"}
    assert isolation in kept <= {isolation, "snapshot"}  # after three aborts
    assert {a.isolation for a in run.answers if a.query == "pinned"} == {"snapshot"}


def test_what_runs_early_is_chosen(tmp_path: Path) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case(period=5)})
    run.feed(random_rows(Random(1), 0, 9))
    counts = {}
    for early in ("none", "idle"):
        served = ServedPipeline(tmp_path / "ck", early=early)
        run.answers.clear()
        run.follow(served)
        for second in range(10, 20):
            run.feed([{"ts": (second + 20 * (early == "idle")) * SECOND, "a": "u", "b": 2, "x": 1}])
            served.catch_up()
            served.work_through()
        run.check(served)
        counts[early] = len(run.answers)
    assert counts["idle"] > counts["none"] > 1


@pytest.mark.parametrize("pace", [False, True])
def test_panes_of_one_commit_are_answered_one_by_one_where_that_is_asked_for(
    tmp_path: Path, pace: bool
) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case()})
    run.feed(random_rows(Random(1), 0, 9))
    run.feed([{"ts": 9 * SECOND, "a": "u", "b": 2, "x": 1}])
    served = ServedPipeline(tmp_path / "ck", pace=pace)
    run.follow(served)
    served.catch_up()
    served.work_through()
    run.answers.clear()
    run.feed([{"ts": second * SECOND, "a": "u", "b": 2, "x": 1} for second in range(10, 17)])
    served.catch_up()
    served.work_through()
    run.check(served)
    instants = [answer.as_of // SECOND for answer in run.answers]
    assert instants == (list(range(instants[-1] - 6, instants[-1] + 1)) if pace else [15])


def test_a_staleness_bound_is_kept_and_answers_that_break_it_are_not_given(tmp_path: Path) -> None:
    """The clock is ahead of the panes by up to a pane: only what is younger is given."""
    bounded = case("SNAPSHOT")
    text = bounded.text.replace("SERVE ", "SERVE BOUNDED STALENESS 500 ms ", 1)

    class Bounded(ServedCase):
        text = property(lambda self: text)

    bounded.__class__ = Bounded
    run = ServedRun(tmp_path / "ck", {"q": bounded})
    run.feed(random_rows(Random(1), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    for step in range(40):
        run.feed([{"ts": 9 * SECOND + step * 250_000, "a": "u", "b": 2, "x": 1}])
        served.catch_up()
        served.work_through()
    run.check(served)
    assert run.answers
    assert max(answer.behind for answer in run.answers) <= 500_000


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"isolation": "snapshot"}, "use ttu, lws, serial"),
        ({"early": "always"}, "use none, grid, idle"),
        ({"policy": "fifo"}, "late-pending"),
    ],
)
def test_what_a_server_cannot_be_told(tmp_path: Path, choices: Any, problem: str) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case()})
    run.feed(random_rows(Random(1), 0, 3))
    with pytest.raises(Exception, match=problem):
        ServedPipeline(tmp_path / "ck", **choices)
