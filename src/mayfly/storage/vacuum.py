"""Removing what no retained version needs.

Order is everything; each step may race with commits, readers and other vacuums, and each may be the
last before a crash. 1. List the data files. 2. Raise the oldest retained version. 3. Read the pins:
a reader writes its pin before it reads that number, so either we see the pin or it sees the number.
4. Remove manifests below it that are not pinned. 5. Read the manifests that are left. 6. Put a
notice on the files listed in 1 that none of them names and that are older than ``grace``. 7. Read
intents, then new manifests (see intents), and remove the files that neither has. So a file goes
only after every manifest that names it, and a commit that adds it comes first or is refused.

``prune`` takes the files of the manifests it removes in place of the list: its cost does not
depend on how many other files wait for their grace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from mayfly.display import Facts
from mayfly.errors import CorruptFile, InvalidSetting, VersionExpired
from mayfly.faults import reach
from mayfly.storage.commit import (
    MANIFESTS,
    PINS,
    Repository,
    head_name,
    manifest_name,
    wall_clock,
)
from mayfly.storage.directory import Directory
from mayfly.storage.intents import INTENTS, NOTICES, notice, read_intents, remove_settled
from mayfly.storage.segment import DATA, Segment
from mayfly.storage.store import TEMPORARY

DEFAULT_GRACE = 3_600_000_000
"""Unnamed files younger than this may belong to a commit under way. A commit that takes longer,
from the writing of its first file on, is refused (CommitConflict) and has to write them again."""
SWEPT = f"{MANIFESTS}/swept"
"""Written when all files were looked at last."""


@dataclass(frozen=True, slots=True, repr=False)
class VacuumReport(Facts):
    """What a vacuum removed, and what it left because it may still be in use."""

    versions_removed: int
    files_removed: int
    bytes_removed: int
    files_too_young: int


def vacuum(
    repository: Repository,
    *,
    keep_versions: int = 2,
    keep_for: int = 0,
    grace: int = DEFAULT_GRACE,
    broken: Collection[int] = (),
) -> VacuumReport:
    """Remove old manifests, expired pins, and data files that no kept or pinned version names.

    Retained are the newest ``keep_versions`` versions and every version that was the current one
    at some moment of the last ``keep_for`` µs. Versions in ``broken`` go although they are pinned:
    their readers find them gone.
    """
    if keep_versions < 1 or keep_for < 0 or grace < 0:
        raise InvalidSetting(
            f"vacuum cannot keep {keep_versions} versions for {keep_for} µs with grace {grace} µs",
            "keep at least 1 version; durations are 0 or more",
        )
    current = repository.current()  # else files of a lost version would go
    directory = repository.directory
    if not directory.exists(head_name(current.version)):  # its writer died before it was marked
        repository.mark_head(current.version)
    listed = directory.all_names(DATA)
    reach("vacuum.listed")
    retired = _retire(repository, _oldest_kept(repository, keep_versions, keep_for), broken)
    named = _Named(repository)
    named.read()
    reach("vacuum.manifests-read")
    unnamed = [name for name in listed if name not in named.files]
    horizon = wall_clock() - grace
    old = [name for name in unnamed if not grace or _older(directory, name, horizon)]
    removed = _remove(named, old)
    temporary = [
        name
        for folder in (MANIFESTS, PINS, INTENTS, NOTICES)
        for name in directory.all_names(folder)
        if TEMPORARY in name
    ]
    left = [name for name in temporary if not grace or _older(directory, name, horizon)]
    removed.bytes += sum(directory.remove(name) for name in left)
    remove_settled(directory, named.newest, named.files)
    directory.remove(SWEPT)
    directory.put_if_absent(SWEPT, b"")
    return VacuumReport(
        retired.versions,
        removed.files + len(left),
        retired.bytes + removed.bytes,
        len(unnamed) - len(old) + len(temporary) - len(left),
    )


def prune(
    repository: Repository, *, keep_versions: int, broken: Collection[int] = ()
) -> VacuumReport:
    """Remove old manifests and the data files that only they name, as a vacuum would.

    Other files, which crashed writers left, are looked for when that was not done within the grace.
    """
    swept = repository.directory.modified_at(SWEPT)
    if swept is None or swept <= wall_clock() - DEFAULT_GRACE:
        return vacuum(repository, keep_versions=keep_versions, broken=broken)
    retired = _retire(repository, _oldest_kept(repository, keep_versions, 0), broken)
    named = _Named(repository)
    named.read()
    removed = _remove(named, retired.paths - named.files)
    return VacuumReport(retired.versions, removed.files, retired.bytes + removed.bytes, 0)


def named_files(repository: Repository) -> dict[str, Segment]:
    """The files that some version on disk names: these can be compared before they are read."""
    files: dict[str, Segment] = {}
    for number in repository.stored_versions():
        with contextlib.suppress(VersionExpired, CorruptFile):
            files |= repository.load(number).segments
    return files


def left_behind(repository: Repository) -> list[str]:
    """Data files that no version names and no commit is about to add.

    They were there before the last commit, and who wrote them can commit them no more, or are older
    than any commit takes. Their checksums are unknown, so they are not to be looked into.
    """
    directory, named = repository.directory, named_files(repository)
    horizon = max(repository.current().written_at, wall_clock() - DEFAULT_GRACE)
    unnamed = (name for name in directory.all_names(DATA) if name not in named)
    return [name for name in unnamed if _older(directory, name, horizon)]


def discard(repository: Repository, paths: Iterable[str]) -> None:
    """Remove data files that no version names, whatever their age, unless a commit adds them."""
    named = _Named(repository)
    named.read()
    _remove(named, set(paths) - named.files)


@dataclass(slots=True)
class _Removed:
    versions: int = 0
    files: int = 0
    bytes: int = 0
    paths: set[str] = field(default_factory=set)
    """Data files that the removed versions named."""


def _retire(repository: Repository, oldest: int, broken: Collection[int]) -> _Removed:
    """Remove the manifests below ``oldest``, except those that are pinned, and pins that ended."""
    directory, removed = repository.directory, _Removed()
    if oldest > repository.oldest():
        repository.raise_oldest(oldest)
    reach("vacuum.oldest-raised")
    claims, now = repository.pins(), wall_clock()
    pinned = {claim.version for claim in claims.values() if claim.until > now} - set(broken)
    stored = repository.stored_versions()
    for version in stored:
        if version < oldest and version not in pinned:
            with contextlib.suppress(CorruptFile, VersionExpired):
                removed.paths |= repository.load(version).segments.keys()
            removed.bytes += directory.remove(manifest_name(version))
            removed.versions += 1
            reach("vacuum.manifest-removed")
    for name in (name for name, claim in claims.items() if claim.until <= now):
        removed.bytes += directory.remove(name)
    return removed


@dataclass(slots=True)
class _Named:
    """Data files that manifests on disk name; each manifest is read once."""

    repository: Repository
    newest: int = -1
    files: set[str] = field(default_factory=set)
    _read: set[int] = field(default_factory=set)

    def read(self) -> None:
        """Take in the versions that have come since; those that have gone stay counted."""
        while more := set(self.repository.stored_versions()) - self._read:
            for version in more:
                with contextlib.suppress(VersionExpired):  # another vacuum removed it
                    self.files |= self.repository.load(version).segments.keys()
            self._read |= more
        self.newest = max(self._read)


def _remove(named: _Named, paths: Iterable[str]) -> _Removed:
    """Remove data files unless a commit adds them; ``paths`` are named by no version so far."""
    directory, removed = named.repository.directory, _Removed()
    doomed = set(paths)
    with notice(directory, doomed):
        intents = read_intents(directory)
        reach("vacuum.intents-read")
        named.read()
        for version, files in intents.values():
            if version > named.newest:  # else it has been published, or never will be
                doomed -= files
        for name in sorted(doomed - named.files):
            removed.bytes += directory.remove(name)
            removed.files += 1
            reach("vacuum.file-removed")
    return removed


def _oldest_kept(repository: Repository, keep_versions: int, keep_for: int) -> int:
    versions = repository.versions()
    oldest = versions[-keep_versions:][0]
    if keep_for:
        horizon = wall_clock() - keep_for
        for version, successor in reversed(list(pairwise(versions))):
            if repository.load(successor).written_at <= horizon:
                break
            oldest = min(oldest, version)
    return oldest


def _older(directory: Directory, name: str, horizon: int) -> bool:
    modified = directory.modified_at(name)
    return modified is not None and modified <= horizon
