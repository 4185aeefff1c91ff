"""Removing what no retained version needs.

Order is everything; each step may race with commits and readers, and each may be the last before a
crash. 1. List the data files. 2. Raise the oldest retained version. 3. Read the pins: a reader
writes its pin before it reads that number, so either we see the pin or it sees the number.
4. Remove manifests below it that nobody pinned. 5. Read the manifests that are left. 6. Remove the
files listed in 1 that none of them names and that are older than ``grace``. So a file goes only
after every manifest that names it, and a file younger than the list is never looked at.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.storage.commit import MANIFESTS, OLDEST, PINS, Repository, manifest_name, wall_clock
from mayfly.storage.files import TEMPORARY, Directory
from mayfly.storage.segment import DATA

DEFAULT_GRACE = 3_600_000_000
"""Unnamed files younger than this may belong to a commit under way. It must be longer than the
time from the writing of a file to its commit; 0 is right only while nobody else writes."""
LOCK = f"{MANIFESTS}/vacuum.lock"


@dataclass(frozen=True, slots=True)
class VacuumReport:
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
    repository.newest()
    with repository.directory.locked(LOCK):
        return _vacuum(repository, keep_versions, keep_for, grace, broken)


def _vacuum(
    repository: Repository, keep_versions: int, keep_for: int, grace: int, broken: Collection[int]
) -> VacuumReport:
    directory = repository.directory
    listed = directory.all_names(DATA)
    oldest = _oldest_kept(repository, keep_versions, keep_for)
    if oldest > repository.oldest():
        directory.replace(OLDEST, f"{oldest}\n".encode())
    reach("vacuum.oldest-raised")

    claims, now = repository.pins(), wall_clock()
    pinned = {claim.version for claim in claims.values() if claim.until > now} - set(broken)
    stored = repository.stored_versions()
    doomed = [version for version in stored if version < oldest and version not in pinned]
    freed = 0
    for version in doomed:
        freed += directory.remove(manifest_name(version))
        reach("vacuum.manifest-removed")
    for name in (name for name, claim in claims.items() if claim.until <= now):
        freed += directory.remove(name)

    needed = _named(repository)
    reach("vacuum.manifests-read")
    leftovers = (n for f in (MANIFESTS, PINS) for n in directory.all_names(f) if TEMPORARY in n)
    unnamed = [name for name in (*listed, *leftovers) if name not in needed]
    old = [name for name in unnamed if not grace or _older(directory, name, now - grace)]
    for name in old:
        freed += directory.remove(name)
        reach("vacuum.file-removed")
    return VacuumReport(len(doomed), len(old), freed, len(unnamed) - len(old))


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


def _named(repository: Repository) -> set[str]:
    """Data files that some manifest on disk names."""
    manifests = (repository.load(version) for version in repository.stored_versions())
    return {path for manifest in manifests for path in manifest.segments}


def _older(directory: Directory, name: str, horizon: int) -> bool:
    modified = directory.modified_at(name)
    return modified is not None and modified <= horizon
