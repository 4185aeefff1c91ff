"""Rows in key order: sorting, and merging sorted streams in bounded memory.

Idea: of every stream one chunk is in memory; the rows below the smallest last key of all chunks
can be put out, because no stream can still bring a smaller one. Invariant: what is put out is
sorted by key, and rows of equal keys come in the order of the streams. Cost: each row is sorted
once more inside a chunk; memory is one chunk per stream plus the rows of one key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def order_key(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a form whose plain comparison is the key order: NaN last, -0.0 as 0.0."""
    if pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy() + 0.0
        bits = np.where(np.isnan(values), np.float64("nan"), values).view(np.int64)
        ordered = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
        return pa.chunked_array([pa.array(np.where(np.isnan(values), 2**63 - 1, ordered))])
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    return column


def sorted_by_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows sorted by key, in one chunk; equal keys keep their order."""
    if rows.num_rows < 2:
        return rows.combine_chunks()
    keys = {f"k{index}": order_key(rows[name]) for index, name in enumerate(key)}
    keys["position"] = pa.chunked_array([np.arange(rows.num_rows)])
    order = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return rows.combine_chunks().take(order).combine_chunks()


class _Stream:
    """One sorted input: the rows in memory, and where more come from."""

    def __init__(self, tables: Iterator[pa.Table], key: str) -> None:
        self._tables, self._key = tables, key
        self.rows: pa.Table | None = None
        self.ended = False
        self.extend()

    def extend(self) -> None:
        following = next((table for table in self._tables if table.num_rows), None)
        if following is None:
            self.ended = True
        elif self.rows is None:
            self.rows = following
        else:
            self.rows = pa.concat_tables([self.rows, following])

    def last(self) -> Any:
        assert self.rows is not None
        return order_key(self.rows[self._key].slice(self.rows.num_rows - 1))[0].as_py()

    def take_below(self, limit: Any) -> pa.Table | None:
        """Give away the rows whose first key is smaller than ``limit`` (all, if it is None)."""
        if self.rows is None:
            return None
        count = self.rows.num_rows
        if limit is not None:
            keys = order_key(self.rows[self._key])
            below = pc.less(keys, pa.scalar(limit, keys.type))
            count = pc.sum(below).as_py() or 0
        taken, rest = self.rows.slice(0, count), self.rows.slice(count)
        self.rows = rest if rest.num_rows else None
        if self.rows is None:
            self.extend()
        return taken if count else None


def merge_sorted(inputs: Iterable[Iterator[pa.Table]], key: Sequence[str]) -> Iterator[pa.Table]:
    """All rows of the sorted inputs as sorted tables."""
    streams = [stream for stream in (_Stream(source, key[0]) for source in inputs) if stream.rows]
    while streams:
        open_ends = [stream.last() for stream in streams if not stream.ended]
        limit = min(open_ends) if open_ends else None
        pieces = [piece for stream in streams if (piece := stream.take_below(limit)) is not None]
        if pieces:
            yield sorted_by_key(pa.concat_tables(pieces), key)
        else:
            # One key fills the chunks: it must be complete before anything can be put out.
            for stream in streams:
                if not stream.ended and stream.last() == limit:
                    stream.extend()
        streams = [stream for stream in streams if stream.rows is not None]
