"""An archive: rows with lifetimes on disk, refreshed update by update, read by key and time.

The archive itself is a facade: its parts take rows in (``updates``), give them out (``read``), tell
about them (``inspect``) and keep them in order (``maintain``).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any, Self

from mayfly.archive.advice.foresight import Foresight
from mayfly.archive.change.migration import Migration
from mayfly.archive.change.voids import Voids
from mayfly.archive.erase.erasure import Erasure
from mayfly.archive.inspection import Inspection
from mayfly.archive.maintenance import Maintenance
from mayfly.archive.model.calendar import UpdateCalendar
from mayfly.archive.model.ledger import Ledger
from mayfly.archive.model.origin import ORIGIN_IS_OPEN, Origin
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.read.key_places import forget_hashes
from mayfly.archive.read.questions import Moment, Reading
from mayfly.archive.read.stored_files import let_go
from mayfly.archive.updates import ARCHIVE, Updates
from mayfly.archive.write.accounting import UpdateReport
from mayfly.archive.write.committer import Committer, Executor
from mayfly.errors import CorruptFile, StorageError, VersionExpired
from mayfly.keywords import known_settings
from mayfly.storage import Manifest, Repository


class Archive:
    """An open archive. Make one with ``create`` or ``open``."""

    def __init__(self, repository: Repository, executor: Executor) -> None:
        ledger = Ledger(repository, renewed=self._forget_former_files)
        committer, erasure = Committer(ledger, executor), Erasure(ledger)
        foresight = Foresight(ledger)
        migration = Migration(committer, erasure, foresight)
        self.repository, self.executor = repository, executor
        self.origin = Origin(ledger, executor)
        self.updates = Updates(committer, self.origin, erasure, foresight)
        self.read = Reading(ledger)
        self.inspect = Inspection(ledger, erasure)
        self.maintain = Maintenance(committer, erasure)
        # What people do every day, without the name of the part.
        self.probe, self.probe_range, self.scan = (
            self.read.probe,
            self.read.probe_range,
            self.read.scan,
        )
        self.advise = foresight.advise
        self.invalidate = Voids(committer, erasure).invalidate
        self.migrate = migration.migrate
        self.version = ledger.version

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.repository.directory.address!r})"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: ArchiveSettings,
        executor: Executor,
        *,
        origin_is_open: bool = False,
        properties: Mapping[str, Any] | None = None,
        sync: bool = True,
    ) -> Self:
        """Make an empty archive; an open origin is decided by the first update."""
        stored = {
            **(properties or {}),
            "kind": ARCHIVE,
            "archive": settings.to_json(),
            "state": ArchiveState().to_json(),
            ORIGIN_IS_OPEN: origin_is_open,
        }
        return cls(Repository.create(path, stored, sync=sync), executor)

    @classmethod
    def open(cls, path: str | os.PathLike[str], executor: Executor, *, sync: bool = True) -> Self:
        """Open an archive, also one whose newest manifest is damaged: it can be rolled back."""
        repository = Repository.open(path, sync=sync)
        kind = _readable(repository).properties.get("kind")
        if kind != ARCHIVE:
            raise StorageError(
                f"{repository.directory.address} holds a {kind}, not an archive", "check the path"
            )
        return cls(repository, executor)

    @property
    def settings(self) -> ArchiveSettings:
        return self.version().settings

    @known_settings()
    def update(
        self,
        batch: Any | None,
        *,
        update: int | None = None,
        at: Moment | None = None,
        batch_id: str | None = None,
        properties: Mapping[str, Any] | None = None,
        positions: Mapping[str, int] | None = None,
        calendar: UpdateCalendar | None = None,
    ) -> UpdateReport:
        """Insert the rows of one interval and remove what has expired, as one commit.

        The update is the next one, or number ``update``, or the one whose interval holds ``at``;
        missed updates before it run as empty ones in the same commit. ``None`` is an empty
        batch. A ``batch_id`` that is already committed does nothing. ``properties`` become part
        of the same commit. Where windows are of a number of rows, ``positions`` say how far their
        streams have come, if further than the rows of the batch. An update that was numbered by
        a ``calendar`` is not done (CommitConflict) if the archive has got another since.
        """
        return self.updates.update(
            batch,
            update=update,
            at=at,
            batch_id=batch_id,
            properties=properties,
            positions=positions,
            calendar=calendar,
        )

    def _forget_former_files(self, version: ArchiveVersion) -> None:
        """Let go of files that the current version does not name."""
        root = self.repository.directory.address
        let_go(root, version.manifest.segments)
        forget_hashes(root, version.manifest.segments)


def _readable(repository: Repository) -> Manifest:
    """The newest manifest that can be read."""
    try:
        return repository.current()
    except CorruptFile as damage:
        for number in reversed(repository.versions()):
            with contextlib.suppress(CorruptFile, VersionExpired):
                return repository.load(number)
        raise damage
