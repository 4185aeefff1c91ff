"""Hypothesis strategies: streams, batch cuts, windows and whole join cases.

Rows are drawn one by one rather than from a seed, so that a failing case shrinks to the few
rows that matter. Times move in single microseconds and windows span a few of them: boundaries
meet, which is where mistakes live. This module alone imports hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import MayflyError
from mayfly.testing.batches import Batch, cut_at, together
from mayfly.testing.cases import JoinCase
from mayfly.testing.columns import KEY_TYPES, Column, domain
from mayfly.testing.streams import as_timestamps, micros_of

try:
    from hypothesis import strategies as st
except ImportError:
    raise MayflyError(
        "mayfly.testing.strategies needs hypothesis, which is not installed",
        "run: pip install hypothesis",
    ) from None

SILENCE = 500
"""A gap that outlasts every window drawn here."""
_LATE_BY = 60
_WIDTHS = (("int64", "int32", "int16", "int8"), ("double", "float"))
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


def gaps() -> st.SearchStrategy[int]:
    """Event time between two rows: ties and bursts, then now and then a silence."""
    return st.one_of(st.just(0), st.integers(0, 6), st.integers(0, 6), st.just(SILENCE))


def key_columns(
    types: Sequence[str] = KEY_TYPES, most: int = 1, distinct: int = 8
) -> st.SearchStrategy[tuple[Column, ...]]:
    """One to ``most`` key columns named key, key2, …, with few distinct values each."""
    kinds = st.lists(st.sampled_from(list(types)), min_size=1, max_size=most)
    return kinds.map(
        lambda drawn: tuple(
            Column("key" if i == 0 else f"key{i + 1}", kind, distinct)
            for i, kind in enumerate(drawn)
        )
    )


@st.composite
def streams(
    draw: st.DrawFn,
    keys: Sequence[Column] = (Column("key", distinct=4),),
    slack: int = 0,
    late: bool = False,
    max_rows: int = 25,
    start: int = 0,
    ts_type: str = "timestamp",
) -> pa.Table:
    """A stream in arrival order: ``ts``, the keys, an int64 ``value`` and ``seq``.

    Disorder stays within ``slack``; with ``late`` some rows come later than that. Keys and
    value may be NULL.
    """
    delay = st.integers(0, slack + _LATE_BY) if late else st.integers(0, slack)
    values = [domain(column) for column in keys]
    ranks = [st.none() | st.integers(0, len(domain_) - 1) for domain_ in values]
    row = st.tuples(gaps(), delay, st.none() | st.integers(-3, 3), *ranks)
    rows: list[tuple[Any, ...]] = draw(st.lists(row, max_size=max_rows))
    ts = start + np.cumsum([r[0] for r in rows], dtype=np.int64)
    table = pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            **{
                column.name: values[i].take(pa.array([r[3 + i] for r in rows], pa.int64()))
                for i, column in enumerate(keys)
            },
            "value": pa.array([r[2] for r in rows], pa.int64()),
            "seq": pa.array(range(len(rows)), pa.int64()),
        }
    )
    arrival = ts + np.array([r[1] for r in rows], dtype=np.int64)
    table = table.take(np.argsort(arrival, kind="stable"))
    return table if ts_type == "int64" else as_timestamps(table)


@st.composite
def batch_cuts(draw: st.DrawFn, table: pa.Table, batches: int | None = None) -> list[pa.Table]:
    """The table cut into batches, empty ones included; ``batches`` fixes their number."""
    count = draw(st.integers(1, 6)) if batches is None else batches
    position = st.integers(0, table.num_rows)
    return cut_at(table, draw(st.lists(position, min_size=count - 1, max_size=count - 1)))


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


def other_widths(keys: Sequence[Column]) -> st.SearchStrategy[tuple[Column, ...]]:
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
    count = draw(st.integers(1, 6))
    cuts = {}
    for name in names:
        own = draw(other_widths(keys)) if mixed_widths else keys
        stream = draw(streams(own, slack, late, max_rows, start, ts_type))
        cuts[name] = draw(batch_cuts(stream, count))
    batches = together(cuts)
    return JoinCase(
        batches,
        {name: draw(window_lengths()) for name in names},
        tuple(column.name for column in keys),
        slack,
        draw(promises(batches)) if heartbeats and draw(st.booleans()) else None,
        draw(bucket_counts()),
    )
