"""Every served answer is that of DuckDB over the panes that it claims, as of its as_of."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from mayfly.periodic.server import PendingAnswer
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from mayfly.storage.vacuum import vacuum
from tests.property.served_cases import SECOND, ServedCase, ServedRun, random_rows, tuples


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_the_rows_in_their_windows(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    queries = {f"q{n}": ServedCase(rng) for n in range(14)}
    run = ServedRun(tmp_path / "ck", queries, buckets=rng.choice((1, 3)))
    second = 0
    run.feed(random_rows(rng, 0, 2))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    while second < 26:
        following = second + rng.choice((1, 1, 2, 5))
        run.feed(random_rows(rng, second + 2, following + 2))
        second = following
        served.catch_up()
        case = rng.choice(list(queries.values()))
        pending = served.ask(case.once)
        served.work_through()
        if pending is not None:
            assert pending.answer is not None
            rows = case.expected(run.rows, pending.answer)
            assert tuples(pending.answer.rows) == rows
    assert {answer.query for answer in run.answers} >= {
        name for name, query in queries.items() if query.period < 6
    }
    assert not served.refused
    run.check(served)


def wait_for(done: Callable[[], bool]) -> None:
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("nothing more happens")


def idle(served: ServedPipeline, run: ServedRun) -> bool:
    """Whether all that is committed is answered."""
    seen = served.version == run.runner.repository.newest()
    servers = [board.server for board in served.boards.values()]
    return seen and all(server is None or server.idle for server in servers)


def play(folder: Path, seed: int, count: int, seconds: int) -> ServedRun:
    """Queries come and go while the pipeline commits, workers answer, and others ask once."""
    rng = Random(seed)
    queries = {f"q{n}": ServedCase(rng) for n in range(count)}
    run = ServedRun(folder / "ck", queries)
    run.feed(random_rows(rng, 0, 2))
    asked: list[tuple[ServedCase, PendingAnswer]] = []
    with ServedPipeline(folder / "ck", workers=2) as served:
        run.follow(served)
        for second in range(2, seconds, 2):
            run.feed(random_rows(rng, second, second + 2))
            visible = [name for name in queries if rng.random() < 0.8]
            run.show(visible)
            case = rng.choice(list(queries.values()))
            pending = served.ask(case.once)
            if pending is not None:
                asked.append((case, pending))
        wait_for(lambda: idle(served, run))
        assert not [note for note in served.notes if "fail" in note], served.notes
        run.check(served)
    for case, pending in asked:
        if pending.answer is not None:
            assert tuples(pending.answer.rows) == case.expected(run.rows, pending.answer)
    assert run.answers
    return run


def test_queries_come_and_go_while_others_are_answered(tmp_path: Path) -> None:
    play(tmp_path, 5, 20, 24)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_240_queries_come_and_go(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 240, 40)


def test_server_and_pipeline_find_each_other_again(tmp_path: Path) -> None:
    """Vacuumed beside it, too: what is read is always there, or a newer version is."""
    rng = Random(3)
    queries = {f"q{n}": ServedCase(rng) for n in range(6)}
    run = ServedRun(tmp_path / "ck", queries)
    notes: list[str] = []
    for start in range(0, 40, 8):
        run.feed(random_rows(rng, start, start + 4))
        with ServedPipeline(tmp_path / "ck", note=notes.append) as served:
            run.follow(served)
            wait_for(lambda served=served: idle(served, run))  # type: ignore[misc]
            run.restart()
            run.feed(random_rows(rng, start + 4, start + 6))
            vacuum(run.runner.repository, keep_versions=1, grace=0)
            wait_for(lambda served=served: idle(served, run))  # type: ignore[misc]
            run.check(served)
        run.feed(random_rows(rng, start + 6, start + 8))
    assert {answer.query for answer in run.answers} == set(queries)
    assert any("the last answer was as of" in note for note in notes)


def test_a_checkpoint_made_anew_is_noticed(tmp_path: Path) -> None:
    rng = Random(4)
    run = ServedRun(tmp_path / "ck", {"q": ServedCase(rng)})
    run.feed(random_rows(rng, 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    served.catch_up()
    served.work_through()
    shutil.rmtree(tmp_path / "ck")
    other = ServedRun(tmp_path / "ck", run.queries)
    for second in range(0, 9):
        other.feed(random_rows(rng, second, second + 1))
    other.follow(served)
    served.catch_up()
    served.work_through()
    assert any("another one" in note for note in served.notes)
    other.check(served)
    assert other.answers


def test_rows_that_are_not_kept_are_not_scanned(tmp_path: Path) -> None:
    rng = Random(6)
    case = ServedCase(rng)
    case.length, case.scan = 120, "WINDOW"
    run = ServedRun(tmp_path / "ck", {"q": case})
    run.feed(random_rows(rng, 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    served.catch_up()
    assert "KEEP 2 min" in served.refused["q"]


@pytest.mark.parametrize("isolation", ["LATEST", "LATEST UNDO"])
def test_the_checker_reads_what_a_server_recorded(tmp_path: Path, isolation: str) -> None:
    """Updates come between the reads of a query: the recorded history has aborts, or what was read
    is subtracted, and the checker finds every scan as it was promised."""
    rng = Random(8)
    case = ServedCase(rng)
    case.length, case.period, case.scan = 6, 1, "SYNOPSIS"
    case.calls, case.having = "COUNT(x) AS known, AVG(x) AS mean", ""
    case.isolation, case.overload = isolation, "LATE"
    run = ServedRun(tmp_path / "ck", {"q": case})
    run.feed(random_rows(rng, 0, 9))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    for second in range(9, 40):
        run.feed([{"ts": second * SECOND, "a": "u", "b": 2, "x": 1}])
        served.catch_up()
        for board in served.boards.values():
            assert board.server is not None
            for _ in range(rng.choice((0, 0, 2, 5))):
                board.server.step()
    served.work_through()
    (board,) = served.boards.values()
    assert board.server is not None
    text = " ".join(map(str, board.server.histories().values()))
    assert ("aq" in text, "uQ" in text) == (isolation == "LATEST", isolation != "LATEST")
    run.check(served)
    assert served.check()["latest-window-serializable"] > 5


def test_long_windows_and_groups_that_leave(tmp_path: Path) -> None:
    """Every pane has a group of its own: what left must be gone, and twelve panes are all there."""
    rng = Random(9)
    queries = {name: ServedCase(rng) for name in ("long", "leaving")}
    for case, length, scan in (
        (queries["long"], 12, "SYNOPSIS"),
        (queries["leaving"], 4, "INCREMENTAL SYNOPSIS"),
    ):
        case.length, case.period, case.scan = length, 1, scan
        case.keys, case.where, case.having = "a", "", ""
        case.calls, case.isolation, case.overload = "SUM(x) AS total", "SNAPSHOT", "LATE"
    run = ServedRun(tmp_path / "ck", queries)
    run.feed([{"ts": n * SECOND, "a": f"k{n}", "b": 1, "x": n} for n in range(1, 14)])
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    for second in range(14, 20):
        run.feed([{"ts": second * SECOND, "a": f"k{second}", "b": 1, "x": second}])
        served.catch_up()
        served.work_through()
    run.check(served)
    sizes = {answer.query: answer.rows.num_rows for answer in run.answers}
    assert sizes == {"long": 12, "leaving": 4}
