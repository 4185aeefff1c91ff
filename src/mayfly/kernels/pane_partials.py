"""Partial values of panes: what aggregates over a window with SLIDE keep instead of rows.

Idea: rows between two neighbouring edges of some windows come and go together in all of them: they
are a *pane* (pane_edges.py). Rows of one group and pane become one row with the pane's count, sum,
least and largest value, and the time of the last. Values that DISTINCT asks for tell rows apart.
Invariant: merging partial rows again, in any order, gives what merging their rows at once does; a
group whose sum does not fit 64 bits is passed on row by row. Cost: a sort per step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import Delta, payload, taken
from mayfly.kernels.group_events import HALF, Wide
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import Bools, chosen, numbers
from mayfly.kernels.moment_parts import MomentParts
from mayfly.kernels.operator import StateKey
from mayfly.kernels.pane_edges import edges, next_edges, period_of
from mayfly.kernels.pane_sketches import SKETCHES
from mayfly.kernels.refreshes import rounded
from mayfly.kernels.stateless import Nothing, Passing, values_of
from mayfly.lifetime import NEVER
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.pane_functions import COUNT, MAX, MIN, MOMENTS, ROWS, SUM
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import DOUBLE, arrow_type
from mayfly.plan.window_kinds import Cumulative, Range
from mayfly.storage.segment import EXP, TS
from mayfly.windows.domain import keys_in_order

_UNION = " union"
"""Behind the name of a sketch: its parts are sketches, too."""
GROUP = "_group"
"""The code of a row's keys."""
CARRIED = (TS, EXP, GROUP)
"""What a merged row has of the last one."""


@dataclass(frozen=True, slots=True)
class PaneNumber:
    """One number of a pane: ``function`` of the argument's values, in a column of its own."""

    function: str
    argument: Expression | None
    column: Column

    @property
    def words(self) -> str:
        inner = "*" if self.argument is None else expression_text(self.argument)
        return f"{'COUNT' if self.function == ROWS else self.function.upper()}({inner})"

    @property
    def merging(self) -> PaneNumber:
        """What makes one number of those of parts of a pane."""
        added = SUM if self.function in (ROWS, COUNT) else self.function
        added = f"{added}{_UNION}" if added in SKETCHES else added
        return PaneNumber(added, self.column, self.column)

    def amounts(self, rows: pa.Table, kind: pa.DataType) -> pa.Array:
        """What each row brings."""
        if self.argument is None:
            return pa.array(np.ones(rows.num_rows, np.int64))
        if self.function == COUNT:
            whole = values_of(self.argument, rows, arrow_type(self.argument.type))
            return pc.is_valid(whole).cast(pa.int64())
        if self.function in SKETCHES:
            return values_of(self.argument, rows, arrow_type(self.argument.type))
        if self.function == MOMENTS and not self.argument.type.is_nested:
            values = values_of(self.argument, rows, arrow_type(self.argument.type))
            return MomentParts.of_values(values).structs()
        return values_of(self.argument, rows, kind)

    @staticmethod
    def schema(numbers_of: Sequence[PaneNumber]) -> pa.Schema:
        return payload(tuple(number.column for number in numbers_of))

    @property
    def adds(self) -> bool:
        """Whether it is a total that parts can be taken out of again."""
        return self.function in (ROWS, COUNT, SUM) and self.column.type != DOUBLE


def partials_text(
    contents: Sequence[PaneNumber],
    values: Sequence[Expression],
    keys: Sequence[Expression],
    last: str,
) -> str:
    """What is kept for what: ``last`` is what tells rows of a group and value apart."""
    kept = [content.words for content in contents]
    kept += [f"values of {expression_text(value)}" for value in values]
    return f"{', '.join(kept)} BY {', '.join([*map(expression_text, keys), last])}"


