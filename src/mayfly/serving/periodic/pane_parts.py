"""What a scan has read of panes: partial rows, merged when an answer is made of them.

Idea: to read a pane is to take a reference to its table; the rows of a group become one when a
query of the scan answers, and those that answer later go on from that (CS2).
Invariant: the order of parts does not matter. Cost: a sort per answer, of what came since the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.kernels.delta import concatenated
from mayfly.kernels.lifetime_rows import chosen
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_store import PaneStore
from mayfly.plan.expressions import Column
from mayfly.plan.pane_functions import COUNT, ROWS, SUM


@dataclass
class PaneParts:
    """Tables of partial rows; replaced by one that means the same, once they are merged."""

    tables: tuple[pa.Table, ...] = ()
    subtracted: bool = False
    """Whether something was taken out: then groups may be left without a row."""

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables)


@dataclass
class PartsAlgebra:
    """Merges the panes of a store."""

    store: PaneStore

    @property
    def zero(self) -> PaneParts:
        return PaneParts()

    def merge(self, parts: Sequence[PaneParts]) -> PaneParts:
        tables = tuple(table for part in parts for table in part.tables)
        return PaneParts(tables, any(part.subtracted for part in parts))

    def subtract(self, whole: PaneParts, part: PaneParts) -> PaneParts:
        taken_out = tuple(self._negated(table) for table in map(self.fitted, part.tables))
        return PaneParts((*whole.tables, *taken_out), subtracted=True)

    def merged(self, parts: PaneParts) -> pa.Table:
        """One row for each group, or more where sums would not fit."""
        if len(parts.tables) == 1 and not parts.subtracted:
            return self.fitted(parts.tables[0])
        tables = [self.fitted(table) for table in parts.tables]
        rows = concatenated([self.store.nothing_stored, *tables])
        if rows.num_rows:
            again = self.store.partials.again
            rows = again.merged(rows, np.zeros(rows.num_rows, np.int64))
            rows = rows.select(self.store.nothing_stored.schema.names)
        if parts.subtracted:
            rows = self._remaining(rows)
        parts.tables, parts.subtracted = (rows,), False
        return rows

    def fitted(self, table: pa.Table) -> pa.Table:
        """With the columns of the store; panes from before a number was asked for lack it."""
        schema = self.store.nothing_stored.schema
        if table.schema.names == schema.names:
            return table
        arrays = [
            table.column(name) if name in table.schema.names else pa.nulls(table.num_rows, kind)
            for name, kind in zip(schema.names, schema.types, strict=True)
        ]
        return pa.table(arrays, schema=schema)

    def _negated(self, table: pa.Table) -> pa.Table:
        for number in self.store.contents:
            place = table.schema.get_field_index(_stored(number.column))
            kind = table.schema.field(place).type
            column = pc.negate_checked(table.column(place)).cast(kind)
            table = table.set_column(place, table.schema.field(place), column)
        return table

    def _remaining(self, rows: pa.Table) -> pa.Table:
        """Groups that have rows left; sums of no value are NULL."""
        by_meaning = {(n.function, n.argument): n for n in self.store.contents}
        counted = rows.column(_stored(by_meaning[ROWS, None].column))
        rows = chosen(rows, counted.to_numpy() > 0)
        for number in self.store.contents:
            if number.function == SUM:
                values = rows.column(_stored(by_meaning[COUNT, number.argument].column))
                place = rows.schema.get_field_index(_stored(number.column))
                field = rows.schema.field(place)
                left = pc.if_else(pc.equal(values, 0), pa.scalar(None, field.type), rows[place])
                rows = rows.set_column(place, field, left)
        return rows


@dataclass(frozen=True)
class RowSummary:
    """Makes of the rows of a pane what queries over a store merge."""

    algebra: PartsAlgebra

    def __call__(self, rows: pa.Table) -> PaneParts:
        store = self.algebra.store
        for operator in store.intake:
            rows = operator.prepared(rows)
        return PaneParts((store.stored(rows),))


def _stored(column: Column) -> str:
    return f".{column.name}"


def stored_names(contents: Sequence[PaneNumber]) -> list[str]:
    """What numbers of panes are called in tables."""
    return [_stored(number.column) for number in contents]
