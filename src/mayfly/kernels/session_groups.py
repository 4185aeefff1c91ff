"""Groups by session: totals that grow with the session, and none of its rows.

Idea: a row is a session of its own, from its time to the gap behind it, that counts one value; an
open session is such a row, too. Sorted by partition and start, neighbours that touch become one.
Invariant: a session has one row, here and in the answer; merging in any cuts gives the same. What
is over leaves, with all that was kept of it. Cost: a sort of new rows; state: one row a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, distinct_of, stable_order
from mayfly.kernels.aggregate_steps import overflow
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import ID, LIFE, Delta, column_name, mixed_ids, taken
from mayfly.kernels.group_events import HALF, Wide
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, StateKey
from mayfly.kernels.pane_partials import added, extremes
from mayfly.kernels.sessions import NO_PANES, each_once, session_heads
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.pane_functions import MAX, MIN
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS

_ROWS = "_rows"


@dataclass(frozen=True, slots=True)
class SessionGroupState:
    """A row for each open session: its partition, start (``_ts``), end (``_exp``) and totals."""

    sessions: KeptRows = field(default_factory=lambda: KeptRows(Shape(Structure.HASH)))

    @property
    def rows(self) -> int:
        return self.sessions.rows

    @property
    def bytes(self) -> int:
        return self.sessions.bytes


@dataclass(frozen=True)
class SessionGroups(Alone):
    """One row per finished session: ``columns`` are keys, then what ``calls`` give.

    ``keys`` say of each key which column of the partition it is, or ``_ts`` and ``_exp`` for the
    start and the end; every column of the partition is a key.
    """

    name: str
    windows: Sessions
    partition: tuple[Column, ...]
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    columns: pa.Schema
    having: Expression | None = None

    def state(self) -> SessionGroupState:
        return SessionGroupState()

    def state_key(self) -> StateKey:
        return StateKey(
            "SessionGroups",
            (
                ("gap", self.windows.gap),
                ("partition", self.partition),
                ("keys", self.keys),
                ("calls", self.calls),
                ("columns", self.columns),
            ),
        )

    @property
    def title(self) -> str:
        return "Sessions"

    @property
    def detail(self) -> str:
        return f"{self.windows.cql()}: {aggregate_text((), self.calls, self.having)}"

    @property
    def reason(self) -> str:
        return "a session has the rows of one partition" if self.partition else "one session of all"

    @property
    def no_panes_because(self) -> str:
        return NO_PANES

    def holdings(self) -> tuple[Holding, ...]:
        why = "totals and no rows: a group is one session, and its values are those of its parts"
        why, words = f"{why}; dropped with the session", self.key_words()
        return (Holding("sessions", Structure.HASH, "open sessions", None, words, why),)

    @property
    def keyed(self) -> bool:
        return bool(self.partition)

    def key_of(self, side: int = 0) -> Key:
        return tuple(map(column_name, self.partition))

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.partition))

    def own_key(self) -> tuple[str, ...]:
        return tuple(self.columns.names[self.keys.index(name or "")] for name in self.key_of())

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return group_codes(self._parts(rows), rows.num_rows) if self.partition else None

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        if kept[0] is None:
            return Spread.by(self.own_key())
        return kept[0].renamed(zip(self.key_of(), self.own_key(), strict=True))

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return group_codes([whole(rows.column(name)) for name in self.own_key()], rows.num_rows)

    def _parts(self, rows: pa.Table) -> list[pa.Array]:
        return [
            unsigned_zeros(values_of(part, rows, arrow_type(part.type))) for part in self.partition
        ]

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: SessionGroupState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[SessionGroupState, Delta]:
        fresh, nothing = inputs[0].born, Delta.empty(self.columns)
        over = state.sessions.due(interval.began, interval.clock)
        if not fresh.num_rows and not over:
            return state, nothing
        begun = self._begun(fresh)
        touched = distinct_of(np.sort(numbers(begun, CODE)))
        before = each_once(rows_with([*state.sessions.of_codes(touched), *over], self._none))
        # Stored sessions first: they started before all new rows of their partition.
        merged = self._merged(pa.concat_tables([before, begun]).combine_chunks())
        is_over = numbers(merged, EXP) < interval.clock
        kept = state.sessions.without(distinct_of(numbers(before, CODE)))
        kept = kept.after(chosen(merged, ~is_over), interval.clock - 1)
        return SessionGroupState(kept), Delta(self._results(chosen(merged, is_over)), nothing.cut)

    @cached_property
    def _arguments(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(c.argument for c in self.calls if c.argument is not None))

    @cached_property
    def _totals(self) -> Mapping[str, pa.DataType]:
        """What is kept of a session, by the numbers of arguments."""
        totals = {_ROWS: pa.int64()}
        for call in self.calls:
            if call.argument is None:
                continue
            number = self._arguments.index(call.argument)
            if call.function in (MIN, MAX):
                totals[f"_{call.function}{number}"] = arrow_type(call.argument.type)
                continue
            parts = ("count",) if call.function == "count" else ("count", "low", "high")
            totals |= {f"_{part}{number}": pa.int64() for part in parts}
        return totals

    @cached_property
    def _none(self) -> pa.Table:
        keys = [(name, self.columns.field(name).type) for name in self.own_key()]
        life = [(name, pa.int64()) for name in (TS, EXP, CODE)]
        return pa.schema([*keys, *self._totals.items(), *life]).empty_table()

    def _begun(self, rows: pa.Table) -> pa.Table:
        """Each row as a session of its own."""
        parts, ts = self._parts(rows), numbers(rows, TS)
        columns = dict(zip(self.own_key(), parts, strict=True))
        life = {TS: ts, EXP: ts + self.windows.gap, CODE: group_codes(parts, rows.num_rows)}
        columns |= {name: pa.array(values) for name, values in life.items()}
        columns[_ROWS] = pa.array(np.ones(rows.num_rows, np.int64))
        for number, argument in enumerate(self._arguments):
            values = values_of(argument, rows, arrow_type(argument.type))
            columns |= {f"_{word}{number}": values for word in (MIN, MAX)}
            if f"_count{number}" in self._totals:
                columns[f"_count{number}"] = pc.is_valid(values).cast(pa.int64())
            if f"_low{number}" in self._totals:
                filled = pc.fill_null(values, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
                columns[f"_low{number}"] = pa.array(filled & HALF)
                columns[f"_high{number}"] = pa.array(filled >> 32)
        return pa.table({name: columns[name] for name in self._none.schema.names})

    def _merged(self, rows: pa.Table) -> pa.Table:
        """Sessions that touch as one, sorted by code and start."""
        order = stable_order(numbers(rows, CODE), numbers(rows, TS))
        code, start, end = (numbers(rows, name)[order] for name in (CODE, TS, EXP))
        names = self.own_key()
        check_codes(code, [whole(rows.column(name)).take(pa.array(order)) for name in names])
        pieces = np.flatnonzero(session_heads(code, start, end))
        last = np.append(pieces[1:], len(code)) - 1
        merged = {name: rows.column(name).take(pa.array(order[pieces])) for name in names}
        for name in self._totals:
            values = whole(rows.column(name))
            if name.startswith((f"_{MIN}", f"_{MAX}")):
                ordered = values.take(pa.array(order))
                merged[name] = extremes(ordered, pieces, name.startswith(f"_{MAX}"))
            else:
                merged[name] = pa.array(added(values.to_numpy()[order], pieces))
        for name in self._totals:
            if name.startswith("_low"):  # what does not fit the lower half goes to the other one
                low, high = (merged[n].to_numpy() for n in (name, name.replace("low", "high")))
                merged[name] = pa.array(low & HALF)
                merged[name.replace("low", "high")] = pa.array(high + (low >> 32))
        life = {TS: start[pieces], EXP: end[last[: len(pieces)]], CODE: code[pieces]}
        merged |= {name: pa.array(values) for name, values in life.items()}
        return pa.table({name: merged[name] for name in self._none.schema.names})

    # ── results ───────────────────────────────────────────────────────────────────────────

    def _results(self, sessions: pa.Table) -> pa.Table:
        """The rows of sessions that are over, at the instants at which these end."""
        own = dict(zip(self.key_of(), self.own_key(), strict=True))
        arrays = [sessions.column(own.get(key, key)) for key in self.keys]
        arrays += [self._value(call, sessions) for call in self.calls]
        kinds = self.columns.types
        arrays = [array.cast(kind) for array, kind in zip(arrays, kinds, strict=True)]
        end = numbers(sessions, EXP)
        life = {TS: end, EXP: end + 1}
        life[ID] = mixed_ids(numbers(sessions, CODE), numbers(sessions, TS))
        lives = [pa.array(life[name]) for name in LIFE]
        rows = pa.table([*arrays, *lives], names=[*self.columns.names, *LIFE])
        return chosen(rows, satisfying(self.having, rows)) if self.having is not None else rows

    def _value(self, call: AggregateCall, sessions: pa.Table) -> pa.Array:
        if call.argument is None:
            return sessions.column(_ROWS)
        number = self._arguments.index(call.argument)
        if call.function in (MIN, MAX):
            return sessions.column(f"_{call.function}{number}")
        count = numbers(sessions, f"_count{number}")
        if call.function == "count":
            return pa.array(count)
        sums = Wide.of_halves(*(numbers(sessions, f"_{half}{number}") for half in ("low", "high")))
        if call.function == "avg":
            return pa.array(sums.floats / np.maximum(count, 1), mask=count == 0)
        if not sums.fits.all():
            place = np.flatnonzero(~sums.fits)[:1]
            session = taken(sessions, place)
            keys = [session.column(name)[0].as_py() for name in self.own_key()]
            raise overflow(call.function, keys, int(numbers(session, EXP)[0]), "a BIGINT")
        return pa.array(sums.low, mask=count == 0)
