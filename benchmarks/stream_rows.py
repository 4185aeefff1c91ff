"""Recorded streams: a folder of Parquet files, each of them one micro-batch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Int64s = npt.NDArray[np.int64]


def record_stream(folder: Path, batches: Iterable[tuple[Int64s, Int64s, Int64s]]) -> None:
    """One file per batch of times in microseconds, keys and values, to be read in this order."""
    folder.mkdir(parents=True)
    for number, (ts, keys, values) in enumerate(batches):
        instants = pa.array(ts, pa.timestamp("us", tz="UTC"))
        path = folder / f"{number:05d}.parquet"
        pq.write_table(pa.table({"ts": instants, "k": keys, "v": values}), path)
        # The file source orders by modification time.
        os.utime(path, (1_600_000_000 + number,) * 2)
