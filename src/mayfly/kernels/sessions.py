"""Sessions: rows of a partition with no pause longer than a gap, given out when they are over.

Idea: rows come in the order of time, so a partition has one open session, of which its start and
its last row are enough to say where the next row belongs. Its rows wait, unread, until the clock
has passed the last one by the gap: a row at exactly that distance still belongs to it.
Invariant: what comes out depends on the rows only, not on how steps were cut; nothing is kept of a
session that is over. Cost: O(new rows · log) per step, and once more for each row when it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes
from mayfly.kernels.delta import LIFE, Delta, concatenated, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, clustered, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, Moving, StateKey
from mayfly.kernels.window_ends import with_bounds
from mayfly.lifetime import NEVER
from mayfly.plan.finished_windows import Sessions
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP, TS


def _hash() -> KeptRows:
    return KeptRows(Shape(Structure.HASH))


NO_PANES = "where a session ends depends on its rows, and panes have fixed edges"


@dataclass(frozen=True, slots=True)
class SessionState:
    """The rows of open sessions by partition, and of each its first time (``_ts``) and its end
    (``_exp``)."""

    members: KeptRows = field(default_factory=_hash)
    sessions: KeptRows = field(default_factory=_hash)

    @property
    def rows(self) -> int:
        return self.members.rows + self.sessions.rows

    @property
    def bytes(self) -> int:
        return self.members.bytes + self.sessions.bytes


@dataclass(frozen=True, slots=True)
class SessionRows(Alone):
    """The rows of finished sessions, with where these start and end in their last columns."""

    name: str
    windows: Sessions
    columns: pa.Schema
    partition: tuple[str, ...] = ()

    def state(self) -> SessionState:
        return SessionState()

    def state_key(self) -> StateKey:
        return StateKey(
            "SessionRows",
            (
                ("gap", self.windows.gap),
                ("columns", self.columns),
                ("partition", self.partition),
            ),
        )

    @property
    def title(self) -> str:
        return "Sessions"

    @property
    def detail(self) -> str:
        return self.windows.cql()

    @property
    def reason(self) -> str:
        return "a session has the rows of one partition" if self.partition else "one session of all"

    @property
    def no_panes_because(self) -> str:
        return NO_PANES

    def holdings(self) -> tuple[Holding, ...]:
        words, why = self.key_words(), "dropped with the session"
        return (
            Holding("members", Structure.HASH, "rows of open sessions", None, words, why),
            Holding("sessions", Structure.HASH, "open sessions", None, words, why),
        )

    @property
    def moving(self) -> Moving:
        return Moving.KEYED

    @property
    def keyed(self) -> bool:
        return bool(self.partition)

    def key_of(self, side: int = 0) -> Key:
        return self.partition

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self._codes(rows) if self.partition else None

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.partition) if kept[0] is None else kept[0]

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self._codes(rows) if part == "members" else None

    @property
    def companions(self) -> Mapping[str, str]:
        return {"sessions": "members"}

    @property
    def keyless_parts(self) -> tuple[str, ...]:
        return ("sessions",)

    def _codes(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.partition]
        return group_codes(columns, rows.num_rows)

    def step(
        self, state: SessionState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[SessionState, Delta]:
        fresh, nothing = inputs[0].born, Delta.empty(self.columns)
        over = state.sessions.due(interval.began, interval.clock)
        if not fresh.num_rows and not over:
            return state, nothing
        names = [*self.columns.names[:-2], *LIFE]
        fresh = with_numbers(fresh.select(names), **{CODE: self._codes(fresh)})
        fresh = clustered(fresh) if fresh.num_rows else fresh
        if self.partition:
            check_codes(numbers(fresh, CODE), [whole(fresh.column(n)) for n in self.partition])
        touched = np.unique(numbers(fresh, CODE))
        blank = _summaries(touched[:0], touched[:0], touched[:0])
        before = rows_with([*state.sessions.of_codes(touched), *over], blank)
        before = each_once(before)
        # A session from before stands as one row in front of its partition's new rows.
        steps = _Steps.of(before, fresh, self.windows.gap, interval.clock)
        leaving = np.unique(numbers(before, CODE)[steps.over_before])
        members = [self._bounded(fresh, steps.fresh, steps)]
        if len(leaving):
            old = clustered(rows_with(state.members.of_codes(leaving), fresh.slice(0, 0)))
            check_codes(numbers(old, CODE), [whole(old.column(n)) for n in self.partition])
            places = np.searchsorted(numbers(before, CODE), numbers(old, CODE))
            members.append(self._bounded(old, steps.before[places], steps))
        born = concatenated([nothing.born, *members])
        staying = chosen(fresh, ~steps.over[steps.fresh])
        staying = with_numbers(staying, **{EXP: np.full(staying.num_rows, NEVER)})
        kept = state.members.without(leaving).after(staying, interval.clock - 1)
        changed = np.unique(numbers(before, CODE))
        sessions = state.sessions.without(changed)
        sessions = sessions.after(steps.open_sessions(), interval.clock - 1)
        return SessionState(kept, sessions), Delta(born, nothing.cut)

    def _bounded(self, rows: pa.Table, session: Int64s, steps: _Steps) -> pa.Table:
        """The rows of sessions that are over, at the instant at which these end."""
        over = steps.over[session]
        rows, session = chosen(rows, over), session[over]
        start, end = steps.start[session], steps.end[session]
        rows = with_numbers(rows, **{TS: end, EXP: end + 1})
        return with_bounds(rows, self.columns, start, end)


@dataclass(frozen=True)
class _Steps:
    """The sessions of a step: of which code each is, where it starts and ends, and whether it is
    over; ``before`` and ``fresh`` say to which of them stored sessions and new rows belong."""

    code: Int64s
    start: Int64s
    end: Int64s
    over: Bools
    before: Int64s
    fresh: Int64s

    @staticmethod
    def of(before: pa.Table, fresh: pa.Table, gap: int, clock: int) -> _Steps:
        code = np.concatenate([numbers(before, CODE), numbers(fresh, CODE)])
        first = np.concatenate([numbers(before, TS), numbers(fresh, TS)])
        last = np.concatenate([numbers(before, EXP) - gap, numbers(fresh, TS)])
        is_fresh = np.repeat([0, 1], [before.num_rows, fresh.num_rows])
        order = stable_order(code, is_fresh, first)
        code, first, last = code[order], first[order], last[order]
        heads = session_heads(code, first, last + gap)
        number = np.cumsum(heads) - 1
        where = np.empty(len(order), np.int64)
        where[order] = number
        begin = np.flatnonzero(heads)
        until = np.append(begin[1:], len(code)) - 1
        end = last[until[: len(begin)]] + gap
        return _Steps(
            code[begin], first[begin], end, end < clock,
            where[: before.num_rows], where[before.num_rows :],
        )  # fmt: skip

    @property
    def over_before(self) -> Bools:
        return self.over[self.before]

    def open_sessions(self) -> pa.Table:
        """Those that a later row may still join."""
        stays = ~self.over
        return _summaries(self.code[stays], self.start[stays], self.end[stays])


def session_heads(code: Int64s, start: Int64s, end: Int64s) -> Bools:
    """Where sessions begin, of parts sorted by partition and start: one that starts exactly when
    another ends is of the same."""
    heads = np.ones(len(code), bool)
    heads[1:] = (code[1:] != code[:-1]) | (start[1:] > end[:-1])
    return heads


def _summaries(code: Int64s, start: Int64s, end: Int64s) -> pa.Table:
    return pa.table({CODE: code, TS: start, EXP: end})


def each_once(rows: pa.Table) -> pa.Table:
    """Stored sessions by partition: one that is over may have been found twice."""
    if not rows.num_rows:
        return rows
    rows = clustered(rows)
    code = numbers(rows, CODE)
    return chosen(rows, np.append(True, code[1:] != code[:-1]))
