"""Folders of Parquet files that a checkpoint delivers to: each belongs to one checkpoint.

Files are named after batches, and every checkpoint counts its own from the beginning, so two would
replace each other's files one by one. A small file says whose the others are; readers of Parquet
pass it over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mayfly.errors import InvalidSetting, StorageError
from mayfly.storage.store import TEMPORARY
from mayfly.storage.store.problems import explained

IDENTITY = "id"
"""Property: what a checkpoint is known by, wherever it is moved."""
OWNER = "_mayfly_checkpoint"
CHANGES = "changes-*.parquet"


def check_owner(folder: Path, source: str) -> None:
    """Refuse a folder with changes of another checkpoint."""
    owner = folder / OWNER
    with explained("read", folder):
        record = owner.read_text(errors="replace") if owner.exists() else None
        foreign = record is None and any(folder.glob(CHANGES))
    if foreign or record not in (None, source):
        raise StorageError(
            f"{folder} holds changes that another checkpoint has delivered",
            "name another folder, or remove that one: its files would be replaced one by one",
        )


def take_possession(folder: Path, source: str) -> None:
    """Write down whose the folder is, unless that is done."""
    owner = folder / OWNER
    if owner.exists():
        return
    with explained("write", owner):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f"{TEMPORARY}{OWNER}"
        temporary.write_text(source)
        os.replace(temporary, owner)


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
