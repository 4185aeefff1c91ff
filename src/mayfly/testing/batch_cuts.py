"""Cutting arrived rows into micro-batches. A cut never reorders rows and never loses one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.lifetime import Duration, duration
from mayfly.testing.seeded_streams import micros_of

Batch = dict[str, pa.Table]
"""What one micro-batch brings: the new rows of every stream, by stream name."""


def cut_at(table: pa.Table, positions: Iterable[int]) -> list[pa.Table]:
    """Batches between the given row positions; equal positions give empty batches."""
    inner = sorted(min(max(p, 0), table.num_rows) for p in positions)
    return [table.slice(a, b - a) for a, b in pairwise([0, *inner, table.num_rows])]


def cut_by_rows(table: pa.Table, sizes: int | Sequence[int]) -> list[pa.Table]:
    """Batches of ``sizes`` rows each, or of the listed sizes and then whatever is left."""
    if isinstance(sizes, int):
        if sizes < 1:
            raise InvalidSetting(f"a batch of {sizes} rows", "give a size of 1 or more")
        return cut_at(table, range(sizes, table.num_rows, sizes))
    ends = np.cumsum(np.asarray(sizes, dtype=np.int64)).tolist()
    if any(size < 0 for size in sizes) or (ends and ends[-1] > table.num_rows):
        raise InvalidSetting(
            f"batch sizes {list(sizes)} do not fit a table of {table.num_rows} rows",
            "give sizes of 0 or more that add up to at most the number of rows",
        )
    batches = cut_at(table, ends)
    return batches[:-1] if ends and ends[-1] == table.num_rows else batches


def cut_by_time(
    table: pa.Table,
    every: Duration,
    *,
    start: int | None = None,
    empty: bool = False,
    ts: str = "ts",
) -> list[pa.Table]:
    """Batches as a source would see them that delivers at every multiple of ``every``.

    The progress of event time (the largest ts so far) decides, so disordered rows stay where
    they arrived. With ``empty`` the silent periods since ``start`` give empty batches, which
    keeps the batches of several streams aligned.
    """
    period = duration(every)
    if period < 1:
        raise InvalidSetting(f"cutting every {every!r}", "give a period of 1 µs or more")
    if table.num_rows == 0:
        return [table]
    times = micros_of(table, ts)
    origin = int(times[0]) if start is None else start
    progress = np.maximum.accumulate(np.maximum((times - origin) // period, 0))
    if empty:
        return cut_at(table, np.searchsorted(progress, np.arange(1, progress[-1] + 1)).tolist())
    return cut_at(table, (np.flatnonzero(np.diff(progress)) + 1).tolist())


def cut_at_random(table: pa.Table, batches: int, seed: int, empty: float = 0.1) -> list[pa.Table]:
    """``batches`` batches at seeded random positions, about a share ``empty`` of them empty."""
    if batches < 1 or not 0 <= empty <= 1:
        raise InvalidSetting(
            f"batches={batches}, empty={empty}", "give 1 or more batches and a share of 0 to 1"
        )
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, table.num_rows, batches - 1, endpoint=True)
    positions.sort()
    repeat = np.flatnonzero(rng.random(batches - 1) < empty)
    for i in repeat[repeat > 0].tolist():
        positions[i] = positions[i - 1]
    return cut_at(table, positions.tolist())


def together(streams: Mapping[str, Sequence[pa.Table]]) -> list[Batch]:
    """The i-th batches of all streams side by side; a stream that ends early stays empty."""
    longest = max((len(batches) for batches in streams.values()), default=0)
    if any(not batches for batches in streams.values()):
        raise InvalidSetting("a stream without any batch", "give it one empty table at least")
    return [
        {
            name: batches[i] if i < len(batches) else batches[-1].slice(0, 0)
            for name, batches in streams.items()
        }
        for i in range(longest)
    ]
