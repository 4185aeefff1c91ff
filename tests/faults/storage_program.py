"""Programs that are killed, starved of disk space or denied access, each in a process of its own.

Run as a module, this is a starter: each line it reads is a JSON list of programs to run at the same
time in forked processes, and it answers with how they ended and what they said. Forking a process
that has imported everything but done nothing costs milliseconds, so every crash point can be tried.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from mayfly import faults
from mayfly.arrays.compilation import load_compiled
from mayfly.errors import CommitConflict, MayflyError
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    DropSegments,
    Edit,
    Manifest,
    Repository,
    SetProperties,
    open_segment,
    vacuum,
    write_segment,
)

LAST_VERSION = 8
ROLLED_BACK_FROM, ROLLED_BACK_TO = 5, 4


def number_of(version: int) -> int:
    """The update whose content a version shows: version 6 is version 4 again."""
    return version if version <= ROLLED_BACK_FROM else version - 2


def ids_of_update(number: int) -> list[int]:
    return list(range(10 * number, 10 * number + 6))


def ids_expected(version: int) -> list[int]:
    """A version holds the rows of its last three updates."""
    number = number_of(version)
    return [one for n in range(max(1, number - 2), number + 1) for one in ids_of_update(n)]


def ids_found(repository: Repository, manifest: Manifest) -> list[int]:
    tables = (open_segment(repository.directory, s, again=True) for s in manifest.segments.values())
    return sorted(one for table in tables for one in table["id"].to_pylist())


def play_history(root: str) -> None:
    """Bring a directory to LAST_VERSION; what to do next depends only on its current version."""
    if Repository.exists(root):
        repository = Repository.open(root, sync=False)
    else:
        repository = Repository.create(root, {"number": 0}, sync=False)
    while (base := repository.current()).version < LAST_VERSION:
        if base.version == ROLLED_BACK_FROM:
            repository.rollback(ROLLED_BACK_TO)
        else:
            update(repository, base)
        if base.version % 2:
            with repository.pin() as manifest:
                assert ids_found(repository, manifest) == ids_expected(manifest.version)
            vacuum(repository, keep_versions=2, grace=0)


def update(repository: Repository, base: Manifest) -> None:
    number = base.properties["number"] + 1
    ids = ids_of_update(number)
    half = len(ids) // 2
    parts = [
        write_segment(
            repository.directory,
            f"rows/{number}",
            lifetimes(part).to_batches(max_chunksize=2),
            format=format,
        )
        for part, format in ((ids[:half], "arrow"), (ids[half:], "parquet"))
    ]
    repository.commit(
        base,
        [
            AddSegments(tuple(part for part in parts if part is not None)),
            DropSegments.of(base.in_group(f"rows/{number - 3}")),
            SetProperties({"number": number}),
        ],
    )


def lifetimes(ids: list[int]) -> pa.Table:
    ts = pa.array(ids, pa.int64())
    return pa.table({"id": ts, TS: ts, EXP: pa.array([one + 100 for one in ids], pa.int64())})


def killed(root: str, at: str) -> None:
    faults.kill_at(at)
    play_history(root)


def with_small_files(root: str, limit: int, rows: int) -> str:
    """Write more than the process may write into one file."""
    repository = Repository.open(root)
    base = repository.current()
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return attempted(lambda: commit_rows(repository, base, list(range(rows))))


def denied(root: str, action: str) -> str:
    """Act on a directory that belongs to somebody else."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    repository = Repository.open(root)
    base = repository.current()
    actions: dict[str, Callable[[], object]] = {
        "write": lambda: commit_rows(repository, base, [1]),
        "commit": lambda: repository.commit(base, [SetProperties({"x": 1})]),
        "pin": repository.pin,
        "vacuum": lambda: vacuum(repository, keep_versions=1, grace=0),
        "read": lambda: ids_found(repository, base),
        "create": lambda: Repository.create(Path(root) / "inner", {}),
    }
    return attempted(actions[action])


