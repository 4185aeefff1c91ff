"""Aggregates that meet every version of a group with all its rows ask for room before they do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.errors import LimitExceeded
from mayfly.kernels import grouping
from mayfly.pipeline.continuous import ContinuousRun

ROWS = 300
PAIRS = ROWS * (ROWS + 1) // 2


def run_of(aggregate: str, max_state_bytes: int | None = None) -> ContinuousRun:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "x": "BIGINT"})
    text = f"SELECT {aggregate} AS a FROM s [RANGE 1 DAY]"
    return session.query(text, max_state_bytes=max_state_bytes)


def batch(rows: int = ROWS) -> dict[str, pa.Table]:
    return {"s": pa.table({"ts": np.arange(rows), "x": np.arange(rows) % 7})}


@pytest.mark.parametrize("aggregate", ["VAR_SAMP(x)", "STDDEV_SAMP(x)"])
def test_one_large_group_is_refused_before_its_rows_are_met(
    aggregate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "_alive_rows", lambda *_: pytest.fail("rows were met"))
    run = run_of(aggregate, max_state_bytes=64 * PAIRS)
    with pytest.raises(LimitExceeded, match=r"max_state_bytes = .*") as refusal:
        run.feed(batch())
    assert aggregate.split("(")[0] in refusal.value.message
    assert f"{ROWS - 1:,} rows" in refusal.value.message
    assert "max_state_bytes" in refusal.value.hint


def test_what_fits_is_answered_and_a_refused_step_changes_nothing() -> None:
    run = run_of("VAR_SAMP(x)", max_state_bytes=2000 * ROWS)
    before = run.clocks
    with pytest.raises(LimitExceeded):
        run.feed(batch())
    assert run.clocks == before
    run = run_of("VAR_SAMP(x)", max_state_bytes=300 * PAIRS)
    run.feed(batch())
    run.finish()
    assert run.snapshot().to_pylist() == [
        {"a": pytest.approx(float(np.var(np.arange(ROWS) % 7, ddof=1)))}
    ]


@pytest.mark.parametrize(
    ("aggregate", "answer"),
    [
        ("SUM(x)", 897),
        ("MEDIAN(x)", 3.0),
        ("COUNT(DISTINCT x)", 7),
        ("TOP(x, 2)", [{"value": 0, "count": 43}, {"value": 1, "count": 43}]),
        ("QUANTILE(x, 0.9)", 6),
        ("MAX(x)", 6),
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
