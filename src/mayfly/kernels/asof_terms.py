"""What an ASOF join computes of its rows: codes of keys, times to compare, the order of ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import group_codes
from mayfly.kernels.delta import END, LIFE, with_numbers
from mayfly.kernels.frame_layout import sort_columns
from mayfly.kernels.lifetime_rows import CODE, Bools, clustered, whole
from mayfly.kernels.operator import Key, Operator, plain_key
from mayfly.kernels.stateless import values_of
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import Equality
from mayfly.plan.over_frames import Match
from mayfly.plan.plan_text import asof_text, expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import DataType, arrow_type

_KEYS = ("_left_key", "_right_key")


@dataclass(frozen=True)
class AsofTerms:
    """The condition of an ASOF join, side by side."""

    keys: tuple[tuple[Expression, ...], tuple[Expression, ...]]
    types: tuple[DataType, ...]
    match: Match
    times: tuple[Expression, Expression]
    ties: tuple[Expression, ...]

    @property
    def state_parts(self) -> tuple[tuple[str, Any], ...]:
        """What a stored state is found again by."""
        return (
            ("keys", self.keys),
            ("types", self.types),
            ("match", self.match.value),
            ("times", self.times),
            ("ties", self.ties),
        )

    @property
    def text(self) -> str:
        pairs = map(Equality, *self.keys)
        return asof_text(self.match, self.times, tuple(pairs))

    def key_of(self, side: int) -> Key:
        return plain_key(self.keys[side], self.types)

    def words(self, side: int) -> tuple[str, ...]:
        return tuple(map(expression_text, self.keys[side]))

    def key_names(self, side: int) -> tuple[str, ...]:
        return tuple(f"{_KEYS[side]}{number}" for number in range(len(self.types)))

    def parts(self, rows: pa.Table, side: int) -> list[pa.Array]:
        pairs = zip(self.keys[side], self.types, strict=True)
        return [values_of(key, rows, arrow_type(kind)) for key, kind in pairs]

    def codes(self, rows: pa.Table, side: int) -> Int64s:
        return group_codes(self.parts(rows, side), rows.num_rows)

    def stored_codes(self, rows: pa.Table, side: int) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.key_names(side)]
        return group_codes(columns, rows.num_rows)

    def coded(self, rows: pa.Table, columns: pa.Schema, side: int) -> pa.Table:
        """Rows with their key beside them and its code, clustered."""
        names = [*columns.names, *LIFE, *([END] if END in rows.schema.names else [])]
        table = rows.select(names).combine_chunks()
        parts = self.parts(rows, side)
        for name, part in zip(self.key_names(side), parts, strict=True):
            table = table.append_column(name, part)
        table = with_numbers(table, **{CODE: group_codes(parts, rows.num_rows)})
        return clustered(table) if table.num_rows else table

    def is_able(self, rows: pa.Table, side: int) -> Bools:
        """Which rows may have a partner: a NULL key, or time, has none."""
        arrays = [*self.parts(rows, side), self._time(rows, side)]
        able = np.ones(rows.num_rows, bool)
        for array in arrays:
            if array.null_count:
                able &= pc.is_valid(array).to_numpy(zero_copy_only=False)
        return able

    def _time(self, rows: pa.Table, side: int) -> pa.Array:
        return values_of(self.times[side], rows, arrow_type(self.times[side].type))

    def moments(self, left: pa.Table, right: pa.Table) -> tuple[Int64s, Int64s]:
        """Whole numbers that compare as the times of both sides do."""
        times = [self._time(rows, side) for side, rows in enumerate((left, right))]
        kind = times[0].type
        both = pa.concat_arrays([times[0], times[1].cast(kind)])
        keys = sort_columns(both, False, True)[-1]
        return keys[: left.num_rows], keys[left.num_rows :]

    def tie_columns(self, right: pa.Table) -> Sequence[Int64s]:
        return [
            column
            for tie in self.ties
            for column in sort_columns(values_of(tie, right, arrow_type(tie.type)), False, True)
        ]


@compiled()
def closest(
    left_group: Int64s,
    left_time: Int64s,
    right_group: Int64s,
    right_time: Int64s,
    backward: bool,
    inclusive: bool,
) -> Int64s:
    """For each left row the right row (sorted by group, time and ties) that is next to it; -1 if
    there is none."""
    partners = np.full(len(left_group), -1, np.int64)
    for row in range(len(left_group)):
        group, time = left_group[row], left_time[row]
        # The first right row that is behind the left one, or at it where that is not before.
        beyond = backward == inclusive
        low, high = 0, len(right_group)
        while low < high:
            middle = (low + high) // 2
            before = right_group[middle] < group or (
                right_group[middle] == group
                and (right_time[middle] < time or (beyond and right_time[middle] == time))
            )
            if before:
                low = middle + 1
            else:
                high = middle
        place = low - 1 if backward else low
        if 0 <= place < len(right_group) and right_group[place] == group:
            partners[row] = place
    return partners


class OfClosest(Operator):
    """An ASOF join: rows of a key lie in one bucket."""

    __slots__ = ()
    terms: AsofTerms
    padded: bool

    @property
    def title(self) -> str:
        return "LEFT ASOF join" if self.padded else "ASOF join"

    @property
    def reason(self) -> str:
        return "a row meets the closest one of its key in one bucket"

    @property
    def keyed(self) -> bool:
        return True

    def key_of(self, side: int = 0) -> Key:
        return self.terms.key_of(side)

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return self.terms.words(side)

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self.terms.codes(rows, side)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return (kept[0] or Spread()) | Spread.by(self.key_of())
