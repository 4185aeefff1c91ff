"""Memory of panes is limited, and what a server can do is measured while it works."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from mayfly.cql import CqlError
from mayfly.errors import InvalidSetting
from mayfly.serving.periodic.answer_positions import last_measured
from mayfly.serving.periodic.served_load import measured_from, stretch_of
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from mayfly.serving.periodic.work_meter import WorkMeter
from tests.property.served_cases import SECOND, ServedCase, ServedRun, random_rows


def case(length: int, scan: str = "SYNOPSIS") -> ServedCase:
    served = ServedCase(Random(1))
    served.length, served.period, served.overload = length, 1, "LATE"
    served.keys, served.where, served.having, served.calls = "a", "", "", "SUM(x) AS total"
    served.scan, served.isolation = scan, "SNAPSHOT"
    return served


def filled(folder: Path, queries: dict[str, ServedCase]) -> ServedRun:
    run, rng = ServedRun(folder / "ck", queries), Random(4)
    run.feed(random_rows(rng, 0, 10))
    run.feed(random_rows(rng, 10, 30))
    return run


def played(run: ServedRun, limit: int) -> ServedPipeline:
    served = ServedPipeline(run.folder, memory=limit)
    run.follow(served)
    served.catch_up()
    served.work_through()
    return served


def test_a_query_whose_panes_do_not_fit_is_refused_and_others_are_served(tmp_path: Path) -> None:
    """The longest window came second: the third, which fits beside the first, is served."""
    run = filled(tmp_path, {"short": case(2), "long": case(60), "third": case(3)})
    whole = played(run, 1 << 30)
    # One ring: that of the longest window; and one of the rows of a minute.
    rings = {name: taken for (_, name), taken in whole.memory.expected.items()}
    ring = rings.pop(next(name for name in rings if name != "rows"))
    run.answers.clear()
    served = played(run, ring // 10)
    assert set(served.refused) == {"long"}
    assert "60 panes of 1 s would take about" in served.refused["long"]
    assert "--served-memory" in served.refused["long"]
    assert any("long is not served" in note for note in served.notes)
    assert {answer.query for answer in run.answers} == {"short", "third"}
    run.check(served)
    memory = served.status()["memory"]
    assert memory["expected"] <= memory["limit"] == ring // 10
    assert memory["held"] > 0
    assert any("one-time queries read them from the checkpoint" in note for note in served.notes)
    pending = served.ask("SELECT MIN(x) AS low FROM s [RANGE 2 s]")
    assert pending is None


def test_panes_that_grow_are_refused_while_the_server_runs(tmp_path: Path) -> None:
    run = filled(tmp_path, {"short": case(2), "long": case(20)})
    whole = played(run, 1 << 30)
    ring = min(taken for (_, name), taken in whole.memory.expected.items() if name != "rows")
    run.answers.clear()
    served = played(run, ring * 2)
    assert not served.refused
    many = [{"ts": 40 * SECOND + n, "a": f"k{n}", "b": 1, "x": n} for n in range(4000)]
    run.feed([*many, {"ts": 44 * SECOND, "a": "u", "b": 1, "x": 1}])
    served.catch_up()
    served.work_through()
    assert "long" in served.refused
    run.check(served)


def test_rows_that_do_not_fit_are_not_scanned(tmp_path: Path) -> None:
    run = filled(tmp_path, {"q": case(2), "rows": case(3, "WINDOW")})
    whole = played(run, 1 << 30)
    rows = next(taken for (_, name), taken in whole.memory.expected.items() if name == "rows")
    assert not whole.refused
    served = played(run, rows - 1)
    assert "rows over 3 s would take about" in served.refused["rows"]
    assert set(served.queries) == {"q"}


def test_a_limit_is_above_nothing(tmp_path: Path) -> None:
    filled(tmp_path, {"q": case(2)})
    with pytest.raises(InvalidSetting, match="0 bytes for panes"):
        ServedPipeline(tmp_path / "ck", memory=0)


def test_capacity_is_what_was_measured() -> None:
    meter = WorkMeter(workers=2)
    assert meter.measured is None
    for _ in range(10):
        meter.note_read(0.01)
    meter.note_update(100.0, 7)
    assert meter.measured is None
    meter.note_update(103.0, 13)  # six updates in three seconds
    measured = meter.measured
    assert measured is not None
    assert measured.update == 0.5
    assert measured.capacity == 100  # half a second for two workers, a hundredth for a read
    meter.begin_anew()
    assert meter.measured is None


def test_advice_is_by_what_was_measured(tmp_path: Path) -> None:
    run = filled(tmp_path, {"q": case(6)})
    served = played(run, 1 << 30)
    sql = "SELECT MAX(x) AS high FROM s [RANGE 8 s SLIDE 2 s]"
    assert "nothing was measured yet" in served.advise(sql)
    (board,) = served.boards.values()
    meter = board.meter = WorkMeter()
    meter.note_read(0.1)
    meter.note_update(0.0, 1)
    meter.note_update(1.0, 2)  # ten reads fit into an update; the query takes six
    (load,) = served.loads()
    assert load.share == Fraction(6, 10)
    assert "6.00 reads per update of 10.00 that can be done, 60 %" in str(load)
    assert stretch_of(served.loads()) == 1
    # Panes of two seconds: an update every two seconds of which the others leave 40 %.
    assert served.advise(sql) == (
        "the query adds 4.00 to 0.00 per update, of 8.00 that can be done: it fits"
    )
    more = served.advise("SELECT MAX(x) AS high FROM s [RANGE 9 s SLIDE 1 s] WHERE b > 2")
    assert "of 10.00 that can be done: periods would become 1.50 times as long" in more
    assert "every 4 updates it would fit" in more
    with pytest.raises(CqlError, match="aggregate over the panes"):
        served.advise("SELECT * FROM s [RANGE 9 s SLIDE 1 s]")
    served._store()
    (stored,) = last_measured(served.reader.repository.directory).values()
    measured = measured_from(stored, 2 * SECOND)
    assert measured is not None
    assert measured.capacity == 20
    assert measured_from({"read": "x"}, SECOND) is None


@pytest.mark.parametrize(("isolation", "reads"), [("LATEST", 6), ("WINDOW", 12)])
def test_what_is_read_alone_counts_alone(tmp_path: Path, isolation: str, reads: int) -> None:
    """As the server groups them: one scan of six panes answers both, or each has its own."""
    queries = {"one": case(6), "other": case(6)}
    for query in queries.values():
        query.isolation = isolation
    served = played(filled(tmp_path, queries), 1 << 30)
    (load,) = served.loads()
    assert load.reads == reads
    (board,) = served.boards.values()
    assert board.server is not None
    groups = {query.group for query in board.server.queries.values()}
    assert len(groups) == reads // 6


def test_overload_is_told_once_and_its_end(tmp_path: Path) -> None:
    run = filled(tmp_path, {"q": case(6)})
    served = played(run, 1 << 30)
    (board,) = served.boards.values()
    board.meter = WorkMeter()
    board.meter.note_read(0.5)
    board.meter.note_update(0.0, 1)
    board.meter.note_update(1.0, 2)  # two reads fit; six are wanted
    for second in range(30, 36):
        run.feed([{"ts": second * SECOND, "a": "u", "b": 1, "x": 1}])
        served.catch_up()
    board.meter._commits.clear()
    board.meter.note_update(0.0, 1)
    board.meter.note_update(1.0, 2)
    served._tell_overload()
    served._tell_overload()
    told = [note for note in served.notes if "more work than time" in note]
    assert len(told) == 1
    assert "about 3.0 times as long" in told[0]
    assert served.status()["stretch"] == 3
    served.work_through()
    board.meter.note_update(11.0, 3)  # now an update every five seconds
    served._tell_overload()
    assert served.notes[-1] == "queries are in time again"
    assert served.status()["queries"][0]["stretch"] > 1
    run.check(served)
