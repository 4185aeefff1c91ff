"""Finished windows, OVER and ASOF JOIN over the streams of the continuous cases: a text for each
kind of state."""

from __future__ import annotations

_COUNTS = (
    "(SELECT k, window_start, window_end, COUNT(*) AS n FROM {} GROUP BY k, window_start,"
    " window_end)"
)
FINISHED = {
    "tumbling": "SELECT g, SUM(v) AS s, COUNT(*) AS n FROM TUMBLE(s1, ts, 4 s) GROUP BY g",
    "hopping": "SELECT k, window_end, MAX(x) AS m, SUM(v) AS s FROM HOP(s1, ts, 2 s, 6 s)"
    " GROUP BY k, window_start, window_end",
    "growing": "SELECT g, window_end, COUNT(*) AS n FROM CUMULATE(s1, ts, 2 s, 8 s)"
    " GROUP BY g, window_start, window_end",
    "rows": "SELECT k, v, window_end FROM HOP(s1, ts, 3 s, 6 s)",
    "joined": "SELECT a.k, a.v, b.v AS w FROM TUMBLE(s1, ts, 5 s) a LEFT JOIN TUMBLE(s2, ts, 5 s) b"
    " ON a.k = b.k AND a.window_start = b.window_start AND a.window_end = b.window_end",
    "sessions": "SELECT k, SUM(v) AS s, MAX(g) AS m, COUNT(*) AS n, window_start"
    " FROM SESSION(s1 PARTITION BY k, ts, 2 s) GROUP BY k, window_start, window_end",
    "all sessions": "SELECT window_start, AVG(v) AS a FROM SESSION(s1, ts, 1 s)"
    " GROUP BY window_start, window_end",
    "rows of sessions": "SELECT g, v, window_end FROM SESSION(s1 PARTITION BY g, k, ts, 2 s)",
    "medians of sessions": "SELECT g, MEDIAN(v) AS m FROM SESSION(s1 PARTITION BY g, ts, 1 s)"
    " GROUP BY g, window_start, window_end",
    "over windows": "SELECT k, n, LAG(n) OVER (PARTITION BY k ORDER BY window_start) AS m FROM "
    + _COUNTS.format("TUMBLE(s1, ts, 4 s)"),
}
NEIGHBOURS = {
    "last rows": "SELECT k, v, LAG(v, 2) OVER (PARTITION BY k ORDER BY ts) AS x, SUM(v) OVER"
    " (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS s FROM s1",
    "last seconds": "SELECT g, v, COUNT(*) OVER (PARTITION BY g ORDER BY ts"
    " RANGE BETWEEN INTERVAL 4 SECONDS PRECEDING AND CURRENT ROW) AS n FROM s1",
    "totals": "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n,"
    " SUM(v) OVER (PARTITION BY k ORDER BY ts) AS s FROM s1",
    "a view": "SELECT k, v, RANK() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM s1 [RANGE 6 s]",
    "latest": "SELECT a.k, a.v, b.v AS w FROM s1 a LEFT ASOF JOIN s2 b"
    " MATCH_CONDITION (b.ts <= a.ts) ON a.k = b.k",
    "next": "SELECT a.k, a.v, b.v AS w FROM s1 [RANGE 6 s] a ASOF JOIN s2 [RANGE 6 s] b"
    " MATCH_CONDITION (b.ts >= a.ts) ON a.k = b.k",
}
TEXTS = {**FINISHED, **NEIGHBOURS}
