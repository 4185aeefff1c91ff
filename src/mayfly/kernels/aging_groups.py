"""Groups whose values age: every refresh has an answer from one summary a group, rows or no rows.

Idea: what is kept of the rows of a group (aging_values.py) can be asked at any instant from the
last row on. It is asked at each refresh, and the answer holds until the next one: results are born
with their end, and none is cut but the one from before the first row.
Invariant: rows count by their own times, one instant after the other, whatever steps were cut.
Cost: a sort of new rows; at each refresh one result a group. State: one row a group, which leaves
when nothing of its rows counts any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, places_in, stable_order
from mayfly.kernels.aging_values import Aging, AgingAnswers, AgingRows, aging_of
from mayfly.kernels.codes import adjacent_equal, check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import END, ID, Delta, mixed_ids, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, numbers, whole
from mayfly.kernels.operator import NO_IDS, Alone, Holding, Key, StateKey, Working, plain_key
from mayfly.kernels.refreshes import Refreshes, listed
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.lifetime import MIN_TIME, NEVER, format_micros
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.plan.window_kinds import Slide
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class AgingState:
    """A row for each group: its keys, the time of its last row (``_ts``), and its summaries.

    Where there is one group only it has an answer before the first row, from when it has ``begun``
    until it is ``answered`` at a refresh.
    """

    groups: KeptRows = field(default_factory=lambda: KeptRows(Shape(Structure.GROUPS)))
    begun: bool = False
    answered: bool = False
    next_refresh: int | None = None

    @property
    def rows(self) -> int:
        return self.groups.rows

    @property
    def bytes(self) -> int:
        return self.groups.bytes


@dataclass(frozen=True)
class AgingGroups(Alone):
    """One result per group and refresh: its keys, then its aggregates, filtered by ``having``.

    ``duration`` is how long rows count; None where they fade instead.
    """

    name: str
    keys: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]
    columns: pa.Schema
    slide: Slide
    duration: int | None = None
    having: Expression | None = None

    def state(self) -> AgingState:
        return AgingState()

    def state_key(self) -> StateKey:
        return StateKey(
            "AgingGroups",
            (
                ("keys", self.keys),
                ("calls", self.calls),
                ("columns", self.columns),
                ("slide", self.slide),
                ("duration", self.duration),
                ("having", self.having),
            ),
        )

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        return "Aggregate"

    @property
    def detail(self) -> str:
        over = "" if self.duration is None else f"RANGE {format_micros(self.duration)} "
        return f"{aggregate_text(self.keys, self.calls, self.having)} over {over}{self.slide.cql()}"

    @property
    def reason(self) -> str:
        return "a group lies in one bucket" if self.keys else "one value over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        why = "no row is kept; a group leaves when nothing of its rows counts any more"
        words = self.key_words()
        return (
            Holding("groups", Structure.GROUPS, "groups", None, words, why, lifetime=self.life),
        )

    def workings(self) -> tuple[Working, ...]:
        return tuple(
            Working(aggregate_text((), [call], None), value.structure, value.why)
            for call, value in zip(self.calls, self._values, strict=True)
        )

    @property
    def keyed(self) -> bool:
        return bool(self.keys)

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.keys, [key.type for key in self.keys])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.keys))

    def own_key(self) -> tuple[str, ...]:
        return tuple(self.columns.names[: len(self.keys)])

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return group_codes(self._parts(rows), rows.num_rows) if self.keys else None

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        if kept[0] is None:
            return Spread.by(self.own_key())
        return kept[0].renamed(zip(self.key_of(), self.own_key(), strict=True))

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return group_codes([whole(rows.column(name)) for name in self.own_key()], rows.num_rows)

    def identities(self, state: AgingState) -> Int64s:
        is_open = not self.keys and state.begun and not state.answered
        return numbers(self._opening(NEVER), ID) if is_open else NO_IDS

    # ── a step ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _values(self) -> tuple[Aging, ...]:
        listed_calls = enumerate(self.calls)
        return tuple(aging_of(call, self.duration, number) for number, call in listed_calls)

    @cached_property
    def life(self) -> int:
        """For how long a row counts."""
        return max(value.life for value in self._values)

    def step(
        self, state: AgingState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[AgingState, Delta]:
        if interval.is_empty:
            return state, Delta.empty(self.columns)
        stored = [run.load() for run in state.groups.runs]
        existing = rows_with([chosen(t, numbers(t, EXP) != MIN_TIME) for t in stored], self._none)
        fresh = _ByGroup.of(self._parts(inputs[0].born), inputs[0].born)
        groups = self._groups(existing, fresh)
        first = interval.began if existing.num_rows else fresh.first
        refreshes = Refreshes.of(self.slide, first, interval)
        asked = AgingAnswers(groups.num_rows, listed(refreshes, self.detail, groups.num_rows))
        rows = AgingRows(places_in(numbers(groups, CODE), fresh.code), fresh.time)
        last_row = asked.last_rows(rows)
        last = np.append(rows.time, 0)[last_row]
        last = np.where(last_row < 0, numbers(groups, TS)[asked.group], last)
        answers, summaries = list[pa.Array](), dict[str, pa.Array]()
        for call, value in zip(self.calls, self._values, strict=True):
            own = {name: whole(groups.column(name)) for name in value.fields}
            answer, after = value.play(own, fresh.of_call(call.argument, rows), asked)
            answers.append(answer)
            summaries |= after
        results = self._results(groups, asked, answers, last)
        opening, state = self._opened(state, asked)
        nothing = Delta.empty(self.columns)
        delta = Delta(pa.concat_tables([opening.born, results]).combine_chunks(), opening.cut)
        if not groups.num_rows:
            return replace(state, next_refresh=None), delta if delta.rows else nothing
        kept = self._kept(state.groups, groups, rows, summaries, interval)
        following = self.slide.at_or_after(interval.clock) if kept.rows else None
        return replace(state, groups=kept, next_refresh=following), delta

    @cached_property
    def _none(self) -> pa.Table:
        """What is kept of a group."""
        keys = list(self.columns)[: len(self.keys)]
        life = [pa.field(name, pa.int64()) for name in (TS, EXP, ID, CODE)]
        own = [pa.field(*part) for value in self._values for part in value.fields.items()]
        return pa.schema([*keys, *life, *own]).empty_table()

    def _parts(self, rows: pa.Table) -> list[pa.Array]:
        kinds = self.columns.types
        return [
            unsigned_zeros(values_of(key, rows, kind))
            for key, kind in zip(self.keys, kinds, strict=False)
        ]

    def _groups(self, existing: pa.Table, fresh: _ByGroup) -> pa.Table:
        """What is known of the groups so far, by code: those without a row yet have no summary."""
        heads = np.append(True, fresh.code[1:] != fresh.code[:-1])[: len(fresh.code)]
        places = pa.array(np.flatnonzero(heads))
        codes = fresh.code[heads]
        own = dict(zip(self.own_key(), (part.take(places) for part in fresh.parts), strict=True))
        life = {TS: np.full(len(codes), MIN_TIME), EXP: np.full(len(codes), NEVER)}
        own |= {
            name: pa.array(values) for name, values in (life | {ID: codes, CODE: codes}).items()
        }
        blank = {
            name: own[name] if name in own else pa.nulls(len(codes), kind)
            for name, kind in zip(self._none.schema.names, self._none.schema.types, strict=True)
        }
        both = pa.concat_tables([existing, pa.table(blank, schema=self._none.schema)])
        both = both.combine_chunks()
        order = stable_order(numbers(both, CODE))
        code = numbers(both, CODE)[order]
        check_codes(code, [whole(both.column(n)).take(pa.array(order)) for n in self.own_key()])
        first = np.append(True, code[1:] != code[:-1])[: len(code)]
        return both.take(pa.array(order[first])).combine_chunks()

    # ── results ───────────────────────────────────────────────────────────────────────────

    def _results(
        self, groups: pa.Table, asked: AgingAnswers, answers: Sequence[pa.Array], last: Int64s
    ) -> pa.Table:
        """The answers of groups that have something to tell, each until the next one differs."""
        there = np.flatnonzero((asked.time - self.life < last) | (not self.keys))
        group, time = asked.group[there], asked.time[there]
        keys = [whole(groups.column(name)).take(pa.array(group)) for name in self.own_key()]
        kinds = self.columns.types[len(self.keys) :]
        values = [
            answer.take(pa.array(there)).cast(kind)
            for answer, kind in zip(answers, kinds, strict=True)
        ]
        rows = pa.table([*keys, *values], schema=self.columns)
        assert self.slide.period is not None
        new = np.ones(len(time), bool)
        new[1:] = (group[1:] != group[:-1]) | (time[1:] != time[:-1] + self.slide.period)
        for value in values:
            new[1:] |= ~adjacent_equal(value)
        heads = np.flatnonzero(new)
        ends = np.append(time, 0)[np.append(heads[1:], len(time)) - 1] + self.slide.period
        code = numbers(groups, CODE)[group[heads]]
        return self._lived(rows.take(pa.array(heads)), time[heads], ends[: len(heads)], code)

    def _lived(self, rows: pa.Table, ts: Int64s, exp: Int64s, code: Int64s) -> pa.Table:
        rows = with_numbers(rows, **{TS: ts, EXP: exp, ID: mixed_ids(code, ts)})
        if self.having is not None and rows.num_rows:
            rows = chosen(rows, satisfying(self.having, rows))
        return rows.combine_chunks()

    def _opening(self, until: int) -> pa.Table:
        """The answer of the only group before its first row."""
        arrays = [
            pa.array([value.nothing()], kind)
            for value, kind in zip(self._values, self.columns.types, strict=True)
        ]
        row, zero = pa.table(arrays, schema=self.columns), np.zeros(1, np.int64)
        return self._lived(row, zero + MIN_TIME, zero + until, zero)

    def _opened(self, state: AgingState, asked: AgingAnswers) -> tuple[Delta, AgingState]:
        """The answer from before the first row begins, or ends with the first refresh."""
        nothing = Delta.empty(self.columns)
        if self.keys or state.answered:
            return nothing, replace(state, begun=True)
        answered = bool(asked.groups and len(asked.times))
        until = int(asked.times[0]) if answered else NEVER
        after = replace(state, begun=True, answered=answered)
        if not state.begun:
            return Delta(self._opening(until), nothing.cut), after
        if not answered:
            return nothing, after
        opening = self._opening(NEVER)  # no row, if HAVING is against it
        ended = with_numbers(opening, **{END: np.full(opening.num_rows, until)})
        return Delta(nothing.born, ended.select(nothing.cut.schema.names)), after

    def _kept(
        self,
        stored: KeptRows,
        groups: pa.Table,
        rows: AgingRows,
        summaries: Mapping[str, pa.Array],
        interval: Interval,
    ) -> KeptRows:
        """The groups of which something will still count at the next refresh."""
        last = numbers(groups, TS).copy()
        np.maximum.at(last, rows.group, rows.time)
        for name, values in summaries.items():
            place = groups.schema.get_field_index(name)
            groups = groups.set_column(place, groups.schema.field(place), values)
        groups = with_numbers(groups, **{TS: last})
        code = numbers(groups, CODE)
        following = self.slide.at_or_after(interval.clock)
        lasting: Bools = (last > following - self.life) | (not self.keys)
        return stored.without(code).after(chosen(groups, lasting).combine_chunks(), MIN_TIME)


@dataclass(frozen=True)
class _ByGroup:
    """New rows by the code of their group, time and values."""

    rows: pa.Table
    parts: Sequence[pa.Array]
    code: Int64s
    time: Int64s

    @staticmethod
    def of(parts: Sequence[pa.Array], rows: pa.Table) -> _ByGroup:
        code, time = group_codes(parts, rows.num_rows), numbers(rows, TS)
        order = stable_order(code, time)
        places = pa.array(order)
        sorted_parts = [part.take(places) for part in parts]
        return _ByGroup(rows.take(places), sorted_parts, code[order], time[order])

    @property
    def first(self) -> int | None:
        return int(self.time.min()) if len(self.time) else None

    def of_call(self, argument: Expression | None, rows: AgingRows) -> AgingRows:
        """The rows that have a value, those of one group and instant in its order."""
        if argument is None:
            return rows
        values = values_of(argument, self.rows, arrow_type(argument.type))
        there = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
        ordered = pc.sort_indices(values.take(pa.array(there))).to_numpy().astype(np.int64)
        there = there[ordered]
        there = there[stable_order(rows.group[there], rows.time[there])]
        return AgingRows(rows.group[there], rows.time[there], values.take(pa.array(there)))
