"""EXISTS and IN (SELECT …) as values: under OR and NOT, in SELECT, CASE, HAVING and FILTER.

In WHERE, joined by AND, they say which rows there are, and become joins. Elsewhere they mark rows:
``EXISTS (SELECT … WHERE b.k = a.k)`` → ``(SELECT MAX(1) … WHERE b.k = a.k) IS NOT NULL``, a query
used as a value; a count would change, and with it every row that it is compared with, each time a
partner comes. ``x IN (q)`` asks for rows of q that equal x, and where it matters whether it is
unknown or false (under NOT, in SELECT), also for any row of q, and for one that is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from mayfly.cql.aggregate_functions import has_aggregate
from mayfly.cql.context import BindingContext
from mayfly.cql.output_kind import drop_rstream
from mayfly.cql.subquery_conditions import asks_query, check_plain

_HERE = "count in a sub-query: SELECT … FROM (SELECT k, SUM(x) AS s … GROUP BY k) q WHERE …"


def mark_queries(context: BindingContext, block: exp.Select, conditions: list[exp.Expr]) -> None:
    """Write the conditions with queries that stand in a block's outputs, HAVING, and inside of the
    conditions of WHERE as values."""
    having = block.args.get("having")
    places = [*block.expressions, *([having] if having else [])]
    places += [place for place in conditions if not asks_query(place)]
    for asked in [asked for place in places for asked in _asked_in(place)]:
        marked = _exists(context, asked) if isinstance(asked, exp.Exists) else _in(context, asked)
        asked.replace(marked)


def _asked_in(place: exp.Expr) -> Iterator[exp.Expr]:
    for part in place.walk(prune=lambda part: isinstance(part, exp.Query | exp.Exists)):
        if isinstance(part, exp.Exists) or (isinstance(part, exp.In) and "query" in part.args):
            yield part


def _exists(context: BindingContext, asked: exp.Expr) -> exp.Expr:
    block = asked.this
    while isinstance(block, exp.Subquery):
        block = block.this
    check_plain(context, block, "EXISTS")
    drop_rstream(context, block, "EXISTS")
    return _is_some(_any_of(block.copy()))


def _in(context: BindingContext, asked: exp.Expr) -> exp.Expr:
    value, query = asked.this, asked.args["query"].this
    if isinstance(value.unnest(), exp.Tuple):
        hint = "write EXISTS (SELECT … WHERE a.x = b.x AND …)"
        raise context.error(value, "IN compares one column", hint)
    if has_aggregate(value):
        raise context.error(asked, "IN cannot compare an aggregate with a query", _HERE)
    taken = {part.name.casefold() for part in value.find_all(exp.Column)}
    name = next(name for name in ("in_value", "in_value_2") if name not in taken)
    listed = exp.column(name, table="in_query")
    rows = _rows(query, name, asked)
    some = _is_some(_any_of(_where(rows, exp.EQ(this=listed, expression=value.copy()))))
    if _is_condition(asked):
        return some
    null = exp.Is(this=listed.copy(), expression=exp.Null())
    unknown = exp.Or(
        this=exp.Is(this=value.copy(), expression=exp.Null()),
        expression=_is_some(_any_of(_where(rows, null))),
    )
    nothing = exp.Is(this=_any_of(rows), expression=exp.Null())
    cases = ((some, exp.Boolean(this=True)), (nothing, exp.Boolean(this=False)),
             (unknown, exp.Null()))  # fmt: skip
    ifs = [exp.If(this=condition, true=answer) for condition, answer in cases]
    return exp.Paren(this=exp.Case(ifs=ifs, default=exp.Boolean(this=False)))


def _rows(query: exp.Expr, name: str, asked: exp.Expr) -> exp.Select:
    """``SELECT * FROM (query) in_query(name)``."""
    columns = [exp.to_identifier(name)]
    alias = exp.TableAlias(this=exp.to_identifier("in_query"), columns=columns)
    inner = query.this if isinstance(query, exp.Subquery) else query
    source = exp.Subquery(this=inner.copy(), alias=alias)
    rows = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source))
    for node in (source, rows):
        node.meta.update(asked.meta)
    return rows


def _where(rows: exp.Select, condition: exp.Expr) -> exp.Select:
    chosen = rows.copy()
    chosen.set("where", exp.Where(this=condition))
    return chosen


def _any_of(block: exp.Select) -> exp.Subquery:
    """``(SELECT MAX(1) …)`` of a block: 1 if it has a row, otherwise NULL."""
    number = exp.Literal.number(1)
    block.set("expressions", [exp.Anonymous(this="MAX", expressions=[number])])
    query = exp.Subquery(this=block)
    query.meta.update(block.meta)
    return query


def _is_some(value: exp.Subquery) -> exp.Expr:
    return exp.Paren(this=exp.Not(this=exp.Is(this=value, expression=exp.Null())))


def _is_condition(asked: exp.Expr) -> bool:
    """Whether unknown is as good as false where it stands."""
    child, parent = asked, asked.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren):
        child, parent = parent, parent.parent
    if isinstance(parent, exp.If):
        return parent.this is child and not (parent.parent and parent.parent.this)
    return isinstance(parent, exp.Where | exp.Having)
