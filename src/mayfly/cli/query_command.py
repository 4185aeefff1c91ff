"""``mayfly query``: one-time SQL over what a pipeline keeps, running or stopped."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from mayfly.cli.options import Archives, archives_by_name
from mayfly.cli.output import count, refusals
from mayfly.cli.row_output import Form, print_rows
from mayfly.display import plain
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant_text
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.pipeline_places import open as open_place
from mayfly.serving.pipeline_reader import read_newest

Place = Annotated[
    Path, typer.Argument(help="The checkpoint of the pipeline, or its file.", metavar="PIPELINE")
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", help="The instant of the answer (default: the last closed one)."),
]


def query_command(
    pipeline: Place,
    sql: Annotated[
        str | None, typer.Argument(help="SELECT … FROM a view, a relation or an archive.")
    ] = None,
    as_of: AsOf = None,
    staleness: Annotated[
        str | None,
        typer.Option("--staleness", help="Refuse what is further behind the pipeline's clock."),
    ] = None,
    lag: Annotated[
        str | None, typer.Option("--lag", help="Refuse what is further behind the wall clock.")
    ] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", help="Wait so long for what would be refused: 10s.")
    ] = None,
    changes: Annotated[
        str | None, typer.Option("--changes", help="The log of this query, in place of SQL.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Changes of this instant and later.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Changes before this.")] = None,
    archive: Archives = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan instead of the answer.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object: as_of, partial, rows.")
    ] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Write a Parquet file.", metavar="FILE")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="Print so many rows at most, 0 for all (default: 20)."),
    ] = None,
) -> None:
    """Answer SQL over the views, relations and archives of a pipeline; starts no Spark.

    The answer is of one committed version, at the instant that is printed with it as `as_of`;
    reasons why rows may be missing are printed as `partial`. Nothing is written to the pipeline.
    """
    with refusals():
        _check_options(sql, changes, (since, until), (json, csv, parquet is not None))
        if limit is not None and limit < 0:
            raise InvalidSetting(f"--limit {limit}", "give a number of rows, 0 for all")
        if sql is None and (explain or any((as_of, staleness, lag, wait))):
            raise InvalidSetting(
                "--explain, --as-of, --staleness, --lag and --wait are for a query",
                "leave --changes out",
            )
        reader = open_place(pipeline, archives=archives_by_name(archive))
        form = Form(json, csv, limit)
        if explain:
            typer.echo(reader.explain(str(sql)).text())
        elif changes is not None:
            rows = read_newest(
                reader, lambda newest: newest.changes(changes, since=since, until=until)
            )
            print_table_rows(rows, form, parquet)
        else:
            answer = read_newest(
                reader,
                lambda newest: newest.query(
                    str(sql), as_of=as_of, staleness=staleness, lag=lag, wait=wait
                ),
            )
            print_answer(answer, form, parquet)


def print_answer(answer: QueryAnswer, form: Form, parquet: Path | None = None) -> None:
    """The rows, and with them the instant they are of and what may be missing."""
    if form.json:
        rows = answer.rows.slice(0, form.most).to_pylist()
        value = {**answer.to_json(), "rows": plain(rows)}
        typer.echo(json_text.dumps(value, ensure_ascii=False))
        return
    print_table_rows(answer.rows, form, parquet, answer.to_json())
    typer.echo(f"as of {instant_text(answer.as_of)} UTC", err=True)
    for reason in answer.partial:
        typer.echo(f"partial: {reason}", err=True)


def print_table_rows(
    rows: pa.Table,
    form: Form,
    parquet: Path | None = None,
    facts: Mapping[str, object] | None = None,
) -> None:
    """Rows in the form that was chosen; a Parquet file has the facts in its metadata."""
    if parquet is None:
        print_rows(iter([rows]), form)
        return
    import pyarrow.parquet as pq

    noted = {"mayfly": json_text.dumps(facts or {})}
    try:
        pq.write_table(rows.replace_schema_metadata(noted), parquet)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InvalidSetting(
            f"cannot write {parquet}: {why}", "give --parquet a file in a folder of yours"
        ) from None
    typer.echo(f"wrote {count(rows.num_rows)} rows to {parquet}", err=True)


def _check_options(
    sql: str | None,
    changes: str | None,
    bounds: Iterable[str | None],
    forms: Iterable[bool],
) -> None:
    if (sql is None) == (changes is None):
        raise InvalidSetting(
            "there is no query" if sql is None else "there are a query and --changes",
            'give one of them: mayfly query CHECKPOINT "SELECT … FROM view"',
        )
    word = "".join((sql or "").split()[:1]).upper()
    if word in ("SHOW", "EXPLAIN"):
        raise InvalidSetting(
            f"{word} is a statement of the shell", 'use mayfly sql PIPELINE -c "…;", or --explain'
        )
    if changes is None and any(bound is not None for bound in bounds):
        raise InvalidSetting("--since and --until are for --changes", "use --as-of for a query")
    if sum(forms) > 1:
        raise InvalidSetting("--json, --csv and --parquet are three forms", "choose one of them")
