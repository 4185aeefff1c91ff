"""The sources and sinks that statements name: what can be told about them without Spark.

``mayfly check`` and a start look at them here, so that what the one passes the other accepts.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from mayfly.errors import InvalidSetting
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Connector,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)

FILES = ("parquet", "json", "csv", "orc", "text", "avro", "delta")
_OF_KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
GIVEN = {"rate": ("timestamp", "value"), "socket": ("value",), "kafka": _OF_KAFKA}
"""Sources whose columns Spark gives, and which."""
ASKED_FOR = {"includeTimestamp": "timestamp", "includeHeaders": "headers"}
"""Options of theirs that add a column."""
PYTHON = "python"
PAYLOAD = "payload"
"""An option of sources whose columns Spark gives: what their column ``value`` holds."""

_OF_FILES = (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge",
    "maxCachedFiles", "discardCachedInputRatio", "cleanSource", "sourceArchiveDir",
    "pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter",
    "ignoreCorruptFiles", "ignoreMissingFiles", "mergeSchema", "basePath",
)  # fmt: skip
_OPTIONS = {
    **dict.fromkeys(FILES, _OF_FILES),
    "rate": ("rowsPerSecond", "rampUpTime", "numPartitions"),
    "socket": ("host", "port", "includeTimestamp", PAYLOAD),
    "kafka": (
        "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp",
        "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss",
        "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
        "maxRecordsPerPartition", "kafka.bootstrap.servers", "includeHeaders", "groupIdPrefix",
        PAYLOAD,
    ),
}  # fmt: skip
"""What streams are usually told; sources know more, and Spark passes over what nobody knows."""
_NEEDED = {"socket": ("host", "port"), "kafka": ("kafka.bootstrap.servers",)}
"""Options without which a source cannot be read."""


def check_letters(definition: StreamDefinition | ArchiveDefinition) -> None:
    """Refuse dead letters that go elsewhere than to Parquet files."""
    letters = definition.dead_letters
    if letters is not None and (letters.format != "parquet" or letters.options):
        raise InvalidSetting(
            f"the dead letters of {definition.name} go to {letters.format}"
            + (" with options" if letters.options else ""),
            "write DEAD LETTERS TO parquet('folder')",
        )


def check_stream(definition: StreamDefinition, folder: Path, python: Path | None) -> Connector:
    """The source of a stream, refused if it could not be read; paths are relative to the folder.

    ``python`` is the folder that sources written in Python may come from, if any may.
    """
    source = definition.source
    if source is None:
        raise InvalidSetting(
            f"the stream {definition.name} has no source",
            "add FROM parquet('folder'), json, csv, rate, socket or kafka to its declaration",
        )
    check_letters(definition)
    _check_format(f"stream {definition.name}", source, (*FILES, *GIVEN, PYTHON))
    _check_options(definition.name, source)
    if source.format in GIVEN:
        _check_columns(definition, source)
    elif source.format == PYTHON:
        python_file(definition.name, source, python)
    check_files(source, folder)
    return source


def check_relation(definition: RelationDefinition, folder: Path) -> None:
    """Refuse a relation whose first rows could not be read."""
    if definition.source is not None:
        _check_format(definition.name, definition.source, FILES)
        check_files(definition.source, folder)


def check_files(source: Connector, folder: Path) -> None:
    """Refuse files that are not there."""
    if source.format in FILES and source.path is not None and "://" not in source.path:
        path = folder / source.path
        if not path.exists():
            raise InvalidSetting(
                f"there is no folder {path} to read from", "create it, or fix the path"
            )


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
    if sink.format != "console" and not (sink.format == "parquet" and sink.path):
        raise InvalidSetting(
            f"the query {query.name} goes to {sink.format}, which pipelines cannot write",
            "use TO parquet('folder') or TO console(), or start it from Python with a callback",
        )


def python_file(stream: str, source: Connector, folder: Path | None) -> tuple[Path, str]:
    """The file and the class of a data source written in Python, ``python('module:Class')``.

    Whoever names it may be able to write to the checkpoint only, so the file must lie in the one
    folder that whoever has started the pipeline trusts.
    """
    if folder is None:
        raise InvalidSetting(
            f"the stream {stream} reads from {source.path}, which would run Python code",
            "if you trust the pipeline's folder, start with --allow-python "
            "(from Python Session(allow_python=folder))",
        )
    module, _, name = str(source.path).partition(":")
    if not (module.isidentifier() and name.isidentifier()):
        raise InvalidSetting(
            f"{source.path} of stream {stream} is no class of a file beside the pipeline",
            "write python('module:Class'), where the pipeline's folder has a file module.py",
        )
    trusted = folder.resolve()
    file = (trusted / f"{module}.py").resolve()
    if file.parent != trusted:
        raise InvalidSetting(
            f"{module}.py of stream {stream} leads out of the folder {trusted}",
            "put the file itself into the pipeline's folder",
        )
    if not file.is_file():
        raise InvalidSetting(
            f"there is no data source {source.path}: {trusted} has no file {module}.py",
            "write python('module:Class'), of a file beside the pipeline; it may import the class "
            "from an installed module",
        )
    return file, name


def given_columns(source: Connector) -> tuple[str, ...]:
    """The columns that a source has of its own."""
    asked = {name for name, value in source.options if value.casefold() == "true"}
    added = [column for option, column in ASKED_FOR.items() if option in asked]
    return (*GIVEN[source.format], *added)


def _check_format(what: str, source: Connector, formats: Iterable[str]) -> None:
    if source.format not in formats:
        raise InvalidSetting(
            f"the source of {what} is {source.format}, which cannot be read",
            f"read FROM one of: {', '.join(formats)}",
        )


def _check_options(stream: str, source: Connector) -> None:
    """Refuse an option that is nearly one we know: Spark would pass over it without a word."""
    known = {name.casefold(): name for name in _OPTIONS.get(source.format, ())}
    given = {name.casefold() for name, _ in source.options}
    for name, _ in source.options:
        near = get_close_matches(name.casefold(), known, 1, cutoff=0.85)
        if near and name.casefold() not in known:
            raise InvalidSetting(
                f"the source {source.format} of stream {stream} has no option {name}",
                f"write {known[near[0]]}",
            )
    missing = [one for one in _NEEDED.get(source.format, ()) if one.casefold() not in given]
    if missing:
        raise InvalidSetting(
            f"the source {source.format} of stream {stream} cannot be read without {missing[0]}",
            f"write {source.format}({missing[0]} => '…', …)",
        )


def _check_columns(definition: StreamDefinition, source: Connector) -> None:
    """Refuse columns that a source does not give."""
    payload = dict(source.options).get(PAYLOAD)
    if payload not in (None, "json"):
        raise InvalidSetting(
            f"the payload of stream {definition.name} is {payload!r}", "write payload => 'json'"
        )
    given = given_columns(source)
    own = {name.casefold() for name in given}
    others = [one for one in definition.given if one.name.casefold() not in own]
    if others and payload is None:
        way = f"; JSON in its value is read with {source.format}(…, payload => 'json')"
        raise InvalidSetting(
            f"the stream {definition.name} has a column {others[0].name}, which {source.format} "
            "does not give",
            f"its columns are: {', '.join(given)}" + (way if source.format != "rate" else ""),
        )
