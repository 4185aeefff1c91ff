"""``mayfly archive``: create, feed, ask and look after archives from the command line.

Only ``update``, and ``create`` with files, start Spark.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import mayfly.archive
from mayfly.archive import ReadReport
from mayfly.archive.advice.published_cases import PUBLISHED_CASES, PublishedCase, published_case
from mayfly.archive.advice.wave_advisor import Need, advise
from mayfly.archive.layouts import plan_table
from mayfly.archive.read.key_text import end_from_text, instant_from_text, key_from_text
from mayfly.cli import archive_cases as cases
from mayfly.cli import archive_lifetimes as lifetimes
from mayfly.cli import archive_updates as feeding
from mayfly.cli import archive_views as views
from mayfly.cli.options import refuse_given
from mayfly.cli.output import count, print_json, refusals
from mayfly.cli.row_output import Form, print_rows
from mayfly.display import counted, size
from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros, micros

app = typer.Typer(
    name="archive",
    no_args_is_help=True,
    help="Archives: the last W intervals of rows, by key, on disk.",
    pretty_exceptions_enable=False,
)

ArchivePath = Annotated[Path, typer.Argument(help="The archive's directory.", metavar="ARCHIVE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="The instant to show (ISO or µs); by default the last update."),
]
Between = Annotated[
    tuple[str, str] | None,
    typer.Option("--between", help="Only rows generated from A to B; - leaves an end open.",
                 metavar="A B"),
]  # fmt: skip
Columns = Annotated[
    str | None, typer.Option("--columns", help="Only these columns, apart by commas.")
]
Window = Annotated[
    str | None,
    typer.Option(
        "--window", help='As if rows lived shorter: "2 hours", "100 rows", or COLUMN=SIZE,…'
    ),
]
Soft = Annotated[bool, typer.Option("--soft", help="Also expired rows that are still stored.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=0, help="At most so many rows; 0 for all. Tables: 20."),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")]
Report = Annotated[bool, typer.Option("--report", help="Say which files and bytes were read.")]

app.command(
    epilog="Examples: mayfly archive create sales --key customer --window '90 days' sales-*.parquet"
    "\n\nmayfly archive create log --columns 'host STRING, ts TIMESTAMP' --key host "
    "--window 48 --refresh '1 hour'"
)(feeding.create)
app.command(
    epilog="Examples: mayfly archive update sales sales-2026-03-01.csv"
    "\n\nmayfly archive update sales --empty --at 2026-03-02"
)(feeding.update)
app.command(
    epilog="Examples: mayfly archive migrate sessions --layout 'Rebuild 3x3'"
    "\n\nmayfly archive migrate sessions --max-lifetime '180 days' --side-by-side"
    "\n\nmayfly archive migrate sales --window '30 days'"
)(lifetimes.migrate)
app.command(epilog="Example: mayfly archive invalidate sessions c-17 c-18")(lifetimes.invalidate)


@app.command(
    epilog="Example: mayfly archive probe sales c-17 c-18 --as-of 2026-03-01 --csv\n\n"
    "Several key columns: mayfly archive probe sales '[\"c-17\", 3]'"
)
def probe(
    path: ArchivePath,
    keys: Annotated[
        list[str] | None,
        typer.Argument(help="Keys; one of several columns as a JSON list.", metavar="KEY"),
    ] = None,
    low: Annotated[str | None, typer.Option("--from", help="Keys from here on.")] = None,
    high: Annotated[str | None, typer.Option("--to", help="Keys up to here, included.")] = None,
    as_of: AsOf = None,
    between: Between = None,
    window: Window = None,
    columns: Columns = None,
    soft: Soft = False,
    limit: Limit = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    csv: Csv = False,
    report: Report = False,
) -> None:
    """Print the rows under some keys, or under a range of them."""
    with refusals():
        if bool(keys) == (low is not None or high is not None):
            raise InvalidSetting("keys or a range are needed", "give KEY …, or --from and --to")
        archive, touched = mayfly.archive.open(path), ReadReport()
        asked = _asked(as_of, between, window, columns, soft, touched)
        if keys:
            typed = (key_from_text(archive.settings, key) for key in keys)
            rows = archive.probe(*typed, **asked)
        else:
            ends = (end_from_text(archive.settings, end) for end in (low, high))
            rows = archive.probe_range(*ends, **asked)
        print_rows(iter([rows]), Form(json, csv, limit, report), touched)


@app.command(epilog="Example: mayfly archive scan sales --between 2026-03-01 - --json | jq .price")
def scan(
    path: ArchivePath,
    as_of: AsOf = None,
    between: Between = None,
    window: Window = None,
    columns: Columns = None,
    soft: Soft = False,
    limit: Limit = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    csv: Csv = False,
    report: Report = False,
) -> None:
    """Print all rows, file by file: nothing has to fit memory."""
    with refusals():
        archive, touched = mayfly.archive.open(path), ReadReport()
        asked = _asked(as_of, between, window, columns, soft, touched)
        print_rows(archive.read.scan_tables(**asked), Form(json, csv, limit, report), touched)


@app.command(epilog="Example: mayfly archive status sales")
def status(path: ArchivePath, json: Json = False) -> None:
    """Show what the archive is and what its constituents hold: days, rows, bytes, dead rows."""
    with refusals():
        archive = mayfly.archive.open(path)
        figures = archive.inspect.status()
        predictions = archive.inspect.predictions()
        if json:
            print_json(
                {
                    **figures.to_json(),
                    "expected_seconds": predictions[-1].expected if predictions else None,
                }
            )
        else:
            views.show_status(figures, predictions[-1] if predictions else None)


@app.command(epilog="Example: mayfly archive history sales --json")
def history(path: ArchivePath, json: Json = False) -> None:
    """Show the last updates: rows in and out, bytes, what the cost model expected, and versions."""
    with refusals():
        archive = mayfly.archive.open(path)
        versions = [
            {
                "version": version.manifest.version,
                "update": version.state.update,
                "time": version.time,
                "written_at": version.manifest.written_at,
            }
            for version in archive.inspect.history()
        ]
        if json:
            print_json({"updates": views.history_values(archive), "versions": versions})
            return
        views.show_history(archive.inspect.reports(), archive.inspect.predictions())
        kept = ", ".join(
            f"{version['version']} (update {version['update']})" for version in versions
        )
        typer.echo(f"\nversions that can be read and rolled back to: {kept}")


@app.command(epilog="Example: mayfly archive verify sales || echo restore it from a copy")
def verify(path: ArchivePath, json: Json = False) -> None:
    """Look into every file: checksums, counts, order, lifetimes. Ends with 1 if not all is well."""
    with refusals():
        report = mayfly.archive.open(path).maintain.verify()
        if json:
            print_json({**asdict(report), "ok": report.ok})
        else:
            views.show_verdict(report)
    if not report.ok:
        raise typer.Exit(1)


@app.command(epilog='Example: mayfly archive vacuum sales --keep-versions 5 --grace "10 min"')
def vacuum(
    path: ArchivePath,
    keep_versions: Annotated[
        int | None, typer.Option("--keep-versions", min=1, help="Versions to keep.")
    ] = None,
    grace: Annotated[
        str, typer.Option("--grace", help="Leave files alone that are younger than this.")
    ] = "1 hour",
    json: Json = False,
) -> None:
    """Remove versions beyond those to be kept, and files that no version needs."""
    with refusals():
        done = mayfly.archive.open(path).maintain.vacuum(keep_versions=keep_versions, grace=grace)
        if json:
            print_json(asdict(done))
            return
        typer.echo(
            f"removed {counted(done.versions_removed, 'version')} and {count(done.files_removed)} "
            f"files, {size(done.bytes_removed)}"
            + (f"; {count(done.files_too_young)} left, younger than {format_micros(micros(grace))}"
               if done.files_too_young else "")
        )  # fmt: skip


@app.command(epilog="Example: mayfly archive rollback sales 41")
def rollback(
    path: ArchivePath,
    version: Annotated[
        int,
        typer.Argument(min=0, help="A kept version; `mayfly archive history` lists them."),
    ],
    json: Json = False,
) -> None:
    """Make a kept version the current one again, as a new version.

    What came since stays readable until it is vacuumed. What streams brought does not come again.
    """
    with refusals():
        archive = mayfly.archive.open(path)
        archive.maintain.rollback(version)
        after = archive.version()
        done = {
            "rolled_back_to": version,
            "version": after.manifest.version,
            "update": after.state.update,
            "rows": after.manifest.rows,
        }
        if json:
            print_json(done)
            return
        typer.echo(
            f"version {after.manifest.version} is version {version} again: update "
            f"{after.state.update}, {counted(after.manifest.rows, 'row')} stored"
        )


@app.command(
    epilog="Example: mayfly archive plan sales --updates 7\n\n"
    "Without an archive: mayfly archive plan --scheme RATA --window 10 --constituents 4"
)
def plan(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="The archive's directory.", metavar="[ARCHIVE]")
    ] = None,
    updates: Annotated[int, typer.Option("--updates", min=1, help="How many updates.")] = 10,
    scheme: Annotated[str | None, typer.Option("--scheme", help="Plan this scheme.")] = None,
    window: Annotated[int, typer.Option("--window", min=1, help="Updates it keeps.")] = 10,
    constituents: Annotated[int, typer.Option("--constituents", min=1, help="How many.")] = 2,
    spread: Annotated[
        bool, typer.Option("--spread", help="RATA, REINDEX++: prepare day by day.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the coming transitions as a table; what follows - - - is prepared for later days."""
    with refusals():
        if (path is None) == (scheme is None):
            raise InvalidSetting("an archive or a scheme is needed", "give ARCHIVE or --scheme")
        if path is not None:
            of_schemes = ("window", "constituents", "spread")
            refuse_given(context, of_schemes, "goes with --scheme", "leave it out")
            lines: list[str] = mayfly.archive.open(path).inspect.plan(updates)
        else:
            assert scheme is not None
            days = range(window, window + updates)
            lines = plan_table(scheme, window, constituents, days, spread)
        if json:
            print_json({"lines": lines})
        else:
            for line in lines:
                typer.echo(line)


