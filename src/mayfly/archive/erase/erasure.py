"""Bytes of expired rows: since when they are gone, and that they are gone in time.

Idea: whatever must be gone before the next update goes with this one. The update leaves no such
row in the runs it commits; afterwards every older version that still names one is given up, pinned
or not, and its files with it. Invariant: after an update no manifest names, and after the grace
period no file holds, a row that expired before ``Contract.due``. Cost: a look at the manifests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mayfly.archive.erase.feeds import expirations, kept_elsewhere
from mayfly.archive.erase.staged_erasure import erase_staged
from mayfly.archive.model.calendar import Int64Array
from mayfly.archive.model.contract import Promise, longest_interval
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.state import ArchiveVersion
from mayfly.errors import CorruptFile, VersionExpired
from mayfly.faults import reach
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage import Problem, Repository, prune
from mayfly.storage.commit import manifest_name, wall_clock
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import DATA, Segment
from mayfly.storage.vacuum import discard

VOID = "void"
"""Property of archives that promise to erase: which versions hold rows that were declared void, as
[first version without them, the instant from which they are void, when that was said], oldest
first."""
VOID_REMEMBERED = 1000


@dataclass(frozen=True)
class Voided:
    """Rows were declared void: what is older than this may hold them."""

    first: int
    """The first version without them."""
    at: int
    """The instant from which they are void."""
    said: int = 0
    """When that was said, by the clock of files: what no version names and is older may be a file
    of a version that is gone."""


def noted_void(version: ArchiveVersion, ended: int | None = None) -> dict[str, Any]:
    """The property after rows of this version were declared void, which ended now or earlier."""
    earlier = version.manifest.properties.get(VOID, [])
    at = version.time if ended is None else min(ended, version.time)
    noted = [version.manifest.version + 1, at, wall_clock()]
    return {VOID: [*earlier, noted][-VOID_REMEMBERED:]}


def voided(manifest: Manifest) -> list[Voided]:
    """What a version knows to have been declared void."""
    return [Voided(*noted) for noted in manifest.properties.get(VOID, [])]


class Erasing:
    """The part of an archive that keeps its promise about bytes."""

    repository: Repository

    def version(self) -> ArchiveVersion:
        """The current version."""
        raise AssertionError("every archive has one")

    def erased(self) -> dict[str, Any]:
        """Give up what must be gone; until when rows are hidden and, where promised, erased."""
        version = self.version()
        contract, calendar = version.settings.contract, version.settings.calendar
        due = contract.due(calendar, version.state.update)
        hidden = {"hidden_until": contract.returned_until(calendar, version.time)}
        if due is None:
            return hidden
        self._give_up(due)
        erase_staged(self.repository.directory.address, due, version.manifest.properties)
        return {**hidden, "erased_until": self.erased_until()}

    def gone_until(self) -> int:
        """The same of everything that belongs to the archive: also of what streams have staged and
        of the checkpoints of queries that feed it, as far as their clocks have come."""
        reached = self.erased_until()
        for _, found, _ in self._elsewhere():
            reached = min(reached, int(found.min()) - 1)
        return reached

    def erased_until(self) -> int:
        """Rows that expired up to this instant have left the data files, as those say."""
        reached: int = self.version().time
        void = voided(self.version().manifest)
        for manifest in self._manifests():
            reached = min([reached, *(one.exp.low - 1 for one in manifest.segments.values())])
            reached = min([reached, *(v.at - 1 for v in void if manifest.version < v.first)])
        for name in self._left_behind():
            written = self._written(name)
            reached = min([reached, *(v.at - 1 for v in void if written <= v.said)])
            reached = min(reached, self._erased_before())
        return reached

    def _erased_before(self) -> int:
        """The same after the update before the last: what was left behind since is of writers that
        began with what was stored then."""
        reports = reports_of(self.version().manifest.properties)[:-1]
        earlier = [one["erased_until"] for one in reports if one.get("erased_until") is not None]
        return earlier[-1] if earlier else MIN_TIME

    def overdue(self) -> Iterator[Problem]:
        """Files that hold rows whose bytes should be gone by now, found by looking into them."""
        version = self.version()
        due = version.settings.contract.due(version.settings.calendar, version.state.update)
        if due is None:
            return
        for manifest in self._manifests():
            late = [one for one in manifest.segments.values() if one.exp.low < due]
            for one in late:
                name = manifest_name(manifest.version)
                yield Problem(name, f"names {one.path}, with rows that should be gone")
            if manifest.version < self._void_before(due).first:
                yield Problem(
                    manifest_name(manifest.version), "shows void rows that should be gone"
                )
        for name in self._left_behind():
            void = "void " if self._written(name) <= self._void_before(due).said else ""
            yield Problem(name, f"was left behind, and may hold {void}rows that should be gone")
        named = {path: one for m in self._manifests() for path, one in m.segments.items()}
        own = ((name, self._expirations(name, one), NEVER) for name, one in named.items())
        within = version.settings.contract.erased_within
        promise = Promise(within or 0, longest_interval(version.settings.calendar))
        for name, found, clock in (*own, *self._elsewhere()):
            # Queries beside the one that feeds the archive may be behind it.
            limit = due if clock == NEVER else min(due, promise.due_at(clock))
            if rows := int((found < limit).sum()):
                yield Problem(
                    name, f"holds {rows} rows that expired before {limit} and should be gone"
                )

    def first_clean(self) -> int:
        """The first version without rows that were declared void and whose bytes must go."""
        noted = (one for manifest in self._manifests() for one in voided(manifest))
        return max((one.first for one in noted), default=0)

    def _elsewhere(self) -> Iterator[tuple[str, Int64Array, int]]:
        """Other files with rows of the archive."""
        lifetimes = self.version().settings.lifetimes
        longest = 0 if lifetimes is None else lifetimes.longest
        found = kept_elsewhere(self.repository.directory.address, longest)
        return (one for one in found if len(one[1]))

    def _give_up(self, due: int) -> None:
        current, void = self.version().manifest.version, self._void_before(due)
        older = [manifest for manifest in self._manifests() if manifest.version != current]
        given_up = [
            manifest
            for manifest in older
            if manifest.version < void.first
            or any(one.exp.low < due for one in manifest.segments.values())
        ]
        dirty = {manifest.version for manifest in given_up}
        versions = self.repository.versions()
        newest_dirty = max(dirty, default=-1)
        clean = sum(version > newest_dirty for version in versions)
        with contextlib.suppress(CorruptFile):  # verify names a damaged manifest
            prune(self.repository, keep_versions=max(1, clean), broken=dirty)
            for name in self._left_behind():
                discard(self.repository, [name])
                reach("archive.erased")

    def _void_before(self, due: int) -> Voided:
        """The last time that rows were declared void which ended before ``due``."""
        ended = [one for one in voided(self.version().manifest) if one.at < due]
        return max(ended, key=lambda one: one.first, default=Voided(0, due, -1))

    def _written(self, name: str) -> int:
        """When a file was written; one that is gone is as good as new."""
        found = self.repository.directory.modified_at(name)
        return NEVER if found is None else found

    def _left_behind(self) -> list[str]:
        """Data files that belong to no version, and were there before the last commit: who wrote
        them can commit them no more.

        They are not looked into, since nobody knows their checksums. A later file is of an update
        under way, and holds new rows and such as are in this version.
        """
        named = {path for manifest in self._manifests() for path in manifest.segments}
        committed = self.version().manifest.written_at
        names = (n for n in self.repository.directory.all_names(DATA) if n not in named)
        return [name for name in names if self._written(name) <= committed]

    def _expirations(self, name: str, segment: Segment) -> Int64Array:
        """The expiration times in a file, by looking into it."""
        return expirations(self.repository.directory, name, segment)

    def _manifests(self) -> Iterator[Manifest]:
        """Every version on disk, also those that are kept for a reader only."""
        for number in self.repository.stored_versions():
            with contextlib.suppress(VersionExpired, CorruptFile):
                yield self.repository.load(number)
