"""Keys, instants and windows written as text: on the command line, in options of a data source."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from mayfly.archive.model.settings import ArchiveSettings
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant


def value_from_text(settings: ArchiveSettings, name: str, text: str) -> Any:
    """A value of the key column, in its type."""
    kind = settings.stored.field(name).type
    try:
        if pa.types.is_timestamp(kind):
            return pa.scalar(instant_from_text(text), pa.int64()).cast(kind).as_py()
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError) as error:
        declared = settings.key_types[settings.sort_columns.index(name)]
        raise InvalidSetting(f"{text!r} is not a {declared}", f"give a value of {name}") from error


def end_from_text(settings: ArchiveSettings, text: str | None) -> Any:
    """An end of a range of keys: a value of the first key column; None leaves it open."""
    return None if text is None else value_from_text(settings, settings.sort_columns[0], text)


def key_from_text(settings: ArchiveSettings, text: str) -> Any:
    """One key; one of several columns as a JSON list."""
    names = settings.sort_columns
    if len(names) == 1:
        return value_from_text(settings, names[0], text)
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list) or len(values) != len(names):
        raise InvalidSetting(
            f"the key {text!r} is not a JSON list of {counted(len(names), 'value')}",
            f"""write {", ".join(settings.key)} like '["c-17", 3]'""",
        )
    return key_from_values(settings, tuple(values))


def key_from_values(settings: ArchiveSettings, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One key from a value for each of its columns, or the text of one."""
    names = settings.sort_columns
    if len(values) != len(names):
        shown = ", ".join(map(str, values))
        raise InvalidSetting(
            f"the key {shown} has {counted(len(values), 'value')}, the archive's has {len(names)}",
            f"give {', '.join(settings.key)}",
        )
    return tuple(
        value_from_text(settings, name, value) if isinstance(value, str) else value
        for name, value in zip(names, values, strict=True)
    )


def instant_from_text(text: str) -> int:
    """An instant: microseconds since 1970, or a date and time as ISO writes it (UTC if bare)."""
    return int(text) if text.strip().lstrip("-").isdecimal() else instant(text)
