"""Parcels: rows on their way between stages, as Arrow data in one binary column.

A task splits what it sends by bucket and packs each part; Spark moves a few parcels instead of
many rows, and needs to know nothing about their columns. Receipts and markers travel the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order

SCHEMA = pa.schema(
    [
        ("_bucket", pa.int32()),
        ("_stage", pa.int32()),
        ("_edge", pa.string()),
        ("_data", pa.binary()),
    ]
)
MARKER, RECEIPT, COUNTS = "marker", "receipt", "counts"


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows for one bucket of a stage, or a receipt; ``edge`` says what they are."""

    bucket: int
    stage: int
    edge: str
    data: bytes = b""
    rows: pa.Table | None = None
    """What is packed when the parcel is sent."""


def packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    _pack(rows, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _pack(rows: pa.Table, sink: pa.BufferOutputStream) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def split(rows: pa.Table, where: Int64s, count: int, stage: int, edge: str) -> Iterator[Parcel]:
    """The rows as one parcel per bucket; ``where`` says which."""
    if not rows.num_rows:
        return
    if count > 1:
        order = stable_order(where)
        rows = rows.combine_chunks().take(pa.array(order))
        ends = np.searchsorted(where[order], np.arange(count + 1))
    else:
        ends = np.array([0, rows.num_rows])
    for bucket in range(count):
        part = rows.slice(ends[bucket], ends[bucket + 1] - ends[bucket])
        if part.num_rows:
            yield Parcel(bucket, stage, edge, rows=part)


def batch_of(parcels: Iterable[Parcel]) -> pa.RecordBatch:
    """Parcels as Spark moves them; their rows are packed side by side, without another copy."""
    listed, sink, ends = list(parcels), pa.BufferOutputStream(), [0]
    for parcel in listed:
        if parcel.rows is None:
            sink.write(parcel.data)
        else:
            _pack(parcel.rows, sink)
        ends.append(sink.tell())
    data = [None, pa.py_buffer(np.array(ends, np.int32)), sink.getvalue()]
    columns = [
        pa.array([entry.bucket for entry in listed], pa.int32()),
        pa.array([entry.stage for entry in listed], pa.int32()),
        pa.array([entry.edge for entry in listed], pa.string()),
        pa.BinaryArray.from_buffers(pa.binary(), len(listed), data),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def parcels_of(batch: pa.RecordBatch) -> Iterator[Parcel]:
    columns = [batch.column(name) for name in SCHEMA.names]
    for bucket, stage, edge, data in zip(*columns, strict=True):
        yield Parcel(bucket.as_py(), stage.as_py(), edge.as_py(), data.as_buffer().to_pybytes())
