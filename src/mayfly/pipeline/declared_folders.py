"""Folders that a pipeline writes to: each has one writer, and none is read by the pipeline."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mayfly.errors import InvalidSetting


def check_writers(folders: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Folders that queries write Parquet files to, and the query, from (query, folder); each may
    have one writer only, for files are named after batches."""
    written: dict[str, str] = {}
    for query, path in folders:
        folder = os.path.normpath(path)
        if folder in written:
            raise InvalidSetting(
                f"the changes of {written[folder]} and of {query} go to one folder, {folder}",
                "give each query a folder of its own: files would replace each other",
            )
        written[folder] = query
    return written


def check_loops(
    written: Mapping[str, str], letters: Mapping[str, str], read: Mapping[str, str]
) -> None:
    """Refuse a pipeline that would read what it has written.

    ``written``: folder → query; ``letters``: stream → folder of its dead letters; ``read``:
    stream → folder it reads from.
    """
    taken = {folder: f"the changes of {query}" for folder, query in written.items()}
    taken |= {folder: f"dead letters of {name}" for name, folder in letters.items()}
    taken = {str(Path(folder).resolve()): what for folder, what in taken.items()}
    for stream, folder in read.items():
        if folder in taken:
            raise InvalidSetting(
                f"{taken[folder]} go to {folder}, where stream {stream} reads",
                "give them a folder of their own: they would be read as new rows",
            )
