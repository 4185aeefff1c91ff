"""Wstream: a window over the output stream (thesis 3.3.3, 3.4).

``SELECT Wstream(…)[w] FROM …`` and ``SELECT SUM(Wstream(SUM(a))[w]) FROM …`` both mean a window
over the sub-query inside, whose own windows become internal.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from mayfly.cql.aggregate_functions import is_aggregate
from mayfly.cql.blocks import bind_block
from mayfly.cql.context import BindingContext
from mayfly.cql.from_clause import BindQuery
from mayfly.cql.messages import error_at
from mayfly.cql.output_kind import StreamOperator
from mayfly.cql.scope import Item
from mayfly.plan.logical_operators import (
    AntiJoin,
    Distinct,
    ExceptAll,
    Node,
    StreamScan,
    SubqueryWindow,
    Top,
)
from mayfly.plan.window_kinds import Range, RowsWindow, Window

_FORM = "write Wstream(…)[ROWS n] or Wstream(…)[RANGE d]"


def _calls(block: exp.Select) -> list[exp.Anonymous]:
    return [
        node
        for output in block.expressions
        for node in output.walk(prune=lambda part: isinstance(part, exp.Query))
        if isinstance(node, exp.Anonymous) and node.name.lower() == "wstream"
    ]


def has_wstream(block: exp.Select) -> bool:
    return bool(_calls(block))


def bind_wstream(
    context: BindingContext,
    block: exp.Select,
    operator: StreamOperator | None,
    bind_query: BindQuery,
) -> Node:
    """The plan of a block whose SELECT list contains, or was wrapped in, Wstream."""
    calls = _calls(block)
    if operator and operator.kind is not None:
        problem = f"{operator.place.name} and Wstream do not go together"
        raise context.error(operator.place, problem, "Wstream already says what leaves: remove one")
    if operator:
        window = _window(context, operator.place)
        inner = bind_block(context, block, "", bind_query).node
        return _windowed(context, operator.place, inner, window)
    return _two_levels(context, block, calls, bind_query)


def _window(context: BindingContext, place: exp.Expr) -> Window:
    window = place.meta.get("window")
    if window is None:
        raise context.error(place, "Wstream needs a window", _FORM)
    plain = isinstance(window, RowsWindow | Range) and window.slide is None and not window.internal
    if not plain:
        span = place.meta["window_span"]
        raise error_at(context.source, span, "Wstream takes a plain window only", _FORM)
    assert isinstance(window, Window)
    return window


def _windowed(context: BindingContext, place: exp.Expr, inner: Node, window: Window) -> Node:
    for node in inner.walk():
        if isinstance(node, Distinct | AntiJoin | ExceptAll | Top):
            word = {Distinct: "DISTINCT", Top: "LIMIT"}.get(type(node), "negation")
            raise context.error_for(
                node,
                f"Wstream over {word} has no meaning: results that had to go would stay",
                f"remove Wstream, or the {word}",
            )
    position = context.position(place)
    return SubqueryWindow(_internal(inner), window, wstream=True, position=position)


def _internal(node: Node) -> Node:
    """The same plan with internal windows, up to windows of its own sub-queries."""
    if isinstance(node, StreamScan | SubqueryWindow):
        return replace(node, window=node.window.made_internal())
    return node.with_children(tuple(_internal(child) for child in node.children()))


def _two_levels(
    context: BindingContext, block: exp.Select, calls: list[exp.Anonymous], bind_query: BindQuery
) -> Node:
    """``AGG(Wstream(AGG(x))[w])``: the outer aggregate over the last results of the inner one."""
    call = calls[0]
    if len(calls) > 1 or len(block.expressions) > 1:
        raise context.error(
            calls[-1], "there can be only one Wstream, alone in its SELECT list", _FORM
        )
    parent = call.parent
    outer_is_aggregate = parent is not None and is_aggregate(parent)
    if (
        not outer_is_aggregate
        or len(call.expressions) != 1
        or not is_aggregate(call.expressions[0])
    ):
        raise context.error(
            call,
            "inside an expression Wstream goes between two aggregates",
            "write SUM(Wstream(SUM(a))[ROWS 10]), or SELECT Wstream(…)[ROWS 10]",
        )
    if block.args.get("group"):
        problem = "two-level aggregates with Wstream have no GROUP BY"
        raise context.error(
            block.args["group"], problem, "write the inner query as a sub-query in FROM"
        )
    window = _window(context, call)
    inner_block = exp.Select(**{**block.args, "distinct": None})
    inner_block.update_positions(block)
    inner_block.set("expressions", [exp.alias_(call.expressions[0].copy(), "value")])
    alias = context.aliases.fresh("wstream")
    inner = bind_block(context, inner_block, alias, bind_query).node
    windowed = _windowed(context, call, inner, window)
    column = exp.column("value").update_positions(call)
    call.replace(column)
    outer_block = exp.Select(expressions=block.expressions, distinct=block.args.get("distinct"))
    outer_block.update_positions(block)
    return bind_block(context, outer_block, "", bind_query, items=[Item(alias, windowed)]).node
