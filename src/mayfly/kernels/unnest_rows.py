"""UNNEST: one row per element of an array or map, with the life of its row.

Idea: rows are repeated as often as they have elements, whose flat values Arrow keeps side by side.
Invariant: a row that is cut gives the same elements under the same identities (made from the row's
and the place of the element), so no state is needed. Cost: the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import ID, SEEN, Delta, mixed_ids, payload_names, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import numbers
from mayfly.kernels.operator import Moving, Operator, StateKey
from mayfly.kernels.room import touch
from mayfly.kernels.stateless import Nothing, values_of
from mayfly.plan.expressions import Expression
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import arrow_type


@dataclass(frozen=True, slots=True)
class UnnestRows(Operator):
    """The rows with the elements of ``value`` behind them, in ``columns``' last fields."""

    name: str
    value: Expression
    columns: pa.Schema
    width: int
    """How many of the columns are of elements."""
    outer: bool = False
    counts_from: int | None = None

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        return StateKey(
            "UnnestRows",
            (
                ("value", self.value),
                ("columns", self.columns),
                ("width", self.width),
                ("outer", self.outer),
                ("counts_from", self.counts_from),
            ),
        )

    @property
    def title(self) -> str:
        return "Unnest"

    @property
    def detail(self) -> str:
        names = ", ".join(self.columns.names[-self.width :])
        return f"{expression_text(self.value)} AS {names}{' OUTER' if self.outer else ''}"

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread()

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        delta = inputs[0]
        if not delta.rows:
            return state, Delta.empty(self.columns, dual=SEEN in delta.born.schema.names)
        touch(delta.rows)
        return state, delta.map(self.expanded)

    def expanded(self, rows: pa.Table) -> pa.Table:
        """A row for each element."""
        nested = values_of(self.value, rows, arrow_type(self.value.type))
        starts, sizes = _bounds(nested)
        repeats = np.maximum(sizes, 1) if self.outer else sizes
        row = np.repeat(np.arange(len(sizes)), repeats)
        place = np.arange(len(row)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        missing = place >= sizes[row]
        around = taken(rows, row)
        own = [around.column(name) for name in self.columns.names[: -self.width]]
        elements = self._elements(nested, starts[row] + place, place, missing)
        fields = list(self.columns)[-self.width :]
        arrays = [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(elements, fields, strict=True)
        ]
        life = [name for name in rows.schema.names if name not in set(payload_names(rows))]
        table = pa.table(
            [*own, *arrays, *(around.column(name) for name in life)],
            names=[*self.columns.names, *life],
        )
        return with_numbers(table, **{ID: mixed_ids(numbers(around, ID), place)})

    def _elements(
        self, nested: pa.Array, flat: Int64s, place: Int64s, missing: np.ndarray
    ) -> list[pa.Array]:
        index = pa.array(np.where(missing, 0, flat), mask=missing)
        if pa.types.is_map(nested.type):
            arrays = [nested.keys.take(index), nested.items.take(index)]
        else:
            values = nested.values.take(index)
            counted = self.counts_from is not None
            arrays = values.flatten() if self.width - counted > 1 else [values]
        if self.counts_from is None:
            return arrays
        position = pa.array(place + self.counts_from, mask=missing)
        return [*arrays, position] if self.counts_from else [position, *arrays]


def _bounds(nested: pa.Array) -> tuple[Int64s, Int64s]:
    """Where each row's elements begin and how many there are; none where the row is NULL."""
    offsets = nested.offsets.to_numpy().astype(np.int64)
    valid = nested.is_valid().to_numpy(zero_copy_only=False)
    return offsets[:-1], np.where(valid, np.diff(offsets), 0)
