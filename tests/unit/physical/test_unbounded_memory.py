"""What needs memory without bound is warned of, with the operator and what would bound it."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.cql import bind_query
from mayfly.optimizer.optimize import optimize
from mayfly.physical.explain.explainer import plan_physically

ENDLESS = "the answer grows without bound"
TWO = "s [RANGE 1 HOUR] and r [RANGE 1 HOUR]"


def warned(query: str) -> list[tuple[str, str]]:
    """Warnings of growth and their hints."""
    local = LocalSession()
    local.execute(
        "CREATE STREAM s (ts TIMESTAMP, k INT, x DOUBLE) TIMESTAMP BY ts;"
        "CREATE STREAM r (ts TIMESTAMP, k INT, z DOUBLE) TIMESTAMP BY ts;"
        "CREATE RELATION t (k INT, n STRING) KEY k; CREATE NRR u (k INT, n STRING) KEY k"
    )
    return [
        (warning.message, warning.hint)
        for warning in plan_physically(
            optimize(bind_query(query, local.catalog)), local.catalog
        ).warnings
        if "grows without bound" in warning.message or "that ever came" in warning.message
    ]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k FROM s", [(ENDLESS, "s [RANGE 1 HOUR], or use Istream")]),
        ("SELECT Istream(DISTINCT k) FROM s", [("the state of DISTINCT at line 1", "s [RANGE")]),
        ("SELECT k, SUM(x) AS x FROM s GROUP BY k", [("GROUP BY at line 1", "s [RANGE 1 HOUR]")]),
        ("SELECT Istream(s.k) FROM s JOIN r ON s.k = r.k", [("state of the join at line 1", TWO)]),
        ("SELECT Istream(s.k) FROM s JOIN r [RANGE 1 MIN] ON s.k = r.k",
         [("state of the join at line 1", "a window on what goes on for ever: s [RANGE 1 HOUR]")]),
        ("SELECT Istream(k) FROM s WHERE NOT EXISTS (SELECT * FROM r [RANGE 1 MIN] "
         "WHERE r.k = s.k)", [("NOT EXISTS at line 1", "s [RANGE 1 HOUR]")]),
        ("SELECT Istream(s.k) FROM s JOIN t ON s.k = t.k", [("the join with t", "s [RANGE")]),
        ("SELECT k FROM s [RANGE 1 MIN] UNION ALL SELECT k FROM r",
         [(ENDLESS, "a window on what goes on for ever: r [RANGE 1 HOUR]")]),
        ("SELECT k, COUNT(*) AS n FROM s [RANGE 1 MIN INTERNAL] GROUP BY k",
         [(ENDLESS, "leave INTERNAL out")]),
        ("SELECT window_end, k, COUNT(*) AS n FROM TUMBLE(s, ts, INTERVAL 1 MINUTE) "
         "GROUP BY window_end, k", [(ENDLESS, "write Istream(…) in SELECT")]),
        ("SELECT k, x FROM s [PARTITION BY k ROWS 5]",
         [("s [PARTITION BY `k` ROWS 5] at line 1 keeps rows for every k that ever came",
           "[PARTITION BY `k` ROWS 5 RANGE 1 d]")]),
        ("SELECT Istream(k, LAG(x) OVER (PARTITION BY k ORDER BY ts) AS y) FROM s",
         [("OVER at line 1 keeps rows for every s.k that ever came", "RANGE BETWEEN INTERVAL d")]),
        ("SELECT Istream(s.k, r.z) FROM s ASOF JOIN r ON s.k = r.k AND s.ts >= r.ts",
         [("ASOF JOIN at line 1 keeps rows for every r.k that ever came", "both streams")]),
    ],
)  # fmt: skip
def test_what_needs_unbounded_memory_says_so(query: str, expected: list[tuple[str, str]]) -> None:
    warnings = warned(query)
    assert len(warnings) == len(expected), warnings
    for (message, hint), (about, remedy) in zip(warnings, expected, strict=True):
        assert about in message
        assert remedy in hint


@pytest.mark.parametrize(
    "query",
    [
        "SELECT Istream(k, x) FROM s",
        "SELECT s.k FROM s [RANGE 1 MIN] JOIN r [RANGE 1 MIN] ON s.k = r.k",
        "SELECT k, SUM(x) AS x FROM s [RANGE 1 MIN] GROUP BY k",
        "SELECT Istream(s.k, u.n) FROM s JOIN u ON s.k = u.k",
        "SELECT k, x FROM s [PARTITION BY k ROWS 5 RANGE 1 DAY]",
        "SELECT k, x FROM s [ROWS 5]",
        "SELECT Istream(k, SUM(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 5 MIN "
        "PRECEDING AND CURRENT ROW) AS y) FROM s",
        "SELECT Istream(window_end, k, COUNT(*) AS n) FROM TUMBLE(s, ts, INTERVAL 1 MINUTE) "
        "GROUP BY window_end, k",
        "SELECT Istream(window_end, k, COUNT(*) AS n) FROM SESSION(s PARTITION BY k, ts, "
        "INTERVAL 1 MINUTE) GROUP BY window_end, k",
        "SELECT Istream(window_end, k, MEDIAN(x) AS n) FROM SESSION(s PARTITION BY k, ts, "
        "INTERVAL 1 MINUTE) GROUP BY window_end, k",
    ],
)
def test_what_is_bounded_is_left_alone(query: str) -> None:
    assert warned(query) == []
