"""Refreshes in silence: a run of them with one answer costs nothing until it is read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.errors import LimitExceeded
from mayfly.kernels.refreshes import repeated
from mayfly.plan.window_kinds import Slide
from mayfly.runtime.in_process import ContinuousRun

YEAR = 365 * 86_400_000_000
SECOND = 1_000_000
FORMS = ["Rstream", "Rstream-restore"]


def fed(query: str, *times: int) -> ContinuousRun:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "v": "BIGINT"})
    run = session.query(query)
    for at in times:
        run.feed({"s": pa.table({"ts": pa.array([at]), "v": pa.array([at % 7])})})
    run.finish()
    return run


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("more", ["", " ORDER BY v LIMIT 1"])
def test_centuries_are_neither_stored_nor_walked(form: str, more: str) -> None:
    end = 200 * YEAR
    query = f"SELECT {form}(v) FROM s [ROWS 2 SLIDE 1 s]{more}"
    run = fed(query, 0, 3 * SECOND, end)
    kept = run.changes()
    assert kept.num_rows < 10
    assert kept.schema.names == ["v", "ts", "until"]
    some = run.changes(100 * YEAR, 100 * YEAR + 3 * SECOND)
    rows = [0] if more else [0, 3 * SECOND % 7]
    assert some["ts"].to_pylist() == [100 * YEAR + n * SECOND for n in range(3) for _ in rows]
    assert sorted(some["v"].to_pylist()[: len(rows)]) == sorted(rows)


def test_an_empty_answer_of_centuries_is_no_row() -> None:
    run = fed("SELECT Rstream(v) FROM s [RANGE 2 s SLIDE 1 s]", 0, 200 * YEAR)
    assert run.changes()["ts"].to_pylist() == [0, SECOND, 200 * YEAR]


def test_what_must_be_made_one_by_one_is_refused_before_it_fills_memory() -> None:
    query = "SELECT SUM(Wstream(SUM(v))[ROWS 10]) FROM s [RANGE 2 s SLIDE 1 s]"
    with pytest.raises(LimitExceeded, match="MAX GAP"):
        fed(query, 0, 200 * YEAR)


def test_readers_expand_runs_piece_by_piece() -> None:
    runs = pa.table({"v": [1, 2, 3], "_ts": [10, 10, 30], "_exp": [21, 21, 31]})
    slide = Slide(period=5)
    whole = pa.concat_tables(repeated(runs, slide, -100, 100))
    assert whole["_ts"].to_pylist() == [10, 10, 15, 15, 20, 20, 30]
    assert whole["v"].to_pylist() == [1, 2, 1, 2, 1, 2, 3]
    assert pa.concat_tables(repeated(runs, slide, 11, 20))["_ts"].to_pylist() == [15, 15]
    endless = pa.table({"v": [1], "_ts": [0], "_exp": [200 * YEAR]})
    first = next(repeated(endless, Slide(period=1), 0, 200 * YEAR))
    assert first.num_rows < 100_000
