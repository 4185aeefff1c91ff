"""Small tables with lifetimes, and what a version of a directory holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mayfly.storage import EXP, TS, Manifest, Repository, Segment, open_segment, write_segment


def table(ids: Sequence[int], *, life: int = 10) -> pa.Table:
    """One row per id: generated at the instant ``id``, alive for ``life``."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            TS: pa.array(ids, pa.int64()),
            EXP: pa.array([one + life for one in ids], pa.int64()),
        }
    )


def segment(repository: Repository, ids: Sequence[int], **options: Any) -> Segment:
    group = options.pop("group", "rows")
    written = write_segment(repository.directory, group, table(ids), **options)
    assert written is not None
    return written


def ids_of(repository: Repository, manifest: Manifest) -> list[int]:
    """The ids of all rows of a version, in order."""
    found: list[int] = []
    for one in manifest.segments.values():
        found += open_segment(repository.directory, one)["id"].to_pylist()
    return sorted(found)


def data_files(repository: Repository) -> set[str]:
    return set(repository.directory.all_names("data"))


def flip_a_byte(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(bytes(content))
