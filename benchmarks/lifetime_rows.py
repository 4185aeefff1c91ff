"""Rows with their own lifetimes that every archive in the benchmark holds, recorded as Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.archive_rows import DAY, Truth, answers, day_file, texts


@dataclass(frozen=True)
class LivingRows:
    """About ``live`` rows of 900 bytes, a 36th of them new with every update.

    Lifetimes are uniform up to ``rollover`` days: after so many updates as many rows go as come.
    """

    live: int = 250_000
    rollover: int = 71
    keys: int = 10_000
    measured: int = 8
    payload: int = 870
    seed: int = 12

    @property
    def per_day(self) -> int:
        return 2 * self.live // (self.rollover + 1)

    @property
    def days(self) -> int:
        return self.rollover + self.measured


def day_rows(rows: LivingRows, day: int) -> pa.Table:
    """The rows of one day: ts in ((day−1)·DAY, day·DAY], payload random hexadecimal text."""
    chance = np.random.default_rng((rows.seed, day))
    count = rows.per_day
    payload = texts(chance, count, rows.payload)
    ts = chance.integers((day - 1) * DAY + 1, day * DAY + 1, count)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "k": chance.integers(0, rows.keys, count),
            "ts": pa.array(ts, stamp),
            "exp": pa.array(ts + chance.integers(1, rows.rollover * DAY + 1, count), stamp),
            "amount": chance.random(count),
            "payload": payload,
        }
    )


def truth(rows: LivingRows, folder: Path, keys: list[int]) -> Truth:
    """What any archive must answer after the last update."""
    now = pa.scalar(rows.days * DAY, pa.int64())
    days = (pq.read_table(day_file(folder, day)) for day in range(1, rows.days + 1))
    alive = pa.concat_tables(t.filter(pc.greater(t["exp"].cast(pa.int64()), now)) for t in days)
    return answers(alive, keys)
