"""The versions of one archive, and what its parts have in common.

An archive is put together from parts (reading, inspection, maintenance, …), each with a ledger in
its hands; no part knows the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.display import one_line
from mayfly.storage import Repository


@dataclass
class Ledger:
    """The stored versions of an archive, and how often they were asked."""

    repository: Repository
    asked: Counter[str] = field(default_factory=Counter)
    """Probes and scans since the last update, made through this object."""
    renewed: Callable[[ArchiveVersion], object] = lambda version: None
    """Called with each version that becomes the current one."""
    _cached: ArchiveVersion | None = None

    def version(self) -> ArchiveVersion:
        """The current version; its manifest is read only when it has changed."""
        cached = self._cached
        if cached is None or cached.manifest.version != self.repository.newest():
            cached = self._cached = ArchiveVersion.of(self.repository.current())
            self.renewed(cached)
        return cached


class Part:
    """A part of an archive: it works on the versions of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __repr__(self) -> str:
        return one_line(self, f"of {self.repository.directory.address}")

    @property
    def repository(self) -> Repository:
        return self.ledger.repository

    @property
    def settings(self) -> ArchiveSettings:
        return self.version().settings

    def version(self) -> ArchiveVersion:
        """The current version."""
        return self.ledger.version()
