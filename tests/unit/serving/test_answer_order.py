"""Answers of a query come once and in order, also while a server takes over from another one."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly.errors import StaleAnswer
from mayfly.periodic.server import ServedAnswer
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from mayfly.serving.periodic.stored_rings import StoredRings
from tests.property.served_cases import SECOND, ServedCase, ServedRun, random_rows


def case(length: int, overload: str) -> ServedCase:
    served = ServedCase(Random(1))
    served.length, served.period, served.overload = length, 1, overload
    served.scan, served.isolation = "SYNOPSIS", "SNAPSHOT"
    return served


@pytest.mark.parametrize("overload", ["EVERY", "LATE"])
def test_a_server_that_takes_over_repeats_nothing(tmp_path: Path, overload: str) -> None:
    """A longer window makes the server begin again, while answers of the one before are handed
    over: the same refreshes are due in both."""
    rng = Random(2)
    run = ServedRun(tmp_path / "ck", {"q": case(3, overload), "longer": case(9, "LATE")})
    run.show(["q"])
    run.feed(random_rows(rng, 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)

    def take_over(answer: ServedAnswer) -> None:
        (board,) = served.boards.values()
        if "longer" not in board.queries:
            before = board.server
            run.show(["q", "longer"])
            served.catch_up()
            assert board.server is not before
            served.work_through()

    served.subscribe("q", take_over)
    served.catch_up()
    served.work_through()
    for second in range(9, 14):
        run.feed([{"ts": second * SECOND + 1, "a": "u", "b": 2, "x": 1}])
        served.catch_up()
        served.work_through()
    run.check(served)
    instants = [answer.as_of // SECOND for answer in run.answers if answer.query == "q"]
    assert instants == list(range(instants[0], 14))
    assert {answer.query for answer in run.answers} == {"q", "longer"}


def test_what_takes_over_is_idle_when_all_is_handed_over(tmp_path: Path) -> None:
    """Answers that a server before it hands over are still on their way."""
    run = ServedRun(tmp_path / "ck", {"q": case(3, "EVERY"), "longer": case(9, "LATE")})
    run.show(["q"])
    run.feed(random_rows(Random(2), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    idle: list[bool] = []

    def take_over(answer: ServedAnswer) -> None:
        (board,) = served.boards.values()
        if "longer" not in board.queries:
            run.show(["q", "longer"])
            served.catch_up()
            served.work_through()
            assert board.server is not None
            idle.append(board.server.idle)

    served.subscribe("q", take_over)
    served.catch_up()
    served.work_through()
    (board,) = served.boards.values()
    assert board.server is not None
    assert idle == [False]
    assert board.server.idle
    assert not [note for note in served.notes if "fail" in note], served.notes


def test_workers_see_a_server_when_its_rings_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked through for the next read does not change meanwhile, and what is asked once
    does not find empty rings."""
    run = ServedRun(tmp_path / "ck", {"q": case(3, "EVERY"), "longer": case(9, "LATE")})
    run.feed(random_rows(Random(2), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    visible: list[bool] = []
    prepare, update = StoredRings.prepare, StoredRings.update

    def watch(rings: StoredRings) -> None:
        servers = [board.server for board in served.boards.values()]
        visible.append(any(s is not None and s.inputs is rings for s in servers))

    def watched_prepare(rings: StoredRings, *values: Any) -> None:
        watch(rings)
        prepare(rings, *values)

    def watched_update(rings: StoredRings, pane: Any) -> None:
        watch(rings)
        update(rings, pane)

    monkeypatch.setattr(StoredRings, "prepare", watched_prepare)
    monkeypatch.setattr(StoredRings, "update", watched_update)
    served.catch_up()
    assert len(visible) > 2
    assert not any(visible)


def test_who_asks_once_gets_the_youngest_panes(tmp_path: Path) -> None:
    """Panes of four seconds end before those of one second."""
    coarse, fine = case(4, "LATE"), case(4, "LATE")
    coarse.period = 4
    run = ServedRun(tmp_path / "ck", {"coarse": coarse, "fine": fine})
    run.feed(random_rows(Random(2), 0, 8))
    run.feed([{"ts": 11 * SECOND, "a": "u", "b": 2, "x": 1}])
    served = ServedPipeline(tmp_path / "ck")
    served.catch_up()
    instants = sorted(board.as_of for board in served.boards.values())
    assert instants[0] < instants[1]
    pending = served.ask(fine.once)
    served.work_through()
    assert pending is not None
    assert pending.answer is not None
    assert pending.answer.as_of == instants[1]


def test_a_server_that_begins_knows_up_to_where_queries_were_answered(tmp_path: Path) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case(3, "LATE")})
    run.feed(random_rows(Random(2), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    assert served.why_unanswered("q") == "q has not been answered yet"
    served.catch_up()
    served.work_through()
    served.stop()
    again = ServedPipeline(tmp_path / "ck")
    assert "q was last answered as of 1970-01-01 00:00:0" in again.why_unanswered("q")


def test_who_asks_hears_of_a_refusal(tmp_path: Path) -> None:
    """Nothing is read when a question is refused: who waits for it is notified all the same."""
    run = ServedRun(tmp_path / "ck", {"q": case(3, "LATE")})
    run.feed(random_rows(Random(2), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    served.catch_up()
    (board,) = served.boards.values()
    assert board.server is not None
    board.server.run()
    heard: list[bool] = []
    served._work.notify_all = lambda: heard.append(True)  # type: ignore[method-assign]
    assert not served._step(board)
    assert heard


def test_who_asked_once_does_not_wait_for_a_server_that_ended(tmp_path: Path) -> None:
    run = ServedRun(tmp_path / "ck", {"q": case(3, "LATE"), "longer": case(9, "LATE")})
    run.show(["q"])
    run.feed(random_rows(Random(2), 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    served.catch_up()
    pending = served.ask(case(3, "LATE").once)
    assert pending is not None
    assert not pending.done
    run.show(["q", "longer"])
    served.catch_up()
    with pytest.raises(StaleAnswer, match="ask again"):
        pending.rows()
