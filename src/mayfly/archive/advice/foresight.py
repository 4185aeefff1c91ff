"""What an update is expected to take, and whether another layout would do better by now."""

from __future__ import annotations

from collections import Counter
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
from mayfly.archive.advice.cell_constants import expected_seconds
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.write.accounting import UpdateReport
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.storage import Repository


class Foresight:
    """The part of an archive that looks ahead when it is updated."""

    repository: Repository
    asked: Counter[str]
    """Probes and scans since the last update, made through this object."""

    def version(self) -> ArchiveVersion:
        """The current version."""
        raise AssertionError("every archive has one")

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
        told: dict[str, Any] = {"probes": self.asked["probes"], "scans": self.asked["scans"]}
        if version.settings.lifetimes is not None:
            reports = reports_of(version.manifest.properties)
            rows = 0 if batch is None else getattr(batch, "num_rows", None)
            told["expected_seconds"] = expected_seconds(version, planned, reports, rows)
        return told

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
