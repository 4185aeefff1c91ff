"""Windows: from rows of a stream to rows with lifetimes.

Idea: rows are admitted in the order of the stream (ts, SEQUENCE, values) once their instant is
closed. A time window knows every expiration at once. A count window knows it when the displacing
row comes: until then the forecast is "never" (or the time bound), afterwards the row is cut.
SLIDE s rounds both ends of a lifetime up to multiples of s; SLIDE m ROWS shows rows in groups of
m, when the last of the group comes, and a range moves on only then (spec, thesis 2.1.1). Empty
lifetimes never appear.
Cost: O(rows) per step for time windows; count windows also touch the rows they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    SEEN,
    SEEN_END,
    Delta,
    concatenated,
    taken,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, clustered, numbers, whole
from mayfly.kernels.operator import NO_IDS, Alone, Holding, Lying, Moving, StateKey
from mayfly.kernels.refreshes import rounded
from mayfly.kernels.upkeep import falling_due, waiting
from mayfly.lifetime import NEVER
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.window_kinds import Cumulative, Landmark, PartitionRows, RowsWindow, Window
from mayfly.storage.segment import EXP, TS

RANK = ("_rank",)


@dataclass(frozen=True, slots=True)
class WindowState:
    """Rows that wait for their instant, the rows a count window holds, and how many came so far.

    ``pending`` are rows of a group of SLIDE m ROWS that is not complete; ``leaving`` are the rows
    whose expiration is still to be announced by a negative tuple (NT).
    """

    waiting: tuple[RowRun, ...] = ()
    held: pa.Table | None = None
    pending: pa.Table | None = None
    leaving: KeptRows = field(default_factory=lambda: KeptRows(Shape(Structure.FIFO)))
    number: int = 0
    late: int = 0
    first: int | None = None
    """The generation time of the first row."""

    @property
    def rows(self) -> int:
        tables = sum(int(t.num_rows) for t in (self.held, self.pending) if t is not None)
        return sum(run.rows for run in self.waiting) + tables + self.leaving.rows

    @property
    def bytes(self) -> int:
        tables = sum(int(t.nbytes) for t in (self.held, self.pending) if t is not None)
        return sum(run.bytes for run in self.waiting) + tables + self.leaving.bytes


@dataclass(frozen=True, slots=True)
class WindowRows(Alone):
    """One window over a stream, or over the results of a monotonic sub-query.

    ``order`` are the columns that break ties of ``_ts``, or RANK: the order in which the input
    was admitted; None if order does not matter. ``announce`` is NT's way: rows are born for ever,
    and every expiration is a cut. ``dual`` adds how long rows are seen.
    """

    name: str
    window: Window
    columns: pa.Schema
    order: tuple[str, ...] | None = None
    partition: tuple[str, ...] = ()
    announce: bool = False
    dual: bool = False

    def state(self) -> WindowState:
        return WindowState()

    def state_key(self) -> StateKey:
        return StateKey(
            "WindowRows",
            (
                ("window", self.window),
                ("columns", self.columns),
                ("order", self.order),
                ("partition", self.partition),
                ("announce", self.announce),
                ("dual", self.dual),
            ),
        )

    @property
    def title(self) -> str:
        return "Window"

    @property
    def detail(self) -> str:
        return self.window.cql()

    @property
    def reason(self) -> str:
        if self.keyed:
            return "the window counts the rows of each partition"
        return "the window counts all rows, in one order"

    def holdings(self) -> tuple[Holding, ...]:
        held: tuple[Holding, ...] = ()
        words = self.key_words()
        if self.window.counts_rows:
            reason = "later tuples displace the oldest"
            held = (Holding("held", Structure.FIFO, self.window.cql(), None, words, reason),)
        if self.announce and _time_bound(self.window) is not None:
            reason = "NT: the window announces each expiration"
            held += (Holding("leaving", Structure.FIFO, "rows to announce", reason=reason),)
        return held

    @property
    def moving(self) -> Moving:
        timed = not self.window.counts_rows and self.order is None
        return Moving.FREE if timed else Moving.COUNTED

    @property
    def keyed(self) -> bool:
        return bool(self.partition) and not (self.window.slide and self.window.slide.rows)

    def key_of(self, side: int = 0) -> tuple[str, ...]:
        return self.partition

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.partition) if kept[0] is None else kept[0]

    @property
    def opens(self) -> Window:
        return self.window

    @property
    def foresees(self) -> bool:
        return not (self.window.counts_rows or self.announce)

    @property
    def lying(self) -> Lying:
        return Lying.AS_ARRIVED

    def numbered(self, state: WindowState, first: int) -> WindowState:
        return replace(state, number=first)

    def identities(self, state: WindowState) -> Int64s:
        held = [] if state.held is None else [numbers(state.held, ID)]
        return np.concatenate([NO_IDS, *held, *state.leaving.column(ID)])

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self._partitions(rows) if part == "held" else None

    def step(
        self, state: WindowState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[WindowState, Delta]:
        """Admit what is due of a stream's rows; their ``_ts`` is all that is known of them."""
        if not inputs[0].born.num_rows and self._is_idle(state, interval):
            return state, Delta.empty(self.columns, dual=self.dual)
        state, rows = self.admit(state, inputs[0].born, interval)
        if self.window.counts_rows:
            state, delta = self._counted(state, rows, interval)
        else:
            delta = self._timed(rows)
        if self.dual:
            delta = self._with_sight(delta)
        if self.announce:
            return self._announced(state, delta, interval)
        return state, delta

    def _is_idle(self, state: WindowState, interval: Interval) -> bool:
        """Whether a step without new rows changes nothing."""
        clock = self.refreshed(interval.clock)
        return (
            state.held is None
            and not state.leaving.runs
            and all(run.ts.low >= clock for run in state.waiting)
        )

    # ── admission ─────────────────────────────────────────────────────────────────────────

    def admit(
        self, state: WindowState, rows: pa.Table, interval: Interval
    ) -> tuple[WindowState, pa.Table]:
        """The rows of instants that are closed now (with SLIDE: whose refresh is closed)."""
        began, clock = (self.refreshed(instant) for instant in (interval.began, interval.clock))
        if self.order == RANK:
            rows = with_numbers(rows, **{RANK[0]: numbers(rows, ID)})
        names = dict.fromkeys([*self.columns.names, *(self.order or ()), *self.partition, TS])
        rows = rows.select(list(names))
        late, due, early = _by_instant(rows, interval.began, clock)
        early = with_numbers(early, **{EXP: np.full(early.num_rows, NEVER)})
        woken = list(falling_due(state.waiting, began, clock))
        admitted = concatenated([due, *(table.select(list(names)) for table in woken)])
        if admitted.num_rows and self.order is not None:
            admitted = taken(admitted, _stream_order(admitted, self.order))
        ids = np.arange(state.number, state.number + admitted.num_rows)
        admitted = with_numbers(admitted.combine_chunks(), **{EXP: ids, ID: ids})
        kept = waiting(state.waiting, early, clock) if state.waiting or early.num_rows else ()
        first = state.first
        if first is None and admitted.num_rows:
            first = int(numbers(admitted, TS).min())
        return replace(
            state,
            waiting=kept,
            number=state.number + admitted.num_rows,
            late=state.late + late,
            first=first,
        ), admitted

    def late(self, state: WindowState) -> int:
        return state.late

    def no_input(self) -> pa.Table:
        names = dict.fromkeys([*self.columns.names, *(self.order or ()), *self.partition])
        existing = set(self.columns.names)
        fields = [self.columns.field(n) if n in existing else pa.field(n, pa.null()) for n in names]
        return pa.schema([*fields, (TS, pa.int64())]).empty_table()

    def without_admitted(self, state: WindowState, clock: int) -> WindowState:
        """Without waiting rows of instants before ``clock``: those that were admitted stay stored
        until that is cheap to change."""
        done = self.refreshed(clock)
        left = [run for run in state.waiting if run.ts.high >= done]
        if len(left) == len(state.waiting) and all(run.ts.low >= done for run in left):
            return state
        rows = (run if run.ts.low >= done else _from_instant(run, done) for run in left)
        return replace(state, waiting=tuple(rows))

    def refreshed(self, instant: int) -> int:
        """The instants before this one belong to refreshes that are closed before ``instant``."""
        slide = self.window.slide
        if slide is None or not slide.period or instant <= -NEVER or instant == NEVER:
            return instant
        return slide.at_or_before(instant - 1) + 1

    # ── lifetimes ─────────────────────────────────────────────────────────────────────────

    def _timed(self, rows: pa.Table) -> Delta:
        ts = numbers(rows, TS)
        rows, ts = self._in_landmark(rows, ts)
        window = self.window
        if isinstance(window, Cumulative):
            born = self._alive(rows, ts, window.over_after(ts))
        else:
            born = self._alive(rows, ts, _later(ts, window.lifetime))
        return Delta(born, self._nothing().cut)

    def _in_landmark(self, rows: pa.Table, ts: Int64s) -> tuple[pa.Table, Int64s]:
        match self.window:
            case Landmark(start=start, until=until):
                inside = (ts >= start) & (ts < (NEVER if until is None else until))
                return chosen(rows, inside), ts[inside]
        return rows, ts

    def _alive(self, rows: pa.Table, ts: Int64s, exp: Int64s) -> pa.Table:
        """The rows whose lifetime, rounded to refreshes, is not empty."""
        slide = self.window.slide
        ts, exp = rounded(ts, slide), rounded(exp, slide)
        rows = with_numbers(rows, **{TS: ts, EXP: exp}).select([*self.columns.names, *LIFE])
        return chosen(rows, ts < exp)

    def _counted(
        self, state: WindowState, rows: pa.Table, interval: Interval
    ) -> tuple[WindowState, Delta]:
        """Rows that later ones displace, or that leave when the window moves on."""
        state, fresh, moves = self._shown(state, rows)
        window = self.window
        count = window.count if isinstance(window, RowsWindow | PartitionRows) else None
        fresh, _ = self._in_landmark(fresh, numbers(fresh, TS))
        shown = numbers(fresh, CODE)
        # Held rows carry: _ts as they came, _code the partition, _exp the announced expiration,
        # _end the instant at which they came to be seen.
        codes, announced = self._partitions(fresh), _later(numbers(fresh, TS), self._announced_life)
        fresh = with_numbers(fresh, **{CODE: codes, EXP: announced, END: shown})
        held = fresh.slice(0, 0) if state.held is None else state.held
        both = concatenated([held.select(fresh.schema.names), fresh])
        order = stable_order(numbers(both, CODE))
        both = taken(both, order)
        code, exp, seen = (numbers(both, name) for name in (CODE, EXP, END))
        if self.partition:
            check_codes(code, [whole(both.column(n)) for n in self.partition])
        ends = exp.copy() if moves is None else self._moved_out(numbers(both, TS), moves)
        displaced = np.zeros(len(code), dtype=bool)
        if count is not None and len(code) > count:
            displaced[:-count] = code[count:] == code[:-count]
            places = np.flatnonzero(displaced)
            ends[places] = np.minimum(ends[places], seen[places + count])
        new = order >= held.num_rows
        born = with_numbers(chosen(both, new), **{TS: seen[new]})
        born = self._alive(born, seen[new], ends[new])
        old = ~new & (ends < exp)
        cut = self._cut(chosen(both, old), seen[old], exp[old], ends[old])
        keep = ~displaced & (ends >= interval.clock) & self._may_leave
        return replace(state, held=chosen(both, keep).combine_chunks()), Delta(born, cut)

    @property
    def _moves_by_rows(self) -> bool:
        slide = self.window.slide
        return slide is not None and slide.rows is not None

    @property
    def _announced_life(self) -> int | None:
        """How long rows are announced to live; None where only later rows decide."""
        return None if self._moves_by_rows else _time_bound(self.window)

    @property
    def _may_leave(self) -> bool:
        counted = isinstance(self.window, RowsWindow | PartitionRows)
        return counted or _time_bound(self.window) is not None

    def _moved_out(self, ts: Int64s, moves: Int64s) -> Int64s:
        """The first move of the window at which rows are too old for it, or never."""
        old = _later(ts, _time_bound(self.window))
        return np.append(moves, NEVER)[np.searchsorted(moves, old)]

    def _cut(self, rows: pa.Table, ts: Int64s, exp: Int64s, end: Int64s) -> pa.Table:
        slide = self.window.slide
        ts, exp, end = (rounded(times, slide) for times in (ts, exp, end))
        # With a slide, a row displaced before its first refresh was never seen.
        keep = (ts < exp) & (end < exp)
        rows = chosen(with_numbers(rows, **{TS: ts, EXP: exp, END: end}), keep)
        return rows.select([*self.columns.names, *LIFE, END])

    def _partitions(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.partition]
        return group_codes(columns, rows.num_rows)

    def _shown(
        self, state: WindowState, rows: pa.Table
    ) -> tuple[WindowState, pa.Table, Int64s | None]:
        """The rows that are seen now, and when the window moves if rows move it.

        ``_code`` is the instant from which each row is seen.
        """
        slide = self.window.slide
        if slide is None or not slide.rows:
            return state, with_numbers(rows, **{CODE: numbers(rows, TS)}), None
        if state.pending is not None:
            rows = concatenated([rows.slice(0, 0), state.pending, rows])
        complete = rows.num_rows // slide.rows * slide.rows
        shown, pending = rows.slice(0, complete), rows.slice(complete)
        moves = numbers(shown, TS)[slide.rows - 1 :: slide.rows]
        shown = with_numbers(shown, **{CODE: np.repeat(moves, slide.rows)})
        return replace(state, pending=pending.combine_chunks()), shown, moves

    # ── variants ──────────────────────────────────────────────────────────────────────────

    def _announced(
        self, state: WindowState, delta: Delta, interval: Interval
    ) -> tuple[WindowState, Delta]:
        """NT: what outlives the step is born for ever; its death is announced when it comes."""
        born, cut = delta.born, delta.cut
        exp = numbers(born, EXP)
        lasting = (exp >= interval.clock) & (exp != NEVER)
        nothing = with_numbers(born.slice(0, 0), **{CODE: np.empty(0, np.int64)})
        fresh = chosen(born, lasting)
        fresh = (
            clustered(with_numbers(fresh, **{CODE: numbers(fresh, ID)}))
            if lasting.any()
            else nothing
        )
        premature = with_numbers(cut, **{CODE: numbers(cut, ID)})
        kept = state.leaving.cut(clustered(premature)) if cut.num_rows else state.leaving
        due = concatenated([nothing, *kept.due(interval.began, interval.clock)])
        ends = numbers(due, EXP)
        dying = with_numbers(due, **{EXP: np.full(len(ends), NEVER), END: ends})
        if self.dual:
            seen = numbers(dying, SEEN)
            ends = np.where(seen == NEVER, NEVER, ends)
            dying = with_numbers(dying, **{SEEN: np.full(len(seen), NEVER), SEEN_END: ends})
        announced = with_numbers(born, **{EXP: np.where(lasting, NEVER, exp)})
        if self.dual:
            announced = with_numbers(
                announced, **{SEEN: np.where(lasting, NEVER, numbers(born, SEEN))}
            )
        unbounded = chosen(cut, numbers(cut, EXP) == NEVER)
        cuts = concatenated([unbounded, dying.select(cut.schema.names)])
        state = replace(state, leaving=kept.after(fresh, interval.clock - 1))
        return state, Delta(announced, cuts)

    def _with_sight(self, delta: Delta) -> Delta:
        """INTERNAL windows expire inside only: their rows are seen for ever."""

        def sight(times: Int64s) -> Int64s:
            return np.full(len(times), NEVER) if self.window.internal else times

        born = with_numbers(delta.born, **{SEEN: sight(numbers(delta.born, EXP))})
        cut = with_numbers(
            delta.cut.drop_columns([END]),
            **{
                SEEN: sight(numbers(delta.cut, EXP)),
                END: numbers(delta.cut, END),
                SEEN_END: sight(numbers(delta.cut, END)),
            },
        )
        return Delta(born, cut)

    def _nothing(self) -> Delta:
        return Delta.empty(self.columns)


