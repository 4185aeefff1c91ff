"""Many queries over the same panes, answered in one pass: one reader for each window and HAVING.

Idea: rows of panes sorted by group and time are read by all windows at once (CS2). A window at a
refresh holds a stretch of a group's rows; both ends move on from refresh to refresh, only to those
at which a row comes or goes. Totals of a stretch are differences of running sums, extremes those
of blocks of rows; other values are in stretch_visits.py. The reader is one more key of the results,
so that all queries have one state and one log. Who comes later is one more reader.
Invariant: results are those of each query alone, under the number of its reader.
Cost: a sort of the rows that matter, two binary searches for each group and window, then O(rows
that come and go + results).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, places_in, stable_order
from mayfly.errors import BadInput
from mayfly.kernels.aggregate_steps import Totals, overflow, without_repeats
from mayfly.kernels.codes import check_codes, check_pairs
from mayfly.kernels.delta import ID, SHOWN, Delta, concatenated, taken, with_numbers
from mayfly.kernels.group_results import COUNT, GroupResults
from mayfly.kernels.holistic import TooLarge, Versions
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, READER, Bools, chosen, numbers, whole
from mayfly.kernels.operator import NO_IDS, Alone, Holding, Moving, StateKey
from mayfly.kernels.pane_aggregates import is_difference
from mayfly.kernels.pane_edges import period_of
from mayfly.kernels.pane_partials import GROUP
from mayfly.kernels.pane_store import PaneRows
from mayfly.kernels.pane_stretches import Scan, SortedPanes, Stretches, merged_spans, moves
from mayfly.kernels.room import touch
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.kernels.stretch_visits import StretchValues
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.plan.window_kinds import Range
from mayfly.storage.segment import EXP, TS

FEW = 4
"""Where fewer than one row in so many comes or goes, only its groups are looked at."""


@dataclass(frozen=True)
class WindowReader:
    """Who reads the panes: by a window, which of its results are shown, and since when.

    ``since`` and ``entry`` are those of the clock group of a query that came later.
    """

    window: Range
    having: Expression | None = None
    since: int | None = None
    entry: int | None = None

    @cached_property
    def number(self) -> int:
        """What its results are known by."""
        slide = self.window.slide
        assert slide is not None
        words = [str(part) for part in (self.window.duration, period_of(self.window), slide.origin)]
        if self.having is not None:
            words.append(f"having {self.having!r}")
        if self.since is not None:
            words.append(f"since {self.since} {self.entry}")
        return int.from_bytes(sha256(" ".join(words).encode()).digest()[:8], "big") >> 1


def leads(window: Range, other: Range) -> bool:
    """Whether every refresh of another window shows what one of this window's does, and not the
    other way round."""
    if window == other or window.duration != other.duration or not (window.slide and other.slide):
        return False
    period, longer = period_of(window), period_of(other)
    meets = (other.slide.origin - window.slide.origin) % period == 0
    return longer > period and longer % period == 0 and meets


@dataclass(frozen=True, slots=True)
class ReaderState:
    """One row per group: its totals and its last result; the panes are kept elsewhere."""

    groups: KeptRows
    begun: bool = False
    next_refresh: int | None = None
    """The next one at which a pane comes or goes."""

    @property
    def rows(self) -> int:
        return self.groups.rows

    @property
    def bytes(self) -> int:
        return self.groups.bytes


@dataclass(frozen=True)
class PaneReaders(Alone):
    """One result per reader and group, from the panes in its window.

    ``calls`` read columns of panes, ``weights`` are the counts beside them; ``columns`` are the
    reader, the keys and the values, or what is computed of these (``outputs``). Which ``readers``
    there are is no part of the state's name.
    """

    name: str
    keys: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    weights: tuple[Column | None, ...]
    columns: pa.Schema
    outputs: tuple[Expression, ...] = ()
    readers: tuple[WindowReader, ...] = field(default=(), compare=False)
    values: pa.Schema | None = None
    """The reader, keys and values of which outputs are computed."""
    forwards: bool = field(default=True, compare=False)
    """Whether what windows of one length hold where their refreshes meet is looked at once."""

    @staticmethod
    def of(
        name: str,
        keys: tuple[Column, ...],
        calls: tuple[AggregateCall, ...],
        weights: tuple[Column | None, ...],
        kinds: Sequence[pa.DataType],
    ) -> PaneReaders:
        """``kinds`` are the types of keys and values, without readers."""
        key_columns = [(f".{key.name}", kind) for key, kind in zip(keys, kinds, strict=False)]
        values = [(f".value{number}", kind) for number, kind in enumerate(kinds[len(keys) :])]
        columns = pa.schema([(READER, pa.int64()), *key_columns, *values])
        return PaneReaders(name, keys, calls, weights, columns)

    def computing(
        self, outputs: tuple[Expression, ...], kinds: Sequence[pa.DataType]
    ) -> PaneReaders:
        """With what is computed of keys and values in the place of the values."""
        own = list(self.columns)[: 1 + len(self.keys)]
        named = [(f".output{number}", kind) for number, kind in enumerate(kinds)]
        return replace(
            self, outputs=outputs, columns=pa.schema([*own, *named]), values=self.columns
        )

    def state_key(self) -> StateKey:
        asked = tuple((call.function, call.argument, call.data_type) for call in self.calls)
        more = tuple(
            (c.distinct, c.approximate, c.parameters, c.bound)
            for c in self.calls
            if not is_difference(c)
        )
        return StateKey(
            "PaneReaders",
            (
                ("keys", self.keys),
                ("calls", asked),
                ("weights", self.weights),
                ("columns", self.columns),
                *((("asked", more),) if more else ()),
                *((("outputs", self.outputs),) if self.outputs else ()),
            ),
        )

    # ── what it is ────────────────────────────────────────────────────────────────────────

    @property
    def title(self) -> str:
        return "Aggregate"

    @property
    def detail(self) -> str:
        return f"{aggregate_text(self.keys, self.calls, None)} of {len(self.windows)} windows"

    @property
    def windows(self) -> tuple[Range, ...]:
        return tuple(dict.fromkeys(reader.window for reader in self.readers))

    @property
    def reason(self) -> str:
        return "a group lies in one bucket" if self.keys else "one value over all rows"

    def holdings(self) -> tuple[Holding, ...]:
        return (Holding("groups", Structure.GROUPS, "groups", None, self.key_words()),)

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    @property
    def keyed(self) -> bool:
        return bool(self.keys)

    @property
    def reads(self) -> tuple[Range, ...]:
        return self.windows

    @property
    def numbers_read(self) -> tuple[str, ...]:
        columns = (*(call.argument for call in self.calls), *self.weights)
        names = (f".{column.name}" for column in columns if isinstance(column, Column))
        return tuple(dict.fromkeys(names))

    def own_key(self) -> tuple[str, ...]:
        return tuple(self.columns.names[1 : 1 + len(self.keys)])

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread.by(self.own_key())

    def place(self, spread: Spread | None) -> tuple[str, ...]:
        return self.own_key()

    @property
    def lies_by_columns(self) -> bool:
        return True

    def identities(self, state: ReaderState) -> Int64s:
        return np.concatenate([NO_IDS, *state.groups.column(ID)])

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def state(self) -> ReaderState:
        return ReaderState(KeptRows(Shape(Structure.GROUPS)))

    def step(
        self, state: ReaderState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ReaderState, Delta]:
        (panes,) = inputs
        assert isinstance(panes, PaneRows)
        left = self._output.nothing
        if interval.entering is None:
            state, left = self._without_others(state, interval)
        state = replace(state, next_refresh=self._next_change(panes, interval.clock))
        if interval.is_empty:
            return state, left
        stretches = self._stretches(panes, interval)
        if not self.keys:
            stretches = stretches.opened(self._unopened(state, interval))
        if not len(stretches.time):
            return state, left
        groups, delta = self._replaced(state, stretches)
        whole_delta = Delta(delta.born, concatenated([left.cut, delta.cut]))
        return replace(state, groups=groups, begun=True), whole_delta

    def _without_others(self, state: ReaderState, interval: Interval) -> tuple[ReaderState, Delta]:
        """End the results of windows that no query has any more."""
        tables = [run.load() for run in state.groups.runs]
        gone = [chosen(table, ~np.isin(numbers(table, READER), self._numbers)) for table in tables]
        rows = rows_with([table for table in gone if table.num_rows], self._no_groups)
        rows = chosen(rows, numbers(rows, EXP) != MIN_TIME)
        if not rows.num_rows or interval.is_empty:
            return state, self._output.nothing
        codes = np.unique(numbers(rows, CODE))
        nothing = self._output.nothing
        seen = chosen(rows, numbers(rows, SHOWN) == 1)
        ends = np.full(seen.num_rows, interval.began)
        life = [name for name in nothing.cut.schema.names if name in seen.schema.names]
        cut = with_numbers(seen.select(life), _end=ends).select(nothing.cut.schema.names)
        kept = state.groups.without(codes).after(rows.slice(0, 0), MIN_TIME)
        return replace(state, groups=kept), Delta(nothing.born, cut)

    def _unopened(self, state: ReaderState, interval: Interval) -> Int64s:
        """Where nothing is grouped: the readers without a result, even before the first row."""
        tables = [run.load() for run in state.groups.runs]
        alive = [chosen(table, numbers(table, EXP) != MIN_TIME) for table in tables]
        opened = np.concatenate([NO_IDS, *(numbers(table, READER) for table in alive)])
        stepped = self._stepped(interval)
        return stepped[~np.isin(self._numbers[stepped], opened)]

    @cached_property
    def _numbers(self) -> Int64s:
        return np.array([reader.number for reader in self.readers], np.int64)

    @cached_property
    def _times(self) -> tuple[Int64s, Int64s, Int64s]:
        """Lengths, periods and origins of the windows."""
        windows = [reader.window for reader in self.readers]
        listed = [(w.duration, period_of(w), w.slide.origin) for w in windows if w.slide]
        lengths, periods, origins = np.array(listed, np.int64).reshape(-1, 3).T.copy()
        return lengths, periods, origins

    def _stepped(self, interval: Interval) -> Int64s:
        """The readers that are stepped: if some have just come, these."""
        every: Int64s = np.arange(len(self.readers), dtype=np.int64)
        if interval.entering is None:
            return every
        return every[np.isin(self._numbers, list(interval.entering))]

    def _last_refreshes(self, instant: int) -> Int64s:
        """Of each window the last one before an instant."""
        if instant <= MIN_TIME + int(self._times[1].max()):
            return np.full(len(self.readers), MIN_TIME, np.int64)
        _, periods, origins = self._times
        return np.array([
            (instant - 1 - origin) // period * period + origin
            for period, origin in zip(periods.tolist(), origins.tolist(), strict=True)
        ], np.int64)  # fmt: skip

    def _next_change(self, panes: PaneRows, clock: int) -> int | None:
        """The first refresh after these instants at which a pane comes or goes."""
        lengths, periods, _ = self._times
        if clock <= MIN_TIME + int((lengths + periods).max()) or clock >= NEVER:
            return None
        last, instants = self._last_refreshes(clock), list[int]()
        for wait in (np.zeros_like(lengths), lengths):
            firsts = panes.firsts_after(last - wait)
            for reader, first, delay in zip(self.readers, firsts, wait, strict=True):
                if first < NEVER - int(delay) - period_of(reader.window):
                    assert reader.window.slide is not None
                    instants.append(reader.window.slide.at_or_after(int(first + delay)))
        return min(instants, default=None)

    def _stretches(self, panes: PaneRows, interval: Interval) -> Stretches:
        """What each window holds at the refreshes in these instants at which that changes."""
        stepped = self._stepped(interval)
        lengths, periods, origins = (part[stepped] for part in self._times)
        # Who has just come has shown nothing yet.
        begun = MIN_TIME if interval.entering is not None else interval.began
        last = self._last_refreshes(begun)[stepped]
        know = dict(interval.readers_know_from)
        since = [know.get(number, MIN_TIME) for number in self._numbers[stepped].tolist()]
        floors = np.maximum(np.array(since, np.int64), MIN_TIME + 1) - 1
        scan = self._scanned(panes, interval, last, lengths, floors)
        panes.scans.append(scan)
        rows = scan.rows
        parts = (rows.heads, rows.times, lengths, periods, origins, last, floors)
        stretches = moves(*parts, interval.clock)
        window, group, time, low, high = stretches.reshape(5, -1)
        touch(len(rows.times) + len(time))
        return Stretches(rows, stepped[window], group, time, low, high)

    def _scanned(
        self, panes: PaneRows, interval: Interval, last: Int64s, lengths: Int64s, floors: Int64s
    ) -> Scan:
        """The rows of groups in which something may come or go."""
        until = interval.clock - 1
        before = np.where(last <= MIN_TIME + lengths, MIN_TIME, last - lengths)
        floor = int(floors.min())
        low = max(int(before.min()), floor)
        every = panes.count_between(low, until)
        spans = [(max(int(t), floor), until) for t in np.unique(last)]
        spans += [
            (max(int(b), floor), max(until - int(d), MIN_TIME))
            for b, d in {(int(b), int(d)) for b, d in zip(before, lengths, strict=True)}
        ]
        spans = merged_spans(spans)
        moving = sum(panes.count_between(*span) for span in spans)
        if FEW * moving >= every:
            return Scan(self._rows_of(panes.between(low, until)), low, until)
        codes = np.unique(
            np.concatenate([NO_IDS, *(numbers(panes.between(*span), GROUP) for span in spans)])
        )
        return Scan(self._rows_of(panes.of_groups(codes, low, until)), low, until, codes)

    def _rows_of(self, rows: pa.Table) -> SortedPanes:
        keys = [f".{key.name}" for key in self.keys]
        panes = SortedPanes.of(rows, self.numbers_read, keys)
        if keys:
            order = pa.array(panes.order)
            check_codes(panes.codes, [whole(column).take(order) for column in panes.keys.columns])
        return panes

    # ── results ───────────────────────────────────────────────────────────────────────────

    def _replaced(self, state: ReaderState, stretches: Stretches) -> tuple[KeptRows, Delta]:
        """The new values against the last results: what is born, what is cut, what is kept."""
        pairs = stretches.pairs(self._numbers)
        stretches, codes, group = pairs
        last_results = rows_with(state.groups.of_codes(codes), self._no_groups)
        last_results = taken(last_results, stable_order(numbers(last_results, CODE)))
        count = stretches.high - stretches.low
        full = np.ones(len(count), bool)
        versions = Versions(group, stretches.time, count, codes[group], full)
        totals = self._totals(stretches)
        kept_versions, totals = without_repeats(
            replace(versions, code=np.arange(len(count))), totals
        )
        places = kept_versions.code
        table = self._result_rows(stretches.at(places), codes[group[places]], totals)
        first = np.searchsorted(group[places], places_in(codes, numbers(last_results, CODE)))
        self._check(last_results, taken(table.select([READER, *self.own_key()]), first))
        return self._output.replace(state.groups, last_results, table, group[places], codes)

    def _result_rows(self, stretches: Stretches, codes: Int64s, totals: list[Totals]) -> pa.Table:
        size, schema = len(codes), self.values or self.columns
        arrays: dict[str, pa.Array] = {READER: pa.array(self._numbers[stretches.window])}
        rows = stretches.rows
        if self.keys:
            keys = rows.group_keys.take(pa.array(stretches.group))
            arrays |= dict(zip(self.own_key(), map(whole, keys.columns), strict=True))
        for name, total in zip(schema.names[1 + len(self.keys) :], totals, strict=True):
            arrays[name] = total.plain(schema.field(name).type)
        count = stretches.high - stretches.low
        table = pa.table(arrays, schema=schema)
        shown = self._shown(table, stretches, count)
        numbers_of = {
            TS: stretches.time, EXP: np.full(size, NEVER), ID: codes, CODE: codes, COUNT: count,
            SHOWN: shown.astype(np.int64),
        }  # fmt: skip
        return with_numbers(self._computed(table, shown), **numbers_of)

    def _shown(self, table: pa.Table, stretches: Stretches, count: Int64s) -> Bools:
        """Which results are seen: of groups with rows, by those that HAVING lets pass."""
        shown: Bools = (count > 0) | (not self.keys)
        for having in {reader.having for reader in self.readers if reader.having is not None}:
            asks = np.array([reader.having == having for reader in self.readers])
            places = np.flatnonzero(asks[stretches.window] & shown)
            if len(places):
                shown[places] = satisfying(having, taken(table, places))
        return shown

    def _computed(self, table: pa.Table, shown: Bools) -> pa.Table:
        """With the outputs in the place of values; of what is not seen nothing is computed."""
        if not self.outputs:
            return table
        own = 1 + len(self.keys)
        kinds, places = self.columns.types[own:], np.flatnonzero(shown)
        seen = taken(table, places)
        back = np.full(table.num_rows, -1, np.int64)
        back[places] = np.arange(len(places))
        where = pa.array(back, mask=back < 0)
        arrays = [
            values_of(output, seen, kind).take(where)
            for output, kind in zip(self.outputs, kinds, strict=True)
        ]
        return pa.table([*table.columns[:own], *arrays], schema=self.columns)

    def _totals(self, stretches: Stretches) -> list[Totals]:
        """The values of the calls, of each stretch."""
        values = StretchValues(stretches, self._times[0], self.numbers_read)
        totals = []
        for call, weight in zip(self.calls, self.weights, strict=True):
            try:
                if is_difference(call):
                    totals.append(Totals(self._value(call, weight, stretches), {}))
                else:
                    totals.append(Totals(values.of(call, weight), {}))
            except TooLarge as error:
                raise self._overflow(call, stretches, error.version) from None
        return totals

    def _overflow(self, call: AggregateCall, stretches: Stretches, place: int) -> BadInput:
        keys = stretches.rows.group_keys.slice(int(stretches.group[place]), 1)
        values = [value for row in keys.to_pylist() for value in row.values()]
        whole_number = call.argument is not None and call.argument.type.is_integral
        kind = "a BIGINT" if whole_number else str(arrow_type(call.data_type))
        return overflow(call.function, values, int(stretches.time[place]), kind)

    def _value(self, call: AggregateCall, weight: Column | None, stretches: Stretches) -> pa.Array:
        assert isinstance(call.argument, Column)
        name = f".{call.argument.name}"
        if call.function in ("min", "max"):
            return stretches.extremes(name, largest=call.function == "max", once=self.forwards)
        if call.function == "count":
            return pa.array(stretches.sums(name).low)
        sums, counted = stretches.sums(name), stretches.present(name)
        if call.function == "avg":
            assert weight is not None
            counted = stretches.sums(f".{weight.name}").low
            return pa.array(sums.floats / np.maximum(counted, 1), mask=counted == 0)
        if not sums.fits.all():
            raise TooLarge(int(np.flatnonzero(~sums.fits)[0]))
        return pa.array(sums.low, mask=counted == 0)

    @cached_property
    def _output(self) -> GroupResults:
        return GroupResults(self.columns, 1 + len(self.keys), not self.keys, False)

    @cached_property
    def _no_groups(self) -> pa.Table:
        names = (TS, EXP, ID, CODE, COUNT, SHOWN)
        return pa.schema([*self.columns, *((name, pa.int64()) for name in names)]).empty_table()

    def _check(self, last_results: pa.Table, table: pa.Table) -> None:
        """Refuse results that differ in window or group but share a code."""
        columns, others = (
            [whole(rows.column(name)) for name in (READER, *self.own_key())]
            for rows in (last_results, table)
        )
        check_pairs(columns, others)
