"""Columns of an archive as people name them: without regard to case, as in the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from mayfly.errors import InvalidSetting

V = TypeVar("V")


def spelled(name: str, columns: Iterable[str]) -> str:
    """The name as it is declared; the name itself if there is no such column."""
    if name in columns:
        return name
    folded = name.casefold()
    return next((column for column in columns if column.casefold() == folded), name)


def column_named(name: object, columns: Iterable[str]) -> str:
    """The name as it is declared."""
    declared = list(columns)
    if isinstance(name, str) and (column := spelled(name, declared)) in declared:
        return column
    raise InvalidSetting(
        f"the archive has no column {name!r}", f"its columns are {', '.join(declared)}"
    )


def columns_named(names: Sequence[str] | None, columns: Iterable[str]) -> list[str] | None:
    """A choice of columns as they are declared; None is all of them."""
    if names is None:
        return None
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not names:
        raise InvalidSetting(f"columns is {names!r}", 'name them in a list, like ["price"]')
    declared = list(columns)
    return [column_named(name, declared) for name in names]


def by_column(entries: Mapping[str, V], columns: Iterable[str]) -> dict[str, V]:
    """What is given by column, under the names as they are declared where there are such."""
    declared = list(columns)
    respelled = {
        spelled(name, declared) if isinstance(name, str) else name: value
        for name, value in entries.items()
    }
    if len(respelled) < len(entries):
        raise InvalidSetting(
            f"a column occurs twice in {', '.join(map(str, entries))}",
            "names are compared without regard to case: leave one of them out",
        )
    return respelled