@dataclass(frozen=True, slots=True)
class PanePartials(Passing):
    """Rows of a stream merged by group and pane, on their way to what keeps panes.

    ``keys`` tell groups apart, ``values`` rows of one pane; ``columns`` are these and what
    ``contents`` make. Panes are cut at the edges of all ``windows``.
    """

    name: str
    windows: tuple[Range, ...]
    keys: tuple[Expression, ...]
    values: tuple[Expression, ...]
    contents: tuple[PaneNumber, ...]
    columns: pa.Schema

    def state_key(self) -> StateKey:
        return StateKey(
            "PanePartials",
            (
                ("windows", self.windows),
                ("keys", self.keys),
                ("values", self.values),
                ("contents", self.contents),
                ("columns", self.columns),
            ),
        )

    @property
    def title(self) -> str:
        return "Panes"

    @property
    def detail(self) -> str:
        return partials_text(self.contents, self.values, self.keys, "pane")

    @property
    def panes(self) -> PanePartials:
        return self

    @property
    def again(self) -> PanePartials:
        """What merges partial rows that are parts of one pane."""
        named = [Column("", name.removeprefix("."), part.type) for name, part in self._named()]
        return replace(
            self,
            keys=tuple(named[: len(self.keys)]),
            values=tuple(named[len(self.keys) :]),
            contents=tuple(content.merging for content in self.contents),
        )

    def _named(self) -> list[tuple[str, Expression]]:
        parts = (*self.keys, *self.values)
        return list(zip(self.columns.names, parts, strict=False))

    def prepared(self, rows: pa.Table) -> pa.Table:
        """Rows of which only ``_ts`` is known: a pane has the last one of its rows."""
        shown = self._shown(numbers(rows, TS))
        if not shown.all():
            rows = chosen(rows, shown)
        return self.merged(rows, next_edges(numbers(rows, TS), edges(self.windows)))

    def _shown(self, ts: Int64s) -> Bools:
        """Which rows some refresh shows: a window may be shorter than its period."""
        if any(window.duration >= period_of(window) for window in self.windows):
            return np.ones(len(ts), bool)
        shown: Bools = np.logical_or.reduce(
            [
                rounded(ts, window.slide) < rounded(later(ts, window.duration), window.slide)
                for window in self.windows
            ]
        )
        return shown

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        raise AssertionError("panes are made before anything is stepped")

    def merged(self, rows: pa.Table, ends: Int64s) -> pa.Table:
        """One row for each group and pane, known by where that ends, with the other columns of
        its last row."""
        kinds = list(self.columns.types)
        parts = [
            unsigned_zeros(values_of(part, rows, kind))
            for part, kind in zip((*self.keys, *self.values), kinds, strict=False)
        ]
        codes = group_codes(parts, rows.num_rows)
        order = stable_order(codes, ends, numbers(rows, TS))
        if parts:
            check_codes(codes[order], [column.take(pa.array(order)) for column in parts])
        heads = np.zeros(len(order), bool)
        heads[:1] = True
        for column in (codes[order], ends[order]):
            heads[1:] |= column[1:] != column[:-1]
        amounts = [
            content.amounts(rows, kind).take(pa.array(order))
            for content, kind in zip(self.contents, kinds[len(parts) :], strict=True)
        ]
        heads = self._fitting(heads, amounts)
        pieces = np.flatnonzero(heads)
        last = order[np.append(pieces, len(order))[1:] - 1]
        arrays = [column.take(pa.array(last)) for column in parts]
        arrays += [
            _reduced(content.function, values, pieces)
            for content, values in zip(self.contents, amounts, strict=True)
        ]
        carried = [name for name in rows.schema.names if name in CARRIED]
        arrays = [array.cast(kind) for array, kind in zip(arrays, kinds, strict=True)]
        around = taken(rows.select(carried), last)
        return pa.table(
            [*arrays, *around.columns], names=[*self.columns.names, *around.schema.names]
        )

    def _fitting(self, heads: Bools, amounts: Sequence[pa.Array]) -> Bools:
        """The pieces, without those whose sum would not fit: their rows stay apart."""
        pieces = np.flatnonzero(heads)
        fits = np.ones(len(pieces), bool)
        for content, values in zip(self.contents, amounts, strict=True):
            if content.adds and pa.types.is_integer(values.type):
                fits &= _sums(values, pieces).fits
        if fits.all():
            return heads
        apart: Bools = heads | np.repeat(~fits, np.diff(np.append(pieces, len(heads))))
        return apart


