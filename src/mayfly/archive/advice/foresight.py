"""What an update is expected to take, and whether another layout would do better by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from mayfly.archive.advice.cell_advice import (
    AUTO,
    PENDING,
    advise_lifetimes,
    observed_load,
    propose,
)
from mayfly.archive.advice.cell_advisor import CellAdvice
from mayfly.archive.advice.wave_advice import ArchiveAdvice, Workload
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.archive.write.update_report import UpdateReport
from mayfly.errors import InvalidSetting
from mayfly.keywords import known_settings


class Foresight(Part):
    """The part of an archive that looks ahead when it is updated."""

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
        version = self.version()
        return version.settings.family.advise(self.repository.directory, version, workload, need)

    def advised_layout(self) -> PartitionedLayout:
        """The layout that does the least work under the load of the last updates."""
        version = self.version()
        reports = reports_of(version.manifest.properties)
        load = observed_load(version, reports)
        return advise_lifetimes(self.repository.directory, version, reports, load).best.layout

    def foreseen(
        self, version: ArchiveVersion, planned: PlannedCommit, batch: Any | None
    ) -> dict[str, Any]:
        """What the report of an update is to say of the time before it."""
        rows = 0 if batch is None else getattr(batch, "num_rows", None)
        return {
            **{name: self.ledger.asked[name] for name in ("probes", "scans")},
            "expected_seconds": version.settings.family.expected_seconds(version, planned, rows),
        }

    def with_proposal(
        self, version: ArchiveVersion, report: UpdateReport
    ) -> tuple[UpdateReport, Mapping[str, Any]]:
        """The report with what it proposes, and what the archive is to remember of it."""
        if AUTO not in version.manifest.properties:
            return report, {}
        reports = [*reports_of(version.manifest.properties), asdict(report)]
        proposal = propose(self.repository.directory, version, reports)
        if proposal is None:
            return report, {}
        pending = {
            "text": proposal.text,
            "update": report.update,
            "layout": str(version.settings.layout),
        }
        remembered = {
            AUTO: proposal.load.to_json(),
            PENDING: None if proposal.text is None else pending,
        }
        return replace(report, proposal=proposal.text), remembered
