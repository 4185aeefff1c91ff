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
from mayfly.archive.families import Cells, Counts, Waves
from mayfly.archive.inspection import Inspection
from mayfly.archive.maintenance import Maintenance
from mayfly.archive.model.family import enlist
from mayfly.archive.model.ledger import Ledger
from mayfly.archive.model.origin import ORIGIN_IS_OPEN, Origin
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.read.key_places import forget_hashes
from mayfly.archive.read.questions import Reading
from mayfly.archive.read.stored_files import let_go
from mayfly.archive.updates import ARCHIVE, Updates
from mayfly.archive.write.committer import Committer, Executor
from mayfly.display import html_table
from mayfly.errors import CorruptFile, MayflyError, StorageError, VersionExpired
from mayfly.storage import Manifest, Repository

enlist(Waves, Cells, Counts)


class Archive:
    """An open archive. Make one with ``create`` or ``open``.

    ``update`` takes rows in; ``probe``, ``probe_range`` and ``scan`` give them out, and ``read``
    has more ways to; ``inspect`` tells about the archive, ``maintain`` keeps it in order;
    ``advise`` names a better layout, ``migrate`` changes to it, ``invalidate`` declares rows void.
    """

    def __init__(self, repository: Repository, executor: Executor) -> None:
        ledger = Ledger(repository, renewed=self._forget_former_files)
        committer, erasure = Committer(ledger, executor), Erasure(ledger)
        foresight = Foresight(ledger)
        migration = Migration(committer, erasure, foresight)
        self.repository, self.executor = repository, executor
        self.updates = Updates(committer, Origin(ledger, executor), erasure, foresight)
        self.read = Reading(ledger)
        self.inspect = Inspection(ledger, erasure)
        self.maintain = Maintenance(committer, erasure)
        # What people do every day, without the name of the part.
        self.update = self.updates.update
        self.probe, self.probe_range = self.read.probe, self.read.probe_range
        self.scan = self.read.scan
        self.advise = foresight.advise
        self.invalidate = Voids(committer, erasure).invalidate
        self.migrate = migration.migrate
        self.version = ledger.version

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.repository.directory.address!r})"

    def _repr_html_(self) -> str:
        try:
            return html_table("Archive", self.inspect.status().facts())
        except MayflyError as problem:
            return html_table("Archive", {"path": self.repository.directory.address, "!": problem})

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
