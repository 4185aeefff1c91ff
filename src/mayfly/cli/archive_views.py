"""An archive on the terminal: its constituents drawn, its past updates, its candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.text import Text

from mayfly.archive import Archive, ArchiveStatus, UpdateReport
from mayfly.archive.advice.wave_constants import Prediction
from mayfly.archive.layouts import format_days
from mayfly.archive.status import IndexStatus
from mayfly.cli.output import count, on_terminal, print_table, seconds
from mayfly.display import counted, size
from mayfly.lifetime import MIN_TIME, instant_text
from mayfly.storage import VerifyReport

BAR = 24


def show_status(status: ArchiveStatus, last: Prediction | None) -> None:
    """Show what the archive is, its constituents as bars, and its last update."""
    console = Console(highlight=False)
    for line in _facts(status):
        console.print(line, soft_wrap=True)
    console.print()
    indexes = [*status.constituents, *status.temporaries]
    fullest = max((index.rows for index in indexes), default=0)
    temporary = {index.name for index in status.temporaries}
    header = ["", "days", *(["rows alive ░ dead"] if on_terminal() else []), "rows", "dead", "size"]
    rows = [_index(index, fullest, index.name in temporary) for index in indexes]
    print_table([*header, "runs"], rows, right=("rows", "dead", "size", "runs"))
    if not indexes:
        console.print("nothing stored yet")
    for line in _afterwards(status, last):
        console.print(line, soft_wrap=True)


def _facts(status: ArchiveStatus) -> Iterable[Text]:
    yield Text(status.path, style="bold")
    yield Text(f"{status.kept}, {status.counted}")
    if status.hidden_until is not None and status.erased_until is not None and status.update:
        gone = f"the bytes of those that expired by {instant_text(status.erased_until)} are gone"
        if status.erased_until == MIN_TIME:
            gone = "their bytes may be in files that were left behind"
        yield Text(
            f"rows that expired by {instant_text(status.hidden_until)} are not returned, {gone}"
        )
    yield Text(
        f"key {', '.join(status.key)} · time {status.time_column} · late rows: {status.late} · "
        f"{counted(status.parts, 'part')}"
    )
    when = (
        "its first row decides"
        if status.origin_is_open
        else f"next at {instant_text(status.next_time)}"
    )
    time_text = f" at {instant_text(status.time)}" if status.update else ""
    yield Text(f"version {status.version} · update {status.update}{time_text} · {when}")


def _index(index: IndexStatus, fullest: int, temporary: bool) -> list[str | Text]:
    style = "dim" if temporary else ""
    drawn = [_bar(index, fullest)] if on_terminal() else []
    return [
        Text(index.name, style=style or "bold"),
        Text(_days(index), style=style),
        *drawn,
        count(index.rows),
        Text(count(index.dead_rows), style="yellow" if index.dead_rows else "dim"),
        size(index.bytes),
        "packed" if index.packed and index.runs else count(index.runs),
    ]


def _days(index: IndexStatus) -> str:
    alive = frozenset(index.days) - frozenset(index.expired)
    gone = f" {format_days(frozenset(index.expired))}†" if index.expired else ""
    return f"{format_days(alive)}{gone}"


def _bar(index: IndexStatus, fullest: int) -> Text:
    """Rows to scale: alive in full, dead in outline."""
    if not fullest:
        return Text("")
    width = max(1, round(BAR * index.rows / fullest)) if index.rows else 0
    dead = round(width * index.dead_rows / index.rows) if index.rows else 0
    return Text("█" * (width - dead), style="green") + Text("░" * dead, style="yellow")


def _afterwards(status: ArchiveStatus, last: Prediction | None) -> Iterable[Text]:
    expired = any(constituent.expired for constituent in status.constituents)
    if expired:
        yield Text("† expired: stored, but left out of every answer", style="dim")
    yield Text(
        f"{counted(status.rows, 'row')} alive, {count(status.dead_rows)} dead but stored; "
        f"{counted(status.files, 'file')}, {size(status.bytes)}"
    )
    if not status.prepared:
        yield Text("the pre-transition work of the last update is still to be done")
    if status.last and last is not None:
        took = f"took {seconds(last.took)}"
        expected = f", the model expected {seconds(last.expected)}" if last.expected else ""
        yield Text(
            f"last update: {counted(status.last['rows_in'], 'row')} in, "
            f"{count(status.last['removed'])} out, {took}{expected}"
        )
    if status.proposal is not None:
        yield Text(f"since update {status.proposal['update']}: {status.proposal['text']}")
    for name, sink in status.sinks.items():
        clock = "–" if sink["clock"] is None else instant_text(sink["clock"])
        query = f"; results of the query {sink['source']}" if "/" in (sink["source"] or "") else ""
        yield Text(
            f"stream {name}: {counted(sink['rows'], 'row')} in "
            f"{counted(sink['batch'] + 1, 'batch', 'batches')}, "
            f"{count(sink['staged_rows'])} staged, {count(sink['late'])} late, "
            f"{count(sink['dead'])} dead on arrival; clock {clock}{query}"
        )


def show_update(report: UpdateReport, expected: float | None) -> None:
    """Show one line per update."""
    if report.repeated:
        typer.echo(f"update {report.update}: this batch was committed before, nothing to do")
        return
    took = report.transition_seconds + report.pre_transition_seconds
    parts = [
        f"{counted(report.stored, 'row')} in",
        f"{count(report.removed)} out",
        *([f"{count(report.late)} late"] if report.late else []),
        *([f"{count(report.dead_on_arrival)} dead on arrival"] if report.dead_on_arrival else []),
        f"{size(report.bytes_written)} written",
        seconds(took) + (f" (expected {seconds(expected)})" if expected else ""),
        *_told_gone(report),
    ]
    typer.echo(f"update {report.update}: " + ", ".join(parts))
    if report.proposal:
        typer.echo(f"  {report.proposal}")


def _told_gone(report: UpdateReport) -> list[str]:
    """Since when bytes are gone, where that is promised; rows are hidden at least as early."""
    if report.hidden_until is None or report.erased_until is None:
        return []
    return [
        f"what expired by {instant_text(report.hidden_until)} is not returned",
        f"of what expired by {instant_text(report.erased_until)} no byte is left",
    ]


def show_history(reports: Sequence[Mapping[str, Any]], predictions: Sequence[Prediction]) -> None:
    header = ["update", "in", "out", "dead", "read", "written", "took", "expected", "off"]
    rows = [
        [
            str(report["update"]),
            count(report["rows_in"]),
            count(report["removed"]),
            count(report["dead_but_stored"]),
            size(report["bytes_read"]),
            size(report["bytes_written"]),
            seconds(prediction.took),
            seconds(prediction.expected),
            "–" if prediction.error is None else f"{prediction.error:+.0%}",
        ]
        for report, prediction in zip(reports, predictions, strict=True)
    ]
    print_table(header, rows, right=header)


def history_values(archive: Archive) -> list[dict[str, Any]]:
    """Reports and predictions as plain values."""
    return [
        {**report, "expected_seconds": prediction.expected, "took_seconds": prediction.took}
        for report, prediction in zip(
            archive.inspect.reports(), archive.inspect.predictions(), strict=True
        )
    ]


def show_verdict(report: VerifyReport) -> None:
    for problem in report.problems:
        typer.echo(f"{problem.path}: {problem.what}")
    typer.echo(
        f"version {report.version}: {counted(report.segments, 'file')}, "
        f"{counted(report.readable_rows, 'row')} readable, "
        f"{counted(len(report.problems), 'problem')}"
    )


class Shown(Protocol):
    """Advice of any kind."""

    @property
    def header(self) -> Sequence[str]: ...

    def explain(self) -> str: ...

    def figures(self, most: int) -> list[list[str]]: ...


def show_advice(advice: Shown, most: int = 6) -> None:
    """Show the choice in words, and the candidates with their figures."""
    Console(highlight=False).print(advice.explain(), soft_wrap=not on_terminal())
    typer.echo()
    header = list(advice.header)
    print_table(header, advice.figures(most), right=header[1:])