def later(ts: Int64s, duration: int) -> Int64s:
    """When rows leave a window of a length, before it is rounded to refreshes."""
    return np.where(ts > NEVER - duration, NEVER, ts + duration)


def leaving(ts: Int64s, window: Range) -> Int64s:
    """When rows leave a window, before it is rounded to refreshes."""
    if isinstance(window, Cumulative):
        ends: Int64s = window.over_after(ts)
        return ends
    return later(ts, window.duration)


def _reduced(function: str, values: pa.Array, pieces: Int64s) -> pa.Array:
    """A number for each piece of sorted rows, NULL where it has no value."""
    if function in (MIN, MAX):
        return extremes(values, pieces, function == MAX)
    if function.removesuffix(_UNION) in SKETCHES:
        return _sketched(function, values, pieces)
    if function == MOMENTS or not pa.types.is_integer(values.type):
        group = np.repeat(np.arange(len(pieces)), np.diff(np.append(pieces, len(values))))
        if function == MOMENTS:
            return MomentParts.of_structs(values).merged(group, len(pieces)).structs()
        table = pa.table({"group": group, "value": values})
        return table.group_by("group", use_threads=False).aggregate([("value", "sum")])["value_sum"]
    missing = None
    if values.null_count:
        there = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = added(there, pieces) == 0
    return pa.array(_sums(values, pieces).low, mask=missing)


def _sketched(function: str, values: pa.Array, pieces: Int64s) -> pa.Array:
    kind, made = SKETCHES[function.removesuffix(_UNION)], list[bytes | None]()
    for start, end in pairwise([*pieces.tolist(), len(values)]):
        piece = values.slice(start, end - start).drop_null()
        if function.endswith(_UNION):
            parts = piece.to_pylist()
            made.append(kind.union(parts) if len(parts) > 1 else next(iter(parts), None))
        elif not len(piece):
            made.append(None)
        else:
            counted = pc.value_counts(piece)
            counts = counted.field("counts").to_numpy(zero_copy_only=False)
            made.append(kind.made(counted.field("values"), counts))
    return pa.array(made, pa.binary())


def _sums(values: pa.Array, pieces: Int64s) -> Wide:
    """Sums of whole numbers: halves are added apart."""
    filled = pc.fill_null(values, 0) if values.null_count else values
    whole = filled.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return Wide.of_halves(added(whole & HALF, pieces), added(whole >> 32, pieces))


def added(values: Int64s, pieces: Int64s) -> Int64s:
    """The sum of each piece of some numbers."""
    return np.add.reduceat(values, pieces) if len(pieces) else values[:0]


def extremes(values: pa.Array, pieces: Int64s, largest: bool) -> pa.Array:
    """The least or largest value of each piece, NULL where there is none."""
    there = pc.is_valid(values).to_numpy(zero_copy_only=False)
    group = np.cumsum(np.bincount(pieces, minlength=len(values)))[there] - 1
    present = values.drop_null()
    order = stable_order(group, keys_in_order(present))
    group = group[order]
    bounds = group[1:] != group[:-1]
    ends = np.append(bounds, True) if largest else np.append(True, bounds)
    chosen_rows = order[ends[: len(group)]]
    where = np.full(len(pieces), -1, np.int64)
    where[group[ends[: len(group)]]] = chosen_rows
    places = pa.array(where, mask=where < 0)
    return unsigned_zeros(present.take(places))
