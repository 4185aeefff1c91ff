"""Keep only the columns something above reads (projection push-down).

    SELECT a.x FROM a [RANGE 1 min], b [RANGE 1 min] WHERE a.k = b.k
    → scans of a (x, k) and b (k)

Columns leave before a time window; never below a window that counts rows, whose order of equal
timestamps goes by all values: there a projection is put above the window, as it is above a
selection whose columns are not needed further up. DISTINCT, EXCEPT ALL, UNION ALL and ORDER BY
read whole rows; an outer join is a union too, but its parts are narrowed alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.plan.expressions import Expression
from mayfly.plan.finished_operators import Finished, InWindows
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.logical_operators import (
    AntiJoin,
    GroupAggregate,
    Join,
    Named,
    Node,
    Project,
    RelationJoin,
    RelationScan,
    Schema,
    Select,
    StreamScan,
    SubqueryWindow,
)
from mayfly.plan.outer_join import OuterJoin
from mayfly.plan.over_frames import AsofJoin, Over
from mayfly.plan.resample import Resample
from mayfly.plan.unnest import Unnest

Requested = frozenset[tuple[str, str]]


def prune(node: Node, requested: Requested) -> Node:
    """The node offering at least the requested columns and as few others as possible."""
    if _is_filtered_scan(node):
        return _narrow_above(_prune_scan(node, requested), requested)
    if (outer := OuterJoin.of(node)) is not None:
        return _prune_outer_join(node, outer, requested)
    match node:
        case RelationScan():
            return replace(node, columns=_chosen(node.columns, requested))
        case Project(child=child, outputs=outputs, alias=alias):
            used = tuple(out for out in outputs if (alias, out.name) in requested) or outputs[:1]
            read = _read(*_exprs(used))
            inner = _prune_scan(child, read) if _is_filtered_scan(child) else prune(child, read)
            return replace(node, child=inner, outputs=used)
        case Unnest(child=child):
            return replace(node, child=prune(child, requested | _read(node.value)))
        case GroupAggregate():
            return _prune_aggregate(node, requested)
        case Select() | Join() | RelationJoin():
            below = requested | _read(*node.expressions())
            return node.with_children(tuple(prune(child, below) for child in node.children()))
        case Over(alias=alias, calls=calls):
            asked = tuple(call for call in calls if (alias, call.name) in requested)
            if not asked:
                return prune(node.child, requested)
            node = replace(node, calls=asked)
            below = requested | _read(*node.expressions())
            return replace(node, child=prune(node.child, below))
        case Resample(child=child, alias=alias):
            read = frozenset(
                (c.relation, c.name) for c in child.schema if (alias, c.name) in requested
            )
            return replace(node, child=prune(child, read | _read(*node.expressions())))
        case AsofJoin(left=left, right=right):
            below = requested | _read(*node.expressions())
            return replace(node, left=prune(left, below), right=prune(right, below))
        case AntiJoin(left=left, right=right):
            read = _read(*node.expressions())
            return replace(node, left=prune(left, requested | read), right=prune(right, read))
        case InWindows(child=child, windows=windows):
            names = windows.partition_by if isinstance(windows, Sessions) else ()
            parts = frozenset((node.start.relation, name) for name in names)
            return replace(node, child=prune(child, (requested | parts) & _all(child)))
        case Finished(child=child):
            return replace(node, child=prune(child, requested))
        case SubqueryWindow(child=child, window=window):
            whole = window.counts_rows or window.internal
            return replace(node, child=prune(child, _all(child) if whole else requested))
    return node.with_children(tuple(prune(child, _all(child)) for child in node.children()))


def _prune_outer_join(node: Node, outer: OuterJoin, requested: Requested) -> Node:
    """The pairs without unread columns, and the padded parts over the same inputs."""
    pairs = prune(outer.pairs, requested)
    places = {(c.relation, c.name): place for place, c in enumerate(node.schema)}
    staying = [places[column.relation, column.name] for column in pairs.schema]
    narrowed = dict(zip(outer.pairs.children(), pairs.children(), strict=True))
    parts: list[Node] = [pairs]
    for padded in outer.padded:
        lonely, outputs = padded.child, tuple(padded.outputs[place] for place in staying)
        read = _read(*lonely.expressions(), *_exprs(outputs))
        inputs = tuple(_alike(child, read, narrowed) for child in lonely.children())
        parts.append(replace(padded, child=lonely.with_children(inputs), outputs=outputs))
    return node.with_children(tuple(parts))


def _alike(child: Node, requested: Requested, narrowed: Mapping[Node, Node]) -> Node:
    """An input as the pairs have it, so that both are computed once, or else by itself."""
    other = narrowed.get(child)
    if other is not None and requested & _all(child) <= _all(other):
        return other
    return prune(child, requested & _all(child))


def _is_filtered_scan(node: Node) -> bool:
    """Whether it is a stream behind its window, perhaps with selections."""
    while isinstance(node, Select):
        node = node.child
    return isinstance(node, StreamScan)


def _prune_scan(node: Node, requested: Requested) -> Node:
    """A filtered scan without unread columns, unless its window counts rows."""
    if isinstance(node, Select):
        below = requested | _read(node.predicate)
        return replace(node, child=_prune_scan(node.child, below))
    if isinstance(node, StreamScan) and not node.window.counts_rows:
        return replace(node, columns=_chosen(node.columns, requested))
    return node


def _narrow_above(node: Node, requested: Requested) -> Node:
    chosen = _chosen(node.schema, requested)
    if chosen == node.schema:
        return node
    outputs = tuple(Named(column.name, column) for column in chosen)
    return Project(node, outputs, chosen[0].relation, position=node.position)


def _chosen(columns: Schema, requested: Requested) -> Schema:
    """The requested columns; one at least, since COUNT(*) still needs rows."""
    return tuple(c for c in columns if (c.relation, c.name) in requested) or columns[:1]


def _prune_aggregate(node: GroupAggregate, requested: Requested) -> Node:
    read = requested | (_read(node.having) if node.having else frozenset())
    calls = tuple(call for call in node.aggregates if (node.alias, call.name) in read)
    used = replace(node, aggregates=calls if calls or node.keys else node.aggregates[:1])
    keys = _exprs(used.keys)
    arguments = tuple(call.argument for call in used.aggregates if call.argument)
    return replace(used, child=prune(node.child, _read(*keys, *arguments)))


def _exprs(outputs: tuple[Named, ...]) -> tuple[Expression, ...]:
    return tuple(output.expression for output in outputs)


def _read(*expressions: Expression) -> Requested:
    return frozenset((c.relation, c.name) for e in expressions for c in e.columns())


def _all(node: Node) -> Requested:
    return frozenset((column.relation, column.name) for column in node.schema)


def rewrite(plan: Node, context: RuleContext) -> Node:
    return prune(plan, _all(plan))


PRUNE_COLUMNS = Rule("prune-columns", "carry only the columns that are read", rewrite)