@app.command(
    "advise",
    epilog="Example: mayfly archive advise sales --probes 5000 --scans 2\n\n"
    "A published case, with its figures: mayfly archive advise --case tpcd --soft",
)
def advise_command(
    context: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(help="The archive's directory.", metavar="[ARCHIVE]")
    ] = None,
    probes: Annotated[float, typer.Option("--probes", min=0, help="Probes per update.")] = 0,
    scans: Annotated[float, typer.Option("--scans", min=0, help="Scans per update.")] = 0,
    megabytes: Annotated[
        float | None, typer.Option("--megabytes", min=0, help="Per update, if not as measured.")
    ] = None,
    soft: Annotated[bool, typer.Option("--soft", help="Expired rows may linger on disk.")] = False,
    case: Annotated[
        str | None,
        typer.Option(
            "--case",
            help=f"One of {', '.join(study.parameters.name for study in PUBLISHED_CASES)}.",
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option("--window", min=1, help="Days, for a case; else its own.")
    ] = None,
    json: Json = False,
) -> None:
    """Say which layout would do the least work, by the archive's own measured constants."""
    with refusals():
        if (path is None) == (case is None):
            raise InvalidSetting("an archive or a case is needed", "give ARCHIVE or --case")
        if path is not None:
            archive = mayfly.archive.open(path)
            refuse_given(context, ("window",), "goes with --case", "leave it out")
            need = archive.settings.family.need(soft=soft)
            advice: Any = archive.advise(probes=probes, scans=scans, megabytes=megabytes, need=need)
        else:
            refuse_given(
                context,
                ("probes", "scans", "megabytes"),
                "is for archives: a published case has its own load",
                "leave it out",
            )
            assert case is not None
            _advise_case(published_case(case), window, soft, json)
            return
        if json:
            print_json(advice.to_json())
        else:
            views.show_advice(advice)


def _advise_case(case: PublishedCase, window: int | None, soft: bool, json: bool) -> None:
    days = case.window if window is None else window
    advice = advise(case.parameters, Need(days, hard=not soft, techniques=case.techniques))
    if json:
        print_json({**advice.to_json(), **cases.case_values(case, days)})
    else:
        views.show_advice(advice)
        cases.show_case(case, days)


def _asked(
    as_of: str | None,
    between: tuple[str, str] | None,
    window: str | None,
    columns: str | None,
    soft: bool,
    report: ReadReport,
) -> dict[str, Any]:
    """What a read is given, from the texts of its options."""
    return {
        "as_of": None if as_of is None else instant_from_text(as_of),
        "generated_between": between
        and tuple(None if end == "-" else instant_from_text(end) for end in between),
        "window": _window(window),
        "columns": None if columns is None else [name.strip() for name in columns.split(",")],
        "soft": soft,
        "report": report,
    }


def _window(text: str | None) -> str | dict[str, str] | None:
    if text is None or "=" not in text:
        return text
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): size.strip() for name, _, size in pairs}
