"""Hypothesis strategies: streams, batch cuts, windows and whole join cases.

Rows are drawn one by one rather than from a seed, so that a failing case shrinks to the few
rows that matter. Times move in single microseconds and windows span a few of them: boundaries
meet, which is where mistakes live. This module alone imports hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.errors import MayflyError
from mayfly.testing.batch_cuts import Batch, cut_at, together
from mayfly.testing.cases import JoinCase
from mayfly.testing.columns import KEY_TYPES, ColumnSpec, domain
from mayfly.testing.seeded_streams import as_timestamps, micros_of

try:
    from hypothesis import strategies as st
except ImportError:
    raise MayflyError(
        "mayfly.testing.strategies needs hypothesis, which is not installed",
        "run: pip install hypothesis",
    ) from None

SILENCE = 400
"""A gap that outlasts every window drawn here."""
_LATE_BY = 60
_WIDTHS = (("int64", "int32", "int16", "int8"), ("double", "float"))
_PER_INSTANT = 4
_STARTS = (0, -40, 1_700_000_000_000_000)


def key_types() -> st.SearchStrategy[str]:
    """The name of an atomic type."""
    return st.sampled_from(KEY_TYPES)


def window_lengths() -> st.SearchStrategy[int]:
    """A RANGE: often short enough to end between two rows, at least one microsecond."""
    return st.one_of(st.integers(1, 12), st.sampled_from([1, 40, 200]))


def slacks() -> st.SearchStrategy[int]:
    """A SLACK in microseconds, often 0."""
    return st.one_of(st.just(0), st.integers(1, 15))


def bucket_counts() -> st.SearchStrategy[int]:
    """A number of key buckets, more than there are keys included."""
    return st.sampled_from([1, 2, 3, 7, 16])


def key_columns(
    types: Sequence[str] = KEY_TYPES, most: int = 1, distinct: int = 8
) -> st.SearchStrategy[tuple[ColumnSpec, ...]]:
    """One to ``most`` key columns named key, key2, …, with few distinct values each."""
    kinds = st.lists(st.sampled_from(list(types)), min_size=1, max_size=most)
    return kinds.map(
        lambda drawn: tuple(
            ColumnSpec("key" if i == 0 else f"key{i + 1}", kind, distinct)
            for i, kind in enumerate(drawn)
        )
    )


# Event time since the start: a dense burst full of ties, then on, then after a silence.
_INSTANTS = (*range(9), *range(9), *range(50), *range(SILENCE, SILENCE + 16))
_MOMENT = st.sampled_from(
    [instant * _PER_INSTANT + i for instant in _INSTANTS for i in range(_PER_INSTANT)]
)
_CUTS = st.lists(_MOMENT, max_size=5)


@cache
def _raw_rows(domains: tuple[int, ...], max_delay: int, max_rows: int) -> st.SearchStrategy[Any]:
    """Rows as (moment of generation, delay, value, ranks of the keys), None meaning NULL.

    No row refers to another one, and a row is at most four draws, the most that Hypothesis can
    delete at once: so a failing case loses every row that does not matter.
    """
    keys = st.sampled_from(list(product(*([None, *range(size)] for size in domains))))
    value = st.sampled_from([None, 0, 1, 2, 3, -1, -2, -3])
    row = st.tuples(_MOMENT, st.integers(0, max_delay), value, keys)
    # Hypothesis alone draws about five rows, which rarely meet; half of the streams have more.
    return st.one_of(
        st.lists(row, max_size=max_rows), st.lists(row, min_size=max_rows // 3, max_size=max_rows)
    )


@dataclass(frozen=True)
class _Arrivals:
    """A stream in arrival order, and the moment at which each of its rows came.

    A moment is finer than time, so that a cut can fall between rows of one instant.
    """

    table: pa.Table
    moments: npt.NDArray[np.int64]

    def cut(self, moments: Sequence[int]) -> list[pa.Table]:
        return cut_at(self.table, np.searchsorted(self.moments, moments).tolist())


def _arrivals(
    keys: Sequence[ColumnSpec], slack: int, late: bool, max_rows: int, start: int, ts_type: str
) -> st.SearchStrategy[_Arrivals]:
    values = [domain(column) for column in keys]

    def build(rows: list[tuple[int, int, int | None, tuple[int | None, ...]]]) -> _Arrivals:
        rows = sorted(rows, key=lambda row: row[0] // _PER_INSTANT)
        columns = {"ts": pa.array([start + row[0] // _PER_INSTANT for row in rows], pa.int64())}
        for i, column in enumerate(keys):
            columns[column.name] = values[i].take(pa.array([r[3][i] for r in rows], pa.int64()))
        columns["value"] = pa.array([row[2] for row in rows], pa.int64())
        columns["seq"] = pa.array(range(len(rows)), pa.int64())
        moments = np.array([row[0] + row[1] * _PER_INSTANT for row in rows], dtype=np.int64)
        order = np.argsort(moments, kind="stable")
        table = pa.table(columns).take(order)
        return _Arrivals(table if ts_type == "int64" else as_timestamps(table), moments[order])

    max_delay = slack + _LATE_BY if late else slack
    return _raw_rows(tuple(map(len, values)), max_delay, max_rows).map(build)


def streams(
    keys: Sequence[ColumnSpec] = (ColumnSpec("key", distinct=4),),
    slack: int = 0,
    late: bool = False,
    max_rows: int = 25,
    start: int = 0,
    ts_type: str = "timestamp",
) -> st.SearchStrategy[pa.Table]:
    """A stream in arrival order: ``ts``, the keys, an int64 ``value`` and ``seq``.

    Disorder stays within ``slack``; with ``late`` some rows come later than that. Keys and
    value may be NULL.
    """
    return _arrivals(keys, slack, late, max_rows, start, ts_type).map(lambda drawn: drawn.table)


@st.composite
def batch_cuts(draw: st.DrawFn, table: pa.Table, most: int = 6) -> list[pa.Table]:
    """A given table cut into 1 to ``most`` batches, empty ones included."""
    position = st.integers(0, table.num_rows)
    return cut_at(table, draw(st.lists(position, max_size=most - 1)))


@st.composite
def promises(draw: st.DrawFn, batches: Sequence[Batch]) -> list[dict[str, int]]:
    """Heartbeats per batch that the streams keep: never above the ts of a later row."""
    drawn: list[dict[str, int]] = []
    for i, batch in enumerate(batches):
        promised = {}
        for name in batch:
            below = draw(st.none() | st.integers(0, 10))
            later = [t for b in batches[i + 1 :] for t in micros_of(b[name]).tolist()]
            seen = [t for b in batches for t in micros_of(b[name]).tolist()]
            if below is not None and seen:
                promised[name] = min(later, default=max(seen) + SILENCE) - below
        drawn.append(promised)
    return drawn


def other_widths(keys: Sequence[ColumnSpec]) -> st.SearchStrategy[tuple[ColumnSpec, ...]]:
    """The same key columns, where a number may have another width than in the first stream."""
    return st.tuples(
        *(
            st.sampled_from(next((w for w in _WIDTHS if column.type in w), (column.type,))).map(
                lambda kind, column=column: replace(column, type=kind)  # type: ignore[misc]
            )
            for column in keys
        )
    )


@st.composite
def join_cases(
    draw: st.DrawFn,
    names: Sequence[str] = ("l", "r"),
    types: Sequence[str] = KEY_TYPES,
    most_keys: int = 1,
    mixed_widths: bool = False,
    late: bool = False,
    heartbeats: bool = True,
    max_rows: int = 25,
    ts_type: str = "timestamp",
) -> JoinCase:
    """A window join of the named streams with every feature of the semantics in play."""
    keys = draw(key_columns(types, most_keys, distinct=draw(st.sampled_from([1, 3, 8]))))
    slack, start = draw(slacks()), draw(st.sampled_from(_STARTS))
    cuts = {}
    for name in names:
        own = draw(other_widths(keys)) if mixed_widths else keys
        arrivals = draw(_arrivals(own, slack, late, max_rows, start, ts_type))
        cuts[name] = arrivals.cut(draw(_CUTS))
    batches = together(cuts)
    return JoinCase(
        batches,
        {name: draw(window_lengths()) for name in names},
        tuple(column.name for column in keys),
        slack,
        draw(promises(batches)) if heartbeats and draw(st.booleans()) else None,
        draw(bucket_counts()),
    )
