"""What starting a query takes, whatever the query is: its checkpoint, its settings, its stream."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypedDict

from pyspark.sql import DataFrame, SparkSession

from mayfly.checkpoint.result_folders import IDENTITY, check_owner
from mayfly.checkpoint.source_log import folder_of, part_of
from mayfly.errors import InvalidSetting, StorageError
from mayfly.kernels.room import checked_state_bytes
from mayfly.lifetime import NEVER, Duration, duration
from mayfly.pipeline.declared_folders import check_loops, check_writers
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.buckets import MOST_BUCKETS, checked_buckets
from mayfly.runtime.replay_speed import Pace
from mayfly.spark.io.sinks import Callback, ParquetFiles, Sink
from mayfly.spark.io.sources import named
from mayfly.spark.stream.micro_batch import RunSettings
from mayfly.storage import Repository
from mayfly.storage.store import local_root

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from mayfly.spark.stream.runner import Runner

DEFAULT_HISTORY = "1 hour"
ADAPTIVE_STREAMS = "spark.sql.adaptive.streaming.stateless.enabled"
_starting = threading.Lock()


class StartSettings(TypedDict, total=False):
    """How queries run, as ``Queries.start`` explains it, for callers that start them through it.

    What is left out: as many buckets as cores, a history of an hour, no limits, batches as soon as
    there is data, every commit synced, nothing shed.
    """

    buckets: int | None
    history: Duration
    max_state_bytes: int | None
    max_gap: Duration | None
    available_now: bool
    interval: Duration | None
    sync: bool
    wall_clock: Callable[[], int] | None
    pace: Pace | None
    dead_letters: str | os.PathLike[str] | None
    shed: float
    shed_by: str
    stretch_above: int | None
    anew: Sequence[str]


def bucket_count(spark: SparkSession, asked: int | None) -> int:
    """The number of key buckets of a new checkpoint."""
    if asked is None:
        return min(spark.sparkContext.defaultParallelism, MOST_BUCKETS)
    return checked_buckets(asked)


def check_spark_part(repository: Repository) -> None:
    """Without Spark's part all input would come again, under batch numbers already done."""
    directory, manifest = repository.directory, repository.current()
    part = part_of(manifest)
    if manifest.properties["batch"] >= 0 and not directory.exists(f"{part}/metadata"):
        raise StorageError(
            f"the checkpoint {directory.address} has lost its folder {part}, which says "
            "what was read",
            "restore it from a copy, or start anew with a new checkpoint",
        )


def run_settings(buckets: int, settings: StartSettings) -> RunSettings:
    """What a checkpoint of so many buckets is run with; what is replayed ends with its input."""
    history, max_gap = settings.get("history", DEFAULT_HISTORY), settings.get("max_gap")
    wall_clock = settings.get("wall_clock")
    return RunSettings(
        buckets=buckets,
        max_state_bytes=checked_state_bytes(settings.get("max_state_bytes"), buckets),
        history=NEVER if history == "forever" else duration(history),
        max_gap=None if max_gap is None else duration(max_gap),
        sync=settings.get("sync", True),
        pace=settings.get("pace"),
        replay=settings.get("available_now", False),
        **({"wall_clock": wall_clock} if wall_clock else {}),
    )


def sinks_of(
    sinks: Sequence[Sink],
    on_changes: Callable[[DataFrame, int], object] | None,
    parquet: str | os.PathLike[str] | None,
) -> list[Sink]:
    named = [*sinks]
    named += [] if on_changes is None else [Callback(on_changes)]
    named += [ParquetFiles(os.fspath(local_root(parquet)))] if parquet else []
    return named


def check_owners(sinks: Iterable[Sink], repository: Repository) -> None:
    """Refuse folders that hold what another checkpoint has delivered."""
    source = repository.current().properties.get(IDENTITY)
    for sink in sinks:
        if source is not None and isinstance(sink, ParquetFiles):
            check_owner(local_root(sink.path), source)


def sink_folders(sinks: Mapping[str, Sequence[Sink]]) -> dict[str, str]:
    """Folders that queries write Parquet files to, and the query."""
    return check_writers(
        (query, sink.path)
        for query, listed in sinks.items()
        for sink in listed
        if isinstance(sink, ParquetFiles)
    )


def check_streams(folders: Mapping[str, str], streams: Sequence[Stream]) -> None:
    """Refuse streams that would read what queries write to the folders."""
    letters = {
        stream.name: stream.dead_letter for stream in streams if stream.dead_letter is not None
    }
    read = {stream.name: folder_of(stream.source) for stream in streams}
    check_loops(
        folders, letters, {name: folder for name, folder in read.items() if folder is not None}
    )


def beats(streams: Sequence[Stream]) -> bool:
    """Whether batches must come even if no rows do."""
    return any(stream.idle is not None for stream in streams)


def start_stream(
    runner: Runner,
    streams: Sequence[Stream],
    frames: Mapping[str, DataFrame],
    *,
    available_now: bool,
    interval: Duration | None,
) -> StreamingQuery:
    """Start Spark's streaming query that feeds the runner."""
    check_threads()
    beat = runner.spark.readStream.format("rate").option("rowsPerSecond", 1)
    source = named(runner.spark, beat, "mayfly_heartbeat")
    tagged = runner.dataflow.tagged(frames, source.load() if beats(streams) else None)
    part = part_of(runner.repository.current())
    writer = tagged.writeStream.foreachBatch(runner.process).option(
        "checkpointLocation", f"{runner.repository.directory.address}/{part}"
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval is not None:
        writer = writer.trigger(processingTime=f"{duration(interval) // 1000} milliseconds")
    with _planned_at_once(tagged.sparkSession):
        runner.stream = writer.start()
    return runner.stream


@contextmanager
def _planned_at_once(session: SparkSession) -> Iterator[None]:
    """Streams started meanwhile are not planned stage by stage, which would run the first stage
    before the runner gets the batch.

    A stream gets a copy of the session as it is when it is started.
    """
    with _starting:
        former = session.conf.get(ADAPTIVE_STREAMS, None)
        session.conf.set(ADAPTIVE_STREAMS, "false")
        try:
            yield
        finally:
            if former is None:
                session.conf.unset(ADAPTIVE_STREAMS)
            else:
                session.conf.set(ADAPTIVE_STREAMS, former)


def check_threads() -> None:
    """Refuse a Spark whose jobs may be run by another thread than the one that describes them."""
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise InvalidSetting(
            "PYSPARK_PIN_THREAD is off: a batch may get the limits of another one",
            "leave it out of the environment",
        )
