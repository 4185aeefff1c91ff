"""The handle of a query of the language: what it answers, how it does, and how it ends."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.lifetime import MIN_TIME, NEVER, instant, instant_text
from mayfly.physical.stages import StagedTask
from mayfly.pipeline.control import Control
from mayfly.spark.program_results import EVERYTHING, Results, Wanted
from mayfly.spark.program_runner import REFRESHES, ProgramRunner
from mayfly.spark.program_tasks import SENT
from mayfly.spark.progress import OperatorState, operator_states
from mayfly.spark.query_checkpoint import WHOLE_FROM, Registered
from mayfly.spark.run import Run, Status, status_of
from mayfly.spark.serving import Serving
from mayfly.storage import Manifest

QUERY = "query"
"""The name of a query that was started alone."""


@dataclass
class QueryRun(Run):
    """A query of the language that was started: ask it, wait for it, stop it.

    Queries that were started together run and stop together.
    """

    runner: ProgramRunner
    name: str = QUERY
    register: Registered | None = field(default=None, repr=False)
    serving: Serving | None = field(default=None, repr=False)
    """What starts the queries anew when the control log asks for others, if something does."""

    def going_on(self, run: QueryRun) -> QueryRun:
        """This handle, for the same query that was started anew."""
        self.runner, self.query, self.register = run.runner, run.query, run.register
        self.drain = run.drain
        return self

    def await_done(self, timeout: float | None = None) -> bool:
        if self.serving is not None and self.serving.thread != threading.get_ident():
            return self.serving.await_over(timeout)
        return super().await_done(timeout)

    def stop(self) -> None:
        if self.serving is not None:
            self.serving.stop()
        else:
            super().stop()

    @property
    def results(self) -> Results:
        return self.runner.results[self.name]

    @property
    def since(self) -> int | None:
        """The clock when the query was added to a running pipeline; None if it was there first."""
        return self.results.member.group.since

    @property
    def whole_from(self) -> int | None:
        """The instant from which answers are those of a query that was always there.

        None if this one was. Before ``since`` if the windows it needs were kept when it was added;
        NEVER if some earlier row will always matter.
        """
        return self._whole_from(self.runner.repository.current())

    def _whole_from(self, manifest: Manifest) -> int | None:
        found: int | None = manifest.properties["queries"].get(self.name, {}).get(WHOLE_FROM)
        return found

    @property
    def control(self) -> Control:
        """To add and drop queries, change relations, or stop, from here as from elsewhere."""
        return Control(self.runner.repository)

    def status(self) -> Status:
        """This query's changes, streams and state, where what it shares with others counts as its
        own; input and output are those of all queries."""
        manifest = self.runner.repository.current()
        clocks = self.results.clocks(manifest)
        found = self._getting_on(status_of(manifest), manifest, clocks)
        names = [f"task/{one.name}" for one in self._tasks()] + [f"{SENT}/{self.name}"]
        state = [one for name in names for one in manifest.in_group(f"state/{name}")]
        log = list(manifest.in_group(f"state/log/{self.name}"))
        whole = self._whole_from(manifest)
        return replace(
            found,
            clock=None if clocks.query == MIN_TIME else clocks.query,
            gap=clocks.gap,
            rows={name: found.rows.get(name, 0) for name in clocks.streams},
            late={name: found.late.get(name, 0) for name in clocks.streams},
            timeless={name: found.timeless.get(name, 0) for name in clocks.streams},
            shed={name: n for name, n in found.shed.items() if name in clocks.streams},
            beyond={name: found.beyond.get(name, 0) for name in clocks.streams},
            changes=manifest.properties["answers"].get(self.name, 0),
            last_changes=manifest.properties.get("last_answers", {}).get(self.name, 0),
            state_rows=sum(one.rows for one in state),
            state_bytes=sum(one.bytes for one in state),
            log_rows=sum(one.rows for one in log),
            log_bytes=sum(one.bytes for one in log),
            refreshes=tuple(manifest.properties.get(REFRESHES, {}).get(self.name, (0, 0))),
            warming_until=None if whole is None or whole < clocks.query else whole,
        )

    def _operators(self, manifest: Manifest) -> tuple[OperatorState, ...]:
        return operator_states(manifest, self._tasks())

    def _tasks(self) -> tuple[StagedTask, ...]:
        return self.runner.wiring.stages.behind(self.name)

    def snapshot(self, at: int | str | None = None) -> pa.Table:
        self._need_view()
        with self.runner.repository.pin() as manifest:
            moment = self._closed_instant(manifest, at)
            return self._read(manifest, (MIN_TIME, moment + 1, moment)).drop_columns(["ts", "exp"])

    def snapshot_frame(self, at: int | str | None = None) -> DataFrame:
        self._need_view()
        pin = self.runner.repository.pin()
        moment = self._closed_instant(pin.manifest, at)
        weakref.finalize(self, pin.release)
        return self._frame_of(pin.manifest, (MIN_TIME, moment + 1, moment)).drop("ts", "exp")

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Results generated in ``[since, until)``; a view's have their lifetimes as known now."""
        with self.runner.repository.pin() as manifest:
            return self._read(manifest, self._bounds(since, until))

    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        pin = self.runner.repository.pin()
        weakref.finalize(self, pin.release)
        return self._frame_of(pin.manifest, self._bounds(since, until))

    def change_batches(self) -> Iterator[pa.RecordBatch]:
        with self.runner.repository.pin() as manifest:
            directory = self.runner.repository.directory
            yield from self.results.log_reader(directory, manifest, EVERYTHING).batches(directory)

    def _read(self, manifest: Manifest, wanted: Wanted) -> pa.Table:
        directory = self.runner.repository.directory
        reader = self.results.log_reader(directory, manifest, wanted)
        return pa.Table.from_batches(list(reader.batches(directory)), schema=reader.schema)

    def _frame_of(self, manifest: Manifest, wanted: Wanted) -> DataFrame:
        reader = self.results.log_reader(self.runner.repository.directory, manifest, wanted)
        return reader.frame(self.runner.spark, self.results.ddl(log=True))

    def _bounds(self, since: int | str | None, until: int | str | None) -> Wanted:
        low = MIN_TIME if since is None else instant(since)
        return low, NEVER if until is None else instant(until), None

    def _clock(self, manifest: Manifest) -> int:
        return self.results.clocks(manifest).query

    def _kept_from(self, manifest: Manifest) -> int:
        kept: int = manifest.properties["kept_from"].get(self.name, MIN_TIME)
        return kept

    def _closed_instant(self, manifest: Manifest, at: int | str | None) -> int:
        moment = super()._closed_instant(manifest, at)
        whole, since = self._whole_from(manifest), self.since
        if since is not None and moment < since and (whole is None or moment < whole):
            raise VersionExpired(
                f"the query {self.name} was added at {instant_text(since)}; "
                f"it knows nothing of {instant_text(moment)}",
                "ask for a later instant",
            )
        return moment

    def _need_view(self) -> None:
        sent = self.results.member.program.sent
        if sent is not None:
            raise InvalidSetting(
                f"the query sends {sent.name}; it has no answer to look at",
                "read changes(), or leave the stream operator out to keep a view",
            )
