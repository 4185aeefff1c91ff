"""Binds UNNEST: an entry of FROM that is made of the rows before it, and ``x[i]``."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.context import BindingContext
from mayfly.cql.element_parser import UNNEST_FORM
from mayfly.cql.scalar import ScalarBinder
from mayfly.cql.scope import Item, Scope
from mayfly.display import counted
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import (
    Node,
    RelationScan,
)
from mayfly.plan.types import BIGINT, INT, DataType
from mayfly.plan.unnest import Unnest


def name_of(place: exp.Expr) -> str:
    """What UNNEST calls its rows."""
    return place.alias or "unnest"


def unnested(
    context: BindingContext, join: exp.Expr, scope: Scope, joined: list[Item]
) -> tuple[list[Item], Item]:
    """The entries joined so far with the rows of an array of theirs, and the entry it is."""
    place = join.this
    value = ScalarBinder(context.source, scope, "UNNEST").bind(place.expressions[0])
    if value.type.name not in ("array", "map"):
        problem = f"{place.meta['function']} needs an array or map, not {value.type}"
        raise context.error(place, problem, UNNEST_FORM)
    index = _home(context, place, value, joined)
    alias = context.aliases.fresh(name_of(place))
    outer = bool(place.meta["outer"]) or _is_left(context, join)
    columns = _columns(context, place, value.type, alias, outer)
    node = Unnest(
        joined[index].node, value, columns, outer, place.meta.get("counts_from"),
        position=context.position(place),
    )  # fmt: skip
    changed = replace(joined[index], node=node)
    entry = Item(name_of(place), _Elements(columns))
    return [*joined[:index], changed, *joined[index + 1 :]], entry


class _Elements(Node):
    """The columns of an UNNEST as later clauses see them."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        object.__setattr__(self, "position", None)
        object.__setattr__(self, "schema", columns)


def _home(context: BindingContext, place: exp.Expr, value: Expression, joined: list[Item]) -> int:
    """Which of the entries the array belongs to."""
    read = value.relations()
    for index, item in enumerate(joined):
        own = frozenset(column.relation for column in item.node.schema)
        if read and read <= own:
            if isinstance(item.node, RelationScan):
                hint = f"join {item.name} in a sub-query, and UNNEST what that gives"
                raise context.error(place, "UNNEST takes arrays of streams and sub-queries", hint)
            return index
    problem = "UNNEST takes an array of one entry of FROM that comes before it"
    raise context.error(place, problem, UNNEST_FORM)


def _is_left(context: BindingContext, join: exp.Expr) -> bool:
    side, condition = join.args.get("side") or "", join.args.get("on")
    always = condition is None or (isinstance(condition, exp.Boolean) and condition.this)
    if (kind := join.args.get("kind")) in ("SEMI", "ANTI"):
        hint = "write CROSS JOIN UNNEST(…), or LEFT JOIN UNNEST(…) ON TRUE"
        raise context.error(join, f"{kind} JOIN UNNEST is not in the language", hint)
    if side in ("RIGHT", "FULL"):
        hint = "write LEFT JOIN UNNEST(…) ON TRUE to keep rows without elements"
        raise context.error(join, f"{side} JOIN UNNEST has no meaning", hint)
    if side and not always:
        hint = "write ON TRUE, and the condition in WHERE or in a sub-query around it"
        raise context.error(join, "LEFT JOIN UNNEST takes no condition", hint)
    return bool(side)


def _columns(
    context: BindingContext, place: exp.Expr, kind: DataType, alias: str, outer: bool
) -> tuple[Column, ...]:
    """What UNNEST adds: the element, or its members where as many are named, and its place."""
    element = [member for _, member in kind.fields]
    names = ["key", "value"] if kind.name == "map" else [_plain_name(place)]
    start, listed = place.meta.get("counts_from"), _listed(place)
    extra = start is not None
    if kind.name == "array" and element[0].name == "struct":
        members = element[0].fields
        if len(listed) - extra == len(members) > 1:
            names, element = [name for name, _ in members], [member for _, member in members]
    typed = [(name, member, True) for name, member in zip(names, element, strict=True)]
    if start == 1:
        typed.append(("ordinality", BIGINT, outer))
    elif start == 0:
        typed.insert(0, ("pos", INT, outer))
    if listed and len(listed) != len(typed):
        columns, names_listed = counted(len(typed), "column"), counted(len(listed), "name")
        problem = f"{place.meta['function']} gives {columns}, but has {names_listed}"
        hint = f"write AS {name_of(place)}({', '.join(name for name, _, _ in typed)})"
        raise context.error(place, problem, hint)
    called = listed or [name for name, _, _ in typed]
    return tuple(
        Column(alias, name, member, nullable)
        for name, (_, member, nullable) in zip(called, typed, strict=True)
    )


def _plain_name(place: exp.Expr) -> str:
    return name_of(place) if place.meta["function"] == "UNNEST" else "col"


def _listed(place: exp.Expr) -> list[str]:
    alias = place.args.get("alias")
    return [name.name for name in (alias.args.get("columns") or [])] if alias is not None else []
