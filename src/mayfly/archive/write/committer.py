"""Carrying out what was planned, and making it the next version of an archive."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from mayfly.archive.model.admission import AdmissionSummary
from mayfly.archive.model.invalidation import still_pending
from mayfly.archive.model.ledger import Ledger, Part
from mayfly.archive.model.reports import REPORTS, reports_after
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.write.job_plan import PlannedCommit, plan_rest, write_job
from mayfly.archive.write.part_writer import PartResult, WriteJob
from mayfly.archive.write.update_report import moved
from mayfly.errors import CommitConflict, CorruptFile, ProtocolError, VersionExpired
from mayfly.faults import reach
from mayfly.storage import AddSegments, DropSegments, Manifest, SetProperties, prune


class Executor(Protocol):
    """Carries out write jobs over batches of its own kind (Arrow tables, DataFrames)."""

    def earliest(self, batch: Any, settings: ArchiveSettings) -> int | None:
        """The smallest generation time in the batch, None if it has none."""

    def late_days(self, batch: Any, settings: ArchiveSettings, update: int) -> frozenset[int]:
        """Earlier updates that rows of the batch belong to."""

    def highest(self, batch: Any, settings: ArchiveSettings) -> Mapping[str, int | None]:
        """The largest position of each window of a number of rows in the batch."""

    def write(self, batch: Any | None, job: WriteJob) -> list[PartResult]:
        """Run the job on every part and bring back one result per part."""


class Committer(Part):
    """The part of an archive that writes files and publishes versions."""

    def __init__(self, ledger: Ledger, executor: Executor) -> None:
        super().__init__(ledger)
        self.executor = executor

    def execute(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        planned: PlannedCommit,
        moved_to: ArchiveSettings | None = None,
    ) -> list[PartResult]:
        """Write the files of a plan, part by part; nothing is committed by that."""
        job = write_job(self.repository.directory, version, planned, moved_to)
        if not job.writes and batch is None:
            return []
        with self.repository.writing_from(version.manifest):
            results = self.executor.write(batch, job)
        parts = sorted(result.part for result in results)
        if parts != list(range(version.settings.parts)):
            raise ProtocolError(
                f"results came for parts {parts}, not for all {version.settings.parts}",
                "nothing was committed; run the update again",
            )
        return results

    def require_admissible(
        self,
        summary: AdmissionSummary,
        settings: ArchiveSettings,
        number: int,
        results: Sequence[PartResult],
    ) -> None:
        """Refuse a batch with rows that may not be stored, and remove what was written of it."""
        if summary.refused:
            for result in results:
                for segment in result.segments:
                    self.repository.directory.remove(segment.path)
        summary.require_none_refused(number, settings.family.longest_lifetime)

    def commit(
        self,
        version: ArchiveVersion,
        following: ArchiveState,
        results: Sequence[PartResult],
        properties: Mapping[str, Any] | None = None,
        *,
        reported: bool = True,
        erased_before: int | None = None,
    ) -> Manifest:
        """Publish a state and its files; its report is among the kept ones if it is an update's,
        and so is until when bytes were gone after the one before."""
        added = tuple(segment for result in results for segment in result.segments)
        stored = {**(properties or {}), "state": following.to_json()}
        if reported:
            before = version.manifest.properties
            stored[REPORTS] = reports_after(before, following.report, erased_before)
        return self.repository.commit(
            version.manifest,
            [
                AddSegments(added),
                DropSegments.of(version.unused_by(following)),
                SetProperties(stored),
            ],
        )

    def prepare(self) -> dict[str, Any]:
        """Do the pre-transition work of the last update if it is still to be done."""
        while not (version := self.version()).state.prepared:
            try:
                return self._prepare(version)
            except CommitConflict:
                continue  # another writer was faster, perhaps with this very work
        return {}

    def _prepare(self, version: ArchiveVersion) -> dict[str, Any]:
        began = time.perf_counter()
        state = version.state
        planned = plan_rest(version.settings, state)
        results = self.execute(None, version, planned)
        done = {
            "pre_transition_seconds": round(time.perf_counter() - began, 6),
            **{name: state.report.get(name, 0) + count for name, count in moved(results).items()},
        }
        reach("archive.prepared")
        following = replace(
            state,
            wave=planned.after,
            runs=planned.runs,
            prepared=True,
            report={**state.report, **done},
            invalid=still_pending(state.invalid, planned.runs),
        )
        self.commit(version, following, results)
        return done

    def prune(self) -> None:
        """Let go of the versions that need not be kept."""
        # With a damaged manifest among the kept ones it is unknown what may go; verify names it.
        with contextlib.suppress(CorruptFile):
            kept = self.versions_of(self.version().settings.keep_versions)
            if kept < len(self.repository.versions()):
                prune(self.repository, keep_versions=kept)

    def versions_of(self, updates: int) -> int:
        """How many of the newest versions show the last ``updates`` updates: some have two."""
        shown: set[int] = set()
        versions = self.repository.versions()
        for count, number in enumerate(reversed(versions)):
            with contextlib.suppress(VersionExpired):  # vacuumed meanwhile
                shown.add(ArchiveVersion.of(self.repository.load(number)).state.update)
            if len(shown) > updates:
                return count
        return len(versions)
