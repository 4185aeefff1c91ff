"""``mayfly archive migrate`` and ``invalidate``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import mayfly.archive
from mayfly.archive.read.key_text import key_from_values
from mayfly.cli.archive_updates import ArchivePath, Json
from mayfly.cli.output import print_json, refusals
from mayfly.display import counted


def migrate(
    path: ArchivePath,
    layout: Annotated[
        str | None,
        typer.Option("--layout", help="auto, Rebuild4x4, NoRebuild3x3, lazy 4x4, R-ins16, …"),
    ] = None,
    span: Annotated[
        int | None, typer.Option("--span", help="Removing updates that share a run.")
    ] = None,
    fan_in: Annotated[
        int | None, typer.Option("--fan-in", help="Runs of one level that become one.")
    ] = None,
    max_lifetime: Annotated[
        str | None, typer.Option("--max-lifetime", help="The new longest lifetime.")
    ] = None,
    exp: Annotated[
        str | None,
        typer.Option(
            "--exp", help="An archive of a window gets lifetimes: a column or expression of when."
        ),
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option("--lifetime", help="The same by how long: a duration, column or expression."),
    ] = None,
    refresh: Annotated[str | None, typer.Option("--refresh", help="Time between updates.")] = None,
    contract: Annotated[
        str | None, typer.Option("--contract", help="HARD or SOFT(k); PHYSICAL WITHIN a duration.")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option("--scheme", help="Of an archive of a window: DEL, WATA, …")
    ] = None,
    constituents: Annotated[
        int | None, typer.Option("--constituents", help="Of an archive of a window: how many.")
    ] = None,
    technique: Annotated[
        str | None, typer.Option("--technique", help="Of an archive of a window: in-place, …")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="Of an archive of a window: '30 days', or updates."),
    ] = None,
    max_gap: Annotated[
        str | None,
        typer.Option("--max-gap", help='Rows further ahead of now are refused; or "none".'),
    ] = None,
    side_by_side: Annotated[
        bool, typer.Option("--side-by-side", help="Move nothing; the old indexes run empty.")
    ] = False,
    json: Json = False,
) -> None:
    """Change the layout, the longest lifetime or window, refresh, contract or the largest gap."""
    with refusals():
        report = mayfly.archive.open(path).migrate(
            layout=layout,
            span=span,
            fan_in=fan_in,
            max_lifetime=max_lifetime,
            exp=exp,
            lifetime=lifetime,
            refresh=refresh,
            contract=contract,
            scheme=scheme,
            constituents=constituents,
            technique=technique,
            window=window,
            max_gap=max_gap,
            method="side by side" if side_by_side else "rebuild",
        )
        if json:
            print_json(asdict(report))
            return
        left = f"; {report.left} former indexes run empty" if report.left else ""
        ended = f"; {counted(report.ended, 'row')} ended by it" if report.ended else ""
        typer.echo(
            f"{path} is now {report.layout}, {counted(report.rows, 'row')} alive{left}{ended}"
        )


def invalidate(
    path: ArchivePath,
    keys: Annotated[
        list[str], typer.Argument(help="Keys; the columns of one apart by commas.", metavar="KEY")
    ],
    json: Json = False,
) -> None:
    """Return what is stored under these keys no longer, before it expires."""
    with refusals():
        archive = mayfly.archive.open(path)
        settings = archive.settings
        several = len(settings.sort_columns) > 1
        texts = [tuple(key.split(",")) if several else (key,) for key in keys]
        report = archive.invalidate([key_from_values(settings, key) for key in texts])
        if json:
            print_json(asdict(report))
            return
        gone = "and gone" if report.erased else "and go when their sub-index is updated"
        typer.echo(f"{counted(report.rows, 'row')} no longer returned, {gone}")
