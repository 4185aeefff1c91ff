"""``mayfly serve``: what a pipeline answers, over HTTP."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mayfly.cli.options import Archives, archives_by_name
from mayfly.cli.output import refusals
from mayfly.cli.signals import Ended
from mayfly.errors import InvalidSetting

if TYPE_CHECKING:
    from mayfly.plan.catalog import QueryDefinition
    from mayfly.serving.periodic.answer_sinks import AnswerSink

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
    schedule: Annotated[
        str, typer.Option("--schedule", help="How served queries run together.")
    ] = "late-pending",
    isolation: Annotated[
        str, typer.Option("--isolation", help="How ISOLATION LATEST is kept: ttu, lws, serial.")
    ] = "ttu",
    early: Annotated[
        str, typer.Option("--early", help="What runs while nothing is due: none, grid, idle.")
    ] = "grid",
    pace: Annotated[
        bool, typer.Option("--pace", help="Answer what is due between two panes of a commit.")
    ] = False,
    served_memory: Annotated[
        int, typer.Option("--served-memory", help="MB that panes of served queries may take.")
    ] = 1024,
    answers: Annotated[
        Path | None,
        typer.Option("--answers", help="A folder for Parquet files of all served answers."),
    ] = None,
    sinks_of: Annotated[
        Path | None,
        typer.Option("--sinks-of", help="The pipeline file of a checkpoint: where answers go."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print served answers.")] = False,
    beside: Annotated[
        bool,
        typer.Option("--beside", help="End with standard input.", hidden=True),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="End when the options are checked.", hidden=True)
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Print a line for every request.")] = False,
) -> None:
    """Answer over HTTP what a pipeline has: SQL, views, changes, status; starts no Spark.

    Queries with SERVE are answered by deadline from panes in memory, to /served/NAME, and to where
    the pipeline file sends them. Nothing of the pipeline can be written. JSON or Arrow, as the
    client accepts; / lists the paths, /openapi.json describes them. Ctrl-C or SIGTERM ends.
    """
    from mayfly.serving.http.access import access_for
    from mayfly.serving.http.server import PipelineServer
    from mayfly.serving.http.server_limits import ServerLimits
    from mayfly.serving.periodic.server_options import checked_choices

    with refusals():
        checked_choices(schedule, isolation, early)
        limits = ServerLimits(
            seconds=max_seconds, rows=max_rows, memory=max_memory * MEGABYTE, workers=workers
        )
        access = access_for(host, _token(token, token_file), allow_host or ())
        archives = {n: str(path) for n, path in archives_by_name(archive).items()}
        sinks = served_sinks(sinks_of or pipeline, answers, show=show)
        server = PipelineServer(
            str(pipeline),
            host,
            port,
            access,
            limits,
            archives,
            schedule,
            isolation,
            early,
            pace,
            sinks,
            served_memory * MEGABYTE,
        )
        if check:
            return
        try:
            if not _await_checkpoint(pipeline):
                for line in differences(pipeline):
                    typer.echo(line)
            last = sys.stdin.buffer.read if beside else None
            server.run(typer.echo, _note if log else None, last)
        except (Ended, KeyboardInterrupt):
            typer.echo("stopped")


def served_sinks(
    pipeline: Path, answers: Path | None, *, show: bool
) -> dict[str, list[AnswerSink]]:
    """Where answers go: as the pipeline file says for its queries, and as asked for all."""
    from mayfly.serving.periodic.answer_sinks import AnswerFiles, AnswerFolders, AnswerLines

    sinks: dict[str, list[AnswerSink]] = {}
    for query in _served_queries(pipeline):
        if query.sink is not None and query.sink.format == "parquet":
            folder = pipeline.resolve().parent / str(query.sink.path)
            sinks[query.name] = [AnswerFiles(folder)]
        elif query.sink is not None:
            sinks[query.name] = [AnswerLines(typer.echo)]
    if answers is not None:
        sinks.setdefault("", []).append(AnswerFolders(answers))
    if show:
        sinks.setdefault("", []).append(AnswerLines(typer.echo))
    return sinks


def _served_queries(pipeline: Path) -> list[QueryDefinition]:
    """Those of a pipeline file; a checkpoint names none."""
    from mayfly.cql import Create, parse
    from mayfly.cql.script_files import text_of
    from mayfly.plan.catalog import QueryDefinition
    from mayfly.serving.pipeline_places import is_pipeline_file

    if not is_pipeline_file(pipeline):
        return []
    statements = parse(text_of(pipeline), name=str(pipeline))
    entries = [item.definition for item in statements if isinstance(item, Create)]
    queries = [entry for entry in entries if isinstance(entry, QueryDefinition)]
    return [query for query in queries if query.plan.serve is not None]


def differences(pipeline: Path) -> Iterator[str]:
    """Where a pipeline file says something else than what runs, and is served."""
    from mayfly.serving.pipeline_places import checkpoint_of
    from mayfly.storage import Repository

    served = _served_queries(pipeline)
    if not served:
        return
    manifest = Repository.open(checkpoint_of(pipeline)).current()
    stored = manifest.properties.get("queries", {})
    for query in served:
        if query.name not in stored:
            yield f"{query.name} is not served: mayfly run {pipeline} takes it over from the file"
        elif not query.plan.names and stored[query.name]["text"].split() != query.text.split():
            yield f"{query.name} is served as it runs, and the file says something else now"


def _await_checkpoint(pipeline: Path) -> bool:
    """Wait for a pipeline that has not run yet, where its file has queries to serve; whether there
    was something to wait for."""
    from mayfly.serving.pipeline_places import checkpoint_of
    from mayfly.storage import Repository

    if not _served_queries(pipeline) or Repository.exists(checkpoint_of(pipeline)):
        return False
    typer.echo(f"waiting for the pipeline: mayfly run {pipeline}")
    while not Repository.exists(checkpoint_of(pipeline)):
        time.sleep(0.5)
    return True


def _note(line: str) -> None:
    typer.echo(line, err=True)


def _token(text: str | None, file: Path | None) -> str | None:
    if text is not None and file is not None:
        raise InvalidSetting("--token and --token-file are given", "give one of them")
    if file is not None:
        return file.read_text().strip()
    return text if text is not None else os.environ.get(TOKEN) or None
