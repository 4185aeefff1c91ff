"""The handle of a window join that was started: its one log of results."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.lifetime import instant
from mayfly.pipeline.clocks import Clocks
from mayfly.spark.join_runner import JoinRunner
from mayfly.spark.log import LogRange, log_batches, log_frame, log_segments
from mayfly.spark.progress import OperatorState
from mayfly.spark.run import Run
from mayfly.storage import Manifest, Pin


@dataclass
class JoinRun(Run):
    runner: JoinRunner

    def snapshot(self, at: int | str | None = None) -> pa.Table:
        with self.runner.repository.pin() as manifest:
            wanted = LogRange.alive(self._closed_instant(manifest, at))
            return self._table(manifest, wanted).drop_columns(["ts", "exp"])

    def snapshot_frame(self, at: int | str | None = None) -> DataFrame:
        pin = self.runner.repository.pin()
        wanted = LogRange.alive(self._closed_instant(pin.manifest, at))
        return self._frame(pin, wanted, without=("ts", "exp"))

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        with self.runner.repository.pin() as manifest:
            return self._table(manifest, self._range(since, until))

    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        return self._frame(self.runner.repository.pin(), self._range(since, until))

    def change_batches(self) -> Iterator[pa.RecordBatch]:
        with self.runner.repository.pin() as manifest:
            directory = self.runner.repository.directory
            yield from log_batches(directory, manifest, LogRange(), self.runner.schema)

    def _operators(self, manifest: Manifest) -> tuple[OperatorState, ...]:
        found: dict[int, tuple[int, int]] = {}
        for segment in manifest.in_group("state"):
            stage = int(segment.group.split("/")[1])
            rows, size = found.get(stage, (0, 0))
            found[stage] = rows + segment.rows, size + segment.bytes
        return tuple(OperatorState("join", at + 1, *held) for at, held in sorted(found.items()))

    def _kept_from(self, manifest: Manifest) -> int:
        kept: int = manifest.properties["history_from"]
        return kept

    def _clock(self, manifest: Manifest) -> int:
        return Clocks.from_json(manifest.properties["clocks"]).query

    def _range(self, since: int | str | None, until: int | str | None) -> LogRange:
        whole = LogRange()
        return LogRange(
            whole.since if since is None else instant(since),
            whole.until if until is None else instant(until),
        )

    def _table(self, manifest: Manifest, wanted: LogRange) -> pa.Table:
        schema = self.runner.schema
        directory = self.runner.repository.directory
        batches = log_batches(directory, manifest, wanted, schema)
        return pa.Table.from_batches(list(batches), schema=schema)

    def _frame(self, pin: Pin, wanted: LogRange, without: tuple[str, ...] = ()) -> DataFrame:
        """A DataFrame over pinned files; they stay while this handle lives, an hour at most.

        Frames made from this one do not keep it alive, so its own life says nothing.
        """
        runner = self.runner
        segments = log_segments(pin.manifest, wanted)
        frame = log_frame(
            runner.spark,
            runner.repository.directory,
            segments,
            wanted,
            runner.schema,
            runner.result_ddl(),
        ).drop(*without)
        weakref.finalize(self, pin.release)
        return frame
