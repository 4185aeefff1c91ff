"""The rows of the 2005–06 studies, recorded once and taken in by every layout.

One row of 1,000 bytes per unit of time, 36 updates to a roll-over, 100 keys, lifetimes uniform up
to the longest. A load of so many megabytes is what arrives in one roll-over. Fluctuating loads
bring between half and twice as much per update, and as much in all. Of a counted load rows leave a
window of as many rows as arrive in a roll-over: a row's position is that of its oldest part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {"k": "bigint", "ts": "bigint", "exp": "bigint", "payload": "string"}
COUNTED = {"k": "bigint", "ts": "bigint", "pos": "bigint", "payload": "string"}
ROLLOVER, KEYS, PAYLOAD, INTERVAL = 36, 100, 976, 1_000_000


@dataclass(frozen=True)
class Load:
    """What arrives: so many megabytes in a roll-over, evenly or not."""

    megabytes: float
    fluctuating: bool = False
    counted: bool = False
    """Whether rows live by positions in a window of a number of rows, not by time."""
    updates: int = 2 * ROLLOVER
    seed: int = 7

    @property
    def counts(self) -> Sequence[int]:
        """Rows of each update."""
        even = self.megabytes * 1000 / ROLLOVER
        if not self.fluctuating:
            return [round(even)] * self.updates
        rates = 2.0 ** np.random.default_rng(self.seed).uniform(-1, 1, self.updates)
        return [round(even * rate) for rate in rates / rates.mean()]

    @property
    def window(self) -> int:
        """Rows of the window of a counted load."""
        return round(self.megabytes * 1000)

    def reached(self, update: int) -> int:
        """The position of the last row of an update."""
        return sum(self.counts[:update])

    @property
    def columns(self) -> dict[str, str]:
        return COUNTED if self.counted else COLUMNS


def update_rows(load: Load, update: int) -> pa.Table:
    chance = np.random.default_rng((load.seed, update))
    count = load.counts[update - 1]
    raw = chance.bytes(count * PAYLOAD // 2).hex().encode()
    offsets = np.arange(count + 1, dtype=np.int32) * PAYLOAD
    ts = chance.integers((update - 1) * INTERVAL + 1, update * INTERVAL + 1, count)
    keys, lives = chance.integers(0, KEYS, count), chance.random(count)
    if load.counted:
        end = {"pos": load.reached(update) - (lives * load.window).astype(np.int64)}
    else:
        end = {"exp": ts + 1 + (lives * ROLLOVER * INTERVAL).astype(np.int64)}
    return pa.table(
        {
            "k": keys,
            "ts": ts,
            **end,
            "payload": pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(raw)),
        }
    )


@dataclass(frozen=True)
class Recorded:
    """A load as files, one per update."""

    load: Load
    folder: Path

    @staticmethod
    def of(load: Load, folder: Path) -> Recorded:
        folder.mkdir(parents=True)
        for update in range(1, load.updates + 1):
            pq.write_table(update_rows(load, update), folder / f"{update}.parquet")
        return Recorded(load, folder)

    def rows(self, update: int) -> pa.Table:
        return pq.read_table(self.folder / f"{update}.parquet")

    def alive(self, update: int) -> int:
        """How many rows are alive after an update."""
        column, gone = "exp", update * INTERVAL
        if self.load.counted:
            column, gone = "pos", self.load.reached(update) - self.load.window
        files = (self.folder / f"{u}.parquet" for u in range(1, update + 1))
        return sum(
            int(np.count_nonzero(pq.read_table(file, columns=[column])[column].to_numpy() > gone))
            for file in files
        )
