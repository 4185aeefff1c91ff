"""``mayfly run``: a file of streams and queries as a pipeline, watched while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mayfly.cli.options import AllowPython, Conf, spark_settings
from mayfly.cli.output import refusals, seconds
from mayfly.cli.server_beside import ServerBeside
from mayfly.cli.signals import StopRequest, stop_signals
from mayfly.cql.script_files import text_of
from mayfly.errors import InvalidSetting, MayflyError
from mayfly.lifetime import MIN_TIME, NEVER, format_micros, in_zone, instant, instant_text, micros
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.runtime.buckets import checked_buckets
from mayfly.runtime.replay_speed import Pace
from mayfly.runtime.shed_load import Shedding
from mayfly.storage import Repository
from mayfly.storage.store import absolute_address

if TYPE_CHECKING:
    from mayfly.spark.api.pipelines import Pipeline
    from mayfly.spark.api.query_run import QueryRun
    from mayfly.spark.api.run_status import Status

FIRST_TO_GO = ("state rows", "behind", "batches", "batch", "rows/s", "late", "clock")
"""Columns of the view that a narrow terminal does without."""
REFRESH = 0.5
SERVER_FAILED = 1
"""The exit code where the pipeline has ended well, and the server beside it has not."""
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
    conf: Conf = None,
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
    max_state_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-state-bytes", help="Stop before a bucket needs more (default: of the memory)."
        ),
    ] = None,
    max_gap: Annotated[
        str | None,
        typer.Option("--max-gap", help="Stop if streams of a query are further apart."),
    ] = None,
    shed: Annotated[
        float, typer.Option("--shed", help="Leave out this share of the rows, and count them.")
    ] = 0.0,
    shed_by: Annotated[
        str, typer.Option("--shed-by", help="random, or partners: rows that join least.")
    ] = "random",
    stretch_above: Annotated[
        int | None,
        typer.Option(
            "--stretch-above", help="Larger batches answer only the last refresh they close."
        ),
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option("--replace", help="A query that has changed under its name begins anew."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Take over changes of the file while running.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Answer queries with SERVE too: mayfly serve beside the run."),
    ] = False,
    serve_port: Annotated[
        int, typer.Option("--serve-port", help="The port of --serve, 0 for a free one.")
    ] = 8321,
    serve_options: Annotated[
        str,
        typer.Option("--serve-options", help='Of mayfly serve, as "--schedule hybrid --show".'),
    ] = "",
    allow_python: AllowPython = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live view.")] = False,
) -> None:
    """Run the queries of a file over its streams; Ctrl-C stops, a second run continues."""
    with refusals():
        end = None if until is None else instant(until)
        _check_options(once, interval, buckets, speed)
        shedding = Shedding(shed, shed_by, stretch_above)
        settings = spark_settings(conf)
        zone = settings.get("spark.sql.session.timeZone", "UTC")
        declared = PipelineFile.before_spark(file, settings, allow_python=allow_python)
        place = checkpoint or file.with_suffix(".state")
        from mayfly.spark.api.control_loop import finish_commands, stopped_by_log
        from mayfly.spark.api.pipelines import carry_out, load_pipeline
        from mayfly.spark.cluster.local_spark import local_spark
        from mayfly.spark.stream.query_checkpoint import check_checkpoint, check_unchanged
        from mayfly.spark.stream.start import run_settings

        run_settings(
            buckets or 1,
            {"history": history, "max_state_bytes": max_state_bytes, "max_gap": max_gap},
        )
        if serve_options and not serve:
            raise InvalidSetting("--serve-options without --serve", "give both, or none of them")
        beside: ServerBeside | None = None
        if serve:
            beside = ServerBeside(place, serve_port, declared, serve_options)
        address = absolute_address(place)
        check_checkpoint(address, buckets, zone)
        with in_zone(zone):
            programs = declared.programs()
        texts = {name: query_definition.text for name, query_definition in declared.queries.items()}
        check_unchanged(address, texts, programs, replace or ())
        if not Repository.exists(address):  # commands may have added queries to others
            shedding.check(staged(shared(programs, {})))
        console = Console(stderr=True, markup=False, emoji=False)
        with console.status("starting Spark"):
            spark = local_spark(master=master, settings=settings)

        def load() -> Pipeline:
            return load_pipeline(spark, file, allow_python=allow_python)

        followed = Followed(file, place, load, console, watch)
        pipeline: Pipeline | None = carry_out(spark, declared)
        for notice in pipeline.passed_over if pipeline is not None else ():
            console.print(notice, style="yellow")
        runs: dict[str, QueryRun] = {}
        with stop_signals("batch") as asked, beside or nullcontext() as server:
            while pipeline is not None:
                runs = pipeline.start(
                    place,
                    available_now=once,
                    buckets=buckets,
                    interval=interval,
                    history=history,
                    max_state_bytes=max_state_bytes,
                    max_gap=max_gap,
                    pace=None if speed is None else Pace(speed),
                    shed=shed,
                    shed_by=shed_by,
                    stretch_above=stretch_above,
                    anew=replace or (),
                    resumed=bool(runs),
                )
                _tell_changes(runs, console)
                if server is not None:
                    server.start()
                asked.pass_on = partial(_end_deliveries, runs)
                running = pipeline
                try:
                    pipeline = _watch(runs, console, quiet, asked, end, followed, server)
                finally:
                    for run in runs.values():
                        run.stop()
                if finish_commands(runs) and pipeline is None and not asked.is_set():
                    pipeline = running  # what the file says meanwhile is for --watch
        if asked.is_set():
            console.print(f"stopped; run the same command to go on from {place}")
        elif stopped_by_log(runs):
            console.print(f"stopped by the control log; run the same command to go on from {place}")
        _tell_end(runs, console, figures=once or end is not None)
        if asked.is_set():
            raise typer.Exit(asked.exit_code)
        if beside is not None and beside.failed:
            console.print("the server has failed: its error is above", highlight=False)
            raise typer.Exit(SERVER_FAILED)


def _check_options(
    once: bool, interval: str | None, buckets: int | None, speed: float | None
) -> None:
    """Refuse what makes no sense before Spark is started."""
    if once and interval is not None:
        raise InvalidSetting(
            "--once takes what is there at once, so --interval would have no effect",
            "leave one of them out",
        )
    if interval is not None:
        micros(interval)
    if buckets is not None:
        checked_buckets(buckets)
    if speed is not None:
        Pace(speed)


@dataclass
class Followed:
    """The pipeline file while it runs: what it says now, if that has changed and can be run."""

    file: Path
    checkpoint: Path
    load: Callable[[], Pipeline]
    console: Console
    enabled: bool
    _text: str = field(init=False)

    def __post_init__(self) -> None:
        self._text = text_of(self.file)

    def changed(self) -> Pipeline | None:
        if not self.enabled:
            return None
        try:
            text = text_of(self.file)
            if text == self._text:
                return None
            self._text = text
            pipeline = self.load()
            pipeline.open(self.checkpoint)
        except (MayflyError, OSError) as error:
            self.console.print(f"the pipeline goes on as it was: {error}", markup=False)
            return None
        return pipeline


def _tell_changes(runs: dict[str, QueryRun], console: Console) -> None:
    """Tell what came to the checkpoint and what left it since the last run."""
    register = next(iter(runs.values())).register
    if register is None:
        return
    for name in register.new_streams:
        console.print(f"the stream {name} is new: it is read from its beginning on")
    for name in register.gone_streams:
        console.print(f"the stream {name} is gone")
    for name in register.added:
        console.print(f"the query {name} is new{_beginning(runs[name])}", highlight=False)
    for name in register.dropped:
        console.print(f"the query {name} is gone, and its state with it")


def _beginning(run: QueryRun) -> str:
    """From when on the answers of a query that was added are whole."""
    since, whole = run.since, run.whole_from
    if since is None or whole is None:
        return ""
    if whole < since:
        return ": the rows it needs were kept, it answers at once"
    begun = "" if since == MIN_TIME else f" at {instant_text(since)}"
    if whole == NEVER and run.awaited.startswith("until"):
        return f": it begins{begun}, and is warming up {run.awaited}"
    if whole == NEVER:
        return f": it begins{begun}, and never knows earlier rows, which matter for ever"
    return f": it begins{begun}, and is warming up until {instant_text(whole)}"


def _end_deliveries(runs: dict[str, QueryRun]) -> None:
    """Sinks that have much to do end after a part of it; the rest comes with the next start."""
    for run in runs.values():
        run.runner.stopping = True


def _watch(
    runs: dict[str, QueryRun],
    console: Console,
    quiet: bool,
    asked: StopRequest,
    end: int | None,
    followed: Followed,
    server: ServerBeside | None,
) -> Pipeline | None:
    """Watch until the queries have ended or reached ``end``, a stop is requested, the control log
    asks for something else, or the file has changed: then what it says now. Errors of the
    queries are raised."""
    from mayfly.spark.api.control_loop import awaited

    shown = not quiet and console.is_terminal
    view = (
        Live(_view(runs, console.width), console=console, refresh_per_second=4)
        if shown
        else nullcontext()
    )
    with view as live:
        while not asked.is_set() and not all(run.await_done(0.05) for run in runs.values()):
            if live is not None:
                live.update(_view(runs, console.width))
            if end is not None and all(_reached(run, end) for run in runs.values()):
                return None
            if (pipeline := followed.changed()) is not None:
                return pipeline
            if awaited(runs) is not None:
                return None
            if server is not None and (note := server.look_after()) is not None:
                console.print(note, markup=False, highlight=False)
            asked.wait(REFRESH)
    if shown and asked.is_set():
        console.print(asked.answer)  # the view was drawn over what the signal's handler has said
    return None


def _reached(run: QueryRun, end: int) -> bool:
    clock = run.status().clock
    return clock is not None and clock >= end


def _tell_end(runs: dict[str, QueryRun], console: Console, *, figures: bool) -> None:
    """Tell what the queries have come to, if that was the aim, and in any case what they lack."""
    now = {name: run.status() for name, run in runs.items()}
    for part in (*([_table(now, console.width)] if figures else []), *_losses(now)):
        console.print(part)


def _view(runs: dict[str, QueryRun], width: int) -> Group:
    now = {name: run.status() for name, run in runs.items()}
    return Group(_table(now, width), *_losses(now))


def _losses(now: dict[str, Status]) -> Iterator[Text]:
    """What was left out since the checkpoint began, a line each; none if nothing was."""
    for words, counts in (
        ("rows left out on purpose", [status.shed for status in now.values()]),
        ("rows too far ahead to be true (MAX GAP)", [status.beyond for status in now.values()]),
    ):
        lost: dict[str, int] = {}
        for counter in counts:  # a stream that several read is reported by each
            lost.update({stream: count for stream, count in counter.items() if count})
        if lost:
            rows = ", ".join(f"{count:,} of {stream}" for stream, count in lost.items())
            yield Text(f"{words} so far: {rows}", "yellow")
    skipped = [
        f"{status.refreshes[1]:,} of {sum(status.refreshes):,} in {name}"
        for name, status in now.items()
        if status.refreshes[1]
    ]
    if skipped:
        yield Text(f"refreshes skipped on purpose so far: {', '.join(skipped)}", "yellow")


def _table(now: dict[str, Status], width: int) -> Table:
    """What the queries have come to; in a narrow place, without the less important columns."""
    rows = [_cells(name, status) for name, status in now.items()]
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    for name in FIRST_TO_GO:
        if sum(widths.values()) + 2 * len(widths) - 2 > width:
            del widths[name]
    table = Table(box=None, pad_edge=False)
    for name in widths:
        words = name in ("query", "clock", "behind")
        table.add_column(name, justify="left" if words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row[name]) for name in widths))
    return table


def _cells(name: str, now: Status) -> dict[str, str]:
    return {
        "query": name,
        "batches": f"{now.batch + 1}",
        "clock": "–" if now.clock is None else instant_text(now.clock),
        "behind": _behind(now),
        "rows": f"{sum(now.rows.values()):,}",
        "rows/s": f"{now.rate:,.0f}",
        "late": f"{sum(now.late.values()):,}",
        "changes": f"{now.changes:,}",
        "state rows": f"{now.state_rows:,}",
        "state": f"{now.state_bytes / 1e6:,.1f} MB",
        "batch": seconds(now.batch_seconds[-1] if now.batch_seconds else None),
    }


def _behind(now: Status) -> str:
    """How far the clock is behind time, and for how much longer if it is catching up."""
    if now.lag is None:
        return "–"
    words = format_micros(max(now.lag, 0) // 1_000_000 * 1_000_000)
    shown = " ".join(words.split()[:4])
    return shown if now.catch_up is None else f"{shown}, {seconds(now.catch_up)} to go"
