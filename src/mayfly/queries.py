"""Queries of the language on Spark: started over streaming DataFrames, asked while they run."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME, NEVER, instant
from mayfly.optimizer import explain
from mayfly.optimizer.pipeline import optimize
from mayfly.pipeline.compiling import Program, compile_plan
from mayfly.pipeline.pacing import Pace
from mayfly.pipeline.query import Stream
from mayfly.plan.explain import Explanation
from mayfly.plan.logical import Output, StreamScan
from mayfly.plan.physical import Strategy
from mayfly.spark.program_runner import (
    ProgramRunner,
    ProgramWiring,
    empty_program_properties,
)
from mayfly.spark.run import Run
from mayfly.spark.sinks import Sink
from mayfly.spark.starting import (
    DEFAULT_HISTORY,
    bucket_count,
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


@dataclass(frozen=True)
class CqlQuery:
    """A query of the language that can be explained and started."""

    session: Session
    text: str
    bound: Output
    program: Program
    without: tuple[str, ...] = ()

    @staticmethod
    def of(
        session: Session, text: str, bound: Output, strategy: Strategy, without: Sequence[str]
    ) -> CqlQuery:
        plan = optimize(bound, strategy=strategy, without=without).plan
        assert isinstance(plan, Output)
        weak = "weak-distinct" not in without
        program = compile_plan(plan, session.catalog, strategy, weak)
        return CqlQuery(session, text, bound, program, tuple(without))

    def explain(self, *, compare: bool = False) -> Explanation:
        """The plan with its update patterns, state and cost."""
        return explain(
            self.bound,
            self.text,
            strategy=self.program.strategy,
            without=self.without,
            compare=compare,
        )

    def streams(self) -> tuple[Stream, ...]:
        names = dict.fromkeys(
            node.stream for node in self.bound.walk() if isinstance(node, StreamScan)
        )
        return tuple(self.session.declared(name) for name in names)

    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_changes: Callable[[DataFrame, int], object] | None = None,
        parquet: str | os.PathLike[str] | None = None,
        sinks: Sequence[Sink] = (),
        buckets: int | None = None,
        history: str | int = DEFAULT_HISTORY,
        max_state_bytes: int | None = None,
        max_gap: str | int | None = None,
        available_now: bool = False,
        interval: str | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
        pace: Pace | None = None,
    ) -> QueryRun:
        """Start the query, or continue it from its checkpoint.

        Changes go to ``on_changes(DataFrame, batch_id)`` (at least once per batch) and to Parquet
        files under ``parquet`` (exactly once). A view's changes have ``ts`` and ``exp``; where its
        pattern is STR also ``cut``: the earlier row of the same values, ts and exp ends then.
        ``pace`` replays recorded streams at a speed. The other settings are those of a window
        join's ``start``.
        """
        runner = self._runner(
            checkpoint, history, buckets, max_state_bytes, max_gap, sync, wall_clock, pace
        )
        runner.sinks = tuple(sinks_of(sinks, on_changes, parquet))
        frames = {one.name: self.session.frame_of(one.name) for one in self.streams()}
        query = started(
            runner, self.streams(), frames, available_now=available_now, interval=interval
        )
        return QueryRun(runner, query, drain=available_now)

    def open(self, checkpoint: str | os.PathLike[str]) -> QueryRun:
        """A handle on a checkpoint for reading, without starting the query."""
        if not Repository.exists(checkpoint):
            raise InvalidSetting(f"there is no checkpoint at {checkpoint}", "start the query first")
        return QueryRun(self._runner(checkpoint), None)

    def _runner(
        self,
        checkpoint: str | os.PathLike[str],
        history: str | int = DEFAULT_HISTORY,
        buckets: int | None = None,
        max_state_bytes: int | None = None,
        max_gap: str | int | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
        pace: Pace | None = None,
    ) -> ProgramRunner:
        spark = self.session.spark
        wanted = bucket_count(spark, buckets)
        properties = empty_program_properties(self.streams(), self._description(), wanted)
        repository, kept = checkpoint_of(local_root(checkpoint), properties, buckets, sync=sync)
        check_spark_part(repository)
        settings = run_settings(kept, history, max_state_bytes, max_gap, sync, wall_clock, pace)
        types = {one.name: dict(self.session.frame_of(one.name).dtypes) for one in self.streams()}
        wiring = ProgramWiring.of(self.program, self.streams(), types)
        runner = ProgramRunner(spark, None, wiring, repository, settings)  # type: ignore[arg-type]
        runner.relations = self.session.relations
        return runner

    def _description(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued."""
        described: dict[str, Any] = {
            "text": " ".join(self.text.split()),
            "strategy": self.program.strategy.value,
            "operators": " | ".join(task.operator.name for task in self.program.tasks()),
        }
        for stream in self.streams():
            columns = [f"{name} {stream.type_of(name).sql()}" for name in stream.schema.names]
            described[f"columns of {stream.name}"] = ", ".join(columns)
            described[f"time of {stream.name}"] = stream.time
        return described


@dataclass
class QueryRun(Run):
    """A query of the language that was started: ask it, wait for it, stop it."""

    runner: ProgramRunner

    def snapshot(self, at: int | str | None = None) -> pa.Table:
        self._need_view()
        with self.runner.repository.pin() as manifest:
            moment = self._closed_instant(manifest, at)
            return self._read(manifest, (MIN_TIME, moment + 1, moment)).drop_columns(["ts", "exp"])

    def snapshot_frame(self, at: int | str | None = None) -> DataFrame:
        self._need_view()
        pin = self.runner.repository.pin()
        moment = self._closed_instant(pin.manifest, at)
        reader = self.runner.log_reader(pin.manifest, (MIN_TIME, moment + 1, moment))
        weakref.finalize(self, pin.release)
        return reader.frame(self.runner.spark, self._log_ddl()).drop("ts", "exp")

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Results generated in ``[since, until)``; a view's have their lifetimes as known now."""
        with self.runner.repository.pin() as manifest:
            return self._read(manifest, self._bounds(since, until))

    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        pin = self.runner.repository.pin()
        reader = self.runner.log_reader(pin.manifest, self._bounds(since, until))
        weakref.finalize(self, pin.release)
        return reader.frame(self.runner.spark, self._log_ddl())

    def change_batches(self) -> Iterator[pa.RecordBatch]:
        with self.runner.repository.pin() as manifest:
            reader = self.runner.log_reader(manifest, (MIN_TIME, NEVER, None))
            yield from reader.batches(self.runner.repository.directory)

    def _read(self, manifest: Any, wanted: tuple[int, int, int | None]) -> pa.Table:
        reader = self.runner.log_reader(manifest, wanted)
        batches = list(reader.batches(self.runner.repository.directory))
        return pa.Table.from_batches(batches, schema=reader.schema)

    def _bounds(
        self, since: int | str | None, until: int | str | None
    ) -> tuple[int, int, int | None]:
        low = MIN_TIME if since is None else instant(since)
        return low, NEVER if until is None else instant(until), None

    def _log_ddl(self) -> str:
        kept = [part for part in self.runner.result_ddl().split(", ") if part != "cut TIMESTAMP"]
        return ", ".join(kept)

    def _need_view(self) -> None:
        sent = self.runner.wiring.program.sent
        if sent is not None:
            raise InvalidSetting(
                f"the query sends {sent.name}; it has no answer to look at",
                "read changes(), or leave the stream operator out to keep a view",
            )
