"""The change log of a run: bounded on request, and not read whole for an answer as of now."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.errors import InvalidSetting
from mayfly.runtime.change_log import FEWEST
from mayfly.runtime.in_process import ContinuousRun

STREAM = "CREATE STREAM s (ts BIGINT, k INT) TIMESTAMP BY ts"
SUMS = "SELECT k, SUM(ts) AS n FROM s [RANGE 10 us] GROUP BY k"


def fed(query: str, history: str | None = None, batches: int = 200) -> ContinuousRun:
    session = LocalSession()
    session.execute(STREAM)
    run = session.query(query, history=history)
    for number in range(batches):
        run.feed({"s": [{"ts": 20 * number + i, "k": i % 5} for i in range(20)]})
    run.finish()
    return run


@pytest.mark.parametrize("query", [SUMS, "SELECT DISTINCT k FROM s [RANGE 10 us]"])
def test_a_bounded_log_gives_the_answers_that_a_whole_one_does(query: str) -> None:
    whole, bounded = fed(query), fed(query, "500 us")
    last = whole.clocks.query - 1
    for instant in (last, last - 7, last - 400):
        shown = [run.snapshot(instant).sort_by("k").to_pylist() for run in (whole, bounded)]
        assert shown[0] == shown[1] != []
    assert whole.changes().num_rows > 4 * bounded.changes().num_rows
    assert bounded.changes().num_rows < 2 * FEWEST + 2_000


def test_what_was_forgotten_is_refused() -> None:
    bounded = fed(SUMS, "500 us")
    with pytest.raises(InvalidSetting, match="no longer kept"):
        bounded.snapshot(100)


def test_an_answer_as_of_now_reads_what_is_alive() -> None:
    run = fed(SUMS)
    assert run.snapshot().num_rows == 5
    assert run._log.alive.rows < run._log.whole.rows / 4
    assert run.snapshot(100).num_rows == 5


@pytest.mark.parametrize("operator", ["Istream", "Rstream"])
def test_what_was_sent_is_bounded_too(operator: str) -> None:
    query = f"SELECT {operator}(ts, k) FROM s [RANGE 10 us]"
    whole, bounded = fed(query), fed(query, "500 us")
    assert bounded.changes().num_rows < whole.changes().num_rows / 2
    since = whole.clocks.query - 400
    assert bounded.changes(since=since).num_rows == whole.changes(since=since).num_rows


def test_a_bounded_log_is_so_where_nobody_asks_for_an_answer() -> None:
    log = fed(SUMS, "500 us")._log
    assert max(log.alive.rows, log.whole.rows) < 2 * FEWEST + 2_000
