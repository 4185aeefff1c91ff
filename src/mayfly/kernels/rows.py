"""Rows inside kernels: Arrow tables with a code, a lifetime and payload columns.

``_code`` is a 64-bit stand-in for the join key: the key itself where it fits (integers, dates,
times, booleans), otherwise a hash, so that equal keys always have equal codes. It is NULL where
a key column is NULL. Runs are sorted by (code, ts).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.kernels.matching import Int64s
from mayfly.storage.segment import EXP, TS, Bounds, Segment

CODE = "_code"
INTERNAL = (CODE, TS, EXP)


def numbers(table: pa.Table, column: str) -> Int64s:
    """An int64 column without NULLs as a NumPy array, without copying where possible."""
    chunked = table.column(column)
    array = chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], pa.int64())
    values: Int64s = array.to_numpy(zero_copy_only=True)
    return values


@dataclass(frozen=True, slots=True)
class Run:
    """An immutable run of rows: in memory, or a stored segment opened when first needed."""

    load: Callable[[], pa.Table]
    rows: int
    bytes: int
    ts: Bounds
    exp: Bounds
    level: int = 0
    cell: int | None = None
    segment: Segment | None = None
    members: tuple[Run, ...] = field(default=(), repr=False)
    """The runs this one was merged from; they leave when it is stored."""

    @staticmethod
    def of(table: pa.Table, *, level: int = 0, cell: int | None = None) -> Run:
        ts, exp = (pc.min_max(table[name]) for name in (TS, EXP))
        return Run(
            load=lambda: table,
            rows=table.num_rows,
            bytes=table.nbytes,
            ts=Bounds(ts["min"].as_py(), ts["max"].as_py()),
            exp=Bounds(exp["min"].as_py(), exp["max"].as_py()),
            level=level,
            cell=cell,
        )

    def keys(self) -> tuple[Int64s, Int64s, Int64s]:
        table = self.load()
        return numbers(table, CODE), numbers(table, TS), numbers(table, EXP)


def clustered(table: pa.Table) -> pa.Table:
    """The rows sorted by (code, ts), in one chunk."""
    if table.num_rows == 0:
        return table
    order = np.lexsort((numbers(table, TS), numbers(table, CODE)))
    return table.take(pa.array(order)).combine_chunks()


def merged(runs: tuple[Run, ...], level: int, cell: int | None) -> Run:
    """One clustered run out of several neighbours.

    Neighbours come in the order of their generation, so a stable sort by code keeps (code, ts);
    NumPy's stable sort finds the sorted stretches and merges them.
    """
    table = pa.concat_tables([run.load() for run in runs]).combine_chunks()
    order = np.argsort(numbers(table, CODE), kind="stable")
    table = table.take(pa.array(order)).combine_chunks()
    return Run(
        load=lambda: table,
        rows=table.num_rows,
        bytes=table.nbytes,
        ts=Bounds(min(run.ts.low for run in runs), max(run.ts.high for run in runs)),
        exp=Bounds(min(run.exp.low for run in runs), max(run.exp.high for run in runs)),
        level=level,
        cell=cell,
        members=runs,
    )