def commit_rows(repository: Repository, base: Manifest, ids: list[int]) -> None:
    segment = write_segment(repository.directory, "rows", lifetimes(ids))
    assert segment is not None
    repository.commit(base, [AddSegments((segment,))])


def attempted(action: Callable[[], object]) -> str:
    try:
        action()
    except MayflyError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def write_updates(root: str, name: int, count: int) -> str:
    """Add ``count`` rows, one commit each; start over from the current version on a conflict."""
    repository = Repository.open(root, sync=False)
    conflicts = 0
    for number in range(count):
        while True:
            segment = write_segment(repository.directory, "rows", lifetimes([name * 1000 + number]))
            assert segment is not None
            base = repository.current()
            total = base.properties["total"] + 1
            try:
                edits: list[Edit] = [AddSegments((segment,)), SetProperties({"total": total})]
                repository.commit(base, edits)
                break
            except CommitConflict:
                conflicts += 1
    return str(conflicts)


def read_until(root: str, total: int) -> str:
    """Pin and read the current version until all updates are in; each must be complete."""
    repository = Repository.open(root, sync=False)
    reads, seen = 0, -1
    while seen < total:
        with repository.pin() as manifest:
            seen = manifest.properties["total"]
            assert len(ids_found(repository, manifest)) == seen
            reads += 1
    return str(reads)


def vacuum_until(root: str, total: int) -> str:
    repository = Repository.open(root, sync=False)
    removed = 0
    while repository.current().properties["total"] < total:
        removed += vacuum(repository, keep_versions=1, grace=0).versions_removed
        time.sleep(0.002)  # a writer needs a moment in which no vacuum lists its file
    return str(removed)


def create(root: str, name: int) -> str:
    return attempted(lambda: Repository.create(root, {"by": name}, sync=False))


def times_reached(points: list[str], work: Callable[[], object]) -> str:
    """How often each point is reached when nothing happens there."""
    counts = Counter[str]()
    with contextlib.ExitStack() as watched:
        for point in points:
            watched.enter_context(faults.on_reach(point, partial(counts.update, [point])))
        work()
    return json.dumps(counts)


PROGRAMS: dict[str, Callable[..., str | None]] = {
    one.__name__: one
    for one in (
        killed,
        with_small_files,
        denied,
        write_updates,
        read_until,
        vacuum_until,
        create,
    )
}


@dataclass
class Child:
    """A forked process and the file it writes its answer to."""

    process: int
    said: BinaryIO
    code: int | None = None

    @staticmethod
    def start(program: str, arguments: dict[str, Any], begin: int) -> Child:
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by answer()
        process = os.fork()
        if process == 0:
            code = 1
            try:
                os.read(begin, 1)
                said.write((PROGRAMS[program](**arguments) or "").encode())
                code = 0
            except BaseException as error:
                said.write(repr(error).encode())
            said.flush()
            os._exit(code)
        return Child(process, said)

    def answer(self) -> list[object]:
        self.said.seek(0)
        with self.said:
            return [self.code, self.said.read().decode()]


def together(requests: list[dict[str, Any]]) -> list[list[object]]:
    """Run programs at the same time; when one fails, the others are killed."""
    ready, begin = os.pipe()
    children = [Child.start(one.pop("program"), one, ready) for one in requests]
    os.write(begin, b"." * len(children))
    by_process = {child.process: child for child in children}
    while any(child.code is None for child in children):
        process, status = os.wait()
        by_process[process].code = os.waitstatus_to_exitcode(status)
        if by_process[process].code:
            for child in children:
                if child.code is None:
                    os.kill(child.process, signal.SIGKILL)
    os.close(ready)
    os.close(begin)
    return [child.answer() for child in children]


def serve() -> None:
    # Once here, not once per child: the first array imports pandas, the first call machine code.
    lifetimes([1])
    load_compiled()
    assert "pyspark" not in sys.modules
    for line in sys.stdin:
        print(json.dumps(together(json.loads(line))), flush=True)


if __name__ == "__main__":
    serve()
