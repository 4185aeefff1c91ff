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
    inner, length = (
        answer.replace("{}", operator).replace("{w}", window),
        rng.choice((2, 5, 30, None)),
    )
    outer = "" if length is None else f"[RANGE {length} SECONDS]"
    gone = "" if length is None else f" AND n.tau < t.tau + {length * 1_000_000}"
    origin = rng.choice((f"({inner}) {outer} q", f"q {outer}"))
    prefix = "" if origin.startswith("(") else f"WITH q AS ({inner}) "
    script = (
        f"WITH a AS ({sql}), n AS (SELECT tau, lag(tau) OVER (ORDER BY tau) AS earlier "
        f"FROM _instants), came AS ({_TOLD['Istream']}), gone AS ({_TOLD['Dstream']}), "
        f"told AS ({_TOLD[operator]}), q AS (SELECT n.tau, t.k, t.i FROM n JOIN told t "
        f"ON t.tau <= n.tau{gone}) "
    )
    if rng.random() < 0.5:
        return TwoTexts(f"{prefix}SELECT k, i FROM {origin}", f"{script}SELECT tau, k, i FROM q")
    return TwoTexts(
        f"{prefix}SELECT k, COUNT(*) AS n, MAX(i) AS m FROM {origin} GROUP BY k",
        f"{script}SELECT tau, k, count(*), max(i) FROM q GROUP BY tau, k",
    )


# ── bands ─────────────────────────────────────────────────────────────────────────────────

_BANDS = (
    "s.x BETWEEN r.z - 1 AND r.z + 2",
    "s.x >= r.z - 0.25 AND s.x < r.z + 3 AND s.k = 1",
    "abs(s.i - r.k) <= 1",
    "r.k - s.i < 2 AND r.k > s.i - 2",
    "s.i + 1 >= r.k AND r.k + 2 > s.i",
    "s.x > r.z - 1.5 AND r.z >= s.x - 1",
    "abs(r.z - s.x) < 1.25",
    "s.ts BETWEEN r.ts - 2000000 AND r.ts + 1000000",
)
"""The same in both languages."""


def band(rng: Random, window: str) -> TwoTexts:
    """Joins of values near each other: plain, outer, and as a condition of existence."""
    near = rng.choice(_BANDS)
    form = rng.randrange(4)
    if form == 0:
        word = rng.choice(("EXISTS", "NOT EXISTS"))
        plain = f"(SELECT k, i, x, ts FROM s [{window}]) s"
        return TwoTexts(
            f"SELECT k, i, x FROM {plain} WHERE {word} (SELECT * FROM r [{window}] WHERE {near})",
            f"SELECT tau, k, i, x FROM s WHERE {word} "
            f"(SELECT * FROM r WHERE r.tau = s.tau AND {near})",
        )
    side = rng.choice(("", "", "LEFT ", "RIGHT ", "FULL ")) if form == 1 else ""
    tau = {"": "s.tau", "LEFT ": "s.tau", "RIGHT ": "r.tau"}.get(side, "coalesce(s.tau, r.tau)")
    return TwoTexts(
        f"SELECT s.i, s.x, r.k, r.z FROM s [{window}] {side}JOIN r [{window}] ON {near}",
        f"SELECT {tau}, s.i, s.x, r.k, r.z FROM s {side}JOIN r ON s.tau = r.tau AND {near}",
    )


# ── the first rows of each group ──────────────────────────────────────────────────────────


def top(rng: Random, window: str) -> TwoTexts:
    """Rows whose number in their group is small, by each of the ways to number them."""
    function = rng.choice(("ROW_NUMBER", "RANK", "DENSE_RANK"))
    key = rng.choice(("k", "t", ""))
    descending, most = rng.random() < 0.5, rng.choice((1, 2, 3))
    order = f"x {'DESC NULLS LAST' if descending else 'NULLS FIRST'}"
    # Of equal rows ROW_NUMBER takes the first of the stream.
    ties = ", ts, seq" if function == "ROW_NUMBER" else ""
    partition = f"PARTITION BY {key} " if key else ""
    condition = rng.choice((f"n <= {most}", f"n < {most + 1}", "n = 1"))
    columns = rng.choice(("k, i, x, t", "k, i, x, t, n"))
    return TwoTexts(
        f"SELECT {columns} FROM (SELECT k, i, x, t, {function}() OVER ({partition}ORDER BY "
        f"x{' DESC' if descending else ''}) AS n FROM s [{window}]) q WHERE {condition}",
        f"SELECT tau, {columns} FROM (SELECT tau, k, i, x, t, {function}() OVER (PARTITION BY tau"
        f"{f', {key}' if key else ''} ORDER BY {order}{ties}) AS n FROM s) WHERE {condition}",
    )


# ── rows with partners, of joins and unions ───────────────────────────────────────────────

