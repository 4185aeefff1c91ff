"""An archive: rows with lifetimes on disk, refreshed update by update, read by key and time.

The archive decides; an executor carries out. What an update has to write is a plan over runs
(``layouts.run_plan``); the executor writes it part by part, in this process or on Spark; the
archive commits the result as one version. The new day is queryable after the first commit; work
for later days (pre-transition) follows in a second one, and is made up for after a crash.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self

from mayfly.archive.advice.cell_advice import AUTO, PENDING
from mayfly.archive.advice.foresight import Foresight
from mayfly.archive.change.migration import Migrating
from mayfly.archive.change.voids import Voiding
from mayfly.archive.erase.erasure import VOID, Erasing
from mayfly.archive.inspection import Insight
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.maintenance import Care
from mayfly.archive.model.admission import AdmissionSummary, LateRows, total
from mayfly.archive.model.calendar import UpdateCalendar
from mayfly.archive.model.invalidation import still_pending
from mayfly.archive.model.origin import ORIGIN_IS_OPEN, CountedFrom
from mayfly.archive.model.reports import REPORTS, reports_after
from mayfly.archive.model.row_counts import Positions, announced
from mayfly.archive.model.sequence import require_plausible, take_turn, turn_id
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.read.key_places import forget_hashes
from mayfly.archive.read.questions import Asking, Moment
from mayfly.archive.read.stored_files import let_go
from mayfly.archive.write.accounting import UpdateReport, account, moved, rows_by_day
from mayfly.archive.write.job_plan import PlannedCommit, plan_cells, plan_next, plan_rest, write_job
from mayfly.archive.write.part_writer import PartResult, WriteJob
from mayfly.errors import (
    CommitConflict,
    CorruptFile,
    InvalidSetting,
    ProtocolError,
    StorageError,
    VersionExpired,
)
from mayfly.faults import reach
from mayfly.keywords import known_settings, text, whole
from mayfly.lifetime import instant
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    Repository,
    SetProperties,
)
from mayfly.storage.commit import wall_clock

ARCHIVE = "archive"
OWN_PROPERTIES = frozenset({"kind", ARCHIVE, "state", ORIGIN_IS_OPEN, REPORTS, VOID, AUTO, PENDING})


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


@dataclass
class Archive(Asking, Voiding, Foresight, Migrating, Erasing, Insight, CountedFrom, Care):
    """An open archive. Make one with ``create`` or ``open``."""

    repository: Repository
    executor: Executor
    _cached: tuple[int, ArchiveVersion] | None = field(default=None, repr=False)
    _erased: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    asked: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

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

    # -- state -------------------------------------------------------------------------------

    def version(self) -> ArchiveVersion:
        """The current version; its manifest is read only when it has changed."""
        if self._cached is None or self._cached[0] != self.repository.newest():
            manifest = self.repository.current()
            self._cached = (manifest.version, ArchiveVersion.of(manifest))
            root = self.repository.directory.address
            let_go(root, manifest.segments)
            forget_hashes(root, manifest.segments)
        return self._cached[1]

    @property
    def settings(self) -> ArchiveSettings:
        return self.version().settings

    # -- updates -----------------------------------------------------------------------------

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
        if batch_id is not None:
            text("batch_id", batch_id)
        _check_properties(properties)
        self.prepare()
        moment = None if at is None else instant(at)
        version = self.with_origin(batch, moment, checked=update is not None)
        state = version.state
        if calendar is not None and calendar != version.settings.calendar:
            raise CommitConflict(
                f"the times of updates of {self.repository.directory.address} have changed",
                "look at its settings again, and number the update anew",
            )
        number = self._number(version, update, at)
        turn = take_turn(number, turn_id(batch_id, number), state.update, state.batches)
        if turn.repeated:
            return UpdateReport(turn.update, repeated=True)
        promised = version.settings.contract.erased_within is not None
        gone = self.erased_by_last() if promised and state.update else None
        began = time.perf_counter()
        reached = self._reached(batch, version, number, positions)
        planned = self._planned(batch, version, turn.empty_updates, number, reached)
        told = self.foreseen(version, planned, batch)
        results = self._execute(batch, version, planned)
        summary = total(result.summary for result in results)
        self._require_admissible(summary, version.settings, number, results)
        planned = planned.settled(results)
        reach("archive.written")
        rows = rows_by_day(version, planned, results)
        report = account(version, planned, summary, results)
        seconds = round(time.perf_counter() - began, 6)
        report = replace(report, transition_seconds=seconds, **told)
        report, remembered = self.with_proposal(version, report)
        following = ArchiveState(
            wave=planned.after,
            runs=planned.runs,
            day_rows=rows,
            batches={**state.batches, turn_id(batch_id, number): number},
            prepared=planned.complete,
            report=asdict(report),
            invalid=still_pending(state.invalid, planned.runs),
            positions={} if reached is None else reached.to_json(),
        )
        added = {**(properties or {}), **remembered}
        self._commit(version, following, results, added, erased_before=gone)
        self.asked.subtract({"probes": report.probes, "scans": report.scans})
        reach("archive.committed")
        prepared = self.prepare()
        self.tidy()
        if version.settings.lifetimes is not None:
            prepared = self.erased()
        return replace(report, **prepared) if prepared else report

    def _reached(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        number: int,
        given: Mapping[str, int] | None,
    ) -> Positions | None:
        """Where windows of a number of rows stand after the update; None if there are none."""
        before = version.positions
        if before is None:
            if given is not None:
                raise InvalidSetting(
                    "positions were given to an archive without windows of a number of rows",
                    "leave them out, or declare the windows (counts)",
                )
            return None
        seen: dict[str, int | None] = dict.fromkeys(before.sizes)
        if batch is not None:
            seen |= self.executor.highest(batch, version.settings)
        for name, position in announced(given or {}, before.sizes).items():
            seen[name] = max(position, seen[name] or position)
        return before.after(seen, number - version.state.update)

    def _planned(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        missed: range,
        number: int,
        reached: Positions | None,
    ) -> PlannedCommit:
        settings, late = version.settings, frozenset[int]()
        if isinstance(settings.layout, PartitionedLayout):
            return plan_cells(
                version, settings.layout, number, has_batch=batch is not None, positions=reached
            )
        if batch is not None and settings.late is LateRows.OWN_DAY:
            late = self.executor.late_days(batch, settings, number) - {number}
        arrived = late | {number} if batch is not None else frozenset[int]()
        return plan_next(settings, version.state, missed, number, arrived, late)

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
        results = self._execute(None, version, planned)
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
        self._commit(version, following, results)
        return done

    def _number(self, version: ArchiveVersion, update: int | None, at: Moment | None) -> int:
        if update is not None and at is not None:
            raise InvalidSetting("both update and at were given", "give one of them")
        if at is not None:
            return version.settings.calendar.update_of(instant(at))
        if update is None:
            return version.state.update + 1
        require_plausible(
            whole("update", update), version.state.update, version.settings.calendar, wall_clock()
        )
        return update

    def _execute(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        planned: PlannedCommit,
        moved_to: ArchiveSettings | None = None,
    ) -> list[PartResult]:
        job = write_job(self.repository.directory, version, planned, moved_to)
        if not job.writes and batch is None:
            return []
        with self.repository.writing_from(version.manifest):
            results = self.executor.write(batch, job)
        found = sorted(result.part for result in results)
        if found != list(range(version.settings.parts)):
            raise ProtocolError(
                f"results came for parts {found}, not for all {version.settings.parts}",
                "nothing was committed; run the update again",
            )
        return results

    def execute_moved(
        self, version: ArchiveVersion, planned: PlannedCommit, after: ArchiveSettings
    ) -> list[PartResult]:
        results = self._execute(None, version, planned, after)
        summary = total(result.summary for result in results)
        self._require_admissible(summary, after, planned.update, results)
        return results

    def commit_moved(
        self,
        version: ArchiveVersion,
        following: ArchiveState,
        results: list[PartResult],
        after: ArchiveSettings,
        noted: Mapping[str, Any],
    ) -> None:
        changed = {ARCHIVE: after.to_json(), **noted}
        self._commit(version, following, results, changed, reported=False)
        self.tidy()
        if after.lifetimes is not None:
            self.erased()

    def recommit(
        self,
        version: ArchiveVersion,
        listed: ArchiveVersion,
        planned: PlannedCommit,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        results = self._execute(None, listed, planned)
        settled = planned.settled(results)
        following = replace(
            listed.state,
            wave=settled.after,
            runs=settled.runs,
            day_rows=rows_by_day(listed, settled, results),
            invalid=still_pending(listed.state.invalid, settled.runs),
        )
        self._commit(version, following, results, properties, reported=False)
        if version.settings.lifetimes is not None:
            self.erased()

    def _require_admissible(
        self,
        summary: AdmissionSummary,
        settings: ArchiveSettings,
        number: int,
        results: Sequence[PartResult],
    ) -> None:
        if summary.refused:
            for result in results:
                for segment in result.segments:
                    self.repository.directory.remove(segment.path)
        lifetimes = settings.lifetimes
        summary.require_none_refused(number, None if lifetimes is None else lifetimes.longest)

    def _commit(
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


def _check_properties(given: object) -> None:
    """Properties of a commit beside those that are the archive itself."""
    if given is None:
        return
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidSetting(f"properties is {given!r}", "give them by name")
    if taken := sorted(OWN_PROPERTIES & given.keys()):
        raise InvalidSetting(
            f"the property {', '.join(taken)} is the archive's own", "choose another name"
        )


def _readable(repository: Repository) -> Manifest:
    """The newest manifest that can be read."""
    try:
        return repository.current()
    except CorruptFile as damage:
        for number in reversed(repository.versions()):
            with contextlib.suppress(CorruptFile, VersionExpired):
                return repository.load(number)
        raise damage
