"""Keys and instants written as text: on the command line and in options of a data source."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mayfly.archive.read.version_reader import Reader
from mayfly.errors import InvalidSetting
from mayfly.lifetime import instant


def key_from_text(reader: Reader, name: str, text: str) -> Any:
    """A value of the key column, in its type."""
    kind = reader.settings.stored.field(name).type
    try:
        if pa.types.is_timestamp(kind):
            return pa.scalar(instant_from_text(text), pa.int64()).cast(kind).as_py()
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowException, ValueError) as error:
        column_type = reader.settings.key_types[reader.settings.sort_columns.index(name)]
        raise InvalidSetting(
            f"{text!r} is not a {column_type}", f"give a value of {name}"
        ) from error


def keys_from_texts(reader: Reader, texts: tuple[str, ...]) -> tuple[Any, ...]:
    """One key from the texts of its columns."""
    names = reader.settings.sort_columns
    if len(texts) != len(names):
        raise InvalidSetting(
            f"the key {', '.join(texts)} has {len(texts)} values, the archive's has {len(names)}",
            f"give {', '.join(reader.settings.key)}",
        )
    return tuple(key_from_text(reader, n, text) for n, text in zip(names, texts, strict=True))


def instant_from_text(text: str) -> int:
    """An instant: microseconds since 1970, or a date and time as ISO writes it (UTC if bare)."""
    return int(text) if text.strip().lstrip("-").isdecimal() else instant(text)
