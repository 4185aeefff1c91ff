"""A logical plan as text, one operator per line, for golden files."""

from __future__ import annotations

from mayfly.plan.finished_operators import InWindows
from mayfly.plan.logical_operators import (
    AggregateCall,
    AntiJoin,
    Equality,
    GroupAggregate,
    Join,
    Node,
    Output,
    Project,
    RelationJoin,
    RelationScan,
    Select,
    Shared,
    Sort,
    StreamScan,
    SubqueryWindow,
    Top,
    UnionAll,
)
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Resample
from mayfly.plan.unnest import Unnest


def describe(node: Node, depth: int = 0) -> str:
    """The operators with their places, children indented below."""
    place = f"{node.position.line}:{node.position.column}" if node.position else "?"
    line = f"{'  ' * depth}{type(node).__name__} {_details(node)}".rstrip().replace("`", "")
    return "\n".join([f"{line}  @{place}", *(describe(c, depth + 1) for c in node.children())])


def _details(node: Node) -> str:
    match node:
        case StreamScan(stream=stream, alias=alias, window=window):
            return f"{stream} {window.cql()}{_as(alias, stream)}"
        case RelationScan(relation=relation, alias=alias, retroactive=retroactive):
            return f"{'relation' if retroactive else 'NRR'} {relation}{_as(alias, relation)}"
        case SubqueryWindow(window=window, wstream=wstream):
            return f"{'Wstream' if wstream else 'sub-query'} {window.cql()}"
        case Shared(name=name):
            return name
        case Select(predicate=predicate):
            return predicate.sql()
        case Project(outputs=outputs, alias=alias):
            listed = [f"{o.name} {o.expression.type} = {o.expression.sql()}" for o in outputs]
            return f"{alias + ': ' if alias else ''}{'; '.join(listed)}"
        case Join(equalities=pairs, residual=rest) | RelationJoin(equalities=pairs, residual=rest):
            return _conditions(pairs, rest.sql() if rest else "")
        case AntiJoin(kind=kind, equalities=pairs, residual=rest):
            return f"{kind.value} {_conditions(pairs, rest.sql() if rest else '')}"
        case Unnest(value=value, columns=columns, outer=outer):
            names = ", ".join(f"{c.relation}.{c.name}" for c in columns)
            return f"{value.sql()} as {names}{' outer' if outer else ''}"
        case GroupAggregate():
            return _grouping(node)
        case InWindows(windows=windows):
            return windows.cql()
        case Over(appends=appends, because=because) | AsofJoin(appends=appends, because=because):
            return f"{'append-only' if appends else 'view'}: {because}"
        case Resample(alias=alias):
            return f"{node.cql()} as {alias}"
        case UnionAll(alias=alias):
            return f"{alias}: " if alias else ""
        case (
            Sort(keys=keys, limit=limit, offset=offset) | Top(keys=keys, limit=limit, offset=offset)
        ):
            listed = [f"{k.expression.sql()}{' desc' if k.descending else ''}" for k in keys]
            return f"{', '.join(listed)} limit {limit} offset {offset}"
        case Output(kind=kind, restore=restore, isolation=isolation):
            words = [kind.value, "restore" if restore else "", isolation.value if isolation else ""]
            return " ".join(word for word in words if word)
    return ""


def _as(alias: str, name: str) -> str:
    return f" as {alias}" if alias != name else ""


def _conditions(equalities: tuple[Equality, ...], residual: str) -> str:
    pairs = " and ".join(f"{one.left.sql()} = {one.right.sql()}" for one in equalities)
    return f"{pairs or 'no equality'}{' | ' + residual if residual else ''}"


def _grouping(node: GroupAggregate) -> str:
    keys = ", ".join(f"{key.name} = {key.expression.sql()}" for key in node.keys)
    calls = "; ".join(_call(call) for call in node.aggregates)
    having = f" having {node.having.sql()}" if node.having else ""
    return f"{node.alias} by ({keys}): {calls}{having}"


def _call(call: AggregateCall) -> str:
    argument = call.argument.sql() if call.argument else "*"
    parameters = "".join(f", {value!r}" for value in call.parameters)
    distinct = "distinct " if call.distinct else ""
    return f"{call.name} {call.data_type} = {call.function}({distinct}{argument}{parameters})"
