"""Rows that stay in the answer while what stands beside them changes: OVER and ASOF JOIN as views.

Idea: what is computed of a row at an instant is compared with what it had before; equal values in a
row are one result. A result is born with the forecast of its row, and cut when another value takes
its place or the row is cut. Invariant: at most one result per row and instant, under an identity
made from the row's and the instant since which it holds. Cost: O(values computed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import adjacent_equal
from mayfly.kernels.delta import END, ID, LIFE, Delta, mixed_ids, taken, with_numbers
from mayfly.kernels.lifetime_rows import Bools, chosen, numbers, whole
from mayfly.kernels.shown_rows import SINCE
from mayfly.lifetime import NEVER
from mayfly.storage.segment import EXP, TS

VISIBLE = "_visible"


@dataclass(frozen=True)
class Evaluated:
    """Values of rows (by position) at instants, and whether rows are in the answer with them."""

    row: Int64s
    instant: Int64s
    values: Sequence[pa.Array]
    visible: Bools


@dataclass(frozen=True)
class ChangingRows:
    """The rows of a step, and what was shown of some of them before it (``places``: which).

    ``columns`` are those of rows, ``results`` those of the answer: rows, then values. ``shown`` has
    the values by the names that results have, and the ends that were announced.
    """

    columns: Sequence[str]
    results: pa.Schema
    rows: pa.Table
    shown: pa.Table
    places: Int64s
    clock: int

    @property
    def _value_names(self) -> list[str]:
        return list(self.results.names[len(self.columns) :])

    def replaced(self, evaluated: Evaluated) -> tuple[Delta, pa.Table]:
        """What comes and what ends, and what is shown after the step."""
        old = len(self.places)
        row = np.concatenate([self.places, evaluated.row])
        since = np.concatenate([numbers(self.shown, SINCE), evaluated.instant])
        order = stable_order(row, (np.arange(len(row)) >= old).astype(np.int64), since)
        row, since = row[order], since[order]
        columns = [
            pa.concat_arrays([whole(self.shown.column(name)).cast(new.type), new]).take(
                pa.array(order)
            )
            for name, new in zip(self._value_names, evaluated.values, strict=True)
        ]
        visible = np.concatenate([numbers(self.shown, VISIBLE) == 1, evaluated.visible])[order]
        differs = np.zeros(len(row), bool)
        for column in columns:
            differs[1:] |= ~adjacent_equal(column)
        differs &= visible
        differs[1:] |= (row[1:] != row[:-1]) | (visible[1:] != visible[:-1])
        differs[:1] = True
        heads = np.flatnonzero(differs)
        values = [column.take(pa.array(heads)) for column in columns]
        return self._results(row[heads], since[heads], order[heads], values, visible[heads])

    def _results(
        self, row: Int64s, since: Int64s, origin: Int64s, values: list[pa.Array], visible: Bools
    ) -> tuple[Delta, pa.Table]:
        old = origin < len(self.places)
        exp = numbers(self.rows, EXP)[row]
        following = np.full(len(row), NEVER, np.int64)
        if len(row) > 1:
            np.copyto(following[:-1], since[1:], where=row[1:] == row[:-1])
        ended = np.where(following == NEVER, exp, following)
        announced = ended.copy()
        announced[old] = numbers(self.shown, EXP)[origin[old]]
        table = self._table(row, since, announced, values)
        names = [*self.results.names, *LIFE]
        born = chosen(table, ~old & visible).select(names)
        early = old & (ended < announced) & visible
        cut = with_numbers(chosen(table, early), **{END: ended[early]}).select([*names, END])
        staying = np.flatnonzero((following == NEVER) & (exp >= self.clock))
        shown = self._staying(
            row[staying], since[staying], announced[staying],
            [value.take(pa.array(staying)) for value in values], visible[staying],
        )  # fmt: skip
        return Delta(born, cut), shown

    def _table(
        self, row: Int64s, since: Int64s, announced: Int64s, values: list[pa.Array]
    ) -> pa.Table:
        own = taken(self.rows.select([*self.columns, ID]), row)
        ids = mixed_ids(numbers(own, ID), since)
        arrays = [*own.select(list(self.columns)).columns, *values]
        life = (since, announced, ids)
        fields = [*self.results, *(pa.field(name, pa.int64()) for name in LIFE)]
        return pa.table([*arrays, *map(pa.array, life)], schema=pa.schema(fields))

    def _staying(
        self, row: Int64s, since: Int64s, announced: Int64s, values: list[pa.Array], visible: Bools
    ) -> pa.Table:
        names = self.shown.schema.names
        beside = set(self._value_names)
        own = [name for name in names if name in self.rows.schema.names and name not in beside]
        table = taken(self.rows.select(own), row)
        columns = {name: table.column(name) for name in own}
        columns |= dict(zip(self._value_names, values, strict=True))
        columns |= {EXP: pa.array(announced), SINCE: pa.array(since)}
        columns[VISIBLE] = pa.array(visible.astype(np.int64))
        return pa.table({name: columns[name] for name in names}, schema=self.shown.schema)


def places_of(rows: pa.Table, shown: pa.Table) -> Int64s:
    """Where the rows are that were shown: by identity and birth."""
    identity = mixed_ids(numbers(rows, ID), numbers(rows, TS))
    order = np.argsort(identity, kind="stable")
    sought = mixed_ids(numbers(shown, ID), numbers(shown, TS))
    places: Int64s = order[np.searchsorted(identity[order], sought)]
    return places
