"""Dead letters: rows that came too late or without a time, kept with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.display import counted
from mayfly.errors import BadInput
from mayfly.lifetime import instant_text
from mayfly.plan.added_columns import free_name
from mayfly.plan.stream_joins import Stream
from mayfly.spark.io.sinks import write_parquet
from mayfly.spark.stream.arrivals import Arrived
from mayfly.storage import EXP, TS, Manifest, Repository, Segment, segment_batches
from mayfly.storage.store import local_root

DEAD_LETTERS = "dead"
YEAR = 365 * 86_400_000_000
YEAR_1980 = 315_532_800_000_000
REASON = "_reason"
LATE, NO_TIME = "late", "no time"
CLOSED_KEY = "its key was closed"


def check_times(streams: Iterable[Stream], timeless: Mapping[str, int]) -> None:
    """Refuse rows without a time that are not wanted."""
    for stream in streams:
        if timeless[stream.name] and stream.null_time == "error":
            raise BadInput(
                f"{counted(timeless[stream.name], 'row')} of stream {stream.name} "
                f"without {stream.time}",
                "nothing of this batch was applied: repair or filter them at the source, or "
                "set them aside, with DEAD LETTERS TO parquet('folder') in CREATE STREAM or "
                "null_time='dead_letter', dead_letter='folder' in Session.stream",
            )


def check_unit(stream: Stream, came: Arrived, now: int) -> None:
    """Refuse the first times of a stream that look like numbers of another unit."""
    far = came.beyond and came.largest is None
    if came.largest is None and not far:
        return
    if not far and came.largest is not None and YEAR_1980 <= came.largest <= now + YEAR:
        return
    seen = "far ahead" if came.largest is None else instant_text(came.largest)
    raise BadInput(
        f"the first times of stream {stream.name} are {seen} as microseconds since 1970",
        f"say what {stream.time} counts: TIMESTAMP BY {stream.time} MILLISECONDS (or SECONDS, "
        f'NANOSECONDS), in Python unit="milliseconds"; MICROSECONDS accepts them as they are',
    )


def with_reason(rows: pa.Table, reason: str) -> pa.Table:
    """Rows as dead letters."""
    return rows.append_column(REASON, pa.array([reason] * rows.num_rows, pa.string()))


def deliver_dead_letters(
    repository: Repository, streams: Iterable[Stream], committed: Manifest, number: int
) -> None:
    """Write those of a committed batch to the folders of their streams, in files of its number."""
    for stream in streams:
        if stream.dead_letter is None:
            continue
        group = f"{DEAD_LETTERS}/{stream.name}"
        held = sorted(committed.in_group(group), key=lambda segment: segment.group)
        if held:
            name = f"{stream.name}-{number:012d}.parquet"
            _write(repository, local_root(stream.dead_letter) / name, stream, held)


def _write(repository: Repository, target: Path, stream: Stream, held: list[Segment]) -> None:
    tables = [
        pa.Table.from_batches(list(segment_batches(repository.directory, segment)))
        for segment in held
    ]
    names = tables[0].schema.names
    table = pa.concat_tables([rows.select(names) for rows in tables])
    reasons, times = table[REASON], table[TS]
    table = table.drop_columns([TS, EXP, REASON])
    names = [name.removeprefix(f"{stream.name}.") for name in table.column_names]
    table = table.rename_columns(names)
    if stream.time not in names:
        missing = pc.equal(reasons, NO_TIME)
        times = pc.if_else(missing, pa.scalar(None, pa.int64()), times)
        own = times.cast(stream.schema.field(stream.time).type)
        table = table.add_column(0, stream.time, own)
    table = table.append_column(free_name("reason", table.column_names), reasons)
    write_parquet(target, table.schema, iter(table.to_batches()))
