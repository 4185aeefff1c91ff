"""EXCEPT ALL over rows with lifetimes: per value, the v1 - v2 youngest alive left rows.

Idea: values that nothing happens to keep their answer. For the others, a sweep over the events of
the step (arrivals and ends on either side; ends first at one instant) keeps the alive left rows in
order of age and moves the border between those outside and the youngest ones inside: nothing that
happens at an instant moves it further than by as many rows.
Invariant: after each instant, exactly max(v1 - v2, 0) left rows of a value are in the answer, and
``_since`` says since when (NEVER: not in it). Every arrival and end on either side may add or
remove (spec; the thesis's 2.2.2 overlooks some). Cost: O(events + alive rows of their values),
apart from dead rows of this step that the border crosses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, distinct_of, places_in, stable_order
from mayfly.kernels.codes import are_exact, check_codes, group_codes
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    Delta,
    concatenated,
    mixed_ids,
    taken,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers, whole
from mayfly.kernels.operator import NO_IDS, Forgetting, Holding, Key, Operator, StateKey, same_kind
from mayfly.kernels.window_join import BothKept, kept_inputs
from mayfly.lifetime import NEVER
from mayfly.plan.spread import Spread
from mayfly.storage.segment import EXP, TS

SINCE = "_since"
_STRETCHES = f"UniTuple({WRITE}, 3)"


@dataclass(frozen=True, slots=True)
class ExceptAllRows(Operator):
    """Left rows without as many equal right rows; NULLs are equal, columns match by position."""

    name: str
    columns: tuple[pa.Schema, pa.Schema]
    shapes: tuple[Shape, Shape]

    def state(self) -> BothKept:
        return BothKept(KeptRows(self.shapes[0]), KeptRows(self.shapes[1]))

    def state_key(self) -> StateKey:
        return StateKey(
            "ExceptAllRows",
            (
                ("columns", self.columns),
                ("shapes", self.shapes),
            ),
        )

    @property
    def title(self) -> str:
        return "EXCEPT ALL"

    @property
    def sign(self) -> str:
        return " − "

    @property
    def reason(self) -> str:
        return "a tuple meets what may exclude it in one bucket"

    def holdings(self) -> tuple[Holding, ...]:
        return kept_inputs(self, ("left", "right"), self.shapes)

    @property
    def keyed(self) -> bool:
        return True

    def key_of(self, side: int = 0) -> Key:
        kinds = zip(self.columns[side], self.columns[0], strict=True)
        return tuple(
            column.name if same_kind(column.type, two.type) else None for column, two in kinds
        )

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(self.columns[side].names)

    def place(self, spread: Spread | None) -> tuple[str, ...]:
        return tuple(self.columns[0].names)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return (kept[0] or Spread()) | Spread.by(self.key_of())

    def forgets(self) -> tuple[Forgetting, ...]:
        """Nothing happens to a value of which no row comes on either side."""
        own = self.columns[0].names
        columns = {
            side: tuple(zip(self.columns[side].names, own, strict=True)) for side in range(2)
        }
        return (Forgetting(("left", "right"), columns),)

    def identities(self, state: BothKept) -> Int64s:
        parts = zip(state.left.column(ID), state.left.column(SINCE), strict=True)
        shown = (mixed_ids(ids, since)[since != NEVER] for ids, since in parts)
        return np.concatenate([NO_IDS, *shown])

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        arrays = [whole(rows.column(name)) for name in self.columns[side].names]
        kinds = [column.type for column in self.columns[0]]
        return group_codes([a.cast(k) for a, k in zip(arrays, kinds, strict=True)], rows.num_rows)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return group_codes([whole(rows.column(n)) for n in self.columns[0].names], rows.num_rows)

    def step(
        self, state: BothKept, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[BothKept, Delta]:
        """How many of each row are left after those of the right side are taken away."""
        began, clock = interval.began, interval.clock
        new = [self._coded(input_delta.born, side) for side, input_delta in enumerate(inputs)]
        cuts = [self._coded(input_delta.cut, side) for side, input_delta in enumerate(inputs)]
        after = BothKept(state.left.cut(cuts[0]), state.right.cut(cuts[1]))
        due = [*after.left.due(began, clock), *after.right.due(began, clock)]
        codes = distinct_of(*(numbers(table, CODE) for table in (*new, *cuts, *due)))
        nothing = Delta.empty(self.columns[0])
        if not len(codes):
            return BothKept(
                after.left.after(new[0], clock - 1), after.right.after(new[1], clock - 1)
            ), nothing
        blank = with_numbers(new[0].slice(0, 0), **{SINCE: np.empty(0, np.int64)})
        fresh = with_numbers(new[0], **{SINCE: np.full(new[0].num_rows, NEVER)})
        left = _by_age([*after.left.of_codes(codes), fresh], blank)
        # What was announced before this step: kept runs keep their places when they are cut.
        announced = left
        if cuts[0].num_rows:
            announced = _by_age([*state.left.of_codes(codes), fresh], blank)
        right = clustered(concatenated([new[1].slice(0, 0), *after.right.of_codes(codes), new[1]]))
        self._check(left, right)
        delta, since = self._swept(codes, left, announced, right, interval)
        lasting = numbers(left, EXP) >= clock
        kept = chosen(with_numbers(left, **{SINCE: since}), lasting)
        later = chosen(new[1], numbers(new[1], EXP) >= clock)
        return BothKept(
            after.left.without(codes).after(kept, clock - 1),
            after.right.after(later, clock - 1),
        ), delta

    def _coded(self, rows: pa.Table, side: int) -> pa.Table:
        """The rows under the left side's names and types, with the code of their value."""
        carried = [*LIFE, *([END] if END in rows.schema.names else [])]
        arrays = {
            field.name: rows.column(name).cast(field.type)
            for field, name in zip(self.columns[0], self.columns[side].names, strict=True)
        }
        codes = group_codes([array.combine_chunks() for array in arrays.values()], rows.num_rows)
        arrays.update({name: rows.column(name) for name in carried})
        table = with_numbers(pa.table(arrays), **{CODE: codes})
        return clustered(table) if table.num_rows else table

    def _swept(
        self,
        codes: Int64s,
        left: pa.Table,
        announced: pa.Table,
        right: pa.Table,
        interval: Interval,
    ) -> tuple[Delta, Int64s]:
        since = numbers(left, SINCE).copy()
        values, against = (places_in(codes, numbers(rows, CODE)) for rows in (left, right))
        row, start, stop = _sweep(
            values, numbers(left, TS), numbers(left, EXP), _ending(values, left, interval), since,
            against, numbers(right, TS), numbers(right, EXP), _ending(against, right, interval),
            len(codes), interval.began, interval.clock,
        )  # fmt: skip
        old = start < interval.began
        exp = numbers(left, EXP)[row]
        born = taken(left, row[~old])
        ends = np.where(stop[~old] == NEVER, exp[~old], stop[~old])
        born = self._identified(born, start[~old], ends)
        was = numbers(announced, EXP)[row]
        ended = np.where(stop == NEVER, exp, stop)
        early = old & (ended < was)
        cut = self._identified(taken(left, row[early]), start[early], was[early])
        cut = with_numbers(cut, **{END: ended[early]})
        names = [*self.columns[0].names, *LIFE]
        return Delta(born.select(names), cut.select([*names, END])), since

    def _identified(self, rows: pa.Table, ts: Int64s, exp: Int64s) -> pa.Table:
        ids = mixed_ids(numbers(rows, ID), ts)
        return with_numbers(rows, **{TS: ts, EXP: exp, ID: ids})

    def _check(self, left: pa.Table, right: pa.Table) -> None:
        if are_exact(self.columns[0].types):
            return
        names = [*self.columns[0].names, CODE]
        both = concatenated([left.select(names), right.select(names)])
        both = taken(both, np.argsort(numbers(both, CODE), kind="stable"))
        columns = [whole(both.column(name)) for name in self.columns[0].names]
        check_codes(numbers(both, CODE), columns)


