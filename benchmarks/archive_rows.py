"""The rows every archive in the benchmark holds: about 900 bytes each, recorded as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

DAY = 86_400_000_000


@dataclass(frozen=True)
class Rows:
    """``live`` rows over ``window`` days, one update a day; keys uniform."""

    live: int = 250_000
    window: int = 36
    keys: int = 10_000
    measured: int = 10
    payload: int = 870
    seed: int = 11

    @property
    def per_day(self) -> int:
        return self.live // self.window

    @property
    def days(self) -> int:
        return self.window + self.measured


def day_rows(rows: Rows, day: int) -> pa.Table:
    """The rows of one day: ts in ((day−1)·DAY, day·DAY], payload random hexadecimal text."""
    random = np.random.default_rng((rows.seed, day))
    count = rows.per_day
    raw = random.bytes(count * rows.payload // 2).hex().encode()
    offsets = np.arange(count + 1, dtype=np.int32) * rows.payload
    payload = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw))
    ts = random.integers((day - 1) * DAY + 1, day * DAY + 1, count)
    return pa.table(
        {
            "k": random.integers(0, rows.keys, count),
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "amount": random.random(count),
            "payload": payload,
        }
    )


def record_days(rows: Rows, folder: Path) -> None:
    folder.mkdir(parents=True)
    for day in range(1, rows.days + 1):
        pq.write_table(day_rows(rows, day), folder / f"{day:05d}.parquet", compression="zstd")


def day_file(folder: Path, day: int) -> str:
    return str(folder / f"{day:05d}.parquet")


@dataclass(frozen=True)
class Truth:
    """What any archive must answer after the last update."""

    count: int
    key_sum: int
    payload_bytes: int
    probes: dict[int, tuple[int, float]]
    """Key → number of rows and sum of amounts."""


def truth(rows: Rows, folder: Path, keys: list[int]) -> Truth:
    alive = pa.concat_tables(_alive(rows, folder))
    probes = {}
    for key in keys:
        found = alive.filter(pc.equal(alive["k"], key))
        probes[key] = (found.num_rows, float(pc.sum(found["amount"]).as_py() or 0.0))
    length = pc.sum(pc.binary_length(alive["payload"])).as_py()
    return Truth(alive.num_rows, pc.sum(alive["k"]).as_py(), length, probes)


def _alive(rows: Rows, folder: Path) -> Iterator[Any]:
    for day in range(rows.days - rows.window + 1, rows.days + 1):
        yield pq.read_table(day_file(folder, day))
