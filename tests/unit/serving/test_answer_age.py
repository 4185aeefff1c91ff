"""How old an answer may be: refused with the figure, or waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import mayfly
from mayfly.checkpoint.clock_record import clock_record
from mayfly.cql import CqlError, bind_query
from mayfly.errors import InvalidSetting, NotClosed, StaleAnswer
from mayfly.serving import answer_age
from mayfly.serving.sql_session import SqlSession
from mayfly.storage.sealed_files import seal_json
from tests.property.shared_runs import HereRunner
from tests.unit.serving.stored_pipelines import (
    CATALOG,
    SECOND,
    clicks,
    expected,
    fed,
    pipeline,
    table_of,
    tuples,
)

SQL = "SELECT user, page, n FROM recent"


def begin_batch(runner: HereRunner, second: int) -> None:
    """A batch that will close the instants before a second, and is not committed."""
    batch = runner.repository.current().properties["batch"] + 1
    clocks = {"streams": {"clicks": second * SECOND}, "largest": {}, "ended": False}
    runner.repository.directory.put_if_absent(clock_record(batch), seal_json({"clocks": clocks}))


@pytest.fixture
def clock() -> list[float]:
    """The seconds that have passed."""
    return [0.0]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> list[Callable[[], object]]:
    """What happens while a reader waits, pause by pause; no time passes before. Other threads of
    the process keep their time."""
    steps: list[Callable[[], object]] = []

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if steps:
            steps.pop(0)()

    waiting = SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0], time_ns=time.time_ns)
    monkeypatch.setattr("mayfly.serving.answer_age.time", waiting)
    return steps


def test_an_answer_as_young_as_its_pipeline_is_given(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    assert reader.query(f"{SQL} BOUNDED STALENESS 0").as_of == 29 * SECOND - 1
    assert reader.query(SQL, staleness=0).as_of == 29 * SECOND - 1
    assert (
        reader.query(SQL, staleness="0").as_of
        == reader.query(SQL, staleness=" 0 ").as_of
        == 29 * SECOND - 1
    )
    assert reader.view("recent", staleness="0 s").as_of == 29 * SECOND - 1


def test_age_is_counted_from_the_newest_clock(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    reader = mayfly.open(tmp_path)
    runner.feed({"clicks": table_of(clicks(20, 30))}, {})
    assert reader.query(SQL, staleness="10 s").as_of == 19 * SECOND - 1
    with pytest.raises(StaleAnswer) as refusal:
        reader.query(f"{SQL} BOUNDED STALENESS 9 s")
    assert "of 1970-01-01 00:00:18.999999, 10 s behind the pipeline" in refusal.value.message
    assert "got to 1970-01-01 00:00:28.999999; more than BOUNDED STALENESS 9" in str(refusal.value)
    assert "no batch has ended yet" in refusal.value.message
    assert "mayfly status" in refusal.value.hint
    with pytest.raises(StaleAnswer):
        reader.view("recent", where={"user": "ann"}, staleness="9999999 µs")
    assert reader.latest().query(SQL, staleness=0).rows.num_rows == 10
    with pytest.raises(StaleAnswer, match="29 s behind"):
        reader.latest().query(SQL, as_of=-1, staleness="20 s")


def test_the_tighter_of_two_bounds_counts(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    begin_batch(runner, 24)
    reader = mayfly.open(tmp_path)
    bounded = f"{SQL} BOUNDED STALENESS 5 s"
    assert reader.query(bounded, staleness="1 h").rows.num_rows
    with pytest.raises(StaleAnswer):
        reader.query(bounded, staleness="4 s")
    with pytest.raises(StaleAnswer):
        reader.query(f"{SQL} BOUNDED STALENESS 4 s", staleness="5 s")


def test_a_batch_that_was_begun_makes_answers_old(
    tmp_path: Path, pauses: list[Callable[[], object]]
) -> None:
    """After a crash, until the batch has been replayed."""
    runner = fed(tmp_path, 20)
    begin_batch(runner, 29)
    reader = mayfly.open(tmp_path)
    assert reader.query(SQL).as_of == 19 * SECOND - 1, "nothing was asked"
    with pytest.raises(StaleAnswer, match="10 s behind"):
        reader.query(SQL, staleness=0)
    record = clock_record(runner.repository.current().properties["batch"] + 1)

    def replay() -> None:
        runner.repository.directory.remove(record)  # the runner here writes its own
        runner.feed({"clicks": table_of(clicks(20, 30))}, {})

    pauses += [lambda: None, replay]
    answer = reader.query(SQL, staleness=0, wait="10 s")
    assert answer.as_of == 29 * SECOND - 1
    assert answer.version == reader.version + 1
    assert tuples(answer.rows) == expected("recent", 28)


@pytest.mark.usefixtures("pauses")
def test_waiting_ends(tmp_path: Path, clock: list[float]) -> None:
    runner = fed(tmp_path, 20)
    begin_batch(runner, 29)
    with pytest.raises(StaleAnswer):
        mayfly.open(tmp_path).query(SQL, staleness=0, wait="1 s")
    assert clock[0] == pytest.approx(1, abs=2 * answer_age.PAUSE)


def test_the_first_answer_and_future_instants_are_waited_for(
    tmp_path: Path, pauses: list[Callable[[], object]]
) -> None:
    runner = pipeline(tmp_path)
    reader = mayfly.open(tmp_path)
    with pytest.raises(NotClosed):
        reader.query(SQL)
    pauses.append(lambda: runner.feed({"clicks": table_of(clicks(0, 10))}, {}))
    assert reader.query(SQL, wait="1 s").as_of == 9 * SECOND - 1
    pauses.append(lambda: runner.feed({"clicks": table_of(clicks(10, 20))}, {}))
    answer = reader.view("recent", as_of=15 * SECOND, wait="1 s")
    assert tuples(answer.rows) == expected("recent", 15)


def test_lag_is_counted_from_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    monkeypatch.setattr(time, "time_ns", lambda: 60 * SECOND * 1000)
    assert reader.query(SQL, lag="32 s").rows.num_rows
    with pytest.raises(StaleAnswer, match=r"31 s ago; more than lag 30 s"):
        reader.query(SQL, lag="30 s")


def test_streams_that_a_query_does_not_read_do_not_age_it(tmp_path: Path) -> None:
    runner = fed(tmp_path, streams=["views"])
    runner.feed({}, {"views": 10_000 * SECOND})
    reader = mayfly.open(tmp_path)
    assert reader.query(SQL, staleness=0).rows.num_rows
    with pytest.raises(StaleAnswer):
        reader.query("SELECT town FROM people", as_of=0, staleness="1 h")


def test_the_shell_keeps_to_the_bound(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    session = SqlSession.open(tmp_path)
    session.execute(f"{SQL} BOUNDED STALENESS 0 s;")
    begin_batch(runner, 29)
    with pytest.raises(StaleAnswer):
        session.execute(f"{SQL} BOUNDED STALENESS 1 s;")


def test_how_a_bound_is_written(tmp_path: Path) -> None:
    bound = bind_query("SELECT user FROM people ORDER BY user LIMIT 3 BOUNDED STALENESS 1 h 5 s",
                       CATALOG, one_time=True)  # fmt: skip
    assert bound.staleness == 3605 * SECOND
    assert (
        bind_query("SELECT user AS bounded FROM people", CATALOG, one_time=True).staleness is None
    )
    for text, problem in (
        ("SELECT user FROM people BOUNDED STALENESS", "the staleness"),
        ("SELECT user FROM people BOUNDED STALENESS 5 s LIMIT 2", "LIMIT"),
        ("SELECT user FROM people BOUNDED STALENESS 5 parsecs", "parsecs"),
    ):
        with pytest.raises(CqlError, match=problem):
            bind_query(text, CATALOG, one_time=True)
    with pytest.raises(CqlError, match="is for one-time queries"):
        bind_query("SELECT user FROM clicks [RANGE 5 s] BOUNDED STALENESS 5 s", CATALOG)
    with pytest.raises(InvalidSetting, match="has no unit"):
        mayfly.open(fed(tmp_path, 10).repository.directory.address).query(SQL, staleness=5)  # type: ignore[arg-type]
