"""OVER as an append-only stream: one result per row, as soon as its instant is closed.

Idea: over a stream that never expires, ordered by its own time, with frames that end at the current
row, all that a frame holds is there when the instant of its row is closed. Three things are kept,
each only if a call needs it: rows of the last while (RANGE), the last rows of each key (ROWS, LAG),
one row of totals per key (frames from the first row on, ROW_NUMBER).
Invariants: what no later frame can reach is dropped, whole runs of it unread; stored rows come
before all new ones of their key. Cost: O(new rows · log) and the stored rows of their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, places_in, stable_order
from mayfly.kernels.delta import ID, LIFE, Delta, column_name, concatenated, taken
from mayfly.kernels.frame_layout import Distances, Layout, peers_of
from mayfly.kernels.frame_rows import FrameTerms, OfPartitions, check_parts
from mayfly.kernels.frame_values import FrameInput
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers, whole
from mayfly.kernels.operator import Forgetting, Holding, StateKey
from mayfly.kernels.room import touch
from mayfly.kernels.running_values import PEERS, ROWS, RunningInput, carried_columns
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column
from mayfly.plan.over_frames import FrameReach
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS

KEY = "_key"


@dataclass(frozen=True, slots=True)
class OverState:
    """Rows of the last while, the last rows of each key, one row of totals per key; and how many
    rows came so far, which is the order of those that are kept."""

    recent: KeptRows
    last: KeptRows
    totals: KeptRows
    number: int = 0

    @property
    def rows(self) -> int:
        return self.recent.rows + self.last.rows + self.totals.rows

    @property
    def bytes(self) -> int:
        return self.recent.bytes + self.last.bytes + self.totals.bytes


@dataclass(frozen=True)
class _Fresh:
    """New rows in the order of OVER."""

    rows: pa.Table
    code: Int64s
    parts: list[pa.Array]
    peer: Int64s
    key: pa.Array | None
    place: Int64s
    """Where each row stands among all that ever came."""

    @property
    def starts(self) -> Int64s:
        return np.flatnonzero(np.append(True, self.code[1:] != self.code[:-1]))

    @property
    def codes(self) -> Int64s:
        return self.code[self.starts]


@dataclass(frozen=True)
class OverRows(OfPartitions):
    """The rows of the input with the values of ``terms`` behind them."""

    name: str
    columns: pa.Schema
    terms: FrameTerms
    results: pa.Schema
    because: str = ""

    def state(self) -> OverState:
        groups = Shape(Structure.GROUPS)
        return OverState(KeptRows(self._shape), KeptRows(groups), KeptRows(groups))

    def state_key(self) -> StateKey:
        return StateKey(
            "OverRows",
            (
                ("columns", self.columns),
                *self.terms.state_parts,
            ),
        )

    @property
    def title(self) -> str:
        return "Over"

    @property
    def detail(self) -> str:
        return f"{self.terms.text}; append-only: {self.because}"

    @property
    def quiet(self) -> bool:
        return True

    # ── what is kept ──────────────────────────────────────────────────────────────────────

    def _numbers(self, *reaches: FrameReach) -> list[int]:
        return [number for number, call in enumerate(self.terms.calls) if call.reach in reaches]

    @cached_property
    def _by_time(self) -> list[int]:
        return self._numbers(FrameReach.TIME, FrameReach.ALL)

    @cached_property
    def _by_rows(self) -> list[int]:
        return self._numbers(FrameReach.ROWS)

    @cached_property
    def _running(self) -> list[int]:
        return self._numbers(FrameReach.RUNNING)

    @cached_property
    def _span(self) -> int | None:
        """For how long later frames reach a row; None for ever."""
        if self._numbers(FrameReach.ALL):
            return None
        back = [-(self.terms.calls[number].frame.start or 0) for number in self._by_time]
        return min(int(max(back, default=0)) + 1, NEVER)

    @property
    def _shape(self) -> Shape:
        if self._span is None:
            return Shape(Structure.APPEND)
        return Shape(Structure.FIFO, self._span)

    @cached_property
    def _most(self) -> int:
        """How many of the last rows of each key are kept."""
        return max((self.terms.calls[number].rows_back for number in self._by_rows), default=0)

    def holdings(self) -> tuple[Holding, ...]:
        words, held = self.key_words(), list[Holding]()
        if self._by_time:
            shape = self._shape
            note = "" if self._span else "a frame from the first row on, of a function without sums"
            what = "rows in reach"
            held.append(
                Holding("recent", shape.form, what, 0, words, note=note, lifetime=self._span)
            )
        if self._by_rows:
            what = f"the last {self._most:,} rows of each key" if words else "the last rows"
            held.append(self._per_key("last", what, "later rows push out earlier ones", self._most))
        if self._running:
            held.append(self._per_key("totals", "totals", "a row adds to those of its key", 1))
        return tuple(held)

    def _per_key(self, part: str, what: str, reason: str, most: int) -> Holding:
        keys, words = self.terms.partition, self.key_words()
        return Holding(part, Structure.GROUPS, what, 0, words, reason, per_key=most, keys=keys)

    def forgets(self) -> tuple[Forgetting, ...]:
        """No later frame reaches the rows of a key that is closed."""
        parts = zip(self.terms.partition, self.terms.part_names, strict=True)
        columns = [(column_name(key), own) for key, own in parts if isinstance(key, Column)]
        held = tuple(holding.part for holding in self.holdings())
        return (Forgetting(held, {0: tuple(columns)}),)

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: OverState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[OverState, Delta]:
        """Results of the rows whose instants are closed now."""
        born = inputs[0].born
        nothing = Delta.empty(self.results)
        if not born.num_rows:
            recent = state.recent.aged(interval.clock)
            return OverState(recent, state.last, state.totals, state.number), nothing
        fresh = self._fresh(born, state.number)
        values: dict[int, pa.Array] = {}
        later = {"recent": state.recent, "last": state.last, "totals": state.totals}
        instant = self._numbers(FrameReach.INSTANT)
        if instant:
            values |= self._framed(fresh, None, instant)
        if self._by_time:
            stored = self._stored(state.recent, fresh, self._by_time)
            values |= self._framed(fresh, stored, self._by_time)
            rows = self._to_store(fresh, self._by_time, self._span)
            later["recent"] = state.recent.after(
                clustered(chosen(rows, numbers(rows, EXP) > interval.clock)), interval.clock
            )
        if self._by_rows:
            stored = self._stored(state.last, fresh, self._by_rows)
            values |= self._framed(fresh, stored, self._by_rows)
            later["last"] = self._last(state.last, fresh, stored)
        if self._running:
            running, totals = self._run(state.totals, fresh)
            values |= running
            later["totals"] = state.totals.without(fresh.codes).after(totals, MIN_TIME)
        arrays = [values[number] for number in range(len(self.terms.calls))]
        table = fresh.rows.select(self.columns.names)
        life = [fresh.rows.column(name) for name in LIFE]
        results = pa.table([*table.columns, *arrays, *life], schema=nothing.born.schema)
        number = state.number + born.num_rows
        return OverState(**later, number=number), Delta(results, nothing.cut)

    def _fresh(self, born: pa.Table, number: int) -> _Fresh:
        terms = self.terms
        code, keys = terms.codes(born), terms.keys(born)
        columns = terms.key_columns(keys)
        order = stable_order(code, *columns, *terms.tie_columns(born), numbers(born, ID))
        code = code[order]
        rows = taken(born, order)
        parts = [part.take(pa.array(order)) for part in terms.parts(born)]
        check_parts(code, parts)
        peer = peers_of(code, [column[order] for column in columns])
        key = keys[0].take(pa.array(order)) if keys else None
        return _Fresh(rows, code, parts, peer, key, number + np.arange(len(order)))

    # ── frames over stored and new rows ───────────────────────────────────────────────────

    def _columns(self, calls: Sequence[int]) -> list[pa.Field]:
        """What is stored of rows beside their lifetimes."""
        terms = self.terms
        fields = [
            pa.field(name, arrow_type(key.type))
            for name, key in zip(terms.part_names, terms.partition, strict=True)
        ]
        if any(terms.calls[number].reach in (FrameReach.TIME, FrameReach.ALL) for number in calls):
            fields.append(pa.field(KEY, arrow_type(terms.order[0].expression.type)))
        for number in calls:
            argument = terms.calls[number].argument
            if argument is not None:
                fields.append(pa.field(f"_arg{number}", arrow_type(argument.type)))
        return fields

    def _no_rows(self, calls: Sequence[int]) -> pa.Table:
        life = [pa.field(name, pa.int64()) for name in (*LIFE, CODE)]
        return pa.schema([*self._columns(calls), *life]).empty_table()

    def _stored(self, kept: KeptRows, fresh: _Fresh, calls: Sequence[int]) -> pa.Table:
        """The stored rows of the keys that have new ones, in their order."""
        rows = rows_with(kept.of_codes(fresh.codes), self._no_rows(calls))
        touch(rows.num_rows)
        if not rows.num_rows:
            return rows
        return taken(rows, stable_order(numbers(rows, CODE), numbers(rows, ID)))

    def _framed(
        self, fresh: _Fresh, stored: pa.Table | None, calls: Sequence[int]
    ) -> dict[int, pa.Array]:
        terms = self.terms
        before = stored.num_rows if stored is not None else 0
        arguments = terms.arguments(fresh.rows, calls)
        code, peer, key = fresh.code, fresh.peer + before, fresh.key
        order = np.arange(len(code))
        if stored is not None and before:
            code = np.concatenate([numbers(stored, CODE), code])
            peer = np.concatenate([np.arange(before), peer])
            order = stable_order(code)
            code, peer = code[order], peer[order]
            arguments = {
                name: pa.concat_arrays([whole(stored.column(name)), own]).take(pa.array(order))
                for name, own in arguments.items()
            }
            if key is not None and KEY in stored.schema.names:
                key = pa.concat_arrays([whole(stored.column(KEY)), key]).take(pa.array(order))
            check_parts(
                code,
                [
                    pa.concat_arrays([whole(stored.column(name)), own]).take(pa.array(order))
                    for name, own in zip(terms.part_names, fresh.parts, strict=True)
                ],
            )
        partition = peers_of(code, [])
        measured = any(terms.calls[number].is_measured for number in calls)
        distances = Distances.of(key, terms.order[0]) if measured and key is not None else None
        layout = Layout(partition, peers_of(partition, [peer]), distances)
        targets = np.flatnonzero(order >= before)
        defaults = terms.defaults(fresh.rows)
        own = {
            number: arguments[f"_arg{number}"] for number in calls if f"_arg{number}" in arguments
        }
        frames = FrameInput(layout, targets, own, defaults, numbers(fresh.rows, TS))
        return {number: frames.values(number, terms.calls[number]) for number in calls}

    def _to_store(self, fresh: _Fresh, calls: Sequence[int], span: int | None) -> pa.Table:
        names = [field.name for field in self._columns(calls)]
        arguments = self.terms.arguments(fresh.rows, calls)
        columns = dict(zip(self.terms.part_names, fresh.parts, strict=True)) | arguments
        if KEY in names and fresh.key is not None:
            columns[KEY] = fresh.key
        ts = numbers(fresh.rows, TS)
        exp = np.full(len(ts), NEVER)
        if span is not None:
            exp = np.where(ts > NEVER - span, NEVER, ts + span)
        life = {TS: ts, EXP: exp, ID: fresh.place, CODE: fresh.code}
        columns |= {name: pa.array(values) for name, values in life.items()}
        return pa.table(columns).select(self._no_rows(calls).schema.names)

    def _last(self, kept: KeptRows, fresh: _Fresh, stored: pa.Table) -> KeptRows:
        """The last rows of each key, those of touched ones written anew."""
        both = concatenated([stored, self._to_store(fresh, self._by_rows, None)])
        both = taken(both, stable_order(numbers(both, CODE)))
        code = numbers(both, CODE)
        partition = peers_of(code, [])
        ends = Layout(partition, partition).ends
        staying = chosen(both, ends - np.arange(len(code)) <= self._most)
        return kept.without(fresh.codes).after(staying, MIN_TIME)

    # ── frames from the first row on ──────────────────────────────────────────────────────

    @cached_property
    def _no_totals(self) -> pa.Table:
        carried = [
            column
            for number in self._running
            for column in carried_columns(number, self.terms.calls[number])
        ]
        terms = self.terms
        parts = [
            (name, arrow_type(key.type))
            for name, key in zip(terms.part_names, terms.partition, strict=True)
        ]
        plain = [(name, pa.int64()) for name in (*LIFE, CODE, ROWS, PEERS)]
        return pa.schema([*parts, *plain, *carried]).empty_table()

    def _run(self, kept: KeptRows, fresh: _Fresh) -> tuple[dict[int, pa.Array], pa.Table]:
        stored = rows_with(kept.of_codes(fresh.codes), self._no_totals)
        touch(stored.num_rows)
        if stored.num_rows:
            stored = taken(stored, stable_order(numbers(stored, CODE)))
        own = numbers(stored, CODE)
        before = stored.num_rows
        code = np.concatenate([own, fresh.code])
        order = stable_order(code)
        partition = peers_of(code[order], [])
        peer = np.concatenate([np.arange(before), fresh.peer + before])[order]
        layout = Layout(partition, peers_of(partition, [peer]))
        self._check_totals(code[order], stored, fresh, order)
        targets = np.flatnonzero(order >= before)
        running = RunningInput(
            layout, targets, stored, places_in(fresh.codes, own),
            self._led(stored, fresh, order), numbers(fresh.rows, TS),
        )  # fmt: skip
        values, carried = dict[int, pa.Array](), dict[str, pa.Array]()
        for number in self._running:
            values[number], left = running.values(number, self.terms.calls[number])
            carried |= left
        return values, self._totals(fresh, running, carried)

    def _check_totals(self, code: Int64s, stored: pa.Table, fresh: _Fresh, order: Int64s) -> None:
        parts = zip(self.terms.part_names, fresh.parts, strict=True)
        columns = [
            pa.concat_arrays([whole(stored.column(name)), own]).take(pa.array(order))
            for name, own in parts
        ]
        check_parts(code, columns)

    def _led(self, stored: pa.Table, fresh: _Fresh, order: Int64s) -> Mapping[int, pa.Array]:
        """Arguments with what stored rows tell in front of each key."""
        arguments = self.terms.arguments(fresh.rows, self._running)
        led: dict[int, pa.Array] = {}
        for number in self._running:
            own = arguments.get(f"_arg{number}")
            if own is None:
                continue
            value = f"_value{number}"
            first = pa.nulls(stored.num_rows, own.type)
            if value in stored.schema.names:
                first = whole(stored.column(value)).cast(own.type)
            led[number] = pa.concat_arrays([first, own]).take(pa.array(order))
        return led

    def _totals(
        self, fresh: _Fresh, running: RunningInput, carried: Mapping[str, pa.Array]
    ) -> pa.Table:
        ends = running.last
        counts = running.numbering("row_number")[ends]
        groups = running.numbering("dense_rank")[ends]
        parts = [part.take(pa.array(ends)) for part in fresh.parts]
        columns = dict(zip(self.terms.part_names, parts, strict=True)) | dict(carried)
        life = {
            TS: numbers(fresh.rows, TS)[ends],
            EXP: np.full(len(ends), NEVER),
            ID: fresh.place[ends],
            CODE: fresh.codes,
            ROWS: counts,
            PEERS: groups,
        }
        columns |= {name: pa.array(values) for name, values in life.items()}
        return pa.table(columns).select(self._no_totals.schema.names)
