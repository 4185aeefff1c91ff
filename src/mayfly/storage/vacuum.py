"""Removing what no retained version needs.

Order matters (see Repository.pin): pins are read, manifests removed, pins read again, and only
then data files removed. A reader that pinned too late for the first look is either seen at the
second, or has found its manifest gone and knows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mayfly.storage.commit import PINS, Repository, manifest_name, wall_clock
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import DATA

DEFAULT_GRACE = 3_600_000_000
"""Unnamed data files younger than this may belong to a commit under way."""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    versions_removed: int
    files_removed: int
    bytes_removed: int
    files_too_young: int


def vacuum(
    repository: Repository, *, keep_versions: int = 2, grace: int = DEFAULT_GRACE
) -> VacuumReport:
    """Remove old manifests, expired pins, and data files that no kept or pinned version names."""
    directory = repository.directory
    versions = repository.versions()
    kept = set(versions[-max(keep_versions, 1) :]) | set(repository.pinned_versions().values())
    doomed = [version for version in versions if version not in kept]
    manifests = {version: repository.load(version) for version in versions}
    freed = sum(directory.remove(manifest_name(version)) for version in doomed)

    live_pins = repository.pinned_versions()
    needed = _names(
        manifests[version] for version in kept | set(live_pins.values()) if version in manifests
    )
    # A commit that happened meanwhile names files this run has not seen.
    needed |= _names(repository.load(v) for v in repository.versions() if v not in manifests)
    for name in directory.names(PINS):
        if name not in live_pins and name not in repository.pinned_versions():
            freed += directory.remove(name)

    removed = too_young = 0
    horizon = (wall_clock() - grace) / 1e6
    for name in directory.all_names(DATA):
        if name in needed:
            continue
        try:
            young = directory.path(name).stat().st_mtime > horizon
        except FileNotFoundError:
            continue
        if young and grace > 0:
            too_young += 1
        else:
            freed += directory.remove(name)
            removed += 1
    return VacuumReport(len(doomed), removed, freed, too_young)


def _names(manifests: Iterable[Manifest]) -> set[str]:
    return {path for manifest in manifests for path in manifest.segments}
