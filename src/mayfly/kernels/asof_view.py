"""ASOF JOIN over rows that come and go: at every instant each living left row with the closest
living right row of its key.

Idea: a right row that comes or goes concerns the left rows between it and the next living right row
of its key; a new left row looks for its own partner. Both by binary search in the rows of the key.
Invariant: a left row is in the answer once; while it has no partner, padded or not at all.
Cost: per event the left rows concerned, and one pass over the right rows of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.asof_terms import AsofTerms, OfClosest
from mayfly.kernels.codes import check_codes
from mayfly.kernels.delta import ID, LIFE, Delta, concatenated, taken
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, clustered, numbers, whole
from mayfly.kernels.operator import NO_IDS, Holding, StateKey, Working
from mayfly.kernels.room import touch
from mayfly.kernels.shown_rows import SINCE, shown_identities
from mayfly.kernels.view_rows import VISIBLE, ChangingRows, Evaluated, places_of
from mayfly.lifetime import MIN_TIME
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class AsofViewState:
    """The rows of both sides, and with what the left ones are in the answer, since when."""

    left: KeptRows
    right: KeptRows
    shown: KeptRows

    @property
    def rows(self) -> int:
        return self.left.rows + self.right.rows + self.shown.rows

    @property
    def bytes(self) -> int:
        return self.left.bytes + self.right.bytes + self.shown.bytes


@dataclass(frozen=True)
class AsofView(OfClosest):
    """Living left rows with their partners; ``padded`` keeps those without."""

    name: str
    columns: tuple[pa.Schema, pa.Schema]
    terms: AsofTerms
    padded: bool
    shapes: tuple[Shape, Shape]
    because: str = ""

    def state(self) -> AsofViewState:
        left, right = map(KeptRows, self.shapes)
        return AsofViewState(left, right, KeptRows(Shape(Structure.GROUPS)))

    def state_key(self) -> StateKey:
        return StateKey(
            "AsofView",
            (
                ("columns", self.columns),
                *self.terms.state_parts,
                ("padded", self.padded),
                ("shapes", self.shapes),
            ),
        )

    @property
    def detail(self) -> str:
        return f"{self.terms.text}; a view: {self.because}"

    def holdings(self) -> tuple[Holding, ...]:
        words, (left, right) = self.terms.words, self.shapes
        return (
            Holding("left", left.form, "", 0, words(0), "", left.ranges),
            Holding("right", right.form, "", 1, words(1), "", right.ranges),
            Holding("shown", Structure.GROUPS, "answer", None, words(0)),
        )

    def workings(self) -> tuple[Working, ...]:
        structure = "the rows of a key in the order of their times"
        reason = "a right row concerns the left rows up to the next one"
        return (Working("closest rows", structure, reason),)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.terms.stored_codes(rows, 1 if part == "right" else 0)

    def identities(self, state: AsofViewState) -> Int64s:
        return shown_identities(state.shown)

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: AsofViewState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[AsofViewState, Delta]:
        """The left rows that come, go or get another partner, at each instant of the step."""
        began, clock = interval.began, interval.clock
        kept, fresh, codes = [], [], [NO_IDS]
        for side, rows in enumerate((state.left, state.right)):
            rows = rows.cut(self._coded(inputs[side].cut, side))
            new = self._coded(inputs[side].born, side)
            due = rows.due(began, clock)
            codes += [numbers(table, CODE) for table in (new, *due)]
            kept.append(rows)
            fresh.append(new)
        later = [
            rows.after(chosen(new, numbers(new, EXP) >= clock), clock - 1)
            for rows, new in zip(kept, fresh, strict=True)
        ]
        touched = np.unique(np.concatenate(codes))
        if not len(touched):
            return AsofViewState(later[0], later[1], state.shown), Delta.empty(self._results)
        left, right = (
            self._alive(rows, new, touched, began) for rows, new in zip(kept, fresh, strict=True)
        )
        shown = rows_with(state.shown.of_codes(touched), self._no_shown)
        left, evaluated = self._evaluated(left, right, interval)
        changing = ChangingRows(
            self.columns[0].names, self._results, left, shown, places_of(left, shown), clock
        )
        delta, staying = changing.replaced(evaluated)
        still = state.shown.without(touched)
        if staying.num_rows:
            still = still.after(clustered(staying), MIN_TIME)
        return AsofViewState(later[0], later[1], still), delta

    @cached_property
    def _results(self) -> pa.Schema:
        return pa.schema([*self.columns[0], *self.columns[1]])

    @cached_property
    def _no_shown(self) -> pa.Table:
        names = zip(self.terms.key_names(0), self.terms.types, strict=True)
        fields = [pa.field(name, arrow_type(kind)) for name, kind in names]
        fields += list(self.columns[1])
        fields += [pa.field(name, pa.int64()) for name in (*LIFE, CODE, SINCE, VISIBLE)]
        return pa.schema(fields).empty_table()

    def _coded(self, rows: pa.Table, side: int) -> pa.Table:
        """Rows with their key; of the right side those that may be a partner."""
        coded = self.terms.coded(rows, self.columns[side], side)
        if side == 0 or not coded.num_rows:
            return coded
        return chosen(coded, self.terms.is_able(coded, 1))

    def _alive(self, kept: KeptRows, fresh: pa.Table, codes: Int64s, began: int) -> pa.Table:
        rows = rows_with(kept.of_codes(codes), fresh.slice(0, 0))
        return concatenated([chosen(rows, numbers(rows, EXP) >= began), fresh])

    def _evaluated(
        self, left: pa.Table, right: pa.Table, interval: Interval
    ) -> tuple[pa.Table, Evaluated]:
        """The left rows in order, and the partners of those that may have another one."""
        terms = self.terms
        moments, times = terms.moments(left, right)
        order = stable_order(numbers(left, CODE), moments, numbers(left, TS), numbers(left, ID))
        left, moments = taken(left, order), moments[order]
        ties = terms.tie_columns(right)
        order = stable_order(numbers(right, CODE), times, *ties, numbers(right, ID))
        right, times = taken(right, order), times[order]
        for side, rows in enumerate((left, right)):
            names = terms.key_names(side)
            check_codes(numbers(rows, CODE), [whole(rows.column(name)) for name in names])
        row, instant, partner = _partners(
            numbers(left, CODE), moments, numbers(left, TS), numbers(left, EXP),
            terms.is_able(left, 0), numbers(right, CODE), times, numbers(right, TS),
            numbers(right, EXP), terms.match.backward, terms.match.inclusive,
            interval.began, interval.clock,
        )  # fmt: skip
        touch(len(row))
        met = partner >= 0
        places = pa.array(partner, mask=~met)
        values = [
            whole(right.column(field.name)).take(places)
            if right.num_rows
            else pa.nulls(len(row), field.type)
            for field in self.columns[1]
        ]
        visible = np.ones(len(row), bool) if self.padded else met
        return left, Evaluated(row, instant, values, visible)


@compiled()
def _border(times: Int64s, alive: Int64s, total: int, time: int, beyond: bool) -> int:
    """How many of the living rows are before a time, or at it where ``beyond``."""
    low, high = 0, total
    while low < high:
        middle = (low + high) // 2
        value = times[alive[middle]]
        if value < time or (beyond and value == time):
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _partners(
    left_code: Int64s, left_time: Int64s, left_ts: Int64s, left_exp: Int64s, able: Bools,
    right_code: Int64s, right_time: Int64s, right_ts: Int64s, right_exp: Int64s,
    backward: bool, inclusive: bool, began: int, clock: int,
) -> tuple[Int64s, Int64s, Int64s]:  # fmt: skip
    """Left rows, instants and partners (-1: none) that may have changed at these instants."""
    row_of = [np.int64(0) for _ in range(0)]
    instant_of = [np.int64(0) for _ in range(0)]
    partner_of = [np.int64(0) for _ in range(0)]
    first, other = 0, 0
    while first < len(left_code):
        code = left_code[first]
        last = first
        while last < len(left_code) and left_code[last] == code:
            last += 1
        while other < len(right_code) and right_code[other] < code:
            other += 1
        start = other
        while other < len(right_code) and right_code[other] == code:
            other += 1
        moments = np.empty(last - first + 2 * (other - start), np.int64)
        count = 0
        for row in range(first, last):
            if left_ts[row] >= began:
                moments[count] = left_ts[row]
                count += 1
        for row in range(start, other):
            if right_ts[row] >= began:
                moments[count] = right_ts[row]
                count += 1
            if right_exp[row] < clock:
                moments[count] = right_exp[row]
                count += 1
        alive = np.empty(other - start, np.int64)
        concerned = np.zeros(last - first, np.bool_)
        for moment in np.unique(moments[:count]):
            total = 0
            for row in range(start, other):
                if right_ts[row] <= moment and right_exp[row] > moment:
                    alive[total] = row
                    total += 1
            concerned[:] = False
            for row in range(start, other):
                if right_ts[row] != moment and right_exp[row] != moment:
                    continue
                # From this right row to the next living one on the side of its left rows.
                time = right_time[row]
                spot = 0
                while spot < total and alive[spot] < row:
                    spot += 1
                if backward:
                    after = spot + 1 if spot < total and alive[spot] == row else spot
                    low, has_end = time, after < total
                    high = right_time[alive[after]] if has_end else time
                    for place in range(first, last):
                        if left_time[place] >= low and (not has_end or left_time[place] <= high):
                            concerned[place - first] = True
                else:
                    high, has_end = time, spot > 0
                    low = right_time[alive[spot - 1]] if has_end else time
                    for place in range(first, last):
                        if left_time[place] <= high and (not has_end or left_time[place] >= low):
                            concerned[place - first] = True
            for place in range(first, last):
                if left_ts[place] > moment or left_exp[place] <= moment:
                    continue
                if left_ts[place] != moment and not concerned[place - first]:
                    continue
                partner = np.int64(-1)
                if able[place]:
                    beyond = backward == inclusive
                    border = _border(right_time, alive, total, left_time[place], beyond)
                    spot = border - 1 if backward else border
                    if 0 <= spot < total:
                        partner = alive[spot]
                row_of.append(np.int64(place))
                instant_of.append(np.int64(moment))
                partner_of.append(partner)
        first = last
    return np.array(row_of), np.array(instant_of), np.array(partner_of)
