"""Queries that keep to the control log: it ends them, or has them started anew with others."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mayfly.pipeline.control_log import RENEWING, STOP
from mayfly.spark.io.sinks import ParquetFiles, Sink
from mayfly.spark.stream.runner import Runner
from mayfly.storage import SetProperties

if TYPE_CHECKING:
    from mayfly.spark.api.query_run import QueryRun

POLL = 0.5
"""Seconds between two looks at the control log while no batch reads it."""


@dataclass
class Serving:
    """Queries that are started anew whenever the control log asks for others: handles stay."""

    handles: dict[str, QueryRun] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    thread: int = field(default_factory=threading.get_ident)
    """The one that serves: it cannot wait for its own end."""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def take_over(self, runs: Mapping[str, QueryRun]) -> dict[str, QueryRun]:
        """Hand queries that were started to the handles that there were; all handles."""
        for run in runs.values():
            run.serving = self
        self.handles = {
            name: self.handles[name].going_on(run) if name in self.handles else run
            for name, run in runs.items()
        }
        return dict(self.handles)

    def await_end(self) -> bool:
        """Wait until the queries end, by themselves or on request; whether the
        control log then asks for others."""
        # What a handle tells of the end is the end of serving; here it is that of the batches.
        try:
            while not all(run.await_stream(POLL) for run in self.handles.values()):
                if self._stopped.is_set() or awaited(self.handles) is not None:
                    break
        finally:
            for run in self.handles.values():
                run.stop_stream()
        return finish_commands(self.handles) and not self._stopped.is_set()

    def stop(self) -> None:
        """Stop after the batch that is running, whatever the control log asks for."""
        self._stopped.set()
        for run in list(self.handles.values()):
            run.stop_stream()

    def await_over(self, timeout: float | None) -> bool:
        if not self.over.wait(timeout):
            return False
        if self.error is not None:
            raise self.error
        return True


def sinks_of_command(runner: Runner, name: str) -> list[Sink]:
    """Where the changes of a query go that a command has added."""
    assert runner.commands is not None
    folder = runner.commands.state.queries.get(name, {}).get("parquet")
    return [] if folder is None else [ParquetFiles(folder)]


def awaited(runs: Mapping[str, QueryRun]) -> str | None:
    """What the control log asks for that needs the queries to end or to be started anew."""
    commands = next(iter(runs.values())).runner.commands
    return None if commands is None else commands.asked or commands.awaited()


def finish_commands(runs: Mapping[str, QueryRun]) -> bool:
    """After queries have ended: whether a command changes them, so that they are started again.

    A command to stop is done then.
    """
    runner = next(iter(runs.values())).runner
    if runner.commands is None or awaited(runs) is None:
        return False
    if runner.commands.asked is None and (done := runner.commands.take()):
        runner.repository.commit(runner.repository.current(), [SetProperties(done)])
    return runner.commands.asked in RENEWING


def stopped_by_log(runs: Mapping[str, QueryRun]) -> bool:
    """Whether a command has stopped the queries."""
    commands = next(iter(runs.values())).runner.commands
    return commands is not None and commands.asked == STOP