_ROWS = (
    ("(SELECT k, i, x FROM s [{w}]) s JOIN r [{w}] ON s.k = r.k",
     "s JOIN r ON s.tau = r.tau AND s.k = r.k"),
    ("(SELECT k, i, x FROM s [{w}]) s LEFT JOIN r [{w}] ON s.i = r.k",
     "s LEFT JOIN r ON s.tau = r.tau AND s.i = r.k"),
    ("(SELECT k + 1 AS k, i FROM s [{w}] WHERE x > 0) s JOIN r [{w}] ON s.i = r.k",
     "(SELECT tau, k + 1 AS k, i FROM s WHERE x > 0) s JOIN r ON s.tau = r.tau AND s.i = r.k"),
    ("(SELECT k, i FROM s [{w}] UNION ALL SELECT s.i, r.k FROM s [{w}] JOIN r [{w}] ON s.k = r.k) "
     "s",
     "(SELECT tau, k, i FROM s UNION ALL SELECT s.tau, s.i, r.k FROM s JOIN r ON s.tau = r.tau "
     "AND s.k = r.k) s"),
)  # fmt: skip
_PARTNERS = (
    "EXISTS (SELECT * FROM s{w} p WHERE p.i = s.k{tau})",
    "EXISTS (SELECT * FROM r{w} p WHERE p.k = s.i AND p.z > 0{tau})",
    "EXISTS (SELECT * FROM r{w} p WHERE p.k = s.k AND p.k >= s.i{tau})",
    "s.k IN (SELECT p.i FROM s{w} p WHERE p.x > 0{tau})",
)


def partners(rng: Random, window: str) -> TwoTexts:
    """EXISTS, IN and SEMI JOIN over joins, outer joins, projections and unions."""
    cql_from, sql_from = rng.choice(_ROWS)
    columns = "s.k, s.i" if "UNION" in cql_from else "s.k, s.i, r.k AS o"
    if rng.random() < 0.3:
        word, exists = rng.choice((("SEMI", "EXISTS"), ("ANTI", "NOT EXISTS")))
        by = rng.choice(("p.i = s.k", "p.i = s.k AND s.i > 0", "p.k = s.k AND p.x > 0",
                         "p.k = s.k AND p.i < s.i"))  # fmt: skip
        cql_from = cql_from.format(w=window)
        return TwoTexts(
            f"SELECT {columns} FROM {cql_from} LEFT {word} JOIN s [{window}] p ON {by}",
            f"SELECT s.tau, {columns} FROM {sql_from} WHERE {exists} "
            f"(SELECT * FROM s p WHERE {by} AND p.tau = s.tau)",
        )
    conditions = rng.sample(_PARTNERS, rng.choice((1, 1, 2)))
    cql = " AND ".join(part.format(w=f" [{window}]", tau="") for part in conditions)
    sql = " AND ".join(part.format(w="", tau=" AND p.tau = s.tau") for part in conditions)
    return TwoTexts(
        f"SELECT {columns} FROM {cql_from.format(w=window)} WHERE {cql}",
        f"SELECT s.tau, {columns} FROM {sql_from} WHERE {sql}",
    )


# ── conditions with queries as values ─────────────────────────────────────────────────────

_ASKED = (
    "EXISTS (SELECT * FROM r{w} p WHERE p.k = s.k{tau})",
    "EXISTS (SELECT 1 FROM r{w} p WHERE p.k = s.i AND p.z > 0{tau})",
    "EXISTS (SELECT * FROM r{w} p WHERE p.z > 1{tau})",
    "s.k IN (SELECT p.k FROM r{w} p WHERE p.z > 0{tau})",
    "s.i IN (SELECT k FROM r{w} p{where})",
    "s.i + 1 NOT IN (SELECT p.k FROM r{w} p WHERE p.k IS NOT NULL{tau})",
    "2 IN (SELECT k FROM r{w} p{where})",
)
_PLACES = (
    "SELECT {tau}k, i FROM s{w} WHERE i > 1 OR {0}",
    "SELECT {tau}k, i FROM s{w} WHERE NOT (i > 1 AND {0})",
    "SELECT {tau}k, i FROM s{w} WHERE ({0}) IS NULL OR (t = 'a' AND {1})",
    "SELECT {tau}k, {0} AS o FROM s{w} WHERE x > 0",
    "SELECT {tau}t, CASE WHEN {0} THEN 'yes' WHEN {1} THEN 'so' ELSE 'no' END AS o FROM s{w}",
    "SELECT {tau}t, COUNT(CASE WHEN {0} THEN 1 END) AS n FROM s{w} GROUP BY {tau}t",
    "SELECT {tau}t, MAX(i) FILTER (WHERE {0} OR x > 2) AS n FROM s{w} GROUP BY {tau}t",
)


def marks(rng: Random, window: str) -> TwoTexts:
    """EXISTS and IN under OR and NOT, in SELECT and CASE, and inside of aggregates."""
    conditions, place = rng.sample(_ASKED, 2), rng.choice(_PLACES)

    def text(w: str, tau: str, column: str, where: str) -> str:
        asked = [part.format(w=w, tau=tau, where=where) for part in conditions]
        return place.format(*asked, w=w, tau=column)

    of_tau = " AND p.tau = s.tau"
    return TwoTexts(
        text(f" [{window}]", "", "", ""),
        text("", of_tau, "tau, ", of_tau.replace("AND", "WHERE")),
    )
