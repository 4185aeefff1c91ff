"""``mayfly serve``: what a pipeline answers, over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.options import Archives, archives_by_name
from mayfly.cli.output import refusals
from mayfly.cli.signals import Ended
from mayfly.errors import InvalidSetting

TOKEN = "MAYFLY_TOKEN"
MEGABYTE = 1 << 20


def serve_command(
    pipeline: Annotated[
        Path,
        typer.Argument(help="The checkpoint of the pipeline, or its file.", metavar="PIPELINE"),
    ],
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at; other than loopback: --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port, 0 for a free one.")] = 8321,
    token: Annotated[
        str | None,
        typer.Option("--token", help="What clients must send (ps shows it: prefer a file)."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help=f"A file with the token; or ${TOKEN}.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A host name clients may use; may be repeated."),
    ] = None,
    archive: Archives = None,
    max_seconds: Annotated[
        float, typer.Option("--max-seconds", help="In which an answer must be made.")
    ] = 30.0,
    max_rows: Annotated[int, typer.Option("--max-rows", help="Of one answer.")] = 100_000,
    max_memory: Annotated[
        int, typer.Option("--max-memory", help="MB that one answer may take.")
    ] = 1024,
    workers: Annotated[
        int, typer.Option("--workers", help="Requests that are worked on at once.")
    ] = 2,
    log: Annotated[bool, typer.Option("--log", help="Print a line for every request.")] = False,
) -> None:
    """Answer over HTTP what a pipeline has: SQL, views, changes, status; starts no Spark.

    Nothing can be written. JSON or Arrow, as the client accepts; / lists the paths, /openapi.json
    describes them. Ctrl-C or SIGTERM ends.
    """
    from mayfly.serving.http.access import access_for
    from mayfly.serving.http.server import PipelineServer
    from mayfly.serving.http.server_limits import ServerLimits

    with refusals():
        limits = ServerLimits(
            seconds=max_seconds, rows=max_rows, memory=max_memory * MEGABYTE, workers=workers
        )
        access = access_for(host, _token(token, token_file), allow_host or ())
        archives = {n: str(path) for n, path in archives_by_name(archive).items()}
        server = PipelineServer(str(pipeline), host, port, access, limits, archives)
        try:
            server.run(typer.echo, _note if log else None)
        except (Ended, KeyboardInterrupt):
            typer.echo("stopped")


def _note(line: str) -> None:
    typer.echo(line, err=True)


def _token(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise InvalidSetting("--token and --token-file are given", "give one of them")
    if file is not None:
        return file.read_text().strip()
    return text if text is not None else os.environ.get(TOKEN) or None