def _from_instant(run: RowRun, instant: int) -> RowRun:
    rows = run.load()
    return RowRun.of(chosen(rows, numbers(rows, TS) >= instant).combine_chunks(), level=run.level)


def _by_instant(rows: pa.Table, began: int, clock: int) -> tuple[int, pa.Table, pa.Table]:
    """How many rows are too late, those that are due, and those that are early."""
    ts = numbers(rows, TS)
    if (ts[1:] >= ts[:-1]).all():
        low, high = np.searchsorted(ts, [began, clock])
        return int(low), rows.slice(low, max(0, high - low)), rows.slice(max(low, high))
    late = ts < began
    due = ~late & (ts < clock)
    return int(late.sum()), chosen(rows, due), chosen(rows, ~late & ~due)


def _later(ts: Int64s, duration: int | None) -> Int64s:
    if duration is None:
        return np.full(len(ts), NEVER, dtype=np.int64)
    later: Int64s = ts + np.int64(duration)
    if len(ts) and ts.max() > NEVER - duration:
        later[ts > NEVER - duration] = NEVER
    return later


def _time_bound(window: Window) -> int | None:
    return window.duration if isinstance(window, PartitionRows) else window.lifetime


def _stream_order(rows: pa.Table, order: tuple[str, ...]) -> Int64s:
    """Positions by (ts, SEQUENCE columns, values); NULLs come first."""
    sortable = [name for name in order if not pa.types.is_nested(rows.schema.field(name).type)]
    # Arrow takes a name that begins with a dot for a path.
    columns = {f"c{n}": rows.column(name) for n, name in enumerate((TS, *sortable))}
    keys = [(name, "ascending", "at_start") for name in columns]
    positions = pc.sort_indices(pa.table(columns), sort_keys=keys)
    result: Int64s = positions.to_numpy().astype(np.int64)
    return result
