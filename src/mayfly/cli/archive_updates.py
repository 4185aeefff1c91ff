"""``mayfly archive create`` and ``update``: the commands that start Spark, and only for files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

import mayfly.archive
from mayfly.archive import Archive, UpdateReport, Workload
from mayfly.archive.advice.cell_advice import AUTO, laid_out_for
from mayfly.archive.advice.wave_advice import with_advised_layout
from mayfly.archive.layouts import UpdateTechnique, WaveScheme
from mayfly.archive.local_archives import declared_for
from mayfly.archive.model.declaration import Declaration, WindowRequest
from mayfly.archive.read.key_text import instant_from_text
from mayfly.archive.write.local_jobs import InProcess
from mayfly.cli.archive_files import columns_in, format_of, rows_of
from mayfly.cli.archive_views import show_update
from mayfly.cli.options import refuse_given
from mayfly.cli.output import print_json, refusals
from mayfly.cli.signals import stop_signals
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant_text
from mayfly.storage.store import local_root

if TYPE_CHECKING:
    from mayfly.spark.archive.archives import SparkArchive

ArchivePath = Annotated[Path, typer.Argument(help="The archive's directory.", metavar="ARCHIVE")]
Files = Annotated[
    list[Path] | None,
    typer.Argument(help="Parquet, CSV or JSON files, or directories of them.", metavar="FILE"),
]
Format = Annotated[
    str | None, typer.Option("--format", help="parquet, csv or json, if names do not tell.")
]
Header = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether CSV files begin with their columns.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def create(
    context: typer.Context,
    path: ArchivePath,
    files: Files = None,
    key: Annotated[
        str, typer.Option("--key", help="The search key; several columns apart by commas.")
    ] = "",
    window: Annotated[
        str, typer.Option("--window", help='What to keep: "90 days", or a number of updates.')
    ] = "",
    columns: Annotated[
        str | None, typer.Option("--columns", help="As DDL; Parquet files know theirs.")
    ] = None,
    time: Annotated[str, typer.Option("--time", help="The column of generation times.")] = "ts",
    refresh: Annotated[str, typer.Option("--refresh", help="Time between updates.")] = "1 day",
    origin: Annotated[
        str | None, typer.Option("--origin", help="From when to count; else the first row.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option("--zone", help="Calendar days of a time zone.")
    ] = None,
    scheme: Annotated[
        str,
        typer.Option("--scheme", help=f"{', '.join(WaveScheme)} or auto."),
    ] = "WATA",
    constituents: Annotated[
        int | None, typer.Option("--constituents", help="How many; by default about √W.")
    ] = None,
    technique: Annotated[
        str | None,
        typer.Option("--technique", help="in-place, simple shadow or packed shadow (default)."),
    ] = None,
    spread: Annotated[
        bool,
        typer.Option("--spread", help="RATA, REINDEX++: prepare later days day by day."),
    ] = False,
    late: Annotated[
        str | None, typer.Option("--late", help="Late rows: refuse, own day or this update.")
    ] = None,
    max_lifetime: Annotated[
        str | None,
        typer.Option("--max-lifetime", help="In place of a window: rows live up to this long."),
    ] = None,
    exp: Annotated[
        str | None, typer.Option("--exp", help="The column of expiration times (exp), or SQL.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option("--lifetime", help="A column of lifetimes, a duration, or SQL.")
    ] = None,
    counts: Annotated[
        list[str] | None,
        typer.Option(
            "--counts",
            help="Rows live in a window of a number of rows, by their positions in a column.",
            metavar="COLUMN=ROWS",
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="auto, Rebuild4x4, NoRebuild3x3, lazy 4x4, R-ins16, …"),
    ] = None,
    contract: Annotated[
        str, typer.Option("--contract", help="HARD or SOFT(k); PHYSICAL WITHIN a duration.")
    ] = "HARD",
    parts: Annotated[
        int | None, typer.Option("--parts", help="Files per run; by default the cores.")
    ] = None,
    keep_versions: Annotated[
        int, typer.Option("--keep-versions", help="For reads as of earlier updates.")
    ] = 2,
    max_gap: Annotated[
        str | None,
        typer.Option("--max-gap", help='Rows further ahead of now are refused (1 day), or "none".'),
    ] = None,
    megabytes: Annotated[
        float | None, typer.Option("--megabytes", help="auto: stored megabytes per update.")
    ] = None,
    probes: Annotated[float, typer.Option("--probes", help="auto: probes per update.")] = 0,
    scans: Annotated[float, typer.Option("--scans", help="auto: scans per update.")] = 0,
    soft: Annotated[
        bool, typer.Option("--soft", help="auto: expired rows may linger on disk.")
    ] = False,
    format: Format = None,
    header: Header = True,
    json: Json = False,
) -> None:
    """Create an archive, and load files into it if some are given."""
    with refusals():
        if not key or not (window or max_lifetime):
            raise InvalidSetting(
                "a key and a window are needed",
                'give --key and --window "90 days", or --max-lifetime where rows have their own',
            )
        if counts and not max_lifetime:
            raise InvalidSetting(
                "windows of a number of rows need --max-lifetime",
                "say how long a row is expected to stay in them at most",
            )
        _refuse_ignored(
            context, bool(max_lifetime), AUTO in ((layout or "").lower(), scheme.lower())
        )
        paths = files or []
        kind = format_of(paths, format) if paths else None
        names = columns or _columns_of(paths, kind)
        counted: dict[str, Any] = {
            "key": [name.strip() for name in key.split(",")],
            "time": time, "refresh": refresh, "origin": origin, "zone": zone,
            "parts": os.cpu_count() or 1 if parts is None else parts,
            "keep_versions": keep_versions, "max_gap": max_gap,
        }  # fmt: skip
        if max_lifetime:
            counted |= {
                "max_lifetime": max_lifetime, "exp": exp, "lifetime": lifetime, "layout": layout,
                "counts": _counts(counts or []),
                "contract": contract, "late": late or "this update",
                "expect": Workload(megabytes, probes, scans),
            }  # fmt: skip
            owned, advice = declared_for(path, names, counted)
            if advice is not None and not json:
                typer.echo(advice.explain())
            _create(path, owned, paths, kind, header, json, laid_out_for(advice))
            return
        request = WindowRequest(
            names,
            **counted,
            window=window,
            scheme="WATA" if scheme.lower() == "auto" else scheme,
            constituents=None if scheme.lower() == "auto" else constituents,
            technique=technique or UpdateTechnique.PACKED_SHADOW,
            spread=spread,
            late=late or "refuse",
        )
        declared = request.declaration()
        if scheme.lower() == "auto":
            load = Workload(megabytes, probes, scans)
            declared = _advised(declared, path, load, technique, not soft, quiet=json)
        _create(path, declared, paths, kind, header, json)


def _refuse_ignored(context: typer.Context, own_lifetimes: bool, auto: bool) -> None:
    """Options that would say nothing about this archive."""
    if own_lifetimes:
        refuse_given(
            context,
            ("window", "scheme", "constituents", "technique", "spread", "soft"),
            "is for archives of a window, and rows of this one live up to --max-lifetime",
            "leave it out; layouts are chosen by --layout, promises made by --contract",
        )
    else:
        refuse_given(
            context,
            ("exp", "lifetime", "layout", "contract"),
            "is for rows with their own lifetimes, and those of this archive stay for its window",
            "give --max-lifetime in place of --window, or leave it out",
        )
    if not auto:
        instead = '--layout auto (layout="auto")' if own_lifetimes else "--scheme auto"
        refuse_given(
            context,
            ("megabytes", "probes", "scans", "soft"),
            "says what a layout is to be chosen for, but it is not to be chosen",
            f"give {instead}, or leave it out",
        )


def _counts(texts: Sequence[str]) -> dict[str, int] | None:
    """Windows of a number of rows: column → rows."""
    counts = {}
    for text in texts:
        name, _, rows = text.partition("=")
        if not name.strip() or not rows.strip().isdecimal():
            raise InvalidSetting(
                f"--counts {text!r} is not a window", "write its column and its rows: pos=1000"
            )
        counts[name.strip()] = int(rows)
    return counts or None


def _create(
    path: Path,
    declared: Declaration,
    files: Sequence[Path],
    kind: str | None,
    header: bool,
    json: bool,
    remembered: Mapping[str, Any] | None = None,
) -> None:
    archive = Archive.create(
        path,
        declared.settings,
        InProcess(),
        origin_is_open=declared.origin_is_open,
        properties=remembered,
    )
    reports = _load(path, files, kind, header, quiet=json) if kind else []
    _tell_created(archive, reports, json)


def update(
    path: ArchivePath,
    files: Files = None,
    number: Annotated[
        int | None, typer.Option("--update", help="All rows belong to this update.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="All rows belong to the update of this instant.")
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="An update without rows; expired ones go.")
    ] = False,
    max_gap: Annotated[
        str | None,
        typer.Option("--max-gap", help="Rows further ahead of now are refused, or none."),
    ] = None,
    format: Format = None,
    header: Header = True,
    json: Json = False,
) -> None:
    """Bring rows in: one update for each interval they belong to, in order.

    With --update or --at all rows belong to one update, and rows of earlier ones are late.
    """
    with refusals():
        if bool(files) == empty:
            raise InvalidSetting("files are needed", "give FILE …, or --empty for none")
        paths = files or []
        kind = format_of(paths, format) if paths else None
        if number is not None or at is not None or kind is None:
            if max_gap is not None:
                raise InvalidSetting(
                    "--max-gap says nothing about an update that is named, or without rows",
                    "leave it out: what --update or --at name is taken as it is",
                )
            moment = None if at is None else instant_from_text(at)
            reports = [_update(path, paths, kind, header, number, moment)]
            _tell_updates(path, reports, json)
        else:
            reports = _load(path, paths, kind, header, quiet=json, max_gap=max_gap)
            if json:
                _tell_updates(path, reports, json)


def _columns_of(files: Sequence[Path], kind: str | None) -> dict[str, str]:
    if kind is None:
        raise InvalidSetting("columns are needed", 'give --columns "k STRING, ts TIMESTAMP, …"')
    return columns_in(files, kind)


def _advised(
    declared: Declaration,
    path: Path,
    load: Workload,
    technique: str | None,
    hard: bool,
    quiet: bool,
) -> Declaration:
    allowed = (UpdateTechnique(technique),) if technique else tuple(UpdateTechnique)
    chosen, advice = with_advised_layout(
        declared, local_root(path), load, hard=hard, techniques=allowed
    )
    if not quiet:
        typer.echo(advice.explain())
    return chosen


def _opened_on_spark(path: Path) -> SparkArchive:
    console = Console(stderr=True)
    waiting = console.status("starting Spark …") if console.is_terminal else nullcontext()
    mayfly.archive.open(path)  # a wrong path is reported before Spark starts
    with waiting:
        from mayfly.spark.api.session import Session

        return Session().open_archive(path)


def _load(
    path: Path,
    files: Sequence[Path],
    kind: str,
    header: bool,
    quiet: bool,
    max_gap: str | None = None,
) -> list[UpdateReport]:
    archive = _opened_on_spark(path)
    rows = rows_of(archive.spark, files, kind, archive.settings, header)

    with stop_signals("update") as asked:

        def tell(report: UpdateReport) -> None:
            if not quiet:
                show_update(report, archive.inspect.predictions()[-1].expected)
            if asked.is_set():
                end = instant_text(archive.settings.calendar.time_of(report.update))
                typer.echo(
                    f"stopped after update {report.update}: rows later than {end}, if there are "
                    "any, are not in the archive yet; bring those again",
                    err=True,
                )
                raise typer.Exit(asked.exit_code)

        return archive.load(rows, done=tell, max_gap=max_gap)


def _update(
    path: Path,
    files: Sequence[Path],
    kind: str | None,
    header: bool,
    number: int | None,
    at: int | None,
) -> UpdateReport:
    if kind is None:
        return mayfly.archive.open(path).update(None, update=number, at=at)
    archive = _opened_on_spark(path)
    rows = rows_of(archive.spark, files, kind, archive.settings, header)
    return archive.update(rows, update=number, at=at)


def _tell_updates(path: Path, reports: Sequence[UpdateReport], json: bool) -> None:
    expectations = _expected(mayfly.archive.open(path))
    if json:
        print_json([_values(update_report, expectations) for update_report in reports])
        return
    for report in reports:
        show_update(report, expectations.get(report.update))


def _tell_created(archive: Archive, reports: Sequence[UpdateReport], json: bool) -> None:
    status = archive.inspect.status()
    if json:
        expectations = _expected(archive)
        updates = [_values(report, expectations) for report in reports]
        print_json({"archive": status.to_json(), "updates": updates})
        return
    typer.echo(
        f"created {status.path}: {status.scheme} over {status.window} updates in "
        f"{archive.settings.layout.constituents} constituents, {status.technique}"
    )
    if not reports:
        typer.echo(f"next: mayfly archive update {status.path} FILE …")


def _expected(archive: Archive) -> dict[int, float | None]:
    """The seconds that the cost model expected of each update."""
    return {prediction.update: prediction.expected for prediction in archive.inspect.predictions()}


def _values(report: UpdateReport, expected: Mapping[int, float | None]) -> dict[str, Any]:
    return {**vars(report), "expected_seconds": expected.get(report.update)}
