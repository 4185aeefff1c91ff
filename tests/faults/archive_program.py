"""Archives that are killed, starved of space, denied access or raced, in processes of their own.

Run as a module, this is a starter like ``storage_program``, with programs for archives. The content
of an archive follows from its last update alone, so whoever opens it can tell what must be there.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

from mayfly import faults
from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.local_jobs import InProcess
from mayfly.arrays.compilation import load_compiled
from mayfly.errors import CommitConflict
from mayfly.storage import Repository
from tests.faults import storage_program, storage_starter
from tests.faults.storage_program import attempted

WINDOW, LAST = 4, 9
LAYOUTS = {
    "REINDEX++": (WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, WINDOW, 1), "packed shadow"),
    "RATA": (WaveLayout(WaveScheme.RATA, WINDOW, 2), "simple shadow"),
    "DEL": (WaveLayout(WaveScheme.DEL, WINDOW, 2), "in-place"),
}


def settings(layout: str) -> ArchiveSettings:
    wave, technique = LAYOUTS[layout]
    return ArchiveSettings(
        columns={"k": "bigint", "ts": "bigint", "v": "string"},
        key=("k",),
        time="ts",
        calendar=FixedIntervals(100),
        layout=wave,
        technique=UpdateTechnique(technique),
        late=LateRows.OWN_DAY,
        parts=2,
    )


def rows_of(update: int) -> list[tuple[int, str]]:
    """(day, text) of the rows that come with an update: some are late, the fifth has none."""
    if update == 5:
        return []
    late = [(update - 1, f"late {update}/{number}") for number in range(3 * (update % 3 == 0))]
    return late + [(update, f"{update}/{number}") for number in range(4 + update % 3)]


def batch_of(update: int) -> pa.Table | None:
    rows = rows_of(update)
    if not rows:
        return None
    ts = [100 * (day - 1) + 1 + at for at, (day, _) in enumerate(rows)]
    texts = [text for _, text in rows]
    return pa.table(
        {"k": [len(text) + at % 3 for at, text in enumerate(texts)], "ts": ts, "v": texts}
    )


def expected(update: int) -> Counter[str]:
    return Counter(
        text
        for came in range(1, update + 1)
        for day, text in rows_of(came)
        if day > update - WINDOW
    )


def found(archive: Archive, version: ArchiveVersion) -> Counter[str]:
    reader = Reader(archive.repository.directory, version)
    return Counter(reader.scan(Selection(version.time))["v"].to_pylist())


def opened(root: str | Path) -> Archive:
    return Archive.open(root, InProcess(), sync=False)


def play(root: str, layout: str) -> None:
    """Bring an archive to its last update; what comes next depends only on where it stands."""
    if Repository.exists(root):
        archive = opened(root)
    else:
        archive = Archive.create(root, settings(layout), InProcess(), sync=False)
    while (update := archive.version().state.update + 1) <= LAST:
        archive.update(batch_of(update), batch_id=f"batch {update}")
        archive.maintain.vacuum(grace=0)
    archive.updates.committer.prepare()


def killed(root: str, layout: str, at: str) -> None:
    faults.kill_at(at)
    play(root, layout)


def times_reached(root: str, layout: str, points: list[str]) -> str:
    """How often each point is reached when nothing happens there."""
    return storage_program.times_reached(points, partial(play, root, layout))


def with_small_files(root: str, limit: int) -> str:
    """Update although no file may grow beyond the limit."""
    archive = opened(root)
    update = archive.version().state.update + 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return attempted(lambda: archive.update(large_batch(update)))


def large_batch(update: int, rows: int = 5_000) -> pa.Table:
    moments = [100 * (update - 1) + 1] * rows
    return pa.table({"k": range(rows), "ts": moments, "v": [f"{n * 7919:x}" for n in range(rows)]})


def denied(root: str, action: str) -> str:
    """Act on an archive that belongs to somebody else."""
    if os.geteuid() == 0:
        load_compiled()  # the other user may not be able to read Python's own files
        os.setgid(65534)
        os.setuid(65534)
    archive = opened(root)
    version = archive.version()
    actions: dict[str, Callable[[], object]] = {
        "update": lambda: archive.update(batch_of(version.state.update + 1)),
        "empty update": lambda: archive.update(None),
        "add_column": lambda: archive.maintain.add_column("x", "int"),
        "vacuum": lambda: archive.maintain.vacuum(grace=0),
        "scan": lambda: _require(found(archive, version) == expected(version.state.update)),
        "probe": lambda: archive.probe(3),
    }
    return attempted(actions[action])


def _require(truth: bool) -> None:
    assert truth


def write_days(root: str, until: int) -> str:
    """Send every update until it is in, whoever brings it in; how often another was faster."""
    archive, conflicts = opened(root), 0
    while (update := archive.version().state.update + 1) <= until:
        try:
            archive.update(batch_of(update), update=update, batch_id=f"batch {update}")
        except CommitConflict:
            conflicts += 1
    return str(conflicts)


def read_days(root: str, until: int) -> str:
    """Read until the last update is seen; every answer must be that of one update."""
    archive, reads, update = opened(root), 0, 0
    while update < until:
        pin, _ = archive.read.pin_at()
        with pin as manifest:
            version = ArchiveVersion.of(manifest)
            update = version.state.update
            assert found(archive, version) == expected(update), update
        assert Counter(archive.scan()["v"].to_pylist()) in [
            expected(later) for later in range(update, until + 1)
        ]
        reads += 1
    return str(reads)


def vacuum_days(root: str, until: int) -> str:
    archive, removed = opened(root), 0
    while archive.version().state.update < until:
        removed += archive.maintain.vacuum(keep_versions=1).versions_removed
        time.sleep(0.001)
    return str(removed)


PROGRAMS: dict[str, Callable[..., str | None]] = {
    f"archive {one.__name__}": one
    for one in (
        killed,
        times_reached,
        with_small_files,
        denied,
        write_days,
        read_days,
        vacuum_days,
    )
}


starter = partial(storage_starter.starter, "tests.faults.archive_program")


if __name__ == "__main__":
    storage_program.PROGRAMS.update(PROGRAMS)
    storage_program.serve()
