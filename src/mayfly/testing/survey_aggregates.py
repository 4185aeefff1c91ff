"""Random calls of aggregates over distinct values and over pairs, with DuckDB's SQL."""

from __future__ import annotations

from random import Random

from mayfly.testing.instant_oracle import TwoTexts

CALLS = (
    ("SUM(DISTINCT i)", "CAST(sum(DISTINCT i) AS BIGINT)"),
    ("SUM(DISTINCT x)", "sum(DISTINCT x)"),
    ("SUM(DISTINCT d)", "sum(DISTINCT d)"),
    ("AVG(DISTINCT i)", "avg(DISTINCT i)"),
    ("AVG(DISTINCT x)", "avg(DISTINCT x)"),
    ("VAR(DISTINCT x)", "var_samp(DISTINCT x)"),
    ("STDDEV_POP(DISTINCT i)", "stddev_pop(DISTINCT i)"),
    ("MIN(DISTINCT x)", "min(x)"),
    ("COUNT(DISTINCT i)", "count(DISTINCT i)"),
    ("COUNT(DISTINCT i, t)", "count(DISTINCT CASE WHEN i IS NOT NULL THEN t || i END)"),
    ("COUNT(DISTINCT x, i, t)", "count(DISTINCT t || '/' || i || '/' || x)"),
    ("STRING_AGG(DISTINCT t, '-')", "array_to_string(list_sort(list(DISTINCT t){}), '-')"),
    ("STRING_AGG(DISTINCT t, '-' ORDER BY t DESC)",
     "array_to_string(list_reverse_sort(list(DISTINCT t){}), '-')"),
    ("COVAR_POP(x, y)", "covar_pop(x, y)"),
    ("COVAR_SAMP(y, i)", "covar_samp(y, i)"),
    ("CORR(x, y)", "CASE WHEN var_pop(x) FILTER (WHERE y IS NOT NULL {and}) = 0 "
     "OR var_pop(y) FILTER (WHERE x IS NOT NULL {and}) = 0 THEN NULL ELSE corr(x, y){} END"),
)  # fmt: skip
CONDITIONS = ("", "", "i > 1", "t <> 'b'")
"""The same in both languages."""


def survey_call(rng: Random) -> tuple[str, str]:
    """A call in both languages, perhaps with FILTER."""
    cql, sql = rng.choice(CALLS)
    where = rng.choice(CONDITIONS)
    some = f" FILTER (WHERE {where})" if where else ""
    if "{}" in sql:
        sql = sql.replace("{}", _listed(sql, where)).replace("{and}", f"AND {where}" * bool(where))
    elif sql.startswith("CAST("):
        sql = sql.replace(" AS BIGINT)", f"{some} AS BIGINT)")
    else:
        sql += some
    return cql + some, sql


def _listed(sql: str, where: str) -> str:
    """FILTER as a list needs it: NULLs stay outside."""
    if "list(" not in sql:
        return f" FILTER (WHERE {where})" if where else ""
    return f" FILTER (WHERE t IS NOT NULL{f' AND {where}' if where else ''})"


def survey_aggregates(rng: Random, window: str) -> TwoTexts:
    """Some calls over the groups of a window, or over all of it."""
    calls = [survey_call(rng) for _ in range(rng.randint(2, 5))]
    key = rng.choice(("k", "k", "t", ""))
    cql = ", ".join(f"{call} AS o{number}" for number, (call, _) in enumerate(calls))
    sql = ", ".join(call for _, call in calls)
    if not key:
        whole = f"SELECT i.tau, {sql} FROM _instants i LEFT JOIN s USING (tau) GROUP BY i.tau"
        return TwoTexts(f"SELECT {cql} FROM s [{window}]", whole)
    return TwoTexts(
        f"SELECT {key}, {cql} FROM s [{window}] GROUP BY {key}",
        f"SELECT tau, {key}, {sql} FROM s GROUP BY tau, {key}",
    )
