"""Band joins: rows whose numbers or times lie within a distance of each other, by a sorted probe.

Idea: both sides are kept in the order of their value, so the partners of a row are one stretch of
the other side, between ``value − most`` and ``value − least``. The stretch is taken a little wider
than floating point could be wrong by, and the condition itself decides, so it means what it says.
Invariant: every pair that satisfies the condition lies in a stretch. Cost: O(log) per row and run,
and the candidates; without it every pair of alive rows is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import CODE, chosen, numbers
from mayfly.kernels.operator import Working
from mayfly.kernels.room import touch
from mayfly.kernels.stateless import values_of
from mayfly.kernels.window_join import PAIRS_AT_ONCE, Condition, Pairs, with_code
from mayfly.plan.expressions import Expression
from mayfly.plan.plan_text import expression_text
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS
from mayfly.windows.domain import ranks

Floats = npt.NDArray[np.float64]
SPARE = 8.0
"""Units in the last place by which a stretch is wider on either side."""


@dataclass(frozen=True, slots=True)
class Band:
    """``least <= left − right <= most``, of one expression of each side."""

    left: Expression
    right: Expression
    least: float
    most: float

    @property
    def words(self) -> str:
        return f"{expression_text(self.left)} near {expression_text(self.right)}"


@dataclass(frozen=True, slots=True)
class BandCondition(Condition):
    """A condition without equal keys whose rows are kept in the order of a band's values."""

    band: Band | None = None

    @property
    def workings(self) -> tuple[Working, ...]:
        assert self.band is not None
        reason = "partners are one stretch of rows in the order of the value; no other is looked at"
        return (Working(self.band.words, "a sorted probe", reason),)

    def _values(self, rows: pa.Table, side: int) -> pa.Array:
        assert self.band is not None
        value = self.band.left if side == 0 else self.band.right
        values = values_of(value, rows, arrow_type(value.type))
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.int64())
        return values.cast(pa.float64(), safe=False)

    def codes(self, rows: pa.Table, side: int) -> Int64s:
        return ranks(self._values(rows, side))

    def with_codes(self, rows: pa.Table, side: int) -> pa.Table:
        """The rows that have a value, under its rank: a NULL is near nothing."""
        values = self._values(rows, side)
        if values.null_count:
            rows = chosen(rows, pc.is_valid(values).to_numpy(zero_copy_only=False))
            values = values.drop_null()
        return with_code(rows, ranks(values))

    def keyless(self, rows: pa.Table, side: int) -> int:
        return int(self._values(rows, side).null_count)

    def candidates(self, left: pa.Table, right: pa.Table) -> Iterator[Pairs]:
        """Pairs that lie near each other and are alive together; the shorter side probes."""
        turned = left.num_rows > right.num_rows
        few, many = (right, left) if turned else (left, right)
        low, high = self._stretches(few, numbers(many, CODE), turned)
        ends = np.cumsum(high - low)
        start = 0
        while start < len(ends):
            reached = ends[start - 1] if start else 0
            stop = int(np.searchsorted(ends, reached + PAIRS_AT_ONCE, side="right"))
            stop = max(stop, start + 1)
            pairs = _expanded(low[start:stop], high[start:stop], start)
            touch(len(pairs[0]))
            pairs = _alive_together(few, many, pairs)
            if len(pairs[0]):
                yield (pairs[1], pairs[0]) if turned else pairs
            start = stop

    def _stretches(self, rows: pa.Table, codes: Int64s, turned: bool) -> tuple[Int64s, Int64s]:
        """Where the partners of each row begin and end among the codes of the other side."""
        assert self.band is not None
        value = self._values(rows, 1 if turned else 0).to_numpy(zero_copy_only=False)
        least, most = self.band.least, self.band.most
        with np.errstate(all="ignore"):
            first, last = (value + least, value + most) if turned else (value - most, value - least)
            spare = SPARE * np.spacing(np.maximum(np.abs(value), max(abs(least), abs(most), 1.0)))
        odd = ~np.isfinite(value)
        first, last = np.where(odd, -np.inf, first - spare), np.where(odd, np.nan, last + spare)
        low = np.searchsorted(codes, ranks(pa.array(first)), side="left")
        high = np.searchsorted(codes, ranks(pa.array(last)), side="right")
        return low.astype(np.int64), np.maximum(low, high).astype(np.int64)


def _expanded(low: Int64s, high: Int64s, first: int) -> Pairs:
    """All positions of each stretch, beside the number of its row."""
    sizes = high - low
    rows = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return rows + first, np.arange(len(rows)) - before[rows] + low[rows]


def _alive_together(few: pa.Table, many: pa.Table, pairs: Pairs) -> Pairs:
    here, there = pairs
    together = np.maximum(numbers(few, TS)[here], numbers(many, TS)[there]) < np.minimum(
        numbers(few, EXP)[here], numbers(many, EXP)[there]
    )
    return here[together], there[together]
