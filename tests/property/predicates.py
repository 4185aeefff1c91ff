"""Random predicates written twice, as an expression tree and as DuckDB text.

Neither is made from the other, so a mistake in one shows. Values stay small: overflow is an error
in both engines, and which error comes first is not what these predicates are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from mayfly.plan import expressions as ex
from mayfly.plan.types import BIGINT, BOOLEAN, DOUBLE, DataType, from_arrow

_SAME = "IS NOT DISTINCT FROM"
_COMPARISONS = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": _SAME}
_TYPE_NAMES = {BIGINT: "BIGINT", DOUBLE: "DOUBLE"}


class Written(NamedTuple):
    """One expression in both notations."""

    tree: ex.Expression
    sql: str


def _literal(value: float | None, kind: DataType) -> Written:
    text = "NULL" if value is None else f"'{value}'"
    return Written(ex.Literal(value, kind), f"CAST({text} AS {_TYPE_NAMES[kind]})")


def _columns(
    schemas: dict[str, pa.Schema], kind: DataType, sources: Sequence[str]
) -> list[Written]:
    """The columns of the given types, cast to ``kind`` where they are narrower."""
    found = []
    for stream, schema in schemas.items():
        for field in schema:
            own = from_arrow(field.type)
            if own.name in sources:
                column = ex.Column(stream, field.name, own)
                text = f'"{stream}"."{field.name}"'
                if own != kind:
                    text = f"CAST({text} AS {_TYPE_NAMES[kind]})"
                found.append(Written(ex.as_type(column, kind), text))
    return found


def _called(name: str, arguments: Sequence[Written], text: str) -> Written:
    trees = tuple(one.tree for one in arguments)
    listed = ", ".join(one.sql for one in arguments)
    return Written(ex.Function(name, trees, trees[0].type), f"{text}({listed})")


def _combined(terms: st.SearchStrategy[Written], kind: DataType) -> st.SearchStrategy[Written]:
    several = st.lists(terms, min_size=2, max_size=3)
    small = st.integers(-3, 3).map(lambda value: _literal(value, kind))

    def arithmetic(op: str) -> st.SearchStrategy[Written]:
        right = small if op == "*" else terms
        return st.builds(
            lambda a, b: Written(
                ex.Arithmetic(op, a.tree, b.tree, kind), f"({a.sql} {op} {b.sql})"
            ),
            terms,
            right,
        )

    def of_several(name: str) -> st.SearchStrategy[Written]:
        return several.map(lambda some: _called(name, some, name))

    return st.one_of(
        *(arithmetic(op) for op in "+-*"),
        terms.map(lambda one: _called("abs", [one], "abs")),
        terms.map(lambda one: _called("negative", [one], "-")),
        *(of_several(name) for name in ("coalesce", "least", "greatest")),
    )


def whole_numbers(schemas: dict[str, pa.Schema]) -> st.SearchStrategy[Written]:
    """BIGINT expressions over integer columns of any width."""
    literals = st.none() | st.integers(-3, 3)
    columns = _columns(schemas, BIGINT, ("tinyint", "smallint", "int", "bigint"))
    leaves = st.sampled_from(columns) | literals.map(lambda value: _literal(value, BIGINT))
    return st.recursive(leaves, lambda terms: _combined(terms, BIGINT), max_leaves=4)


def fractions(schemas: dict[str, pa.Schema]) -> st.SearchStrategy[Written]:
    """DOUBLE columns and literals, NaN, infinities and both zeros among them."""
    literals = st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
    columns = _columns(schemas, DOUBLE, ("float", "double", "int"))
    leaves = literals.map(lambda value: _literal(value, DOUBLE))
    return st.sampled_from(columns) | leaves if columns else leaves


def _tests(terms: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    def compared(op: str, left: Written, right: Written) -> Written:
        return Written(
            ex.Compare(op, left.tree, right.tree), f"({left.sql} {_COMPARISONS[op]} {right.sql})"
        )

    def one_of(value: Written, choices: list[Written]) -> Written:
        listed = ", ".join(choice.sql for choice in choices)
        trees = tuple(choice.tree for choice in choices)
        return Written(ex.InList(value.tree, trees), f"({value.sql} IN ({listed}))")

    return st.one_of(
        st.builds(compared, st.sampled_from(list(_COMPARISONS)), terms, terms),
        st.builds(one_of, terms, st.lists(terms, min_size=1, max_size=3)),
        terms.map(lambda one: Written(ex.IsNull(one.tree), f"({one.sql} IS NULL)")),
    )


def _connected(terms: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    several = st.lists(terms, min_size=2, max_size=3)
    return st.one_of(
        several.map(
            lambda some: Written(
                ex.And(tuple(one.tree for one in some)),
                f"({' AND '.join(one.sql for one in some)})",
            )
        ),
        several.map(
            lambda some: Written(
                ex.Or(tuple(one.tree for one in some)), f"({' OR '.join(one.sql for one in some)})"
            )
        ),
        terms.map(lambda one: Written(ex.Not(one.tree), f"(NOT {one.sql})")),
    )


def predicates(terms: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    """A condition over the given terms."""
    constants = st.sampled_from(
        [
            Written(ex.Literal(value, BOOLEAN), f"CAST({text} AS BOOLEAN)")
            for value, text in ((True, "true"), (False, "false"), (None, "NULL"))
        ]
    )
    return st.recursive(_tests(terms) | constants, _connected, max_leaves=4)
