"""A logical plan as DuckDB SQL: what the binder understood, in an engine that can answer it.

Scans and windowed sub-queries become the table called like their alias.
"""

from __future__ import annotations

from mayfly.plan import expressions as ex
from mayfly.plan.logical_operators import (
    AggregateCall,
    AntiJoin,
    Distinct,
    Equality,
    ExceptAll,
    GroupAggregate,
    Join,
    Negation,
    Node,
    Output,
    Project,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.ordered_calls import directions, entry_of


def plan_sql(node: Node) -> str:
    """A query whose columns are called ``alias.name`` throughout."""
    match node:
        case StreamScan(alias=table):
            return f"SELECT {_columns(node)} FROM {table}"
        case SubqueryWindow(child=child):
            return f"SELECT {_columns(node)} FROM {child.schema[0].relation}"
        case Output(child=child) | Shared(child=child):
            return plan_sql(child)
        case Select(child=child, predicate=predicate):
            return f"SELECT * FROM ({plan_sql(child)}) WHERE {sql(predicate)}"
        case Project(child=child, outputs=outputs):
            listed = [
                f"{sql(output.expression)} AS {name(column)}"
                for output, column in zip(outputs, node.schema, strict=True)
            ]
            return f"SELECT {', '.join(listed)} FROM ({plan_sql(child)})"
        case Join(inputs=inputs, equalities=equalities, residual=residual):
            tables = ", ".join(f"({plan_sql(one)})" for one in inputs)
            return f"SELECT * FROM {tables} WHERE {_all(equalities, residual)}"
        case AntiJoin():
            return _anti_join(node)
        case Distinct(child=child):
            return f"SELECT DISTINCT * FROM ({plan_sql(child)})"
        case GroupAggregate():
            return _grouped(node)
        case UnionAll(inputs=inputs):
            renamed = ", ".join(f"#{n} AS {name(c)}" for n, c in enumerate(node.schema, start=1))
            parts = " UNION ALL ".join(f"({plan_sql(one)})" for one in inputs)
            return f"SELECT {renamed} FROM ({parts})"
        case ExceptAll(left=left, right=right):
            return f"({plan_sql(left)}) EXCEPT ALL ({plan_sql(right)})"
        case Sort(child=child) | Top(child=child):
            return _sorted(node, child)
    raise TypeError(f"no SQL for {type(node).__name__}")


def name(column: ex.Column) -> str:
    return f'"{column.relation}.{column.name}"'


def _columns(node: Node) -> str:
    return ", ".join(f"{column.name} AS {name(column)}" for column in node.schema)


def _all(equalities: tuple[Equality, ...], residual: ex.Expression | None) -> str:
    terms = [f"{sql(one.left)} = {sql(one.right)}" for one in equalities]
    return " AND ".join([*terms, *([sql(residual)] if residual else [])]) or "TRUE"


def _anti_join(node: AntiJoin) -> str:
    left, right = plan_sql(node.left), plan_sql(node.right)
    if node.kind is Negation.NOT_EXISTS:
        matching = f"SELECT 1 FROM ({right}) WHERE {_all(node.equalities, node.residual)}"
        return f"SELECT * FROM ({left}) WHERE NOT EXISTS ({matching})"
    (pair,) = node.equalities
    listed = f"SELECT {sql(pair.right)} FROM ({right})"
    return f"SELECT * FROM ({left}) WHERE {sql(pair.left)} NOT IN ({listed})"


def _grouped(node: GroupAggregate) -> str:
    keys = [sql(key.expression) for key in node.keys]
    calls = [_aggregate(call) for call in node.aggregates]
    listed = [
        f"{text} AS {name(column)}"
        for text, column in zip((*keys, *calls), node.schema, strict=True)
    ]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    rows = f"SELECT {', '.join(listed)} FROM ({plan_sql(node.child)}){group}"
    return f"SELECT * FROM ({rows}) WHERE {sql(node.having)}" if node.having else rows


_AGGREGATES = {"quantile": "quantile_disc", "percentile": "quantile_cont"}


def _aggregate(call: AggregateCall) -> str:
    if call.argument is None:
        return "count(*)"
    entry = entry_of(call)
    if entry is not None:
        return _ordered(call, entry)
    parameters = "".join(f", {value!r}" for value in call.parameters)
    word = "DISTINCT " if call.distinct else ""
    function = _AGGREGATES.get(call.function, call.function)
    text = f"{function}({word}{sql(call.argument)}{parameters})"
    return f"CAST({text} AS BIGINT)" if call.data_type.is_integral else text


def _ordered(call: AggregateCall, entry: ex.Function) -> str:
    order = [
        f"coalesce({sql(member)}, NULL) {direction}"
        + ("" if "NULLS" in direction else f" NULLS {'LAST' if 'DESC' in direction else 'FIRST'}")
        for member, direction in zip(entry.arguments, directions(call), strict=True)
    ]
    conditions, argument = list[str](), call.argument
    while isinstance(argument, ex.Case):
        conditions.append(sql(argument.conditions[0]))
        argument = argument.results[0]
    some = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    inner = f"{sql(entry.arguments[-1])}{{}} ORDER BY {', '.join(order)}"
    match call.function:
        case "string_agg":
            return f"string_agg({inner.format(f', {call.parameters[-1]!r}')}){some}"
        case "collect_list":
            return f"coalesce(list({inner.format('')}){some}, [])"
    return f"first({inner.format('')}){some}"


def _sorted(node: Sort | Top, child: Node) -> str:
    keys = [
        f"{sql(key.expression)} {'DESC' if key.descending else 'ASC'}"
        f" NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in node.keys
    ]
    keys += [f"{name(column)} NULLS FIRST" for column in child.schema]
    limit = f" LIMIT {node.limit}" if node.limit is not None else ""
    limit += f" OFFSET {node.offset}" if node.offset else ""
    return f"SELECT * FROM ({plan_sql(child)}) ORDER BY {', '.join(keys)}{limit}"


def sql(expression: ex.Expression) -> str:
    """An expression in DuckDB's words."""
    match expression:
        case ex.Column():
            return name(expression)
        case ex.Literal(value=value):
            return "NULL" if value is None else f"({value!r})"
        case ex.Compare(op=op, left=left, right=right):
            return f"({sql(left)} {op} {sql(right)})"
        case ex.Arithmetic(op=op, left=left, right=right):
            return f"({sql(left)} {op} {sql(right)})"
        case ex.And(terms=terms):
            return f"({' AND '.join(map(sql, terms))})"
        case ex.Or(terms=terms):
            return f"({' OR '.join(map(sql, terms))})"
        case ex.Not(child=child):
            return f"(NOT {sql(child)})"
        case ex.IsNull(child=child):
            return f"({sql(child)} IS NULL)"
        case ex.InList(child=child, choices=choices):
            return f"({sql(child)} IN ({', '.join(map(sql, choices))}))"
        case ex.Like(op=op, child=child, pattern=pattern):
            return f"({sql(child)} {op} {sql(pattern)})"
        case ex.Cast(child=child, data_type=kind):
            return f"CAST({sql(child)} AS {kind.sql()})"
        case ex.Case(conditions=conditions, results=results, otherwise=otherwise):
            arms = "".join(
                f" WHEN {sql(condition)} THEN {sql(result)}"
                for condition, result in zip(conditions, results, strict=True)
            )
            rest = f" ELSE {sql(otherwise)}" if otherwise else ""
            return f"CASE{arms}{rest} END"
        case ex.Function(name="concat", arguments=arguments):
            return f"({' || '.join(map(sql, arguments))})"
        case ex.Function(name="negative", arguments=(argument,)):
            return f"(- {sql(argument)})"
        case ex.Function(name=function, arguments=arguments):
            return f"{function}({', '.join(map(sql, arguments))})"
    raise TypeError(f"no SQL for {type(expression).__name__}")
