"""Versions that equal the one before are left out, and groups go on as if they were not."""

from __future__ import annotations

import pytest

from mayfly import LocalSession


@pytest.mark.parametrize("without", [(), ("early-pruning",)])
def test_a_group_goes_on_from_its_last_version_though_it_repeats(without: tuple[str, ...]) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "BIGINT", "x": "BIGINT"})
    cql = "SELECT k, MAX(x) AS a FROM s [RANGE 10 us] GROUP BY k"
    run = session.query(cql, without=without)
    rows = [{"ts": ts, "k": k, "x": 9 - ts} for k in (0, 1) for ts in range(8)]
    run.feed({"s": rows}, {"s": 8})
    run.feed(heartbeats={"s": 100})
    for at, value in ((7, 9), (9, 9), (10, 8), (16, 2)):
        answer = sorted(tuple(row.values()) for row in run.snapshot(at).to_pylist())
        assert answer == [(0, value), (1, value)]
    assert run.snapshot(17).num_rows == 0
