"""The rows every archive in the benchmark holds: about 900 bytes each, recorded as Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    payload = texts(random, count, rows.payload)
    ts = random.integers((day - 1) * DAY + 1, day * DAY + 1, count)
    return pa.table(
        {
            "k": random.integers(0, rows.keys, count),
            "ts": pa.array(ts, pa.timestamp("us", tz="UTC")),
            "amount": random.random(count),
            "payload": payload,
        }
    )


def texts(random: np.random.Generator, count: int, size: int) -> pa.StringArray:
    """Random hexadecimal texts of one size."""
    raw = random.bytes(count * size // 2).hex().encode()
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw))


def record_days(days: int, rows_of: Callable[[int], pa.Table], folder: Path) -> None:
    folder.mkdir(parents=True)
    for day in range(1, days + 1):
        pq.write_table(rows_of(day), day_file(folder, day), compression="zstd")


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
    return answers(pa.concat_tables(_alive(rows, folder)), keys)


def answers(alive: pa.Table, keys: list[int]) -> Truth:
    probes = {}
    for key in keys:
        found = alive.filter(pc.equal(alive["k"], key))
        probes[key] = (found.num_rows, float(pc.sum(found["amount"]).as_py() or 0.0))
    length = pc.sum(pc.binary_length(alive["payload"])).as_py()
    return Truth(alive.num_rows, pc.sum(alive["k"]).as_py(), length, probes)


def _alive(rows: Rows, folder: Path) -> Iterator[Any]:
    for day in range(rows.days - rows.window + 1, rows.days + 1):
        yield pq.read_table(day_file(folder, day))
