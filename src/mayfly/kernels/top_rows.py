"""Top-N: of the rows alive, those that ORDER BY puts first, at every instant.

Idea: rows are kept under codes in the order of ORDER BY, so that the best of each run stand at its
front. A step looks at the best that were alive before it, at as many more as the step takes from
among them, and at new rows; a Fenwick tree over their order finds who moves across the two borders
(OFFSET, OFFSET + LIMIT) when a row comes or goes. Where rows leave by expiration only, those go
early that enough better ones outlive (the k-skyband; of MIN and MAX, dominance.py).
Invariant: after each instant the answer is what lies between the borders. Ties go by value, then
the oldest first. Cost: O(log) per event, O(runs · N) per step; state: all rows, or the k-skyband.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    Delta,
    mixed_ids,
    taken,
    with_numbers,
)
from mayfly.kernels.dominance import WITHOUT_CUTS
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, clustered, numbers
from mayfly.kernels.operator import NO_IDS, Alone, Holding, StateKey, Working
from mayfly.kernels.room import touch
from mayfly.kernels.row_order import exact_ranks, order_codes, order_parts
from mayfly.kernels.shown_rows import SINCE, ShownRows, shown_identities
from mayfly.kernels.upkeep import unthinned
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.logical_operators import SortKey
from mayfly.plan.plan_text import sort_text
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP, TS

MOST = 2**62
MAX_CODE = 2**63 - 1


@dataclass(frozen=True)
class TopRows(Alone):
    """The ``limit`` rows behind the first ``offset`` in the order of ``keys``."""

    name: str
    columns: pa.Schema
    keys: tuple[SortKey, ...]
    limit: int
    offset: int
    shape: Shape
    early_pruning: bool = field(default=True, compare=False, kw_only=True)
    """Whether rows may go early. The answers are the same, and a state goes on."""

    def state(self) -> ShownRows:
        return ShownRows(KeptRows(self.shape), KeptRows(Shape(Structure.GROUPS)))

    def state_key(self) -> StateKey:
        return StateKey(
            "TopRows",
            (
                ("columns", self.columns),
                ("keys", self.keys),
                ("limit", self.limit),
                ("offset", self.offset),
                ("shape", self.shape),
            ),
        )

    @property
    def title(self) -> str:
        return "Top"

    @property
    def detail(self) -> str:
        return sort_text(self.keys, self.limit, self.offset)

    @property
    def reason(self) -> str:
        return "one order over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        words, shape = tuple(sort_text((key,), None, 0)[3:] for key in self.keys), self.shape
        return (
            Holding("members", shape.form, "", 0, words, "", shape.ranges, note=self._note),
            Holding("shown", Structure.GROUPS, "answer", None, words),
        )

    def workings(self) -> tuple[Working, ...]:
        what = f"LIMIT {self.limit}" + (f" OFFSET {self.offset}" if self.offset else "")
        structure = "runs in the order of ORDER BY, borders in a Fenwick tree over their best rows"
        reason = "the next row moves up in the logarithm of these; nothing is sorted anew"
        return (Working(what, structure, reason),)

    @property
    def prunes(self) -> bool:
        """Whether rows go early that enough better ones outlive."""
        return self.early_pruning and self.shape.structure in WITHOUT_CUTS

    @property
    def _note(self) -> str:
        if self.prunes:
            return f"early pruning: rows go that {self._last:,} better ones outlive"
        if not self.early_pruning:
            return "no early pruning: the rule is switched off"
        if self.shape.structure is Structure.BUFFER:
            return "no early pruning: DIRECT keeps what it may find by scanning"
        return "no early pruning: negative tuples may delete what outlives a row"

    @property
    def _last(self) -> int:
        return min(self.offset + self.limit, MOST)

    def identities(self, state: ShownRows) -> Int64s:
        return shown_identities(state.shown)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self._codes(rows)

    def step(
        self, state: ShownRows, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ShownRows, Delta]:
        """Who comes into the answer and who leaves it, at each instant of the step."""
        began, clock = interval.began, interval.clock
        members = state.members.cut(self._coded(inputs[0].cut))
        fresh, due = self._coded(inputs[0].born), members.due(began, clock)
        nothing = Delta.empty(self.columns)
        lasting = chosen(fresh, numbers(fresh, EXP) >= clock)
        thin = self._thinned if self.prunes else unthinned
        later = members.after(lasting, clock - 1, thin)
        if not fresh.num_rows and not due:
            return ShownRows(later, state.shown), nothing
        ending = np.sort(np.concatenate([NO_IDS, *(numbers(table, CODE) for table in due)]))
        touch(fresh.num_rows + len(ending))
        rows = self._in_order([*self._best(members, ending, began), fresh])
        blank = with_numbers(fresh.slice(0, 0), **{SINCE: NO_IDS})
        before = rows_with([run.load() for run in state.shown.runs], blank)
        shown, delta = self._moved(rows, before, interval)
        return ShownRows(later, KeptRows(state.shown.shape).after(shown, MIN_TIME)), delta

    def _coded(self, rows: pa.Table) -> pa.Table:
        """The rows with the code of their place, clustered."""
        names = [*self.columns.names, *LIFE, *([END] if END in rows.schema.names else [])]
        rows = with_numbers(rows.select(names), **{CODE: self._codes(rows)})
        return clustered(rows) if rows.num_rows else rows

    def _codes(self, rows: pa.Table) -> Int64s:
        return order_codes(order_parts(rows, self.keys, self.columns.names), rows.num_rows)

    def _in_order(self, tables: list[pa.Table]) -> pa.Table:
        rows = rows_with(tables, tables[-1].slice(0, 0))
        parts = order_parts(rows, self.keys, self.columns.names)
        columns = [rank for part in parts for rank in exact_ranks(part)]
        columns += [numbers(rows, TS), numbers(rows, ID)]
        return taken(rows, np.lexsort(columns[::-1]))

    # ── the best of those that were there ─────────────────────────────────────────────────

    def _best(self, members: KeptRows, ending: Int64s, began: int) -> list[pa.Table]:
        """So many of the best rows that as many as may be in the answer outlive the step.

        ``ending`` are the codes of rows that do not outlive it.
        """
        tables, size = [run.load() for run in members.runs], self._last
        while size:
            fronts, border = _fronts(tables, size, began)
            enough = self._last + int(np.searchsorted(ending, border, side="right"))
            if enough <= size or sum(map(len, fronts)) < size:
                best = zip(tables, fronts, strict=True)
                rows = (table.take(pa.array(front)) for table, front in best)
                return [chosen(table, numbers(table, CODE) <= border) for table in rows]
            size = enough
        return []

    # ── borders ───────────────────────────────────────────────────────────────────────────

    def _moved(self, rows: pa.Table, shown: pa.Table, interval: Interval) -> tuple[pa.Table, Delta]:
        """The rows in the answer after the step, and how it came to that.

        ``rows`` are in order; ``shown`` were in the answer, with the ends that were announced.
        """
        began, clock = interval.began, interval.clock
        ts, exp = numbers(rows, TS), numbers(rows, EXP)
        since, announced = np.full(len(ts), NEVER), exp.copy()
        place = _places(rows, shown)
        since[place], announced[place] = numbers(shown, SINCE), numbers(shown, EXP)
        begins = np.flatnonzero(ts >= began)
        ends = np.flatnonzero((exp >= began) & (exp < clock))
        row, start, stop = _sweep(
            ts, exp, begins[stable_order(ts[begins])], ends[stable_order(exp[ends])],
            since, min(self.offset, MOST), self._last, began,
        )  # fmt: skip
        old = start < began
        ended = np.where(stop == NEVER, exp[row], stop)
        born = self._identified(taken(rows, row[~old]), start[~old], ended[~old])
        early = old & (ended < announced[row])
        cut = self._identified(taken(rows, row[early]), start[early], announced[row[early]])
        cut = with_numbers(cut, **{END: ended[early]})
        names = [*self.columns.names, *LIFE]
        inside = np.flatnonzero(since != NEVER)
        # What was announced at birth stays so until a cut says otherwise.
        ends_then = np.where(since[inside] < began, announced[inside], exp[inside])
        after = with_numbers(taken(rows, inside), **{SINCE: since[inside], EXP: ends_then})
        return clustered(after) if len(inside) else after, Delta(
            born.select(names), cut.select([*names, END])
        )

    def _identified(self, rows: pa.Table, ts: Int64s, exp: Int64s) -> pa.Table:
        ids = mixed_ids(numbers(rows, ID), ts)
        return with_numbers(rows, **{TS: ts, EXP: exp, ID: ids})

    # ── early pruning ─────────────────────────────────────────────────────────────────────

    def _thinned(self, rows: pa.Table) -> pa.Table:
        """Without the rows that enough better ones outlive: they never come into the answer."""
        size = max(1, self._last)
        if rows.num_rows <= size:
            return rows
        code, exp = numbers(rows, CODE), numbers(rows, EXP)
        stays = _undominated(code, exp, stable_order(~exp, code), size)
        return chosen(rows, stays)


def _fronts(tables: list[pa.Table], size: int, began: int) -> tuple[list[Int64s], int]:
    """Where the first ``size`` living rows of all runs are, some others, and the largest code of
    the first."""
    fronts: list[Int64s] = []
    codes, border = NO_IDS, MAX_CODE
    for table in tables:
        code, ts, exp = (numbers(table, name) for name in (CODE, TS, EXP))
        front, read = _first_alive(code, ts, exp, size, border, began)
        touch(read)
        fronts.append(front)
        codes = np.concatenate([codes, code[front]])
        if len(codes) >= size:
            border = int(np.partition(codes, size - 1)[size - 1])
    return fronts, border


def _places(rows: pa.Table, shown: pa.Table) -> Int64s:
    """Where the rows are that were in the answer."""
    identity = mixed_ids(numbers(rows, ID), numbers(rows, TS))
    order = np.argsort(identity, kind="stable")
    sought = mixed_ids(numbers(shown, ID), numbers(shown, TS))
    places: Int64s = order[np.searchsorted(identity[order], sought)]
    return places


@compiled(plain=True)
def _first_alive(
    code: Int64s, ts: Int64s, exp: Int64s, size: int, border: int, began: int
) -> tuple[Int64s, int]:
    """Where the first ``size`` rows are that live on to ``began``, with all that may precede the
    last of them, up to a border; and how many were looked at."""
    places = np.empty(len(code), np.int64)
    count = row = 0
    while row < len(code) and code[row] <= border:
        if count >= size:
            if code[row] != code[places[count - 1]]:
                break
            # Equal rows go by age; of others the code may not tell which precedes.
            if code[row] & 1 == 0 and ts[row] != ts[places[count - 1]]:
                break
        if exp[row] >= began and exp[row] != MIN_TIME:
            places[count] = row
            count += 1
        row += 1
    return places[:count].copy(), row


@compiled(plain=True)
def _undominated(code: Int64s, exp: Int64s, order: Int64s, size: int) -> Bools:
    """Which rows fewer than ``size`` better ones outlive; ``order`` is from the last to expire to
    the first, then by code."""
    stays = np.ones(len(code), np.bool_)
    best = [np.int64(0) for _ in range(0)]
    for i in range(len(order)):
        row = order[i]
        # Turned, so that the worst is the smallest.
        if len(best) < size:
            heapq.heappush(best, ~code[row])
        elif ~best[0] < code[row]:
            stays[row] = False
        elif code[row] < ~best[0]:
            heapq.heapreplace(best, ~code[row])
    return stays


@compiled(plain=True)
def _add(tree: Int64s, row: int, amount: int) -> None:
    node = row + 1
    while node < len(tree):
        tree[node] += amount
        node += node & -node


@compiled(plain=True)
def _select(tree: Int64s, number: int) -> int:
    """The row with this number among the living, counted from 1."""
    row, step = 0, 1
    while 2 * step < len(tree):
        step *= 2
    while step:
        if row + step < len(tree) and tree[row + step] < number:
            row += step
            number -= tree[row]
        step //= 2
    return row


@compiled(
    f"UniTuple({WRITE}, 3)({READ}, {READ}, {READ}, {READ}, {WRITE}, int64, int64, int64)",
    plain=True,
)
def _sweep(
    ts: Int64s,
    exp: Int64s,
    begins: Int64s,
    ends: Int64s,
    since: Int64s,
    offset: int,
    last: int,
    began: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Stretches of rows in the answer that begin, or end, in the step: (row, start, stop).

    Rows are in the order of the answer. ``begins`` and ``ends`` are those that come and go in the
    step, by when they do. ``stop`` is NEVER for rows still in the answer; ``since`` is brought up
    to the end of the step. An event moves each border by one row at most.
    """
    tree = np.zeros(len(ts) + 1, np.int64)
    alive = np.zeros(len(ts), np.bool_)
    total = 0
    for row in range(len(ts)):
        if ts[row] < began:
            alive[row] = True
            total += 1
            _add(tree, row, 1)
    targets = np.array([offset, last])
    inside, border = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for side in range(2):
        inside[side] = min(targets[side], total)
        border[side] = _select(tree, inside[side]) + 1 if inside[side] else 0
    events = len(begins) + len(ends)
    room = 3 * events + len(ts) + 2
    row_of, start, stop = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    moved = np.empty(3 * events + 2, np.int64)
    count = a = b = 0
    while a < len(begins) or b < len(ends):
        now = NEVER
        if a < len(begins):
            now = min(now, ts[begins[a]])
        if b < len(ends):
            now = min(now, exp[ends[b]])
        size = 0
        # Ends come before arrivals of the same instant.
        while b < len(ends) and exp[ends[b]] == now:
            moved[size] = ends[b]
            size += 1
            b += 1
        gone = size
        while a < len(begins) and ts[begins[a]] == now:
            moved[size] = begins[a]
            size += 1
            a += 1
        for i in range(size):
            row, change = moved[i], -1 if i < gone else 1
            alive[row] = change > 0
            total += change
            _add(tree, row, change)
            for side in range(2):
                if row < border[side]:
                    inside[side] += change
        for side in range(2):
            aim = min(targets[side], total)
            while inside[side] > aim:
                row = _select(tree, inside[side])
                border[side] = row
                inside[side] -= 1
                moved[size] = row
                size += 1
            while inside[side] < aim:
                row = _select(tree, inside[side] + 1)
                border[side] = row + 1
                inside[side] += 1
                moved[size] = row
                size += 1
        for i in range(size):
            row = moved[i]
            shown = alive[row] and border[0] <= row < border[1]
            if shown and since[row] == NEVER:
                since[row] = now
            elif not shown and since[row] != NEVER:
                row_of[count], start[count], stop[count] = row, since[row], now
                count += 1
                since[row] = NEVER
    for row in range(len(ts)):
        if since[row] != NEVER and since[row] >= began:
            row_of[count], start[count], stop[count] = row, since[row], NEVER
            count += 1
    return row_of[:count], start[:count], stop[:count]
