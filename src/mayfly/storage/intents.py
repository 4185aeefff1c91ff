"""Which wins where a commit adds a file and a vacuum is about to remove it.

Idea: each says what it is about to do before it looks at what the other said. A commit puts an
*intent* with the files it adds, then reads the *notices*; a vacuum puts a notice with the files it
would remove, then reads intents, then manifests. So at least one of the two sees the other and
gives way, at any pace. Invariant: no file that a published version names is removed.
Needs: put-if-absent and listings that show what was put before. No clock, no lock, no rename.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Collection, Iterator, Sequence

from mayfly.errors import CommitConflict, CorruptFile, StorageError
from mayfly.faults import reach
from mayfly.storage.directory import Directory
from mayfly.storage.sealed_files import seal_json, unseal_json
from mayfly.storage.segment import Segment, check_present

INTENTS, NOTICES = "intents", "notices"
_INTENT = re.compile(rf"^{INTENTS}/(\d{{20}})-[0-9a-f]{{32}}\.json$")


@contextlib.contextmanager
def intent(directory: Directory, version: int, segments: Sequence[Segment]) -> Iterator[None]:
    """Within the block these files are safe from vacuums, for a commit of ``version``.

    CommitConflict if a vacuum was first. An intent that a crash leaves behind ends with its
    version: the next writer to commit that number takes it from the dead writer.
    """
    if not segments:
        yield
        return
    paths = [segment.path for segment in segments]
    # Like a pin, it need not survive a power cut, which ends its writer too.
    unsynced = directory.without_sync()
    name = f"{INTENTS}/{version:020d}-{uuid.uuid4().hex}.json"
    unsynced.put_if_absent(name, _encode(paths))
    try:
        reach("commit.announced")
        _require_unnoticed(directory, paths)
        # Only now: a notice that is gone already has had its files removed.
        for segment in segments:
            _require_present(directory, segment)
        yield
    finally:
        with contextlib.suppress(StorageError):  # its version decides, whether it stays or not
            unsynced.remove(name)


def _require_unnoticed(directory: Directory, paths: Collection[str]) -> None:
    for name in directory.names(NOTICES):
        with contextlib.suppress(FileNotFoundError):
            if taken := _decode(directory.read(name), name).intersection(paths):
                raise _removed(directory, min(taken))


def _require_present(directory: Directory, segment: Segment) -> None:
    try:
        check_present(directory, segment)
    except CorruptFile as error:
        if directory.exists(segment.path):
            raise
        raise _removed(directory, segment.path) from error


def _removed(directory: Directory, path: str) -> CommitConflict:
    return CommitConflict(
        f"{path}, which this commit adds to {directory.address}, was removed by a vacuum, or "
        "written to another place",
        "nothing of this commit was applied: write its files again, and let vacuums have a grace "
        "longer than that takes",
    )


@contextlib.contextmanager
def notice(directory: Directory, paths: Collection[str]) -> Iterator[None]:
    """Within the block no commit adds one of these files that has not put an intent before."""
    if not paths:
        yield
        return
    name = directory.fresh_name(NOTICES, ".json")
    directory.put_if_absent(name, _encode(sorted(paths)))
    try:
        reach("vacuum.noticed")
        yield
    finally:
        directory.remove(name)


def read_intents(directory: Directory) -> dict[str, tuple[int, frozenset[str]]]:
    """Intents of commits that are under way, or were cut short: name → version and files."""
    intents = {}
    for name in directory.names(INTENTS):
        if match := _INTENT.match(name):
            with contextlib.suppress(FileNotFoundError):  # the commit has ended meanwhile
                intents[name] = int(match[1]), _decode(directory.read(name), name)
    return intents


def remove_settled(directory: Directory, newest: int, named: Collection[str]) -> None:
    """Remove what crashes left behind: intents of versions that exist, and notices whose files
    are gone, or are named: of those the vacuum that put the notice has seen that."""
    for name in directory.names(INTENTS):
        match = _INTENT.match(name)
        if match and int(match[1]) <= newest:
            directory.remove(name)
    for name in directory.names(NOTICES):
        with contextlib.suppress(FileNotFoundError):
            paths = _decode(directory.read(name), name)
            if not any(path not in named and directory.exists(path) for path in paths):
                directory.remove(name)


def _encode(paths: Sequence[str]) -> bytes:
    return seal_json({"files": paths})


def _decode(data: bytes, name: str) -> frozenset[str]:
    hint = "remove it once no commit and no vacuum of that time is left"
    stored = unseal_json(data, name, hint)
    try:
        return frozenset(str(path) for path in stored["files"])
    except (KeyError, TypeError) as error:
        raise CorruptFile(f"{name} is damaged", hint) from error