def _by_age(tables: list[pa.Table], blank: pa.Table) -> pa.Table:
    """The rows of all tables, by value and then from the oldest to the youngest."""
    rows = rows_with(tables, blank)
    return taken(rows, stable_order(*(numbers(rows, name) for name in (CODE, TS, ID))))


def _ending(values: Int64s, rows: pa.Table, interval: Interval) -> Int64s:
    """The rows whose lives end in the step, by value and then by when they do."""
    exp = numbers(rows, EXP)
    places = np.flatnonzero((exp >= interval.began) & (exp < interval.clock))
    return places[stable_order(values[places], exp[places])]


@compiled(
    f"{_STRETCHES}({READ}, {READ}, {READ}, {READ}, {WRITE}, "
    f"{READ}, {READ}, {READ}, {READ}, int64, int64, int64)",
    plain=True,
)
def _sweep(
    left: Int64s,
    left_ts: Int64s,
    left_exp: Int64s,
    left_ends: Int64s,
    since: Int64s,
    right: Int64s,
    right_ts: Int64s,
    right_exp: Int64s,
    right_ends: Int64s,
    values: int,
    began: int,
    clock: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Stretches of left rows in the answer that begin, or end, in the step: (row, start, stop).

    ``stop`` is NEVER for those still in it. ``since`` is brought up to the end of the step.
    Rows are sorted by value and ts (left ones by age); ``left_ends`` and ``right_ends`` are those
    that end in the step, by value and exp.
    """
    count = 0
    room = len(left) + len(left_ends) + 16
    row_of, start, stop = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    alive = np.zeros(len(left), np.bool_)
    a = b = ended = r_ended = 0
    for value in range(values):
        first = a
        inside = outside = against = 0
        border = first
        # What is alive before the step: all outside are older than all inside.
        while a < len(left) and left[a] == value and left_ts[a] < began:
            if left_exp[a] >= began:
                alive[a] = True
                if since[a] == NEVER:
                    outside += 1
                    border = a + 1
                else:
                    inside += 1
            a += 1
        while b < len(right) and right[b] == value and right_ts[b] < began:
            if right_exp[b] >= began:
                against += 1
            b += 1
        while True:
            now = NEVER
            if a < len(left) and left[a] == value:
                now = min(now, left_ts[a])
            if b < len(right) and right[b] == value:
                now = min(now, right_ts[b])
            if ended < len(left_ends) and left[left_ends[ended]] == value:
                now = min(now, left_exp[left_ends[ended]])
            if r_ended < len(right_ends) and right[right_ends[r_ended]] == value:
                now = min(now, right_exp[right_ends[r_ended]])
            if now == NEVER:
                break
            # What begins now and before and has not ended is written last; at most all leave now.
            while count + (len(left) - first) > len(row_of):
                row_of = np.append(row_of, np.empty(len(row_of), np.int64))
                start = np.append(start, np.empty(len(start), np.int64))
                stop = np.append(stop, np.empty(len(stop), np.int64))
            # Ends come before arrivals of the same instant.
            while (
                ended < len(left_ends)
                and left[left_ends[ended]] == value
                and left_exp[left_ends[ended]] == now
            ):
                row = left_ends[ended]
                ended += 1
                alive[row] = False
                if since[row] == NEVER:
                    outside -= 1
                else:
                    inside -= 1
                    row_of[count], start[count], stop[count] = row, since[row], now
                    count += 1
                    since[row] = NEVER
            while (
                r_ended < len(right_ends)
                and right[right_ends[r_ended]] == value
                and right_exp[right_ends[r_ended]] == now
            ):
                against -= 1
                r_ended += 1
            while a < len(left) and left[a] == value and left_ts[a] == now:
                alive[a] = True
                since[a] = now
                inside += 1
                a += 1
            while b < len(right) and right[b] == value and right_ts[b] == now:
                against += 1
                b += 1
            quota = min(inside + outside, against)
            while outside < quota:
                if alive[border]:
                    outside += 1
                    inside -= 1
                    if since[border] < now:
                        row_of[count], start[count], stop[count] = border, since[border], now
                        count += 1
                    since[border] = NEVER
                border += 1
            while outside > quota:
                border -= 1
                if alive[border]:
                    outside -= 1
                    inside += 1
                    since[border] = now
        for i in range(first, a):
            if since[i] != NEVER and since[i] >= began:
                row_of[count], start[count], stop[count] = i, since[i], NEVER
                count += 1
    return row_of[:count], start[:count], stop[:count]
