"""Writes the golden archives with the code at hand.

    python -m tests.golden.formats.archive_write tests/golden/formats/archive-version-1

Run it once per format version, from the project's directory, and commit what it wrote; never
overwrite what an earlier version wrote, for that is what later code must still read.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import mayfly.archive
from mayfly.archive.write.staged_row_writer import StageRows
from mayfly.archive.write.staged_rows import Brought, Staging
from mayfly.faults import on_reach
from tests.golden.formats.archive_content import (
    ADDED,
    ADDED_AFTER,
    ARCHIVES,
    STAGED_HOURS,
    begin,
    table,
)


class Stop(BaseException):
    """Leaves an update between its two commits."""


def stop() -> None:
    raise Stop


def write(root: Path, name: str) -> None:
    golden = ARCHIVES[name]
    archive = mayfly.archive.create(root, table(name, 1).schema, **golden.declared)
    for day in range(1, golden.updates + 1):
        last = name == "unprepared" and day == golden.updates
        crash = on_reach("archive.committed", stop) if last else contextlib.nullcontext()
        with contextlib.suppress(Stop), crash:
            archive.update(table(name, day))
        if name == "in-place" and day == ADDED_AFTER:
            archive.maintain.add_column(ADDED, "STRING")
    archive.maintain.vacuum(grace=0)
    if name == "array":
        stage(archive, root)


def stage(archive: mayfly.archive.Archive, root: Path) -> None:
    staging = Staging.at(root, "stream")
    folder = str(staging.repository.directory.root)
    work = StageRows(folder, True, archive.settings, archive.version().state.update)
    batches = [table("array", hour).slice(0, 2).to_batches()[0] for hour in STAGED_HOURS]
    segments = work.run(batches).segments
    clock = (begin("array", STAGED_HOURS[0]) - begin("array", 1)).seconds * 1_000_000
    now = Brought(batch=3, source="golden", clock=clock, rows=40, late=2, dead=1)
    staging.add(staging.current(), segments, (), now)


if __name__ == "__main__":
    for name in ARCHIVES:
        write(Path(sys.argv[1]) / name, name)
