"""Random calls of aggregates, each with its SQL.

The SQL says every tie: by the time and the sequence of each stream, then by the value, NULLs first.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Text = tuple[str, str]
"""In CQL and in DuckDB's SQL."""


def stream_order(aliases: Sequence[str]) -> list[str]:
    """What rows of these streams are ordered by: of several the latest time first."""
    columns = [f"{alias}.{name}" for alias in aliases for name in ("ts", "seq")]
    if len(aliases) < 2:
        return columns
    return [f"greatest({', '.join(f'{alias}.ts' for alias in aliases)})", *columns]


def grouping_sets(rng: Random, keys: Sequence[str]) -> str:
    """GROUP BY with several groupings, the same in both languages."""
    listed = ", ".join(keys)
    choices = (
        f"ROLLUP({listed})",
        f"CUBE({listed})",
        f"GROUPING SETS (({listed}), {keys[0]})",
        f"GROUPING SETS ({keys[-1]}, {keys[0]}, ())",
        f"{keys[0]}, ROLLUP({keys[-1]})",
    )
    return f" GROUP BY {rng.choice(choices)}"


def usual_call(rng: Random, number: str, text: str, where: Text | None, real: bool) -> Text:
    """A call over a column of numbers and one of texts; whole numbers only unless ``real``."""
    some = _filter(where)
    whole = [
        ("COUNT(*)", "count(*){}"),
        (f"COUNT({text})", f"count({text}){{}}"),
        (f"COUNT(DISTINCT {text})", f"count(DISTINCT {text}){{}}"),
        (f"SUM({number})", f"CAST(sum({number}){{}} AS BIGINT)"),
        (f"MIN({number})", f"min({number}){{}}"),
        (f"MAX({number})", f"max({number}){{}}"),
    ]
    reals = [
        (f"AVG({number})", f"avg({number}){{}}"),
        (f"VAR({number})", f"var_samp({number}){{}}"),
        (f"STDDEV({number})", f"stddev_samp({number}){{}}"),
        (f"MEDIAN({number})", f"median({number}){{}}"),
        (f"QUANTILE({number}, 0.3)", f"quantile_disc({number}, 0.3){{}}"),
        (f"MAX({text})", f"max({text}){{}}"),
    ]
    cql, sql = rng.choice([*whole, *reals] if real else whole)
    return cql + some[0], sql.format(some[1])


def further_call(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    """A call over a column of numbers and one of texts, perhaps only of rows ``where`` it holds."""
    makers = [_conditional, _spread, _by_other, *([_first, _first, _joined] if order else [])]
    return rng.choice(makers)(rng, number, text, condition, where, order)


def _filter(where: Text | None, *required: str) -> Text:
    """FILTER as it is written, and with what the SQL has to require beside."""
    cql = f" FILTER (WHERE {where[0]})" if where else ""
    terms = [*required, *([f"({where[1]})"] if where else [])]
    return cql, f" FILTER (WHERE {' AND '.join(terms)})" if terms else ""


def _sorted(keys: Sequence[str], descending: bool = False) -> str:
    """The keys in the SQL, which would take a constant for a mistake or a column's number."""
    direction = " DESC NULLS LAST" if descending else " NULLS FIRST"
    return ", ".join(f"coalesce({key}, NULL){direction}" for key in keys)


def _conditional(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    some = _filter(where)
    name, sql = rng.choice(
        (
            ("COUNT_IF", "count(CASE WHEN {} THEN 1 END){}"),
            ("BOOL_AND", "bool_and({}){}"),
            ("EVERY", "bool_and({}){}"),
            ("BOOL_OR", "bool_or({}){}"),
        )
    )
    return f"{name}({condition[0]}){some[0]}", sql.format(condition[1], some[1])


def _spread(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    some = _filter(where)
    share = rng.choice(("0.25", "0.9", "0", "1"))
    cql, sql = rng.choice(
        (
            ("VAR_POP({})", "var_pop({}){}"),
            ("STDDEV_POP({})", "stddev_pop({}){}"),
            (f"PERCENTILE({{}}, {share})", f"quantile_cont({{}}, {share}){{}}"),
            (
                f"PERCENTILE_CONT({share}) WITHIN GROUP (ORDER BY {{}})",
                f"quantile_cont({{}}, {share}){{}}",
            ),
            ("APPROX_COUNT_DISTINCT({})", "count(DISTINCT {}){}"),
            ("ANY_VALUE({})", "min({}){}"),
        )
    )
    return cql.format(number) + some[0], sql.format(number, some[1])


def _by_other(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    some = _filter(where, f"{number} IS NOT NULL")
    descending = rng.random() < 0.5
    name = rng.choice(("MAX_BY", "ARG_MAX") if descending else ("MIN_BY", "ARG_MIN"))
    keys = f"{_sorted([number], descending)}, {_sorted([*order, text])}"
    return f"{name}({text}, {number}){some[0]}", f"first({text} ORDER BY {keys}){some[1]}"


def _first(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    value = rng.choice((number, text))
    is_last, skips = rng.random() < 0.5, rng.random() < 0.3
    some = _filter(where, *([f"{value} IS NOT NULL"] if skips else []))
    name = rng.choice(("LAST", "LAST_VALUE") if is_last else ("FIRST", "FIRST_VALUE"))
    sql = f"first({value} ORDER BY {_sorted([*order, value], is_last)}){some[1]}"
    return f"{name}({value}{' IGNORE NULLS' if skips else ''}){some[0]}", sql


def _joined(
    rng: Random, number: str, text: str, condition: Text, where: Text | None, order: Sequence[str]
) -> Text:
    some = _filter(where, f"{text} IS NOT NULL")
    descending, own = rng.random() < 0.5, rng.random() < 0.5
    keys = _sorted([*order, text])
    if not own:
        sql = f"string_agg({text}, '-' ORDER BY {keys}){some[1]}"
        return f"STRING_AGG({text}, '-'){some[0]}", sql
    keys = f"{_sorted([number], descending)}, {keys}"
    by = f"ORDER BY {number}{' DESC' if descending else ''}"
    cql = rng.choice((f"STRING_AGG({text}, '-' {by})", f"LISTAGG({text}, '-') WITHIN GROUP ({by})"))
    return cql + some[0], f"string_agg({text}, '-' ORDER BY {keys}){some[1]}"
