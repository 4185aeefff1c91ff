"""No form works by re-reading its window: rows touched per event stay, however long it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.users_forms import declare_users_aggregates

S, T = "s [RANGE {0} us]", "t [RANGE {0} us]"
FORMS = {
    "left join": f"SELECT s.k, t.x FROM {S} LEFT JOIN {T} ON s.k = t.k",
    "full join": f"SELECT s.k, t.x FROM {S} FULL JOIN {T} ON s.k = t.k",
    "using": f"SELECT k, t.x FROM {S} RIGHT JOIN {T} USING (k)",
    "exists": f"SELECT k, x FROM {S} WHERE EXISTS (SELECT * FROM {T} WHERE t.k = s.k)",
    "not exists": f"SELECT k, x FROM {S} WHERE NOT EXISTS (SELECT * FROM {T} WHERE t.k = s.k)",
    "not exists of few": f"SELECT k FROM {S} WHERE x > 7 AND NOT EXISTS (SELECT * FROM {T} WHERE "
    "t.k = s.k)",
    "exists by more": f"SELECT k, x FROM {S} WHERE EXISTS (SELECT * FROM {T} WHERE t.k = s.k "
    "AND t.x > s.x)",
    "in": f"SELECT k, x FROM {S} WHERE k IN (SELECT k FROM {T})",
    "union": f"SELECT k FROM {S} UNION SELECT k FROM {T}",
    "except": f"SELECT k FROM {S} EXCEPT SELECT k FROM {T}",
    "except all": f"SELECT k FROM {S} EXCEPT ALL SELECT k FROM {T}",
    "intersect": f"SELECT k FROM {S} INTERSECT SELECT k FROM {T}",
    "intersect all": f"SELECT k FROM {S} INTERSECT ALL SELECT k FROM {T}",
    "shared": f"WITH q AS (SELECT k, COUNT(*) AS n FROM {S} GROUP BY k) "
    "SELECT a.k, b.n FROM q a JOIN q b ON a.k = b.k",
    "value": f"SELECT k, (SELECT COUNT(*) FROM {T} WHERE t.k = s.k) AS n FROM {S}",
    "condition": f"SELECT k FROM {S} WHERE x > (SELECT AVG(x) FROM {T} WHERE t.k = s.k)",
    "value of groups": f"SELECT k, COUNT(*) AS n, (SELECT MAX(x) FROM {T} WHERE t.k = s.k) AS x "
    f"FROM {S} GROUP BY k",
    "marked by exists": f"SELECT k FROM {S} WHERE x > 7 OR EXISTS (SELECT * FROM {T} WHERE t.k = "
    "s.k)",
    "marked by in": f"SELECT k, k NOT IN (SELECT k FROM {T}) AS o FROM {S}",
    "resample": "SELECT k, x FROM RESAMPLE s PARTITION BY k EVERY {0} us LINEAR",
    "top": f"SELECT k, x FROM {S} ORDER BY x DESC LIMIT 10",
    "sums of distinct values": f"SELECT k, SUM(DISTINCT x) AS n, AVG(DISTINCT x) AS m FROM {S} "
    "GROUP BY k",
    "combinations": f"SELECT k, COUNT(DISTINCT x, ts) AS n FROM {S} GROUP BY k",
    "pairs": f"SELECT k, CORR(x, k) AS c, COVAR_POP(x, ts) AS v FROM {S} GROUP BY k",
    "pairs of all rows": f"SELECT CORR(x, k) AS c, SUM(DISTINCT x) AS n FROM {S}",
    "lists": f"SELECT k, FIRST(x) AS a, STRING_AGG(DISTINCT CAST(x AS STRING), '-') AS b FROM {S} "
    "GROUP BY k",
    "grouping sets": f"SELECT k, x, COUNT(*) AS n FROM {S} GROUP BY ROLLUP(k, x)",
    "unnest": "SELECT u.k, e FROM u [RANGE {0} us], UNNEST(u.a) AS v(e)",
    "unnest of groups": "SELECT e, COUNT(*) AS n FROM u [RANGE {0} us] "
    "LEFT JOIN UNNEST(u.a) AS v(e) ON TRUE "
    "GROUP BY e",
    "derived stream": f"SELECT k, n FROM (SELECT Istream(k, COUNT(*) AS n) FROM {S} GROUP BY k) "
    "[RANGE 100 us] q",
    "what leaves": f"SELECT k FROM (SELECT Dstream(DISTINCT k) FROM {S}) [RANGE 100 us] q",
    "band": f"SELECT s.k, t.k AS o FROM {S} JOIN {T} ON s.k BETWEEN t.k - 1 AND t.k + 1",
    "band of an outer join": f"SELECT s.k, t.k AS o FROM {S} LEFT JOIN {T} ON abs(s.k - t.k) <= 1",
    "over": f"SELECT SUM(x) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS c, LEAD(x) OVER "
    f"(PARTITION BY k ORDER BY ts) AS l, RANK() OVER (PARTITION BY k ORDER BY x) AS r FROM {S}",
    "asof": f"SELECT s.x, t.x AS o FROM {S} LEFT ASOF JOIN {T} MATCH_CONDITION (t.ts <= s.ts) "
    "ON s.k = t.k",
    "first of each group": "SELECT k, x FROM (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY x "
    f"ORDER BY k DESC) AS n FROM {S}) q WHERE n <= 2",
    "best of each group": "SELECT k, x FROM (SELECT k, x, RANK() OVER (PARTITION BY x ORDER BY k) "
    f"AS n FROM {S}) q WHERE n <= 2",
    "best values of each group": "SELECT k, x FROM (SELECT k, x, DENSE_RANK() OVER (PARTITION BY x "
    f"ORDER BY k) AS n FROM {S}) q WHERE n < 3",
    "aggregates of users": f"SELECT k, extent(x) AS a FROM {S} GROUP BY k",
    "aggregates of users that take back": f"SELECT k, dot(x, k) AS a FROM {S} GROUP BY k",
    "aggregates of users over all rows": f"SELECT extent(x) AS a, dot(x, k) AS b FROM {S}",
    "rows that move one by one": "SELECT k, SUM(x) AS c, MAX(x) AS m "
    "FROM s [ROWS {0} SLIDE 1 ROWS] GROUP BY k",
    "rows of a partition that move by rows": "SELECT k, SUM(x) AS c, MAX(x) AS m "
    "FROM s [PARTITION BY k ROWS 3 SLIDE 10 ROWS] GROUP BY k",
    "left join with a relation": f"SELECT s.k, r.b FROM {S} LEFT JOIN r ON s.k = r.a",
    "left join with an NRR": f"SELECT s.k, n.b FROM {S} LEFT JOIN n ON s.k = n.a",
}


def started(query: str) -> ContinuousRun:
    session = LocalSession()
    columns = {"ts": "BIGINT", "k": "BIGINT", "x": "BIGINT"}
    for name in "st":
        session.stream(name, columns)
    declare_users_aggregates(session)
    session.stream("u", {**columns, "a": "ARRAY<BIGINT>"})
    rows = [{"a": number, "b": number} for number in range(200)]
    session.relation("r", rows, key="a")
    session.relation("n", rows, key="a", retroactive=False)
    return session.query(query)


def batch(run: ContinuousRun, first: int, size: int, keys: int) -> dict[str, pa.Table]:
    """Rows with as many keys as there are rows in the window: each meets about one."""
    rng, ts = np.random.default_rng(first), np.arange(first, first + size)
    tables = {}
    for name in run.clocks.streams:
        k, x = rng.integers(0, keys, size), rng.integers(0, 9, size)
        tables[name] = pa.table({"ts": ts, "k": k, "x": x})
        if name == "u":
            elements = pa.array([list(pair) for pair in zip(k.tolist(), x.tolist(), strict=True)])
            tables[name] = tables[name].append_column("a", elements)
    return tables


def touched_per_row(query: str, window: int) -> float:
    run, step, steps = started(query.format(window)), 50, 8
    for part in range(5):
        run.feed(batch(run, part * window // 5, window // 5, window))
    before = sum(report.rows_touched for report in run.reports())
    for number in range(steps):
        run.feed(batch(run, window + number * step, step, window))
    touched = sum(report.rows_touched for report in run.reports()) - before
    return touched / (step * steps)


@pytest.mark.parametrize("form", FORMS)
def test_rows_touched_do_not_grow_with_the_window(form: str) -> None:
    """At ten times the window and the same rate of results, at most 1.5 times as many."""
    small, large = (touched_per_row(FORMS[form], window) for window in (1_000, 10_000))
    assert large <= 1.5 * small + 0.5, (small, large)
    assert small > 0 or "relation" in form or "NRR" in form
