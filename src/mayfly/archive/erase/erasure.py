"""Bytes of expired rows: since when they are gone, and that they are gone in time.

Idea: whatever must be gone before the next update goes with this one. The update leaves no such
row in the runs it commits; afterwards every older version that still names one is given up, pinned
or not, and its files with it. Invariant: after an update no manifest names, and after the grace
period no file holds, a row that expired before ``Contract.due``. Cost: a look at the manifests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mayfly.archive.erase.feeds import KeptFile, kept_elsewhere
from mayfly.archive.erase.staged_erasure import check_staged, erase_staged
from mayfly.archive.model.contract import Promise, longest_interval
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.errors import CorruptFile, VersionExpired
from mayfly.faults import reach
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage import Problem, prune
from mayfly.storage.commit import manifest_name, wall_clock
from mayfly.storage.manifest import Manifest
from mayfly.storage.vacuum import discard, left_behind

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
    instant: int
    """The instant from which they are void."""
    said: int = 0
    """When that was said, by the clock of files: what no version names and is older may be a file
    of a version that is gone."""


def noted_void(version: ArchiveVersion, ended: int | None = None) -> dict[str, Any]:
    """The property after rows of this version were declared void, which ended now or earlier."""
    earlier = version.manifest.properties.get(VOID, [])
    instant = version.time if ended is None else min(ended, version.time)
    noted = [version.manifest.version + 1, instant, wall_clock()]
    return {VOID: [*earlier, noted][-VOID_REMEMBERED:]}


def voided(manifest: Manifest) -> list[Voided]:
    """What a version knows to have been declared void."""
    return [Voided(*noted) for noted in manifest.properties.get(VOID, [])]


class Erasure(Part):
    """The part of an archive that keeps its promise about bytes."""

    _erased: tuple[int, int] | None = None
    """A version, and until when bytes were gone after the update that made it."""

    def require_erasable(
        self,
        update: int,
        *,
        settings: ArchiveSettings | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise CorruptFile if damage beside the archive's own files would keep a commit from
        erasing what is due with it: one after which the archive has had this update, and perhaps
        other settings and further properties."""
        version = self.version()
        after = version.settings if settings is None else settings
        due = after.contract.due(after.calendar, update)
        if due is not None:
            noted = {**version.manifest.properties, **(properties or {})}
            check_staged(self.repository.directory.address, due, noted)

    def erase_due(self) -> dict[str, Any]:
        """Give up what must be gone; until when rows are hidden and, where promised, erased."""
        version = self.version()
        contract, calendar = version.settings.contract, version.settings.calendar
        due = contract.due(calendar, version.state.update)
        hidden = {"hidden_until": version.settings.family.hidden_until(version.time)}
        if due is None:
            return hidden
        left = self._give_up(due)
        erase_staged(self.repository.directory.address, due, version.manifest.properties)
        self._erased = version.manifest.version, self._until(left)
        return {**hidden, "erased_until": self._erased[1]}

    def gone_until(self) -> int:
        """Rows that expired up to this instant have left all that belongs to the archive: its data
        files, what streams have staged, and the checkpoints of queries that feed it, as far as
        their clocks have come."""
        elsewhere = (file.earliest - 1 for file in self._elsewhere())
        return max(MIN_TIME, min([self.erased_until(), *elsewhere]))

    def erased_until(self) -> int:
        """Rows that expired up to this instant have left the data files, as those say."""
        return self._until(left_behind(self.repository))

    def erased_by_last(self) -> int:
        """``erased_until`` as the last update determined it, if this process ran it."""
        if self._erased is None or self._erased[0] != self.version().manifest.version:
            return self.erased_until()
        return self._erased[1]

    def _until(self, left: Iterable[str]) -> int:
        """Until when bytes are gone, given the files that were left behind."""
        reached: int = self.version().time
        void = voided(self.version().manifest)
        for manifest in self._manifests():
            reached = min(
                [reached, *(segment.exp.low - 1 for segment in manifest.segments.values())]
            )
            reached = min([reached, *(v.instant - 1 for v in void if manifest.version < v.first)])
        for name in left:
            written = self._written(name)
            reached = min([reached, *(v.instant - 1 for v in void if written <= v.said)])
            reached = min(reached, self._erased_before())
        return reached

    def _erased_before(self) -> int:
        """Until when bytes were gone after the update before the last: what was left behind since
        is of writers that began with what was stored then."""
        reports = reports_of(self.version().manifest.properties)[:-1]
        earlier = [
            report["erased_until"] for report in reports if report.get("erased_until") is not None
        ]
        return earlier[-1] if earlier else MIN_TIME

    def overdue(self) -> Iterator[Problem]:
        """Files that hold rows whose bytes should be gone by now, found by looking into them."""
        version = self.version()
        due = version.settings.contract.due(version.settings.calendar, version.state.update)
        if due is None:
            return
        for manifest in self._manifests():
            late = [segment for segment in manifest.segments.values() if segment.exp.low < due]
            for segment in late:
                name = manifest_name(manifest.version)
                yield Problem(name, f"names {segment.path}, with rows that should be gone")
            if manifest.version < self._void_before(due).first:
                yield Problem(
                    manifest_name(manifest.version), "shows void rows that should be gone"
                )
        for name in left_behind(self.repository):
            void = "void " if self._written(name) <= self._void_before(due).said else ""
            yield Problem(name, f"was left behind, and may hold {void}rows that should be gone")
        within = version.settings.contract.erased_within
        promise = Promise(within or 0, longest_interval(version.settings.calendar))
        for file in self._elsewhere():
            # Queries beside the one that feeds the archive may be behind it.
            limit = due if file.clock == NEVER else min(due, promise.due_at(file.clock))
            if file.unread is not None:
                yield Problem(file.name, file.unread)
            elif file.earliest < limit:
                yield Problem(
                    file.name, f"holds rows that expired before {limit} and should be gone"
                )

    def first_clean(self) -> int:
        """The first version without rows that were declared void and whose bytes must go."""
        noted = (voiding for manifest in self._manifests() for voiding in voided(manifest))
        return max((voiding.first for voiding in noted), default=0)

    def _elsewhere(self) -> Iterator[KeptFile]:
        """Other files with rows of the archive."""
        longest = self.version().settings.family.longest_lifetime
        return kept_elsewhere(self.repository.directory.address, longest or 0)

    def _give_up(self, due: int) -> list[str]:
        """Let go of what must be gone; the files that stay left behind by that."""
        current, void = self.version().manifest.version, self._void_before(due)
        older = [manifest for manifest in self._manifests() if manifest.version != current]
        given_up = [
            manifest
            for manifest in older
            if manifest.version < void.first
            or any(segment.exp.low < due for segment in manifest.segments.values())
        ]
        dirty = {manifest.version for manifest in given_up}
        versions = self.repository.versions()
        newest_dirty = max(dirty, default=-1)
        clean = sum(version > newest_dirty for version in versions)
        left = left_behind(self.repository)
        try:
            prune(self.repository, keep_versions=max(1, clean), broken=dirty)
            if left:
                discard(self.repository, left)
                reach("archive.erased")
        except CorruptFile:  # verify names a damaged manifest
            return left
        return []

    def _void_before(self, due: int) -> Voided:
        """The last time that rows were declared void which ended before ``due``."""
        ended = [voiding for voiding in voided(self.version().manifest) if voiding.instant < due]
        return max(ended, key=lambda voiding: voiding.first, default=Voided(0, due, -1))

    def _written(self, name: str) -> int:
        """When a file was written; one that is gone is as good as new."""
        modification = self.repository.directory.modified_at(name)
        return NEVER if modification is None else modification

    def _manifests(self) -> Iterator[Manifest]:
        """Every version on disk, also those that are kept for a reader only."""
        for number in self.repository.stored_versions():
            with contextlib.suppress(VersionExpired, CorruptFile):
                yield self.repository.load(number)
