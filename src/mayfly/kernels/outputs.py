"""How results leave a query: as changes of its answer, or as the whole answer at each refresh.

Idea: Istream and Dstream compare values, not lifetimes: per instant and value, arrivals minus
departures; what is positive entered, what is negative left (spec; an equal row leaving and entering
at one instant gives nothing). Rstream sends the whole answer at every refresh, or without SLIDE at
every instant at which the multiset of values changed; with SLIDE it is computed where it changes,
and its rows stand for all refreshes from ``_ts`` to ``_exp``. The restore forms also report, once
per occurrence, rows that rose and fell between two refreshes.
Invariant: what is sent depends only on the answers at the instants, never on how steps were cut.
Cost: O(changes · log) for Istream and Dstream; Rstream pays for what it sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes
from mayfly.kernels.delta import (
    END,
    SEEN,
    SEEN_END,
    Delta,
    concatenated,
    taken,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_pairs import matching_pairs
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers, whole
from mayfly.kernels.operator import Holding
from mayfly.kernels.refreshes import Refreshes, rounded
from mayfly.kernels.room import require_room
from mayfly.kernels.row_order import exact_ranks, order_parts
from mayfly.lifetime import MIN_TIME
from mayfly.plan.logical_operators import OutputKind, SortKey
from mayfly.plan.plan_text import sort_text
from mayfly.plan.window_kinds import Slide
from mayfly.storage.segment import EXP, TS

PAIRS_AT_ONCE = 1 << 20
COPIES = 3
"""What is sent exists as parts, as a whole, and sorted."""


def seen(delta: Delta) -> Delta:
    """The delta as it is seen outside: rows of INTERNAL windows stay."""
    if SEEN not in delta.born.schema.names:
        return delta
    born = with_numbers(delta.born, **{EXP: numbers(delta.born, SEEN)}).drop_columns([SEEN])
    ends = {EXP: numbers(delta.cut, SEEN), END: numbers(delta.cut, SEEN_END)}
    cut = with_numbers(delta.cut, **ends)
    cut = chosen(cut, ends[END] < ends[EXP]).drop_columns([SEEN, SEEN_END])
    return Delta(born, cut)


@dataclass(frozen=True, slots=True)
class Sending:
    """The rows of the answer that may still change it.

    ``path`` holds, for the restore forms, the events since the last refresh.
    """

    answer: KeptRows
    path: pa.Table | None = None
    last: pa.Table | None = None
    """What Rstream sent last, where LIMIT may hide changes."""

    @property
    def rows(self) -> int:
        return self.answer.rows + (self.path.num_rows if self.path is not None else 0)

    @property
    def bytes(self) -> int:
        return self.answer.bytes + (self.path.nbytes if self.path is not None else 0)


@dataclass(frozen=True, slots=True)
class Sent:
    """A stream of rows: what entered, what left, or everything; ``ts`` says when."""

    name: str
    kind: OutputKind
    columns: pa.Schema
    shape: Shape
    slide: Slide | None = None
    restore: bool = False
    keys: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0

    def state(self) -> Sending:
        return Sending(KeptRows(self.shape))

    @property
    def detail(self) -> str:
        return sort_text(self.keys, self.limit, self.offset)

    def holdings(self) -> tuple[Holding, ...]:
        words = tuple(name.removeprefix(".") for name in self.columns.names)
        return (Holding("answer", self.shape.form, "answer", 0, words, "", self.shape.ranges),)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        """As those of an operator."""
        return group_codes([whole(rows.column(n)) for n in self.columns.names], rows.num_rows)

    @property
    def keyless_parts(self) -> tuple[str, ...]:
        return ()

    def step(
        self,
        state: Sending,
        delta: Delta,
        interval: Interval,
        first: int | None,
        *,
        stretched: bool = False,
    ) -> tuple[Sending, pa.Table]:
        """The rows to send. ``delta`` is the answer's, as it is seen outside; refreshes are
        answered from ``first`` on, the generation time of the first row of any stream. A
        ``stretched`` step answers only the last of its refreshes."""
        born, cut = (self._coded(rows) for rows in (delta.born, delta.cut))
        answer = state.answer.cut(cut)
        due = rows_with(answer.due(interval.began, interval.clock), born.slice(0, 0))
        events = self._events(born, due, interval)
        lasting = chosen(born, numbers(born, EXP) >= interval.clock)
        after = replace(state, answer=answer.after(lasting, interval.clock - 1))
        tables = [*(run.load() for run in answer.runs), born]
        refreshes = self._refreshes(first, interval)
        if stretched and refreshes is not None:
            refreshes = replace(refreshes, first=refreshes.last)
            events = events if self.restore else events.moved_to(refreshes.last)
        if self.restore:
            return self._restored(after, events, tables, refreshes)
        if self.kind is not OutputKind.RSTREAM:
            return after, self._ordered(self._differences(events))
        if self.is_periodic:
            return after, self._runs(tables, events.time[events.net != 0], refreshes)
        instants = np.unique(events.time[events.net != 0])
        whole = _once(self._whole(tables, instants))
        if self.limit is not None or self.offset > 0:
            return self._unrepeated(after, whole, instants)
        return after, whole

    @property
    def is_periodic(self) -> bool:
        return self.slide is not None and bool(self.slide.period)

    def _refreshes(self, first: int | None, interval: Interval) -> Refreshes | None:
        """Those of a step."""
        if self.slide is None or not self.slide.period:
            return None
        return Refreshes.of(self.slide, first, interval)

    def _coded(self, rows: pa.Table) -> pa.Table:
        columns = [whole(rows.column(name)) for name in self.columns.names]
        rows = with_numbers(rows, **{CODE: group_codes(columns, rows.num_rows)})
        return clustered(rows) if rows.num_rows else rows

    def _events(self, born: pa.Table, due: pa.Table, interval: Interval) -> NetChanges:
        """Arrivals and departures of values, net of each other at every instant."""
        short = chosen(born, numbers(born, EXP) < interval.clock)
        names = [*self.columns.names, CODE]
        rows = concatenated([table.select(names) for table in (born, short, due)])
        time = np.concatenate([numbers(born, TS), numbers(short, EXP), numbers(due, EXP)])
        sign = np.repeat([1, -1, -1], [born.num_rows, short.num_rows, due.num_rows])
        changes = NetChanges.of(rows, time, sign.astype(np.int64))
        # The answer over nothing (COUNT 0) has always been there.
        return changes.where(changes.time > MIN_TIME)

    def _differences(self, events: NetChanges) -> pa.Table:
        sign = 1 if self.kind is OutputKind.ISTREAM else -1
        sent = events.where(events.net * sign > 0)
        return self._stamped(sent.rows, sent.time, np.abs(sent.net))

    def _stamped(self, rows: pa.Table, time: Int64s, times: Int64s) -> pa.Table:
        places = np.repeat(np.arange(rows.num_rows), times)
        table = taken(rows.select(self.columns.names), places)
        return _once(with_numbers(table, **{TS: time[places]}))

    # ── Rstream ───────────────────────────────────────────────────────────────────────────

    def _runs(
        self, tables: list[pa.Table], changed: Int64s, refreshes: Refreshes | None
    ) -> pa.Table:
        """The answer at each refresh at which it may have changed, until the next such one."""
        if refreshes is None:
            return _once(self._whole(tables, np.empty(0, np.int64)))
        moved = rounded(changed, self.slide)
        moved = moved[(moved > refreshes.first) & (moved <= refreshes.last)]
        instants = np.append(refreshes.first, np.unique(moved))
        ends = np.append(instants[1:] - refreshes.period, refreshes.last)
        rows = self._whole(tables, instants)
        until = ends[np.searchsorted(instants, numbers(rows, TS))] + 1
        return with_numbers(rows, **{EXP: until})

    def _whole(self, tables: list[pa.Table], instants: Int64s) -> pa.Table:
        """The answer at each instant."""
        zeros = np.zeros(len(instants), np.int64)
        points = zeros, instants, instants + 1
        parts = [with_numbers(tables[-1].slice(0, 0).select(self.columns.names), **{TS: zeros[:0]})]
        size = 0
        for rows in tables:
            if not rows.num_rows or not len(instants):
                continue
            order = np.argsort(numbers(rows, TS), kind="stable")
            ts, exp = numbers(rows, TS)[order], numbers(rows, EXP)[order]
            other = np.zeros(len(ts), np.int64), ts, exp
            for positions, places in matching_pairs(points, other, PAIRS_AT_ONCE):
                part = taken(rows.select(self.columns.names), order[places])
                parts.append(with_numbers(part, **{TS: instants[positions]}))
                size += COPIES * parts[-1].nbytes
                require_room(
                    size,
                    f"Rstream: the whole answer at {len(instants):,} instants",
                    "use a longer SLIDE, smaller batches, a LIMIT, or a larger max_state_bytes",
                )
        return self._ordered(concatenated(parts))

    def _unrepeated(
        self, state: Sending, rows: pa.Table, instants: Int64s
    ) -> tuple[Sending, pa.Table]:
        """Without the instants at which only rows beyond the limit changed."""
        last, parts, ts = state.last, [rows.slice(0, 0)], numbers(rows, TS)
        for instant in instants.tolist():
            low, high = np.searchsorted(ts, [instant, instant + 1])
            now = rows.slice(low, high - low)
            values = now.select(self.columns.names).to_pylist()
            if last is None or values != last.to_pylist():
                parts.append(now)
            last = now.select(self.columns.names)
        return replace(state, last=last), concatenated(parts)

    def _ordered(self, rows: pa.Table) -> pa.Table:
        """By instant, then by ORDER BY, then by value; cut by LIMIT at each instant."""
        if not rows.num_rows:
            return rows
        parts = order_parts(rows, self.keys, self.columns.names)
        ranks = [numbers(rows, TS), *(rank for part in parts for rank in exact_ranks(part))]
        rows = taken(rows, np.lexsort(ranks[::-1]))
        if self.limit is None and not self.offset:
            return rows
        ts = numbers(rows, TS)
        place = np.arange(len(ts)) - np.searchsorted(ts, ts)
        last = np.inf if self.limit is None else self.offset + self.limit
        return chosen(rows, (place >= self.offset) & (place < last))

    # ── restore ───────────────────────────────────────────────────────────────────────────

    def _restored(
        self,
        state: Sending,
        events: NetChanges,
        tables: list[pa.Table],
        refreshes: Refreshes | None,
    ) -> tuple[Sending, pa.Table]:
        """At each refresh: the plain output, and what rose and fell since the last one."""
        rows = with_numbers(events.rows, **{TS: events.time, EXP: events.net})
        if state.path is not None:
            rows = concatenated([rows.slice(0, 0), state.path.select(rows.schema.names), rows])
        first, last = (0, MIN_TIME) if refreshes is None else (refreshes.first, refreshes.last)
        closing = np.maximum(rounded(numbers(rows, TS), self.slide), first)
        later = closing > last
        waiting = chosen(rows, later).combine_chunks()
        path = chosen(rows, ~later)
        moved = _moved(numbers(path, CODE), closing[~later], numbers(path, TS), numbers(path, EXP))
        where, closed, enter, bump = moved
        # numbers of occurrences per (value, refresh): entered in all, and rose and fell
        sample = path.select(self.columns.names)
        extra = self._stamped(taken(sample, where), closed, bump)
        if self.kind is OutputKind.RSTREAM:
            # Behind a refresh at which more is reported the plain answer is a run of its own.
            apart = np.append(closed, closed + 1)
            plain = self._runs(tables, np.append(events.time, apart), refreshes)
        else:
            plain = self._stamped(taken(sample, where), closed, np.maximum(enter, 0))
        both = concatenated([plain, extra.select(plain.schema.names)])
        return replace(state, path=waiting), self._ordered(both)


def _once(rows: pa.Table) -> pa.Table:
    """Rows that stand for themselves."""
    return with_numbers(rows, **{EXP: numbers(rows, TS) + 1})


@dataclass(frozen=True, slots=True)
class NetChanges:
    """Net changes of multiplicity per value and instant, sorted by value and instant."""

    rows: pa.Table
    time: Int64s
    net: Int64s

    @staticmethod
    def of(rows: pa.Table, time: Int64s, sign: Int64s) -> NetChanges:
        code = numbers(rows, CODE)
        order = stable_order(code, time)
        code, time, sign = code[order], time[order], sign[order]
        rows = taken(rows, order)
        columns = [whole(rows.column(n)) for n in rows.schema.names if n != CODE]
        check_codes(code, columns)
        if not len(code):
            return NetChanges(rows, time, sign)
        heads = np.append(True, (code[1:] != code[:-1]) | (time[1:] != time[:-1]))
        first = np.flatnonzero(heads)
        net = np.add.reduceat(sign, first)
        return NetChanges(taken(rows, first), time[first], net)

    def moved_to(self, last: int) -> NetChanges:
        """As seen by a reader of this instant only, and of later ones."""
        return NetChanges.of(self.rows, np.maximum(self.time, last), self.net)

    def where(self, keep: np.ndarray) -> NetChanges:
        return NetChanges(chosen(self.rows, keep), self.time[keep], self.net[keep])


def _moved(
    code: Int64s, slot: Int64s, time: Int64s, net: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """Per value and refresh: a sample row, the refresh, the net change, what rose and fell."""
    order = stable_order(code, slot, time)
    where, slots, enter, bump = [], [], [], []
    position = 0
    while position < len(order):
        head = position
        level = low = rises = 0
        while position < len(order) and (
            code[order[position]] == code[order[head]]
            and slot[order[position]] == slot[order[head]]
        ):
            change = int(net[order[position]])
            level += change
            rises += max(change, 0)
            low = min(low, level)
            position += 1
        where.append(order[head])
        slots.append(slot[order[head]])
        enter.append(level)
        bump.append(rises - (level - low))
    return (
        np.array(where, np.int64),
        np.array(slots, np.int64),
        np.array(enter, np.int64),
        np.array(bump, np.int64),
    )
