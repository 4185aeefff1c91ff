"""Decayed sums: every row counts half as much after each half-life, for ever.

Idea: SUM(x · 2^(−age / h)) shrinks by one factor for all rows, so one number per group, valid at
one instant, says all; it is scaled when rows come or an answer is asked for.
Cost: one value per group; a row costs one power of two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.lifetime_rows import whole
from mayfly.synopses.contents.partial_values import VALUE, Groups, Keys, plain

Floats = npt.NDArray[np.float64]


class DecayedSum:
    """Decayed sums of an argument by group; a ``half_life`` is in µs."""

    def __init__(self, argument: str, keys: Keys, half_life: int) -> None:
        if half_life < 1:
            raise InvalidSetting(f"a half-life of {half_life} µs", "give a time above 0")
        self.argument, self.keys, self.half_life = argument, keys, half_life
        self._sums: pa.Table | None = None
        self._instant = 0

    def add(self, rows: pa.Table, instants: Int64s) -> None:
        """Take in rows, in any order; NULL counts for nothing."""
        columns = plain(rows, self.keys, self.argument, VALUE)
        if not columns.num_rows:
            return
        values = whole(columns.column(VALUE)).cast(pa.float64()).fill_null(0.0)
        now = max(self._instant if self._sums is not None else int(instants[0]), *instants.tolist())
        decayed = values.to_numpy(zero_copy_only=False) * self._factor(now - instants)
        fresh = columns.drop_columns([VALUE]).append_column(VALUE, pa.array(decayed))
        previous = [] if self._sums is None else [self.answer(now)]
        table = pa.concat_tables([*previous, fresh.select([*self.keys, VALUE])]).combine_chunks()
        groups = Groups.of(table, self.keys)
        amounts = whole(table.column(VALUE)).to_numpy(zero_copy_only=False)
        sums = np.bincount(groups.number, amounts, len(groups))
        self._sums, self._instant = groups.table(table, self.keys, {VALUE: pa.array(sums)}), now

    def answer(self, now: int) -> pa.Table:
        """The keys of each group, and its sum at an instant from the last row on."""
        if self._sums is None:
            return pa.table({VALUE: pa.array([], pa.float64())})
        if now < self._instant:
            raise BadInput(
                f"the instant {now} is before the last row, at {self._instant}",
                "ask about an instant from there on",
            )
        sums: Floats = whole(self._sums.column(VALUE)).to_numpy(zero_copy_only=False)
        factor = self._factor(np.array([now - self._instant]))
        return self._sums.set_column(len(self.keys), VALUE, pa.array(sums * factor))

    def _factor(self, age: Int64s) -> Floats:
        factor: Floats = np.exp2(-age / self.half_life)
        return factor
