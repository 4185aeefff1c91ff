"""Conditions on their own: a predicate over named columns, outside of any query."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.cql.dialect import check_complete, parse_expression
from mayfly.cql.grammar import check_tree
from mayfly.cql.messages import Source, Span, error_at
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.cql.tokens import tokenize
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical import RelationScan
from mayfly.plan.types import DataType


def bind_condition(text: str, columns: Mapping[str, Mapping[str, DataType]]) -> Expression:
    """The predicate ``text`` over the columns of each name: ``{"l": {"bytes": BIGINT}, …}``.

    >>> from mayfly.plan.types import INT
    >>> bind_condition("l.a < r.a", {"l": {"a": INT}, "r": {"a": INT}}).sql()
    '(`l`.`a` < `r`.`a`)'
    """
    source = Source(text)
    tokens = tokenize(source)
    if not tokens:
        raise error_at(source, Span(0, 1), "an empty condition", "write one like l.a < r.b")
    tree = parse_expression(source, tokens)
    check_tree(source, tree)
    check_complete(source, tokens, tree)
    items = tuple(
        Item(name, RelationScan(name, name, _schema(name, own), retroactive=False))
        for name, own in columns.items()
    )
    return ScalarBinder(source, Scope(source, items), "WHERE").condition(tree)


def _schema(name: str, columns: Mapping[str, DataType]) -> tuple[Column, ...]:
    return tuple(Column(name, column, kind) for column, kind in columns.items())
