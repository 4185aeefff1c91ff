"""Random queries of the forms that people bring from elsewhere, with DuckDB's SQL by instants.

Streams: s (k, i, x, y, d, t, arrays a, maps m) and r (k, z), each with ts and seq.
"""

from __future__ import annotations

from random import Random

from mayfly.testing.instant_oracle import TwoTexts

# ── elements ──────────────────────────────────────────────────────────────────────────────


def unnested(rng: Random, window: str) -> TwoTexts:
    """UNNEST in one of its spellings, alone, filtered, grouped or joined."""
    outer = rng.random() < 0.4
    kind = rng.choice(("array", "array", "map"))
    value = _VALUES[kind]
    listed = f"CASE WHEN len({value}) > 0 THEN {value} ELSE [NULL] END" if outer else value
    cql_from = f"s [{window}] {rng.choice((_OUTER if outer else _INNER)[kind])}"
    sql_from = f"(SELECT * EXCLUDE (a, m), unnest({listed}) AS e FROM s)"
    if rng.random() < 0.25:
        cql_from += f" JOIN r [{window}] ON r.k = s.k"
        sql_from = f"{sql_from} s JOIN r ON r.k = s.k AND r.tau = s.tau"
        return TwoTexts(f"SELECT e, r.z FROM {cql_from}", f"SELECT s.tau, e, r.z FROM {sql_from}")
    where = rng.choice(("", "", " WHERE i > 0", " WHERE e > 1", " WHERE e IS NULL AND i < 3"))
    if rng.random() < 0.4:
        return TwoTexts(
            f"SELECT e, COUNT(*) AS n, MAX(i) AS o FROM {cql_from}{where} GROUP BY e",
            f"SELECT tau, e, count(*), max(i) FROM {sql_from} {where} GROUP BY tau, e",
        )
    return TwoTexts(
        f"SELECT k, e, t FROM {cql_from}{where}", f"SELECT tau, k, e, t FROM {sql_from} {where}"
    )


_VALUES = {"array": "a", "map": "map_values(m)"}
_INNER = {
    "array": (
        ", UNNEST(s.a) AS x(e)",
        "CROSS JOIN UNNEST(a) AS x(e)",
        "LATERAL VIEW explode(a) x AS e",
        "LATERAL VIEW posexplode(a) x AS place, e",
        ", UNNEST(a) WITH ORDINALITY AS x(e, n)",
        "JOIN LATERAL explode(s.a) AS x(e) ON TRUE",
    ),
    "map": (", UNNEST(s.m) AS x(p, e)", "LATERAL VIEW explode(m) x AS p, e"),
}
_OUTER = {
    "array": (
        "LEFT JOIN UNNEST(s.a) AS x(e) ON TRUE",
        "LATERAL VIEW OUTER explode(a) x AS e",
        ", LATERAL explode_outer(a) AS x(e)",
    ),
    "map": ("LEFT JOIN UNNEST(s.m) AS x(p, e) ON TRUE", "LATERAL VIEW OUTER explode(m) x AS p, e"),
}

# ── derived streams ───────────────────────────────────────────────────────────────────────

_ANSWERS = (
    ("SELECT {}(k, i) FROM s [{w}]", "SELECT tau, k, i FROM s"),
    ("SELECT {}(k, i) FROM s [{w}] WHERE i > 0", "SELECT tau, k, i FROM s WHERE i > 0"),
    ("SELECT {}(DISTINCT k, i) FROM s [{w}]", "SELECT DISTINCT tau, k, i FROM s"),
    ("SELECT {}(k, COUNT(*) AS i) FROM s [{w}] GROUP BY k",
     "SELECT tau, k, count(*) AS i FROM s GROUP BY tau, k"),
    ("SELECT {}(s.k, s.i) FROM s [{w}] JOIN r [{w}] ON s.k = r.k",
     "SELECT s.tau, s.k, s.i FROM s JOIN r ON s.k = r.k AND s.tau = r.tau"),
)  # fmt: skip
_TOLD = {
    "Istream": "SELECT n.tau, a.k, a.i FROM n JOIN a ON a.tau = n.tau EXCEPT ALL "
    "SELECT n.tau, a.k, a.i FROM n JOIN a ON a.tau = n.earlier",
    "Dstream": "SELECT n.tau, a.k, a.i FROM n JOIN a ON a.tau = n.earlier EXCEPT ALL "
    "SELECT n.tau, a.k, a.i FROM n JOIN a ON a.tau = n.tau",
    "Rstream": "SELECT a.tau, a.k, a.i FROM a WHERE tau IN (SELECT tau FROM came UNION "
    "SELECT tau FROM gone)",
}


def derived(rng: Random, window: str) -> TwoTexts:
    """A window over what a stream operator tells of an answer, by name or in FROM."""
    operator = rng.choice(("Istream", "Istream", "Dstream", "Rstream"))
    answer, sql = rng.choice(_ANSWERS)
    inner, length = answer.replace("{}", operator).replace("{w}", window), rng.choice((2, 5, 30))
    outer = f"[RANGE {length} SECONDS]"
    origin = rng.choice((f"({inner}) {outer} q", f"q {outer}"))
    prefix = "" if origin.startswith("(") else f"WITH q AS ({inner}) "
    script = (
        f"WITH a AS ({sql}), n AS (SELECT tau, lag(tau) OVER (ORDER BY tau) AS earlier "
        f"FROM _instants), came AS ({_TOLD['Istream']}), gone AS ({_TOLD['Dstream']}), "
        f"told AS ({_TOLD[operator]}), q AS (SELECT n.tau, t.k, t.i FROM n JOIN told t "
        f"ON t.tau <= n.tau AND n.tau < t.tau + {length * 1_000_000}) "
    )
    if rng.random() < 0.5:
        return TwoTexts(f"{prefix}SELECT k, i FROM {origin}", f"{script}SELECT tau, k, i FROM q")
    return TwoTexts(
        f"{prefix}SELECT k, COUNT(*) AS n, MAX(i) AS m FROM {origin} GROUP BY k",
        f"{script}SELECT tau, k, count(*), max(i) FROM q GROUP BY tau, k",
    )
