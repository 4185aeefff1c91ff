"""What an archive tells about itself: figures, past updates, predictions, advice."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from mayfly.archive.advice.wave_constants import Prediction
from mayfly.archive.erase.erasure import Erasure
from mayfly.archive.listings import PastUpdates, PlanLines, RetainedVersions
from mayfly.archive.model.ledger import Ledger, Part
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.status import ArchiveStatus, status_of
from mayfly.archive.write.staged_rows import staged_figures
from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.keywords import known_settings, whole


class Inspection(Part):
    """The part of an archive that only looks at manifests."""

    def __init__(self, ledger: Ledger, erasure: Erasure) -> None:
        super().__init__(ledger)
        self._erasure = erasure

    @known_settings()
    def status(self) -> ArchiveStatus:
        """The current version in figures, from manifests and from files that no version names."""
        root, version = self.repository.directory.address, self.version()
        figures = status_of(root, version, self.repository.versions(), staged_figures(root))
        if figures.hidden_until is not None:
            figures = replace(figures, erased_until=self._erasure.gone_until())
        return replace(figures, last=self.reports()[-1]) if figures.last else figures

    @known_settings()
    def reports(self) -> PastUpdates:
        """The reports of the last updates, oldest first; they outlive their versions."""
        version = self.version()
        history = reports_of(version.manifest.properties)
        if history and version.settings.contract.erased_within is not None:
            history[-1] = {**history[-1], "erased_until": self.erased_until()}
        return PastUpdates(history)

    def erased_until(self) -> int:
        """Rows that expired up to this instant have left the data files."""
        return self._erasure.erased_until()

    @known_settings()
    def history(self) -> RetainedVersions:
        """The retained versions, oldest first."""
        versions = RetainedVersions()
        for number in self.repository.versions():
            with contextlib.suppress(VersionExpired):  # vacuumed meanwhile
                versions.append(ArchiveVersion.of(self.repository.load(number)))
        return versions

    @known_settings()
    def predictions(self) -> list[Prediction]:
        """For each kept report, what the cost model expected of it and what it took."""
        version = self.version()
        return version.settings.family.predictions(version.manifest.properties)

    @known_settings()
    def plan(self, updates: int = 10) -> PlanLines:
        """The coming transitions as the lines of a table."""
        if whole("updates", updates) < 1:
            raise InvalidSetting(f"a plan of {updates} updates", "ask for 1 or more")
        version = self.version()
        first = version.state.update + 1
        coming = range(first, first + updates)
        return PlanLines(version.settings.family.plan_lines(version, coming))
