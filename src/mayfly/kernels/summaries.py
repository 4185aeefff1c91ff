"""Summaries of sub-windows: what FREQUENT keeps instead of rows (thesis ch. 6, Algorithm 6).

Idea: the rows of a sub-window enter together, so it is counted in one step. Rows are spread by
group and value; each bucket passes on the k largest counts of its values, and ``merged`` makes one
list of those of all buckets: as a value is counted in one bucket, these are the k largest of all.
δ_S, the k-th count (0 if there are fewer), bounds what is on no list.
Invariant: equal rows give equal summaries under equal identities, so that a sub-window that leaves
needs no state here. Cost: a sort per sub-window; k + 1 rows leave for each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import ID, Delta, mixed_ids, payload_names, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.operator import Alone, Key, StateKey, plain_key
from mayfly.kernels.stateless import Nothing, values_of
from mayfly.plan.expressions import Expression
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text, expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import BIGINT, DataType, arrow_type, struct
from mayfly.storage.segment import EXP, TS
from mayfly.windows.rank_counts import Ranked

LEAST_SKETCH = 10
"""A sketch has at least ¾ · 2^10 counters, and room for two lists of k."""


def summary_type(value: DataType) -> DataType:
    """A listed value with its count; NULL with the number of counted rows stands for them all.

    ``error`` is what the count may lack, ``delta`` the δ_S and ``pane`` the number of the
    sub-window, in a time window −1 or (what leaves later) −2.
    """
    return struct(value=value, count=BIGINT, error=BIGINT, delta=BIGINT, pane=BIGINT)


@dataclass(frozen=True, slots=True)
class Summaries(Alone):
    """The summary that FREQUENT makes of each sub-window, of the values in this bucket.

    ``columns`` are the keys of the group and what its aggregates read, of which the one called
    ``summary`` is filled. ``rows`` is the length of a slide that is counted in rows.
    """

    name: str
    keys: tuple[Expression, ...]
    call: AggregateCall
    columns: pa.Schema
    summary: str
    rows: int | None = None
    dual: bool = False
    length: int | None = None
    """That of the window in rows or time, if its slide does not divide it: what one slide brings
    then leaves in two parts, and each is a sub-window."""
    period: int | None = None

    def state(self) -> Nothing:
        return Nothing()

    def state_key(self) -> StateKey:
        return StateKey(
            "Summaries",
            (
                ("keys", self.keys),
                ("call", self.call),
                ("columns", self.columns),
                ("summary", self.summary),
                ("rows", self.rows),
                ("dual", self.dual),
                *((("length", self.length),) if self.length else ()),
            ),
        )

    @property
    def title(self) -> str:
        return "Summaries"

    @property
    def detail(self) -> str:
        approximate = Frequency.of(self.call).approximate
        counted = "a sketch of" if approximate else "the largest counts of"
        return f"{counted} each sub-window for {aggregate_text(self.keys, [self.call], None)}"

    @property
    def reason(self) -> str:
        return "equal values of a sub-window are counted in one bucket"

    @property
    def keyed(self) -> bool:
        return True

    @property
    def _parts(self) -> tuple[Expression, ...]:
        assert self.call.argument is not None
        return (*self.keys, self.call.argument)

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self._parts, [part.type for part in self._parts])

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self._parts))

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        if kept[0] is None:
            return Spread()
        names = self.columns.names[: len(self.keys)]
        return kept[0].renamed(zip(self.key_of(), names, strict=False))

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return group_codes([*self._key_arrays(rows), self._values(rows)], rows.num_rows)

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        nothing = Delta.empty(self.columns, dual=self.dual)
        born, cut = (
            self._summarized(rows).select(empty.schema.names) if rows.num_rows else empty
            for rows, empty in ((inputs[0].born, nothing.born), (inputs[0].cut, nothing.cut))
        )
        return state, Delta(born, cut)

    def _summarized(self, rows: pa.Table) -> pa.Table:
        pane = self._panes(rows)
        keys, values = self._key_arrays(rows), self._values(rows)
        counted = Counted.of(keys, numbers(rows, TS), pane, values)
        asked = Frequency.of(self.call)
        if asked.approximate:
            counted = counted.sketched(sketch_size(asked.k))
        listed = counted.largest(asked.k)
        names = self.columns.names[: len(self.keys)]
        life = [name for name in rows.schema.names if name not in set(payload_names(rows))]
        table = pa.table([*keys, *(rows.column(column) for column in life)], names=[*names, *life])
        return listed.rows(table, self.columns, self.summary)

    def _panes(self, rows: pa.Table) -> Int64s:
        """The number of each row's sub-window; those of a time are distinguished by it."""
        if self.rows is None:
            if self.length is None or self.period is None:
                return np.full(rows.num_rows, -1, np.int64)
            stay = numbers(rows, EXP) - numbers(rows, TS)
            return np.where(stay > self.length // self.period * self.period, -2, -1)
        slide, place = np.divmod(numbers(rows, ID), self.rows)
        if self.length is None:
            return slide
        return 2 * slide + (place + self.length % self.rows >= self.rows)

    def _key_arrays(self, rows: pa.Table) -> list[pa.Array]:
        return [
            unsigned_zeros(values_of(key, rows, kind))
            for key, kind in zip(self.keys, self.columns.types, strict=False)
        ]

    def _values(self, rows: pa.Table) -> pa.Array:
        argument = self._parts[-1]
        return unsigned_zeros(values_of(argument, rows, arrow_type(argument.type)))


def sketch_size(k: int) -> int:
    """The binary logarithm of a sketch's size."""
    return max(LEAST_SKETCH, int(2 * k).bit_length() + 1)


@dataclass(frozen=True)
class Counted:
    """The values of sub-windows of groups with their counts, by sub-window and value."""

    sample: Int64s
    """A row of each sub-window of a group."""
    identity: Int64s
    pane: Int64s
    total: Int64s
    """How many rows with a value each has."""
    values: pa.Array
    owner: Int64s
    """Whose values they are."""
    counts: Int64s
    error: Int64s
    """By sub-window: what a count may lack."""

    @staticmethod
    def of(
        keys: Sequence[pa.Array],
        ts: Int64s,
        pane: Int64s,
        values: pa.Array,
        weights: Int64s | None = None,
        errors: Int64s | None = None,
    ) -> Counted:
        """From rows, or from summaries with their ``weights`` and ``errors``."""
        codes = group_codes(keys, len(ts))
        order = stable_order(codes, ts, pane)
        if keys:
            check_codes(codes[order], [key.take(pa.array(order)) for key in keys])
        heads = np.append(True, np.zeros(len(ts) - 1, bool))
        for column in (codes[order], ts[order], pane[order]):
            heads[1:] |= column[1:] != column[:-1]
        sample = order[heads]
        window = np.empty(len(ts), np.int64)
        window[order] = np.cumsum(heads) - 1
        none: Int64s = np.empty(0, np.int64)
        ranked = Ranked.of(values.slice(0, 0), none, values, window, len(sample))
        present = ranked.ids >= 0
        amounts = np.ones(len(ts), np.int64) if weights is None else weights
        counts = np.zeros(len(ranked.values), np.int64)
        np.add.at(counts, ranked.ids[present], amounts[present])
        total, error = np.zeros((2, len(sample)), np.int64)
        telling = present if weights is None else ~present
        np.add.at(total, window[telling], amounts[telling])
        if errors is not None:
            np.maximum.at(error, window, errors)
        owner = np.repeat(np.arange(len(sample)), np.diff(ranked.starts))
        identity = mixed_ids(mixed_ids(codes[sample], ts[sample]), pane[sample])
        return Counted(sample, identity, pane[sample], total, ranked.values, owner, counts, error)

    def sketched(self, size: int) -> Counted:
        """As a frequent-items sketch of at most ¾ · 2^``size`` counters has it (DataSketches).

        Its keys are positions, because the hashes of Python's texts differ between processes.
        """
        from datasketches import frequent_items_error_type, frequent_items_sketch

        counts, error = self.counts.copy(), self.error.copy()
        bounds = np.searchsorted(self.owner, np.arange(len(self.sample) + 1)).tolist()
        for window, (start, end) in enumerate(pairwise(bounds)):
            if end - start <= 3 << (size - 2):
                continue  # a sketch that has never been full is exact
            sketch = frequent_items_sketch(size)
            for place in range(start, end):
                sketch.update(place, int(self.counts[place]))
            counts[start:end] = 0
            for place, low, *_ in _held(sketch, frequent_items_error_type.NO_FALSE_NEGATIVES):
                counts[place] = low
            error[window] = sketch.get_upper_bound(-1)
        kept = np.flatnonzero(counts)
        return Counted(
            self.sample, self.identity, self.pane, self.total, self.values.take(pa.array(kept)),
            self.owner[kept], counts[kept], error,
        )  # fmt: skip

    def largest(self, k: int) -> Listed:
        """The k largest counts of each (then by value), and δ_S."""
        order = np.lexsort((np.arange(len(self.owner)), -self.counts, self.owner))
        starts = np.searchsorted(self.owner, np.arange(len(self.sample)))
        position = np.arange(len(order)) - starts[self.owner[order]]
        delta = self.error.copy()
        last = order[position == k - 1]
        delta[self.owner[last]] += self.counts[last]
        return Listed(self, order[position < k], delta)


def _held(sketch: object, kind: object) -> list[tuple[int, int]]:
    """The counters that a sketch still has: position and lower bound."""
    return [(place, low) for place, _, low, _ in sketch.get_frequent_items(kind)]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Listed:
    """Which values of sub-windows are listed, and the δ_S of each."""

    counted: Counted
    places: Int64s
    delta: Int64s

    def rows(self, table: pa.Table, columns: pa.Schema, summary: str) -> pa.Table:
        """One row for each sub-window and each listed value, with its lifetime."""
        counted, owner = self.counted, self.counted.owner[self.places]
        windows = np.arange(len(counted.sample))
        whose = np.concatenate([windows, owner])
        values = counted.values.take(pa.array(self.places))
        kind = columns.field(summary).type
        fields = {
            "value": pa.concat_arrays([pa.nulls(len(windows), values.type), values]),
            "count": np.concatenate([counted.total, counted.counts[self.places]]),
            "error": counted.error[whose],
            "delta": self.delta[whose],
            "pane": counted.pane[whose],
        }
        arrays = [pa.array(fields[member.name]).cast(member.type) for member in kind]
        named = {summary: pa.StructArray.from_arrays(arrays, fields=list(kind))}
        # Several calls may summarize one sub-window.
        column = np.full(len(windows), columns.get_field_index(summary), np.int64)
        identity = mixed_ids(counted.identity, column)
        own = mixed_ids(identity[owner], group_codes([values], len(values)))
        around = taken(table, counted.sample[whose])
        full = [
            named[schema_field.name] if schema_field.name in named
            else whole(around.column(schema_field.name)) if schema_field.name in around.schema.names
            else pa.nulls(len(whose), schema_field.type)
            for schema_field in columns
        ]  # fmt: skip
        life = [name for name in around.schema.names if name not in columns.names]
        result = pa.table(
            [*full, *(around.column(name) for name in life)], names=[*columns.names, *life]
        )
        return with_numbers(result, **{ID: np.concatenate([identity, own])})


def merged(rows: pa.Table, columns: pa.Schema, keys: int, summary: str, k: int) -> pa.Table:
    """One summary of each sub-window from those of all buckets."""
    parts = whole(rows.column(summary))
    arrays = [whole(rows.column(name)) for name in columns.names[:keys]]
    counted = Counted.of(
        arrays, numbers(rows, TS), field(parts, "pane"), pc.struct_field(parts, "value"),
        field(parts, "count"), field(parts, "error"),
    )  # fmt: skip
    return counted.largest(k).rows(rows.drop_columns([summary]), columns, summary)


def field(parts: pa.Array, name: str) -> Int64s:
    """A number of each summary, 0 where there is none."""
    filled = pc.fill_null(pc.struct_field(parts, name), 0)
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False))
