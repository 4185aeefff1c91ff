"""The sources that statements name: what is checked without Spark.

``mayfly check`` and a start look at them here, so that what the one passes the other accepts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from mayfly.errors import InvalidSetting
from mayfly.pipeline.sink_checks import check_dead_letters
from mayfly.pipeline.source_options import FILES, PAYLOAD, check_options
from mayfly.plan.catalog import (
    ColumnDefinition,
    Connector,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.types import STRING

_OF_KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
GIVEN = {"rate": ("timestamp", "value"), "socket": ("value",), "kafka": _OF_KAFKA}
"""Sources whose columns Spark gives, and which."""
ASKED_FOR = {"includeTimestamp": "timestamp", "includeHeaders": "headers"}
"""Options of theirs that add a column."""
PYTHON = "python"
_CORRUPT = "columnnameofcorruptrecord"


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
    check_source(definition)
    if source.format in GIVEN:
        _check_columns(definition, source)
    elif source.format == PYTHON:
        python_file(f"the stream {definition.name}", str(source.path), python)
    else:
        _check_files(f"stream {definition.name}", source, definition.supplied_columns, folder)
    return source


def check_source(definition: StreamDefinition | RelationDefinition) -> None:
    """Refuse a source that could not be read, wherever its files may be."""
    owner, streaming = f"{definition.kind} {definition.name}", definition.kind == "stream"
    if isinstance(definition, StreamDefinition):
        check_dead_letters(definition)
    if definition.source is not None:
        formats = (*FILES, *GIVEN, PYTHON) if streaming else FILES
        _check_format(owner, definition.source, formats)
        check_options(owner, definition.source, streaming=streaming)
        if definition.source.format == PYTHON:
            _module_and_class(owner, str(definition.source.path))


def check_relation(definition: RelationDefinition, folder: Path) -> None:
    """Refuse a relation whose first rows could not be read."""
    check_source(definition)
    if definition.source is not None:
        owner = f"{definition.kind} {definition.name}"
        _check_files(owner, definition.source, definition.columns, folder)


def _check_files(
    owner: str, source: Connector, columns: tuple[ColumnDefinition, ...], folder: Path
) -> None:
    """Refuse files that are not there, and columns that files of this format cannot have."""
    if not source.path:
        raise InvalidSetting(
            f"the source of {owner} does not say where the files are",
            f"write {source.format}('folder')",
        )
    partitions: set[str] = set()
    if "://" not in source.path:
        path = folder / source.path
        if not path.exists():
            raise InvalidSetting(
                f"there is no folder {path} to read from", "create it, or fix the path"
            )
        partitions = _partitions(path)
        _check_base(owner, source, path)
    own = [column for column in columns if column.name.casefold() not in partitions]
    if source.format == "text" and [column.type for column in own] != [STRING]:
        listed = ", ".join(f"{column.name} {column.type}" for column in own)
        raise InvalidSetting(
            f"{owner} has the columns {listed}, but a text file gives one, the line",
            "declare one STRING, such as value STRING, and compute the others from it: "
            "name AS (expression)",
        )
    corrupt = {value.casefold() for n, value in source.options if n.casefold() == _CORRUPT}
    for column in own:
        if column.name.casefold() in corrupt and column.type != STRING:
            raise InvalidSetting(
                f"the column {column.name} of {owner} is for records that cannot be read, "
                f"and has type {column.type}",
                "declare it as STRING",
            )
    nested = [column for column in own if column.type.is_nested]
    if source.format == "csv" and nested:
        raise InvalidSetting(
            f"the column {nested[0].name} of {owner} has type {nested[0].type}, "
            "which CSV files cannot hold",
            "declare it as STRING, or read JSON or Parquet files",
        )


def _check_base(owner: str, source: Connector, path: Path) -> None:
    """Refuse a folder above the files that is not above them."""
    base = {name.casefold(): value for name, value in source.options}.get("basepath", "://")
    if "://" not in base and not path.resolve().is_relative_to(Path(base).resolve()):
        raise InvalidSetting(
            f"the option basePath of the source of {owner} is {base!r}, which is not above {path}",
            "name a folder above the files, or leave it out",
        )


def _partitions(folder: Path) -> set[str]:
    """Columns that the names of sub-folders give, as in ``day=3/town=Kiel``."""
    names: set[str] = set()
    while (below := next((path for path in folder.glob("*=*") if path.is_dir()), None)) is not None:
        names.add(below.name.partition("=")[0].casefold())
        folder = below
    return names


def python_file(owner: str, origin: str, folder: Path | None) -> tuple[Path, str]:
    """The file and the class of what is written in Python, ``python('module:Class')``: the source
    of a stream, or an aggregate.

    The author of the name may be able to write to the checkpoint only, so the file must lie in the
    one folder that the user who started the pipeline trusts.
    """
    if folder is None:
        raise InvalidSetting(
            f"{owner} is written in Python, {origin}, which would run Python code",
            "if you trust the pipeline's folder, start with --allow-python "
            "(from Python Session(allow_python=folder))",
        )
    module, name = _module_and_class(owner, origin)
    trusted = folder.resolve()
    file = (trusted / f"{module}.py").resolve()
    if file.parent != trusted:
        raise InvalidSetting(
            f"{module}.py of {owner} leads out of the folder {trusted}",
            "put the file itself into the pipeline's folder",
        )
    if not file.is_file():
        raise InvalidSetting(
            f"there is no {origin} for {owner}: {trusted} has no file {module}.py",
            "write python('module:Class'), of a file beside the pipeline; it may import the class "
            "from an installed module",
        )
    _check_class(owner, file, name)
    return file, name


def _module_and_class(owner: str, origin: str) -> tuple[str, str]:
    module, _, name = origin.partition(":")
    if not (module.isidentifier() and name.isidentifier()):
        raise InvalidSetting(
            f"{origin} of {owner} is not a class of a file beside the pipeline",
            "write python('module:Class'), where the pipeline's folder has a file module.py",
        )
    return module, name


def _check_class(owner: str, file: Path, name: str) -> None:
    """Refuse a file that defines no such name, without running it."""
    try:
        module = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        raise InvalidSetting(
            f"{file} of {owner} is not Python: {error}", "repair the file"
        ) from None
    names = set(_names_defined(module.body))
    if name not in names and not names & {"*", "__getattr__"}:
        raise InvalidSetting(
            f"there is no class {name} in {file} of {owner}",
            f"define a class {name} there, or import it there",
        )


def _names_defined(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements of a module give to something, in branches too."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from _names_defined(ast.iter_child_nodes(node))


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


def _check_columns(definition: StreamDefinition, source: Connector) -> None:
    """Refuse columns that a source does not give."""
    payload = dict(source.options).get(PAYLOAD)
    if payload not in (None, "json"):
        raise InvalidSetting(
            f"the payload of stream {definition.name} is {payload!r}", "write payload => 'json'"
        )
    columns = given_columns(source)
    own = {name.casefold() for name in columns}
    others = [column for column in definition.supplied_columns if column.name.casefold() not in own]
    if others and payload is None:
        way = f"; JSON in its value is read with {source.format}(…, payload => 'json')"
        raise InvalidSetting(
            f"the stream {definition.name} has a column {others[0].name}, which {source.format} "
            "does not give",
            f"its columns are: {', '.join(columns)}" + (way if source.format != "rate" else ""),
        )
