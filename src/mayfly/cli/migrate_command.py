"""``mayfly migrate``: the checkpoint of a pipeline moved to another number of buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mayfly.cli.options import AllowPython, Conf, spark_settings
from mayfly.cli.output import refusals
from mayfly.cli.run_command import File
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.pipeline.pipeline_file import PipelineFile
from mayfly.runtime.buckets import checked_buckets
from mayfly.storage import Repository


def migrate_command(
    file: File,
    buckets: Annotated[int, typer.Option("--buckets", help="Key buckets to go on with.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint", help="Where state and results are kept (default: FILE.state)."
        ),
    ] = None,
    conf: Conf = None,
    allow_python: AllowPython = False,
) -> None:
    """Move the checkpoint of a stopped pipeline to another number of buckets."""
    with refusals():
        checked_buckets(buckets)
        settings = spark_settings(conf)
        declared = PipelineFile.before_spark(file, settings, allow_python=allow_python)
        place = checkpoint or file.with_suffix(".state")
        if not Repository.exists(place):
            raise InvalidSetting(f"there is no checkpoint at {place}", "run the pipeline first")
        from mayfly.spark.api.pipelines import carry_out
        from mayfly.spark.api.queries import Queries
        from mayfly.spark.cluster.local_spark import local_spark

        console = Console(stderr=True, markup=False, emoji=False)
        with console.status("starting Spark"):
            pipeline = carry_out(local_spark(settings=settings), declared)
        session = pipeline.session
        named = {query.name: session.query_of(query) for query in pipeline.queries}
        with console.status("moving state"):
            Queries(session, named).migrate(place, buckets=buckets)
        console.print(f"{place} has {counted(buckets, 'bucket')}; mayfly run goes on from there")
