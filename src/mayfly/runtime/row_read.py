"""One-time queries that take the rows of one table one by one: nothing is compiled for them.

Idea: selections and projections keep no state, so at one instant the rows of the table pass through
the functions that the operators call, and that is the answer. Invariant: the same expressions are
evaluated, by the same code. Cost: the rows that the table gives, so those of a key alone if it is
read by key; no operators, clocks or logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from mayfly.kernels.delta import column_name, payload
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import Node, Project, RelationScan, Select, Shared
from mayfly.runtime.table_use import TableUse, equalities


@dataclass(frozen=True)
class RowRead:
    """Selections and projections over a table, from the table on."""

    scan: RelationScan
    steps: tuple[Select | Project, ...]

    @staticmethod
    def of(node: Node) -> RowRead | None:
        """None if something else is between the table and the answer."""
        steps: list[Select | Project] = []
        while isinstance(node, Select | Project | Shared):
            if not isinstance(node, Shared):
                steps.append(node)
            node = node.child
        return RowRead(node, tuple(reversed(steps))) if isinstance(node, RelationScan) else None

    @cached_property
    def use(self) -> TableUse:
        """What is needed of the table: the columns up to the first projection."""
        used: set[str] = set()
        keys: dict[str, tuple[str | int, ...]] = {}
        for step in self.steps:
            used |= {column.name for part in step.expressions() for column in part.columns()}
            if isinstance(step, Project):
                break
            for name, value in equalities(step.predicate):
                keys.setdefault(name, (value,))
        else:
            used = {column.name for column in self.scan.schema}
        names = [column.name for column in self.scan.schema]
        return TableUse(tuple(name for name in names if name in used) or (names[0],), keys)

    @cached_property
    def _own_names(self) -> dict[str, str]:
        return {column.name: column_name(column) for column in self.scan.schema}

    @cached_property
    def _schemas(self) -> tuple[pa.Schema | None, ...]:
        """What each projection gives."""
        return tuple(payload(s.schema) if isinstance(s, Project) else None for s in self.steps)

    def answer(self, rows: pa.Table) -> pa.Table:
        """Of rows as the table gives them."""
        names = [self._own_names.get(name, name) for name in rows.column_names]
        rows = rows.rename_columns(names)
        for step, schema in zip(self.steps, self._schemas, strict=True):
            if schema is None:
                assert isinstance(step, Select)
                if rows.num_rows:
                    rows = rows.filter(pa.array(satisfying(step.predicate, rows)))
                continue
            arrays = [
                rows.column(column_name(expression))
                if isinstance(expression, Column)
                else values_of(expression, rows, field.type)
                for expression, field in zip(step.expressions(), schema, strict=True)
            ]
            rows = pa.table(arrays, schema=schema)
        shown = self.steps[-1].schema if self.steps else self.scan.schema
        columns = {column.name: rows.column(column_name(column)) for column in shown}
        return pa.table(columns)
