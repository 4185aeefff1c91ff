"""Random queries over RESAMPLE, with DuckDB's SQL by instants; streams as in ``survey_forms``."""

from __future__ import annotations

from random import Random

from mayfly.testing.instant_oracle import TwoTexts

_UNITS = (("2 SECONDS", 2_000_000), ("1500 MILLISECONDS", 1_500_000), ("7 s", 7_000_000))
_COLUMNS = ("k", "i", "x", "y", "d", "t")


def resampled(rng: Random, window: str) -> TwoTexts:
    """RESAMPLE of a stream or of a selection, alone, behind a window, grouped or joined."""
    every, period = rng.choice(_UNITS)
    key = rng.choice(("k", "k", "t", ""))
    linear = rng.random() < 0.5
    where = rng.choice(("", "", "x IS NOT NULL", "i > 0"))
    source, condition = ("s", "true")
    if where:
        source, condition = f"(SELECT * FROM s WHERE {where})", where
    by = f"PARTITION BY {key} " if key else ""
    word = "LINEAR" if linear else rng.choice(("LAST", ""))
    cql_from = f"RESAMPLE {source} {by}EVERY {every} {word}"
    results = _results(key or "0", period, linear, condition)
    length = int(window.split()[1]) * 1_000_000
    form = rng.randrange(4)
    if form == 0:
        alive = "q AS (SELECT n.tau, p.* FROM _instants n JOIN told p ON p.born <= n.tau) "
        return TwoTexts(
            f"SELECT k, ts, i, x, d, t FROM {cql_from} q",
            f"{results}, {alive} SELECT tau, k, ts, i, x, d, t FROM q",
        )
    alive = (
        "q AS (SELECT n.tau, p.* FROM _instants n JOIN told p ON p.born <= n.tau "
        f"AND n.tau < p.born + {length}) "
    )
    if form == 1:
        return TwoTexts(
            f"SELECT ts, y, t FROM {cql_from} [{window}] q WHERE y IS NULL OR y > 0",
            f"{results}, {alive} SELECT tau, ts, y, t FROM q WHERE y IS NULL OR y > 0",
        )
    if form == 2:
        return TwoTexts(
            f"SELECT k, COUNT(*) AS n, MAX(x) AS m FROM {cql_from} [{window}] q GROUP BY k",
            f"{results}, {alive} SELECT tau, k, count(*), max(x) FROM q GROUP BY tau, k",
        )
    return TwoTexts(
        f"SELECT q.ts, q.x, r.z FROM {cql_from} [{window}] q JOIN r [{window}] ON q.k = r.k",
        f"{results}, {alive} SELECT q.tau, q.ts, q.x, r.z FROM q JOIN r "
        "ON q.k = r.k AND q.tau = r.tau",
    )


def _results(key: str, period: int, linear: bool, condition: str) -> str:
    """WITH …, told: the rows of RESAMPLE and the instants at which they come."""
    points = (
        f"WITH points AS (SELECT *, {key} AS key FROM _all_s WHERE {condition} QUALIFY "
        f"row_number() OVER (PARTITION BY {key}, ts ORDER BY seq DESC) = 1), "
    )
    if not linear:
        return (
            f"{points}spans AS (SELECT *, lead(ts) OVER (PARTITION BY key ORDER BY ts) AS till "
            "FROM points), last_of_all AS (SELECT max(tau) + 1 AS last FROM _instants), "
            "told AS (SELECT multiple AS ts, multiple AS born, k, i, x, y, d, t FROM "
            f"(SELECT * EXCLUDE (ts), unnest(generate_series({_up('ts', period)}, "
            f"coalesce(till, last) - 1, {period})) AS multiple FROM spans, last_of_all))"
        )
    pairs = ", ".join(f"lag({c}) OVER w AS p{c}" for c in ("ts", *_COLUMNS))
    drawn = ", ".join(_drawn(c, c not in ("t", key)) for c in _COLUMNS)
    return (
        f"{points}pairs AS (SELECT *, {pairs} FROM points WINDOW w AS (PARTITION BY key ORDER BY "
        f"ts)), told AS (SELECT multiple AS ts, ts AS born, {drawn} FROM (SELECT *, unnest("
        f"generate_series({_up('coalesce(pts + 1, ts)', period)}, ts, {period})) AS multiple "
        "FROM pairs))"
    )


def _up(instant: str, period: int) -> str:
    return f"CAST(ceil(({instant}) / {period}.0) * {period} AS BIGINT)"


def _drawn(name: str, is_number: bool) -> str:
    """A column at a multiple: its own, between two rows, or that of the row before."""
    own = f"CAST({name} AS DOUBLE)" if is_number else name
    before = f"p{name}"
    if is_number:
        before = (
            f"CAST(p{name} AS DOUBLE) + (CAST({name} AS DOUBLE) - CAST(p{name} AS DOUBLE)) * "
            "(multiple - pts) / (ts - pts)"
        )
    return f"CASE WHEN multiple = ts THEN {own} ELSE {before} END AS {name}"
