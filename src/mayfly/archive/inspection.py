"""What an archive tells about itself: figures, past updates, predictions, advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mayfly.archive.advice.cell_advice import advise_lifetimes
from mayfly.archive.advice.cell_advisor import CellAdvice
from mayfly.archive.advice.cell_constants import seconds_of
from mayfly.archive.advice.wave_advice import ArchiveAdvice, Workload, advise_archive
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.advice.wave_constants import Prediction, predictions
from mayfly.archive.layouts import plan_lines
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.layouts.printed_plan import cell_lines
from mayfly.archive.model.reports import CHANGED_AT, reports_of
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.status import ArchiveStatus, status_of
from mayfly.archive.write.staging import staged_figures
from mayfly.errors import InvalidSetting
from mayfly.keywords import known_settings, whole
from mayfly.storage import Repository


class Insight:
    """The part of an archive that only looks at manifests."""

    repository: Repository

    def version(self) -> ArchiveVersion:
        """The current version."""
        raise AssertionError("every archive has one")

    @known_settings()
    def status(self) -> ArchiveStatus:
        """The current version in figures, from manifests and from files that no version names."""
        root, version = self.repository.directory.address, self.version()
        erased = None if version.settings.lifetimes is None else self.gone_until()
        found = status_of(root, version, self.repository.versions(), staged_figures(root), erased)
        return replace(found, last=self.reports()[-1]) if found.last else found

    def gone_until(self) -> int:
        """Rows that expired up to this instant have left everything that belongs to the archive."""
        raise AssertionError("every archive can tell")

    @known_settings()
    def reports(self) -> list[Mapping[str, Any]]:
        """The reports of the last updates, oldest first; they outlive their versions."""
        version = self.version()
        found = reports_of(version.manifest.properties)
        if found and version.settings.contract.erased_within is not None:
            found[-1] = {**found[-1], "erased_until": self.erased_until()}
        return found

    def erased_until(self) -> int:
        """Rows that expired up to this instant have left the data files."""
        raise AssertionError("every archive can tell")

    @known_settings()
    def predictions(self) -> list[Prediction]:
        """For each kept report, what the cost model expected of it and what it took."""
        properties = self.version().manifest.properties
        reports = reports_of(properties)
        if self.version().settings.lifetimes is None:
            return predictions(self.version().settings, reports, properties.get(CHANGED_AT, 0))
        return [
            Prediction(one["update"], one.get("expected_seconds"), seconds_of(one))
            for one in reports
        ]

    @known_settings()
    def plan(self, updates: int = 10) -> list[str]:
        """The coming transitions as the lines of a table."""
        if whole("updates", updates) < 1:
            raise InvalidSetting(f"a plan of {updates} updates", "ask for 1 or more")
        version = self.version()
        first = version.state.update + 1
        coming, layout = range(first, first + updates), version.settings.layout
        if isinstance(layout, PartitionedLayout):
            return cell_lines(layout, coming)
        return plan_lines(layout, version.state.wave, coming)

    @known_settings()
    def advise(
        self,
        workload: Workload | None = None,
        *,
        probes: float = 0,
        scans: float = 0,
        probed_updates: int | None = None,
        scanned_updates: int | None = None,
        megabytes: float | None = None,
        need: Need | None = None,
    ) -> ArchiveAdvice | CellAdvice:
        """Which layout would do the least work here, by the archive's own measured constants.

        The ``workload``, or ``probes`` and ``scans``, are per update; ``megabytes`` (stored, per
        update) is measured unless given; ``need`` may set limits, a hard window or techniques.
        """
        if workload is None:
            workload = Workload(megabytes, probes, scans, probed_updates, scanned_updates)
        if not isinstance(workload, Workload) or not isinstance(need, Need | None):
            raise InvalidSetting(
                f"the workload is {workload!r}, the need {need!r}", "give Workload(…) and Need(…)"
            )
        if self.version().settings.lifetimes is not None:
            return advise_lifetimes(
                self.repository.directory, self.version(), self.reports(), workload, need
            )
        return advise_archive(self.repository.directory, self.version(), workload, need)
