"""Deterministic seeded streams as Arrow tables.

Idea: rows are made in event order (gaps, ties, bursts and silences), then put in *arrival*
order by adding a delay to every ts and sorting by the sum. Invariant: a delay of at most
``slack`` never makes a row late, however the table is cut, because a row that arrives earlier
with a larger ts was generated at most ``slack`` later. Cost: O(n log n), all of it vectorised.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.errors import BadInput, InvalidSetting
from mayfly.lifetime import Duration, duration
from mayfly.testing.columns import ColumnSpec, draw

TIMESTAMP = pa.timestamp("us", "UTC")
Micros = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StreamSpec:
    """What a generated stream looks like; the same spec always gives the same table.

    The table has ``ts`` (an Arrow timestamp in UTC, or int64 if ``ts_type="int64"``), the key
    columns, the payload columns and ``seq``, which numbers the rows in event order, so that
    (ts, seq) is a total order. Rows stand in arrival order.

    ``rate``     rows per second of event time while the stream is on
    ``ties``     share of rows that have the ts of the row before them
    ``burst``    (on, off): the stream sends for ``on``, then is off for ``off``, and so on
    ``silences`` (count, length): that many gaps of that length at random places
    ``slack``    the disorder bound; ``disorder`` is the share of rows delayed within it
    ``late``     share of rows delayed beyond slack, by up to ``late_by`` more
    """

    rows: int
    rate: float = 1_000.0
    keys: tuple[ColumnSpec, ...] = (ColumnSpec("key"),)
    payload: tuple[ColumnSpec, ...] = (ColumnSpec("value", distinct=1_000, edges=False),)
    start: int = 0
    ties: float = 0.0
    burst: tuple[Duration, Duration] | None = None
    silences: tuple[int, Duration] | None = None
    slack: Duration = 0
    disorder: float = 0.0
    late: float = 0.0
    late_by: Duration = "1 s"
    ts_type: str = "timestamp"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("ties", "disorder", "late"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                raise InvalidSetting(f"{name}={share}", "give a share between 0 and 1")
        if self.rows < 0 or self.rate <= 0:
            raise InvalidSetting(
                f"rows={self.rows}, rate={self.rate}", "rows must be 0 or more, rate positive"
            )
        if self.ts_type not in ("timestamp", "int64"):
            raise InvalidSetting(f"ts_type={self.ts_type!r}", 'use "timestamp" or "int64"')
        if self.burst and duration(self.burst[0]) < 1:
            raise InvalidSetting(f"burst={self.burst}", "the on phase must last 1 µs or more")
        names = ["ts", "seq", *(c.name for c in self.keys), *(c.name for c in self.payload)]
        if len(set(names)) < len(names):
            raise InvalidSetting(f"column names {names} repeat", "rename a key or payload column")


def generate(spec: StreamSpec) -> pa.Table:
    """The stream described by ``spec``, in arrival order."""
    ts = _event_times(spec)
    columns = {"ts": pa.array(ts)}
    for column in (*spec.keys, *spec.payload):
        columns[column.name] = draw(column, spec.rows, _rng(spec.seed, column.name))
    columns["seq"] = pa.array(np.arange(spec.rows, dtype=np.int64))
    table = pa.table(columns)
    delays = _delays(spec)
    if delays is not None:
        table = table.take(np.argsort(ts + delays, kind="stable"))
    return table if spec.ts_type == "int64" else as_timestamps(table)


def _rng(seed: int, aspect: str) -> np.random.Generator:
    """One generator per aspect: more NULLs must not move the timestamps."""
    return np.random.default_rng((seed, zlib.crc32(aspect.encode())))


def _event_times(spec: StreamSpec) -> Micros:
    rng = _rng(spec.seed, "ts")
    gaps = rng.exponential(1_000_000 / spec.rate, spec.rows)
    if spec.ties:
        tied = rng.random(spec.rows) < spec.ties
        gaps[tied] = 0
        # The remaining gaps grow so that ties leave the rate as it was.
        gaps /= max(1 - spec.ties, 1 / max(spec.rows, 1))
    gaps[:1] = 0
    ts = np.cumsum(gaps).astype(np.int64)
    if spec.burst:
        on, off = duration(spec.burst[0]), duration(spec.burst[1])
        ts += ts // on * off
    if spec.silences and spec.rows:
        count, length = spec.silences
        pauses = np.zeros(spec.rows, np.int64)
        np.add.at(
            pauses, _rng(spec.seed, "silences").integers(0, spec.rows, count), duration(length)
        )
        ts += np.cumsum(pauses)
    return ts + spec.start


def _delays(spec: StreamSpec) -> Micros | None:
    if not spec.disorder and not spec.late:
        return None
    rng = _rng(spec.seed, "delays")
    slack, beyond = duration(spec.slack), duration(spec.late_by)
    delays = rng.integers(0, slack, spec.rows, endpoint=True)
    delays[rng.random(spec.rows) >= spec.disorder] = 0
    late = rng.random(spec.rows) < spec.late
    delays[late] = slack + rng.integers(1, max(beyond, 1), int(late.sum()), endpoint=True)
    return delays


def micros_of(table: pa.Table, ts: str = "ts") -> Micros:
    """A time column as int64 microseconds, whichever of the two types it has."""
    column = table.column(ts)
    if column.null_count:
        raise BadInput(
            f"column {ts!r} holds {column.null_count} NULLs", "every row needs a timestamp"
        )
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    elif not pa.types.is_integer(column.type):
        raise BadInput(f"column {ts!r} has type {column.type}", "use a timestamp or int64 µs")
    values: Micros = column.cast(pa.int64()).to_numpy()
    return values


def as_timestamps(table: pa.Table, ts: str = "ts") -> pa.Table:
    """The table with its time column as an Arrow timestamp in microseconds, UTC."""
    return table.set_column(
        table.schema.get_field_index(ts), ts, pa.array(micros_of(table, ts)).cast(TIMESTAMP)
    )


def as_micros(table: pa.Table, ts: str = "ts") -> pa.Table:
    """The table with its time column as int64 microseconds."""
    return table.set_column(table.schema.get_field_index(ts), ts, pa.array(micros_of(table, ts)))


def in_event_order(
    table: pa.Table, ts: str = "ts", sequence: tuple[str, ...] = ("seq",)
) -> pa.Table:
    """The rows by (ts, sequence columns)."""
    keys = [(ts, "ascending"), *((name, "ascending") for name in sequence)]
    return table.take(pc.sort_indices(table, sort_keys=keys))


def shuffle_within_slack(table: pa.Table, slack: Duration, seed: int, ts: str = "ts") -> pa.Table:
    """A seeded arrival order in which no row can be late under ``slack``."""
    times = micros_of(table, ts)
    delays = _rng(seed, "shuffle").integers(0, duration(slack), len(times), endpoint=True)
    shuffled = np.random.default_rng(seed).permutation(len(times))
    # Starting from a permutation also mixes the rows of one instant when slack is 0.
    order = np.argsort((times + delays)[shuffled], kind="stable")
    return table.take(shuffled[order])
