"""``mayfly run``: a file of streams and queries as a pipeline, watched while it runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from mayfly.cli.printing import refusals
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant
from mayfly.pipeline.pacing import Pace
from mayfly.plan.windows import instant_text

if TYPE_CHECKING:
    from mayfly.queries import QueryRun

REFRESH = 0.5
File = Annotated[Path, typer.Argument(help="A file of statements.", metavar="PIPELINE.cql")]


def run_command(
    file: File,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", help="Where state and results are kept (default: FILE.state)."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Take what is there, close the last instant, and end.")
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", help="Spark master (default: this machine).")
    ] = None,
    buckets: Annotated[
        int | None, typer.Option("--buckets", help="Key buckets (default: number of cores).")
    ] = None,
    interval: Annotated[
        str | None, typer.Option("--interval", help='Time between batches, such as "1 second".')
    ] = None,
    history: Annotated[
        str, typer.Option("--history", help='How long dead results are kept, or "forever".')
    ] = "1 hour",
    until: Annotated[
        str | None,
        typer.Option("--until", help="Stop when all instants before this one are closed."),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", help="Replay: seconds of the stream per second, batch by batch."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live view.")] = False,
) -> None:
    """Run the queries of a file over its streams; Ctrl-C stops, a second run continues."""
    with refusals():
        if not file.exists():
            raise InvalidSetting(f"there is no file {file}", "name a file of statements")
        end = None if until is None else instant(until)
        pace = None if speed is None else Pace(speed)
        from mayfly.spark.local import local_spark
        from mayfly.spark.pipelines import load_pipeline

        console = Console(stderr=True)
        with console.status("starting Spark"):
            spark = local_spark(master=master)
        pipeline = load_pipeline(spark, file)
        place = checkpoint or file.with_suffix(".state")
        settings = {"buckets": buckets, "interval": interval, "history": history, "pace": pace}
        with _signals() as asked:
            runs = pipeline.start(place, available_now=once, **settings)
            try:
                _watch(runs, console, quiet, asked, end)
            finally:
                for run in runs.values():
                    run.stop()
        if asked.is_set():
            console.print(f"stopped; run the same command to go on from {place}")
        if once or end is not None:
            console.print(_table(runs))


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM: Spark's own handler would cancel the batch that is running."""
    asked = threading.Event()
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: asked.set()) for one in names]
    try:
        yield asked
    finally:
        for one, handler in zip(names, before, strict=True):
            signal.signal(one, handler)


def _watch(
    runs: dict[str, QueryRun],
    console: Console,
    quiet: bool,
    asked: threading.Event,
    end: int | None,
) -> None:
    """Until every query has ended or has reached ``end``, or somebody asks to stop; errors of any
    of them are raised."""
    shown = not quiet and console.is_terminal
    with (
        Live(_table(runs), console=console, refresh_per_second=4)
        if shown
        else nullcontext() as live
    ):
        waiting = list(runs.values())
        while waiting and not asked.is_set():
            waiting = [
                run for run in waiting if not run.await_done(0.05) and not _reached(run, end)
            ]
            if live is not None:
                live.update(_table(runs))
            asked.wait(REFRESH)


def _reached(run: QueryRun, end: int | None) -> bool:
    if end is None:
        return False
    clock = run.status().clock
    if clock is None or clock < end:
        return False
    run.stop()
    return True


def _table(runs: dict[str, QueryRun]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("query", "batches", "clock", "rows", "late", "changes", "state rows", "state"):
        table.add_column(name, justify="left" if name in ("query", "clock") else "right")
    for name, run in runs.items():
        now = run.status()
        table.add_row(
            name,
            f"{now.batch + 1}",
            "–" if now.clock is None else instant_text(now.clock).removesuffix("+00:00"),
            f"{sum(now.rows.values()):,}",
            f"{sum(now.late.values()):,}",
            f"{now.changes:,}",
            f"{now.state_rows:,}",
            f"{now.state_bytes / 1e6:,.1f} MB",
        )
    return table
