"""Folders of Parquet files that a checkpoint delivers to: each belongs to one checkpoint.

Files are named after batches, and every checkpoint counts its own from the beginning, so two would
replace each other's files one by one. A small file says whose the others are; readers of Parquet
pass it over.
"""

from __future__ import annotations

import os
from pathlib import Path

from mayfly.errors import StorageError
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
