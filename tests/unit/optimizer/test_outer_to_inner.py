"""Padded rows stay where a later condition takes NULLs, and only there."""

from __future__ import annotations

import pytest

from mayfly import LocalSession

CONDITIONS = {
    "r.z > 1": set(),
    "r.z IS NOT NULL": set(),
    "r.z IN (1, 2)": set(),
    "r.z IS NULL": {2},
    "r.z IS NULL OR r.z > 1": {2},
    "coalesce(r.z, 3) > 1": {2},
    "r.z > 1 OR s.k = 2": {2},
    "NOT (r.z = 1)": set(),
}
"""And the keys of the padded rows that pass; key 2 has no partner."""


@pytest.mark.parametrize("condition", CONDITIONS)
def test_padding_stays_where_a_condition_takes_it(condition: str) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "INT"})
    session.stream("r", {"ts": "BIGINT", "k": "INT", "z": "INT"})
    run = session.query(
        "SELECT s.k, r.z FROM s [RANGE 9 us] LEFT JOIN r [RANGE 9 us] ON s.k = r.k "
        f"WHERE {condition}"
    )
    run.feed({"s": [{"ts": 1, "k": 1}, {"ts": 1, "k": 2}], "r": [{"ts": 1, "k": 1, "z": 1}]})
    run.finish()
    padded = {row["k"] for row in run.snapshot().to_pylist() if row["z"] is None}
    assert padded == CONDITIONS[condition]
