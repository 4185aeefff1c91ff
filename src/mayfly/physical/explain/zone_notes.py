"""Which parts of a query depend on a time zone, and on which one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mayfly.lifetime import zone
from mayfly.plan.catalog import Catalog, StreamDefinition
from mayfly.plan.expressions import Arithmetic, Cast, Expression, Function
from mayfly.plan.logical_operators import Node, StreamScan
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import TIMESTAMP

LOCAL = {
    *("year", "quarter", "month", "day", "dayofweek", "dayofyear", "hour", "minute", "second"),
    *("to_date", "date_add", "date_sub", "datediff", "date_trunc", "date_format"),
    *("to_timestamp", "try_to_timestamp"),
}
"""Functions between instants and what clocks and calendars show."""
TEXTS = ("json", "csv", "kafka")
"""Sources whose times are texts, with a zone or without."""


def zone_uses(plan: Node, catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """What depends on a zone, in words, each with the zone."""
    uses = [(zone(), words) for node in plan.walk() for words in _local(node.expressions())]
    streams = dict.fromkeys(node.stream for node in plan.walk() if isinstance(node, StreamScan))
    for name in streams:
        definition = catalog.lookup(name)
        if isinstance(definition, StreamDefinition):
            own = definition.zone or zone()
            computed = [
                column.computed for column in definition.columns if column.computed is not None
            ]
            uses += [(own, words) for words in _local(computed)]
            if definition.source is not None and definition.source.format in TEXTS:
                times = [
                    column.name
                    for column in definition.supplied_columns
                    if column.type == TIMESTAMP
                ]
                uses += [(own, f"texts without a zone in {name}.{time}") for time in times]
    return tuple(dict.fromkeys(uses))


def _local(expressions: Iterable[Expression]) -> Iterator[str]:
    for expression in expressions:
        for node in expression.walk():
            kinds = [node.type, *(child.type for child in node.children())]
            if TIMESTAMP in kinds and (_called(node) or _cast(node) or _moves(node)):
                yield expression_text(node)


def _called(node: Expression) -> bool:
    return isinstance(node, Function) and node.name in LOCAL


def _moves(node: Expression) -> bool:
    """Whether calendar days may be added or counted."""
    return isinstance(node, Arithmetic)


def _cast(node: Expression) -> bool:
    if not isinstance(node, Cast):
        return False
    (operand,) = node.children()
    return bool({operand.type.name, node.type.name} & {"string", "date", "timestamp_ntz"})
