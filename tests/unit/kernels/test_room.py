"""What lists the values of every version of a group asks for room before it does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.errors import LimitExceeded
from mayfly.runtime.in_process import ContinuousRun
from mayfly.windows.rank_counts import Ranked

ROWS = 300
PAIRS = ROWS * (ROWS + 1) // 2


def run_of(aggregate: str, max_state_bytes: int | None = None) -> ContinuousRun:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT"})
    text = f"SELECT {aggregate} AS a FROM s [RANGE 1 DAY]"
    return session.query(text, max_state_bytes=max_state_bytes)


def batch(rows: int = ROWS, values: int = 7) -> dict[str, pa.Table]:
    return {"s": pa.table({"ts": np.arange(rows), "x": np.arange(rows) % values})}


def test_large_sets_are_refused_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ranked, "listed", lambda *_: pytest.fail("values were listed"))
    run = run_of("COLLECT_SET(x)", max_state_bytes=16 * PAIRS)
    with pytest.raises(LimitExceeded, match=r"max_state_bytes = .*") as refusal:
        run.feed(batch(values=ROWS))
    assert f"COLLECT_SET over {ROWS:,} versions" in refusal.value.message
    assert f"{ROWS - 1:,} values" in refusal.value.message
    assert "max_state_bytes" in refusal.value.hint


def test_what_fits_is_answered_and_a_refused_step_changes_nothing() -> None:
    run = run_of("COLLECT_SET(x)", max_state_bytes=2000 * ROWS)
    before = run.clocks
    with pytest.raises(LimitExceeded):
        run.feed(batch(values=ROWS))
    assert run.clocks == before
    run = run_of("COLLECT_SET(x)", max_state_bytes=300 * PAIRS)
    run.feed(batch(values=ROWS))
    run.finish()
    assert run.snapshot().to_pylist() == [{"a": list(range(ROWS))}]


@pytest.mark.parametrize(
    ("aggregate", "answer"),
    [
        ("SUM(x)", 897),
        ("MEDIAN(x)", 3.0),
        ("COUNT(DISTINCT x)", 7),
        ("TOP(x, 2)", [{"value": 0, "count": 43}, {"value": 1, "count": 43}]),
        ("QUANTILE(x, 0.9)", 6),
        ("MAX(x)", 6),
        ("MODE(x)", 0),
        ("VAR(x)", pytest.approx(float(np.var(np.arange(ROWS) % 7, ddof=1)))),
        ("SUM(CAST(x AS DOUBLE))", 897.0),
    ],
)
def test_totals_and_counts_by_rank_need_no_room(aggregate: str, answer: object) -> None:
    run = run_of(aggregate, max_state_bytes=1)
    run.feed(batch())
    run.finish()
    assert run.snapshot().to_pylist() == [{"a": answer}]


def test_rstream_does_not_collect_more_than_there_is_room_for() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT"})
    text = "SELECT Rstream(x) FROM s [RANGE 1 DAY]"
    run = session.query(text, max_state_bytes=16 * PAIRS)
    with pytest.raises(LimitExceeded, match=r"(?s)Rstream.*max_state_bytes"):
        run.feed(batch())
