"""``mayfly status``: a pipeline in figures, as its checkpoint tells them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.output import count, print_json, print_table, refusals, seconds
from mayfly.display import counted, size
from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros, instant_text
from mayfly.serving.pipeline_status import PipelineStatus, read_status

LONGEST_TEXT = 60
SECOND = 1_000_000
NOT_YET = "–"


def status_command(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint, or a pipeline file.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    watch: Annotated[
        float | None,
        typer.Option("--watch", metavar="SECONDS", help="Look again so often, until Ctrl-C."),
    ] = None,
) -> None:
    """Show a pipeline in figures, running or stopped; starts no Spark.

    Clocks, rows, state and results, as of its last commit; nothing is written.
    """
    with refusals():
        if watch is not None and not 0 < watch < float("inf"):
            raise InvalidSetting(f"--watch {watch:g}", "give a number of seconds larger than 0")
        if checkpoint.suffix == ".cql" and not checkpoint.is_dir():
            # Here: to read a file takes the language, to read figures does not.
            from mayfly.serving.pipeline_places import existing_checkpoint_of

            checkpoint = existing_checkpoint_of(checkpoint)
        last = -1
        while True:
            status = read_status(checkpoint)
            if status.version != last:
                _show(status, json)
            if watch is None:
                return
            last = status.version
            time.sleep(watch)


def _show(status: PipelineStatus, json: bool) -> None:
    if json:
        print_json(status.to_json())
        return
    for line in _lines(status):
        typer.echo(line)
    typer.echo()
    print_table(
        ("stream", "clock", "rows", "late", "no time", "beyond MAX GAP", "shed"),
        [
            (stream.name, _instant(stream.clock), *map(count, (
                stream.rows, stream.late, stream.timeless, stream.beyond, stream.shed)))
            for stream in status.streams
        ],
        ("rows", "late", "no time", "beyond MAX GAP", "shed"),
    )  # fmt: skip
    typer.echo()
    print_table(
        ("query", "clock", "changes", "in last batch", "results kept", "size", "text"),
        [
            (query.name, _instant(query.clock), count(query.changes), count(query.last_changes),
             count(query.result_rows), size(query.result_bytes), _short(query.text))
            for query in status.queries
        ],
        ("changes", "in last batch", "results kept", "size"),
    )  # fmt: skip
    for query in status.queries:
        if query.warming:
            typer.echo(f"{query.name} does not know all earlier rows, {query.warming}")


def _lines(status: PipelineStatus) -> Iterable[str]:
    yield status.checkpoint
    if status.batch < 0:
        yield f"version {status.version}, no batch yet"
    else:
        when = "" if status.committed is None else f" at {instant_text(status.committed)} UTC"
        over = ", the input is closed" if status.ended else ""
        yield f"version {status.version}, batch {status.batch} committed{when}{over}"
    yield (
        f"state {counted(status.state_rows, 'row')}, {size(status.state_bytes)} in "
        f"{counted(status.buckets, 'bucket')}; results {counted(status.result_rows, 'row')}, "
        f"{size(status.result_bytes)}"
    )
    if status.batch_seconds:
        last = " ".join(seconds(duration) for duration in status.batch_seconds[-5:])
        yield f"{status.rate:,.0f} rows/s; the last batches took {last}"
    if status.lag is not None and status.lag >= 0 and not status.ended:
        soon = f", caught up in {seconds(status.catch_up)}" if status.catch_up is not None else ""
        yield f"clock {format_micros(status.lag // SECOND * SECOND)} behind the wall clock{soon}"


def _instant(instant: int | None) -> str:
    return NOT_YET if instant is None else instant_text(instant)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 1]}…"
