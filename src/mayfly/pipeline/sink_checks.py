"""The sinks that statements name: what is checked without Spark.

``mayfly check`` and a start look at them here, so that what the one passes the other accepts.
"""

from __future__ import annotations

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import ArchiveDefinition, QueryDefinition, StreamDefinition
from mayfly.plan.logical_operators import Output


def check_sink(query: QueryDefinition) -> None:
    """Refuse a sink that a pipeline cannot write to."""
    sink = query.sink
    if sink is None:
        return
    if sink.options:
        raise InvalidSetting(
            f"the query {query.name} goes to {sink.format} with {sink.options[0][0]}, "
            "which has no effect",
            f"leave the options out: TO {sink.format}({sink.path or ''!r})",
        )
    if sink.format == "console" and sink.path is not None:
        raise InvalidSetting(
            f"the query {query.name} goes to console({sink.path!r}), which has no place of its own",
            "write TO console()",
        )
    if sink.format != "console" and not (sink.format == "parquet" and sink.path):
        raise InvalidSetting(
            f"the query {query.name} goes to {sink.format}, which pipelines cannot write",
            "use TO parquet('folder') or TO console(), or start it from Python with a callback",
        )


def check_dead_letters(definition: StreamDefinition | ArchiveDefinition) -> None:
    """Refuse dead letters that go elsewhere than to Parquet files."""
    letters = definition.dead_letters
    if letters is not None and (letters.format != "parquet" or letters.options):
        raise InvalidSetting(
            f"the dead letters of {definition.name} go to {letters.format}"
            + (" with options" if letters.options else ""),
            "write DEAD LETTERS TO parquet('folder')",
        )


def check_changes_of(name: str, plan: Output, written: object) -> None:
    """Refuse to write the changes of a query with SERVE: it has none."""
    if written and plan.serve is not None:
        raise InvalidSetting(
            f"{name} is answered by a server: there are no changes that a run could write",
            "name the folder in the pipeline file: TO parquet('folder') SERVE …, use mayfly serve "
            "--answers FOLDER or a ServedPipeline; or leave SERVE out",
        )
