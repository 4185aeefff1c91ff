"""Where a syntax node stands in the text."""

from __future__ import annotations

from sqlglot import exp

from mayfly.cql.messages import CqlError, SourceText, TextSpan, error_at
from mayfly.plan.logical_operators import Position

# Nodes whose own word is the place; underlining all of them would mark half the query.
_KEYWORD_NODES = (exp.Query, exp.Join, exp.Group, exp.Order, exp.Limit, exp.Exists, exp.In)


def span_of_node(node: exp.Expr) -> TextSpan:
    """The characters a node covers, as far as its parts tell."""
    meta = node.meta
    if isinstance(node, _KEYWORD_NODES) and "start" in meta:
        return TextSpan(meta["start"], meta["end"] + 1)
    starts, ends = [], []
    for part in node.walk(prune=lambda n: n is not node and isinstance(n, exp.Query)):
        if "start" in part.meta:
            starts.append(part.meta["start"])
            ends.append(part.meta["end"] + 1)
        if "window_span" in part.meta and part is not node:
            ends.append(part.meta["window_span"].end)
    if not starts:
        return span_of_node(node.parent) if node.parent else TextSpan(0, 1)
    return TextSpan(min(starts), max(ends))


def position_of(source: SourceText, node: exp.Expr) -> Position:
    return source.position(span_of_node(node).start)


def error_on(source: SourceText, node: exp.Expr, problem: str, hint: str) -> CqlError:
    """The error for what stands at a node."""
    return error_at(source, span_of_node(node), problem, hint)
