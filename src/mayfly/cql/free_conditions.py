"""Conditions and scalars on their own: over named columns, outside of any query."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from mayfly.cql.completeness import check_complete
from mayfly.cql.dialect import parse_expression
from mayfly.cql.grammar import check_tree
from mayfly.cql.messages import SourceText, TextSpan, error_at
from mayfly.cql.scalar import DECLARATION, ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.tokens import tokenize
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import RelationScan
from mayfly.plan.types import DataType


def bind_condition(text: str, columns: Mapping[str, Mapping[str, DataType]]) -> Expression:
    """The predicate ``text`` over the columns of each name: ``{"l": {"bytes": BIGINT}, …}``.

    >>> from mayfly.plan.types import INT
    >>> bind_condition("l.a < r.a", {"l": {"a": INT}, "r": {"a": INT}}).sql()
    '(`l`.`a` < `r`.`a`)'
    """
    binder, tree = _read(text, columns, "an empty condition", "write one like l.a < r.b")
    return binder.condition(tree)


def bind_scalar(text: str, columns: Mapping[str, Mapping[str, DataType]]) -> Expression:
    """The scalar expression ``text`` over the columns of each name.

    >>> from mayfly.plan.types import INT
    >>> bind_scalar("a + 1", {"r": {"a": INT}}).sql()
    '(`r`.`a` + 1)'
    """
    binder, tree = _read(text, columns, "an empty expression", "write one like a + 1")
    return binder.bind(tree)


def bind_tokens(
    source: SourceText, tokens: list[Token], columns: Mapping[str, Mapping[str, DataType]]
) -> Expression:
    """The scalar expression of some tokens of a larger text that declares a stream."""
    binder, tree = _parsed(source, tokens, columns, DECLARATION)
    return binder.bind(tree)


def _read(
    text: str, columns: Mapping[str, Mapping[str, DataType]], empty: str, hint: str
) -> tuple[ScalarBinder, exp.Expr]:
    source = SourceText(text)
    tokens = tokenize(source)
    if not tokens:
        raise error_at(source, TextSpan(0, 1), empty, hint)
    return _parsed(source, tokens, columns)


def _parsed(
    source: SourceText,
    tokens: list[Token],
    columns: Mapping[str, Mapping[str, DataType]],
    clause: str = "WHERE",
) -> tuple[ScalarBinder, exp.Expr]:
    tree = parse_expression(source, tokens)
    check_tree(source, tree)
    check_complete(source, tokens, tree)
    items = tuple(
        Item(name, RelationScan(name, name, _schema(name, own), retroactive=False))
        for name, own in columns.items()
    )
    return ScalarBinder(source, Scope(source, items), clause), tree


def _schema(name: str, columns: Mapping[str, DataType]) -> tuple[Column, ...]:
    return tuple(Column(name, column, kind) for column, kind in columns.items())
