"""RESAMPLE: the rows of a key at the multiples of a time, each given once and for ever.

Idea: the last row of each key is kept. With LAST it stands for every multiple until the key's next
row, as these instants are closed; with LINEAR the next row brings the multiples since the one
before, with numbers on the line between the two. Invariants: what comes out depends on the rows
alone, not on how steps were cut; of rows of a key at one instant the last counts.
Cost: O(new rows · log) and one row per result; with LAST the kept rows are read where a step has a
multiple, with LINEAR those of the keys of new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.errors import LimitExceeded
from mayfly.kernels.codes import check_codes, group_codes
from mayfly.kernels.delta import ID, LIFE, SEEN, Delta, column_name, mixed_ids, taken
from mayfly.kernels.frame_layout import sort_columns
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, numbers, whole
from mayfly.kernels.operator import Alone, Holding, Key, StateKey
from mayfly.kernels.refreshes import MOST_LISTED
from mayfly.kernels.room import touch
from mayfly.kernels.stateless import values_of
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.resample import Interpolation
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


def _groups() -> KeptRows:
    return KeptRows(Shape(Structure.GROUPS))


@dataclass(frozen=True, slots=True)
class ResampleState:
    """The last row of each key."""

    last: KeptRows = field(default_factory=_groups)
    next_refresh: int | None = None
    """When the next multiple is, with LAST."""

    @property
    def rows(self) -> int:
        return self.last.rows

    @property
    def bytes(self) -> int:
        return self.last.bytes


@dataclass(frozen=True)
class ResampleRows(Alone):
    """One row per key and multiple; results have the columns of the input, by their place."""

    name: str
    terms: str
    columns: pa.Schema
    results: pa.Schema
    partition: tuple[Column, ...]
    time: str
    period: int
    filling: Interpolation
    ties: tuple[Expression, ...]
    between: frozenset[str]
    """The columns with numbers that lie between two rows."""
    dual: bool = False

    def state(self) -> ResampleState:
        return ResampleState()

    def state_key(self) -> StateKey:
        return StateKey(
            "ResampleRows",
            (
                ("columns", self.columns),
                ("partition", self.partition),
                ("period", self.period),
                ("filling", self.filling.value),
                ("ties", self.ties),
            ),
        )

    @property
    def title(self) -> str:
        return "Resample"

    @property
    def detail(self) -> str:
        return self.terms

    @property
    def reason(self) -> str:
        return "a key lies in one bucket" if self.partition else "all rows are of one key"

    @property
    def quiet(self) -> bool:
        return True

    def holdings(self) -> tuple[Holding, ...]:
        what = "the last row of each key" if self.partition else "the last row"
        return (
            Holding(
                "last", Structure.GROUPS, what, 0, self.key_words(), "the next row takes its place",
                per_key=1, keys=self.partition,
            ),
        )  # fmt: skip

    @property
    def keyed(self) -> bool:
        return bool(self.partition)

    def key_of(self, side: int = 0) -> Key:
        return tuple(map(column_name, self.partition))

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return self._codes(rows) if self.partition else None

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        spread = Spread.by(self.key_of()) if kept[0] is None else kept[0]
        names = dict(zip(self.columns.names, self.results.names, strict=True))
        return spread.renamed((name, names[name]) for name in map(column_name, self.partition))

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self._codes(rows)

    def _codes(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(column_name(key))) for key in self.partition]
        return group_codes(columns, rows.num_rows)

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: ResampleState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[ResampleState, Delta]:
        nothing = Delta.empty(self.results, dual=self.dual)
        fresh = self._points(inputs[0].born)
        touched = np.unique(numbers(fresh, CODE))
        stored = state.last.of_codes(self._asked(state.last, touched, interval))
        before = rows_with(stored, fresh.slice(0, 0))
        touch(before.num_rows)
        if not fresh.num_rows and not before.num_rows:
            return state, nothing
        points = taken(
            pa.concat_tables([before, fresh]),
            stable_order(
                np.concatenate([numbers(before, CODE), numbers(fresh, CODE)]),
                np.concatenate([numbers(before, TS), numbers(fresh, TS)]),
            ),
        )
        if self.partition:
            columns = [whole(points.column(column_name(key))) for key in self.partition]
            check_codes(numbers(points, CODE), columns)
        held = self._held(points, interval) if self.filling is Interpolation.LAST else None
        born = held if held is not None else self._joined_up(points, interval)
        ends = np.append(np.diff(numbers(fresh, CODE)) != 0, True)[: fresh.num_rows]
        newest = taken(fresh, np.flatnonzero(ends))
        last = state.last.without(touched).after(newest, MIN_TIME)
        following = self._next(interval.clock) if held is not None else None
        return ResampleState(last, following), Delta(born, nothing.cut)

    def _asked(self, last: KeptRows, touched: Int64s, interval: Interval) -> Int64s:
        """The keys whose kept rows a step has to look at."""
        has_multiple = self._next(interval.began) < interval.clock
        if self.filling is Interpolation.LINEAR or not has_multiple:
            return touched
        return np.unique(np.concatenate([touched, *last.column(CODE)]))

    def _next(self, instant: int) -> int:
        """The next multiple, or the instant itself."""
        return -(-instant // self.period) * self.period

    def _points(self, born: pa.Table) -> pa.Table:
        """New rows by key and time, the last of each instant."""
        names = [*self.columns.names, *LIFE]
        rows = born.select(names).append_column(CODE, pa.array(self._codes(born), pa.int64()))
        if not rows.num_rows:
            return rows
        ties = [
            column
            for tie in self.ties
            for column in sort_columns(values_of(tie, rows, arrow_type(tie.type)), False, True)
        ]
        rows = taken(
            rows, stable_order(numbers(rows, CODE), numbers(rows, TS), *ties, numbers(rows, ID))
        )
        code, ts = numbers(rows, CODE), numbers(rows, TS)
        ends = np.append((np.diff(code) != 0) | (np.diff(ts) != 0), True)
        rows = taken(rows, np.flatnonzero(ends))
        place = rows.schema.get_field_index(EXP)
        return rows.set_column(place, EXP, pa.array(np.full(rows.num_rows, NEVER), pa.int64()))

    def _held(self, points: pa.Table, interval: Interval) -> pa.Table:
        """LAST: each row at the multiples up to the next of its key."""
        ts, same = numbers(points, TS), _same_as_next(points)
        until = np.where(same, np.append(ts[1:], 0), interval.clock)
        first = self._at_or_after(np.maximum(ts, interval.began))
        count = np.maximum(-((first - until) // self.period), 0)
        rows, instants = self._expanded(first, count)
        return self._results(points, rows, rows, instants, instants)

    def _joined_up(self, points: pa.Table, interval: Interval) -> pa.Table:
        """LINEAR: the multiples behind each row up to the next of its key, which brings them."""
        ts = numbers(points, TS)
        heads = ~np.append(False, _same_as_next(points)[:-1])[: len(ts)]
        earlier = np.maximum(np.arange(len(ts)) - 1, 0)
        since = np.where(heads, ts, ts[earlier] + 1)
        # A row from an earlier step heads its key: its own instant was answered then.
        first = self._at_or_after(since)
        count = np.where(heads & (ts < interval.began), 0, (ts - first) // self.period + 1)
        rows, instants = self._expanded(first, np.maximum(count, 0))
        own = heads[rows] | (instants == ts[rows])
        return self._results(points, np.where(own, rows, earlier[rows]), rows, instants, ts[rows])

    def _at_or_after(self, times: Int64s) -> Int64s:
        return -(-times // self.period) * self.period

    def _expanded(self, first: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
        """The place of its row for each multiple, and the multiple."""
        total = int(count.sum(dtype=np.int64)) if len(count) else 0
        if total > MOST_LISTED:
            raise LimitExceeded(
                f"{self.name} has {total:,} rows at once, from "
                f"{instant_text(int(first[count > 0].min()))} on",
                "declare the stream with MAX GAP if a time is wrong, or use a longer EVERY",
            )
        rows = np.repeat(np.arange(len(count)), count)
        starts = np.cumsum(count) - count
        return rows, first[rows] + (np.arange(total) - starts[rows]) * self.period

    def _results(
        self, points: pa.Table, left: Int64s, right: Int64s, instants: Int64s, ts: Int64s
    ) -> pa.Table:
        """A row for each multiple: what the row before it says, and numbers on the line to the
        row behind."""
        code, times = numbers(points, CODE)[right], numbers(points, TS)
        share = np.zeros(len(instants))
        apart = left != right
        span = (times[right] - times[left])[apart]
        share[apart] = (instants - times[left])[apart] / span
        arrays = []
        for name, kind in zip(self.columns.names, self.results, strict=True):
            values = whole(points.column(name))
            if name == self.time:
                arrays.append(pa.array(instants).cast(kind.type))
            elif name in self.between:
                arrays.append(_between(values, left, right, share))
            else:
                arrays.append(values.take(pa.array(left)))
        life = {TS: ts, EXP: np.full(len(ts), NEVER), ID: mixed_ids(code, instants)}
        life |= {SEEN: np.full(len(ts), NEVER)} if self.dual else {}
        arrays += [pa.array(life[name], pa.int64()) for name in life]
        fields = [*self.results, *(pa.field(name, pa.int64()) for name in life)]
        return pa.table(arrays, schema=pa.schema(fields))


def _same_as_next(points: pa.Table) -> np.ndarray:
    """Whether the next row is of the same key."""
    code = numbers(points, CODE)
    return np.append(code[1:] == code[:-1], False)[: len(code)]


def _between(values: pa.Array, left: Int64s, right: Int64s, share: np.ndarray) -> pa.Array:
    """Numbers on the lines between pairs of rows; NULL where one of a pair is."""
    doubles = values.cast(pa.float64(), safe=False)
    low, high = doubles.take(pa.array(left)), doubles.take(pa.array(right))
    sloped = pc.add(low, pc.multiply(pc.subtract(high, low), pa.array(share)))
    return pc.if_else(pa.array(left == right), low, sloped)
