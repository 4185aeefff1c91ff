"""Queries that keep to the control log: it ends them, or has them started anew with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mayfly.pipeline.control import ADD, DROP, STOP
from mayfly.spark.program_runner import ProgramRunner
from mayfly.spark.sinks import ParquetFiles, Sink
from mayfly.storage import SetProperties

if TYPE_CHECKING:
    from mayfly.queries import QueryRun

POLL = 0.5
"""Seconds between two looks at the control log while no batch reads it."""


def wanted_anew(runs: Mapping[str, QueryRun]) -> bool:
    """Wait until the queries end, by themselves or because the control log asks for it; whether
    it then asks for others."""
    try:
        while not all(run.await_done(POLL) for run in runs.values()):
            if awaited(runs) is not None:
                break
    finally:
        for run in runs.values():
            run.stop()
    return ended_for_others(runs)


def sinks_of_command(runner: ProgramRunner, name: str) -> list[Sink]:
    """Where the changes of a query go that a command has added."""
    assert runner.commands is not None
    folder = runner.commands.state.queries.get(name, {}).get("parquet")
    return [] if folder is None else [ParquetFiles(folder)]


def awaited(runs: Mapping[str, QueryRun]) -> str | None:
    """What the control log asks for that needs the queries to end or to be started anew."""
    commands = next(iter(runs.values())).runner.commands
    return None if commands is None else commands.asked or commands.awaited()


def ended_for_others(runs: Mapping[str, QueryRun]) -> bool:
    """After queries have ended: whether a command wants others, so that they are started anew.

    A command to stop is done then.
    """
    runner = next(iter(runs.values())).runner
    if runner.commands is None or awaited(runs) is None:
        return False
    if runner.commands.asked is None and (done := runner.commands.taken()):
        runner.repository.commit(runner.repository.current(), [SetProperties(done)])
    return runner.commands.asked in (ADD, DROP)


def stopped_by_log(runs: Mapping[str, QueryRun]) -> bool:
    """Whether a command has stopped the queries."""
    commands = next(iter(runs.values())).runner.commands
    return commands is not None and commands.asked == STOP
