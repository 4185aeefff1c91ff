"""What filters of a query leave to be read: pruning only, never less than they let through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.read.selection import KeyRange, Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import MayflyError
from mayfly.lifetime import instant
from mayfly.spark.archive.read_options import ReadRequest

MOST_KEYS = 1_000


def narrowed(request: ReadRequest, reader: Reader, filters: Sequence[Filter]) -> ReadRequest:
    """What is left to read under these filters: never less than they let through."""
    settings = reader.settings
    chosen = _narrowed_times(request.selection, settings, filters)
    request = replace(request, selection=chosen)
    if request.keys is not None or request.key_range is not None or settings.array_key:
        return request
    values = [_values_of(reader, name, filters) for name in settings.sort_columns]
    if all(choices is not None for choices in values):
        keys = tuple(product(*(choices for choices in values if choices is not None)))
        if len(keys) <= MOST_KEYS:
            return replace(request, keys=keys)
    low, high = _ends(reader, filters)
    return (
        request if low is None and high is None else replace(request, key_range=KeyRange(low, high))
    )


def _narrowed_times(
    selection: Selection, settings: ArchiveSettings, filters: Sequence[Filter]
) -> Selection:
    low, high = selection.generated_from, selection.generated_to
    for condition in filters:
        if getattr(condition, "attribute", None) != (settings.time,) or isinstance(condition, In):
            continue
        value = getattr(condition, "value", None)
        if value is None:
            continue
        moment = instant(value)
        if isinstance(condition, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            low = moment if low is None else max(low, moment)
        if isinstance(condition, EqualTo | EqualNullSafe | LessThan | LessThanOrEqual):
            high = moment if high is None else min(high, moment)
    return replace(selection, generated_from=low, generated_to=high)


def _values_of(reader: Reader, name: str, filters: Sequence[Filter]) -> list[Any] | None:
    """The values that an equality or IN allows a key column; None if there is neither."""
    for condition in filters:
        if getattr(condition, "attribute", None) != (name,):
            continue
        values: Sequence[Any] = ()
        if isinstance(condition, EqualTo | EqualNullSafe):
            values = [condition.value]
        elif isinstance(condition, In):
            values = list(condition.value)
        usable = [_converted(reader, name, value) for value in values if value is not None]
        if usable and None not in usable:
            return usable
    return None


def _ends(reader: Reader, filters: Sequence[Filter]) -> tuple[Any, Any]:
    """The range that comparisons leave to the first key column; floats have no common order."""
    name = reader.settings.sort_columns[0]
    low = high = None
    if pa.types.is_floating(reader.settings.stored.field(name).type):
        return None, None
    for condition in filters:
        if getattr(condition, "attribute", None) != (name,) or isinstance(condition, In):
            continue
        value = _converted(reader, name, getattr(condition, "value", None))
        if value is None:
            continue
        if isinstance(condition, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            low = value if low is None else max(low, value)
        if isinstance(condition, EqualTo | EqualNullSafe | LessThan | LessThanOrEqual):
            high = value if high is None else min(high, value)
    return low, high


def _converted(reader: Reader, name: str, value: Any) -> Any:
    """The value in the key's type, None where it has none: then nothing is left out."""
    try:
        return None if value is None else reader.key_value(name, value)
    except MayflyError:
        return None
