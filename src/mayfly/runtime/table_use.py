"""What a plan needs of a table: some columns, and perhaps the rows of some keys alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mayfly.plan.catalog import RelationDefinition
from mayfly.plan.expressions import Column, Compare, Expression, Literal, conjuncts
from mayfly.plan.logical_operators import Node, RelationScan, Select, StreamScan
from mayfly.runtime.table_sources import Keys


@dataclass(frozen=True)
class TableUse:
    """What a plan needs of a table."""

    columns: tuple[str, ...]
    keys: Keys

    @staticmethod
    def of(table: RelationDefinition, plan: Node) -> TableUse:
        scans = [node for node in plan.walk() if _reads(node, table.name)]
        return TableUse(tuple(_columns(table, scans)), _keys(scans, plan))


def _reads(node: Node, table: str) -> bool:
    match node:
        case StreamScan(stream=name) | RelationScan(relation=name):
            return name == table
    return False


def _columns(table: RelationDefinition, scans: Iterable[Node]) -> list[str]:
    """The columns that are used; where it is none, one by which rows can be counted."""
    used = {column.name for scan in scans for column in scan.schema}
    names = [column.name for column in table.columns]
    return [name for name in names if name in used] or names[:1]


def _keys(scans: Iterable[Node], plan: Node) -> Keys:
    """By column: the values that all scans of a table compare it with."""
    selected = {
        id(node.child): dict(equalities(node.predicate))
        for node in plan.walk()
        if isinstance(node, Select)
    }
    conditions = [selected.get(id(scan), {}) for scan in scans]
    shared = set(conditions[0]).intersection(*conditions[1:])
    return {
        name: tuple(dict.fromkeys(condition[name] for condition in conditions)) for name in shared
    }


def equalities(predicate: Expression) -> Iterator[tuple[str, str | int]]:
    """Columns, and the constants that they must be equal to."""
    for term in conjuncts(predicate):
        if not (isinstance(term, Compare) and term.op == "="):
            continue
        for column, value in ((term.left, term.right), (term.right, term.left)):
            if not isinstance(column, Column) or not isinstance(value, Literal):
                continue
            if isinstance(value.value, str | int) and value.type == column.type:
                yield column.name, value.value
