"""Joins of windows built in Python: a stream, a window on it, and the query that is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from mayfly.cql import bind_condition
from mayfly.errors import InvalidSetting
from mayfly.lifetime import Duration, format_micros
from mayfly.pipeline.query import JoinQuery, On, Stream, Windowed
from mayfly.plan.expressions import Expression
from mayfly.spark.archive_sink import ArchivedResults
from mayfly.spark.archives import SparkArchive
from mayfly.spark.exchange import Wiring
from mayfly.spark.join_run import JoinRun
from mayfly.spark.join_runner import JoinRunner
from mayfly.spark.runner import empty_properties, identity
from mayfly.spark.shared_storage import check_shared
from mayfly.spark.sinks import Sink
from mayfly.spark.starting import (
    DEFAULT_HISTORY,
    bucket_count,
    check_owners,
    check_spark_part,
    checkpoint_of,
    run_settings,
    sinks_of,
    started,
)
from mayfly.storage import Repository
from mayfly.storage.files import local_root

if TYPE_CHECKING:
    from mayfly.session import Session

Select = Sequence[str] | Mapping[str, str] | None


@dataclass(frozen=True)
class SparkStream:
    """A declared stream; put a window on it."""

    session: Session
    declared: Stream

    def window(self, range: str | int) -> SparkWindow:
        """``stream [RANGE d]``: every row is alive for ``range`` from its own time on."""
        return SparkWindow(self.session, self.declared.window(range))


@dataclass(frozen=True)
class SparkWindow:
    """A stream under a window; join it with another one."""

    session: Session
    windowed: Windowed

    def join(
        self,
        other: SparkWindow,
        on: On,
        where: str | Expression | None = None,
        select: Select = None,
    ) -> SparkQuery:
        """The equi-join of both windows; ``where`` is a further condition on pairs, as SQL text."""
        return SparkQuery(self.session, JoinQuery((self.windowed,))).join(other, on, where, select)


@dataclass(frozen=True)
class SparkQuery:
    """A continuous query that can be started."""

    session: Session
    query: JoinQuery

    def join(
        self,
        other: SparkWindow,
        on: On,
        where: str | Expression | None = None,
        select: Select = None,
    ) -> SparkQuery:
        """Join one more window to the results so far."""
        if isinstance(where, str):
            streams = [*self.query.streams(), other.windowed.stream]
            where = bind_condition(
                where, {s.name: {c: s.type_of(c) for c in s.schema.names} for s in streams}
            )
        return replace(self, query=self.query.join(other.windowed, on, where, select))

    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_changes: Callable[[DataFrame, int], object] | None = None,
        parquet: str | os.PathLike[str] | None = None,
        archive: SparkArchive | None = None,
        sinks: Sequence[Sink] = (),
        buckets: int | None = None,
        history: Duration = DEFAULT_HISTORY,
        max_state_bytes: int | None = None,
        max_gap: Duration | None = None,
        available_now: bool = False,
        interval: Duration | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
    ) -> JoinRun:
        """Start the query, or continue it from its checkpoint.

        Changes go to ``on_changes(DataFrame, batch_id)`` (at least once per batch) and to Parquet
        files under ``parquet`` (exactly once), and become updates of ``archive`` as its intervals
        end (exactly once). ``history`` is how long dead results stay in the
        change log. ``available_now`` processes what is there, closes the last instant and ends;
        otherwise a batch starts every ``interval`` (Spark's text, such as "1 second"), or as soon
        as there is data. With ``sync=False`` a power cut may lose the last batches; a killed
        process never does.
        """
        runner = self._runner(
            checkpoint, history, buckets, max_state_bytes, max_gap, sync, wall_clock
        )
        check_spark_part(runner.repository)
        check_shared(self.session.spark, [runner.repository])
        named = sinks_of(sinks, on_changes, parquet)
        check_owners(named, runner.repository)
        if archive is not None:
            source = identity(runner.repository)
            place = os.fspath(runner.repository.directory.root)
            named.append(ArchivedResults.of(archive, runner.result_ddl(), source, place))
        runner.sinks = tuple(named)
        frames = {s.name: self.session.frame_of(s.name) for s in self.query.streams()}
        query = started(
            runner, self.query.streams(), frames, available_now=available_now, interval=interval
        )
        return JoinRun(runner, query, drain=available_now)

    def open(self, checkpoint: str | os.PathLike[str]) -> JoinRun:
        """A handle on a checkpoint for reading, without starting the query."""
        if not Repository.exists(checkpoint):
            raise InvalidSetting(f"there is no checkpoint at {checkpoint}", "start the query first")
        return JoinRun(self._runner(checkpoint), None)

    def _runner(
        self,
        checkpoint: str | os.PathLike[str],
        history: Duration = DEFAULT_HISTORY,
        buckets: int | None = None,
        max_state_bytes: int | None = None,
        max_gap: Duration | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
    ) -> JoinRunner:
        spark = self.session.spark
        if any(stream.punctuations for stream in self.query.streams()):
            raise InvalidSetting(
                "a join built in Python reads no punctuations", "write it as Session.query(…)"
            )
        wanted = bucket_count(spark, buckets)
        properties = empty_properties(self.query.streams(), _description(self.query), wanted)
        repository, kept = checkpoint_of(local_root(checkpoint), properties, buckets, sync=sync)
        settings = run_settings(kept, history, max_state_bytes, max_gap, sync, wall_clock)
        wiring = Wiring.of(self.query, self._column_types())
        return JoinRunner(spark, wiring, repository, settings)

    def _column_types(self) -> dict[str, dict[str, str]]:
        return {
            stream.name: dict(self.session.frame_of(stream.name).dtypes)
            for stream in self.query.streams()
        }


def _description(query: JoinQuery) -> dict[str, Any]:
    """What makes a query the same query; a checkpoint is refused to any other."""
    described: dict[str, Any] = {
        f"window of {one.stream.name}": format_micros(one.length) for one in query.inputs
    }
    for one in query.streams():
        columns = [f"{c} {one.type_of(c).sql()}" for c in query.needed(one.name)]
        described[f"columns of {one.name}"] = ", ".join(columns)
        described[f"time of {one.name}"] = one.time
    for index, clause in enumerate(query.clauses, 1):
        described[f"join {index} on"] = " AND ".join(f"{a} = {b}" for a, b in clause.pairs)
        described[f"join {index} where"] = clause.residual.sql() if clause.residual else ""
    beats = any(one.idle is not None for one in query.streams())
    described["heartbeats"] = "wall clock" if beats else "none"
    described["select"] = ", ".join(f"{source} AS {name}" for name, source in query.select.items())
    return described
