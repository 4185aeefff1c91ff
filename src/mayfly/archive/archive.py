"""An archive: rows with lifetimes on disk, refreshed update by update, read by key and time.

The archive decides; an executor carries out. What an update has to write is a plan over runs
(``layouts.run_plan``); the executor writes it part by part, in this process or on Spark; the
archive commits the result as one version. The new day is queryable after the first commit; work
for later days (pre-transition) follows in a second one, and is made up for after a crash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from mayfly.archive.admission import AdmissionSummary, LateRows, total
from mayfly.archive.layouts.run_plan import (
    RunPlan,
    RunWrite,
    UpdatePlan,
    independent,
    plan_gap,
    plan_preparation,
    plan_update,
)
from mayfly.archive.layouts.wave import Transition
from mayfly.archive.reading import KeyRange, Reader, ReadReport, Selection
from mayfly.archive.sequence import take_turn
from mayfly.archive.settings import ArchiveSettings
from mayfly.archive.state import RUN, ArchiveState, ArchiveVersion
from mayfly.archive.writing import PartResult, WriteJob
from mayfly.errors import CorruptFile, InvalidSetting, ProtocolError, StorageError, VersionExpired
from mayfly.faults import reach
from mayfly.lifetime import instant
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    Pin,
    Repository,
    SetProperties,
    VacuumReport,
    VerifyReport,
    vacuum,
    verify,
)

ARCHIVE = "archive"
Moment = int | str | datetime


class Executor(Protocol):
    """Carries out write jobs over batches of its own kind (Arrow tables, DataFrames)."""

    def late_days(self, batch: Any, settings: ArchiveSettings, update: int) -> frozenset[int]:
        """Earlier updates that rows of the batch belong to."""

    def write(self, batch: Any | None, job: WriteJob) -> list[PartResult]:
        """Run the job on every part and bring back one result per part."""


@dataclass(frozen=True)
class UpdateReport:
    """What one update did."""

    update: int
    rows_in: int = 0
    stored: int = 0
    late: int = 0
    dead_on_arrival: int = 0
    removed: int = 0
    dead_but_stored: int = 0
    indexes_touched: int = 0
    files_read: int = 0
    bytes_read: int = 0
    files_written: int = 0
    bytes_written: int = 0
    transition_seconds: float = 0.0
    pre_transition_seconds: float = 0.0
    repeated: bool = False
    """The batch had been committed before: nothing was done."""


@dataclass
class Archive:
    """An open archive. Make one with ``create`` or ``open``."""

    repository: Repository
    executor: Executor
    _cached: tuple[int, ArchiveVersion] | None = field(default=None, repr=False)

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        settings: ArchiveSettings,
        executor: Executor,
        *,
        sync: bool = True,
    ) -> Archive:
        properties = {
            "kind": ARCHIVE,
            "archive": settings.to_json(),
            "state": ArchiveState().to_json(),
        }
        return Archive(Repository.create(path, properties, sync=sync), executor)

    @staticmethod
    def open(path: str | os.PathLike[str], executor: Executor, *, sync: bool = True) -> Archive:
        repository = Repository.open(path, sync=sync)
        kind = repository.current().properties.get("kind")
        if kind != ARCHIVE:
            raise StorageError(
                f"{repository.directory.root} holds a {kind}, not an archive", "check the path"
            )
        return Archive(repository, executor)

    # -- state -------------------------------------------------------------------------------

    def version(self) -> ArchiveVersion:
        """The current version; its manifest is read only when it has changed."""
        newest = self.repository.newest()
        if self._cached is None or self._cached[0] != newest:
            self._cached = (newest, ArchiveVersion.of(self.repository.load(newest)))
        return self._cached[1]

    @property
    def settings(self) -> ArchiveSettings:
        return self.version().settings

    # -- updates -----------------------------------------------------------------------------

    def update(
        self,
        batch: Any | None,
        *,
        update: int | None = None,
        at: Moment | None = None,
        batch_id: str | None = None,
    ) -> UpdateReport:
        """Insert the rows of one interval and remove what has expired, as one commit.

        The update is the next one, or number ``update``, or the one whose interval holds ``at``;
        missed updates before it run as empty ones in the same commit. ``None`` is an empty
        batch. A ``batch_id`` that is already committed does nothing.
        """
        self.prepare()
        version = self.version()
        settings, state = version.settings, version.state
        number = self._number(version, update, at)
        turn = take_turn(number, batch_id or f"update {number}", state.update, state.batches)
        if turn.repeated:
            return UpdateReport(turn.update, repeated=True)
        began = time.perf_counter()
        late: frozenset[int] = frozenset()
        if batch is not None and settings.late is LateRows.OWN_DAY:
            late = self.executor.late_days(batch, settings, number) - {number}
        steps = self._steps(settings, state, turn.empty_updates, number, late)
        arrived = late | {number} if batch is not None else frozenset[int]()
        plan, whole = self._plan(settings, state, steps, arrived, late)
        plans = plan.plans if whole else plan.transition
        results = self._execute(batch, version, plans, number)
        summary = total(result.summary for result in results)
        self._require_admissible(summary, number, results)
        reach("archive.written")
        after = steps[-1].after if whole else steps[-1].arrived
        report = self._report(version, number, plan, whole, results, summary, after.day, began)
        rows = _day_rows(state.day_rows, results, after)
        following = ArchiveState(
            wave=after,
            runs=plan.runs if whole else plan.runs_arrived,
            day_rows=rows,
            batches={**state.batches, turn_id(batch_id, number): number},
            prepared=whole,
            report=asdict(report),
        )
        self._commit(version, following, results)
        reach("archive.committed")
        prepared = self.prepare()
        self._tidy(settings)
        return replace(report, **prepared) if prepared else report

    def prepare(self) -> dict[str, Any]:
        """Do the pre-transition work of the last update if it is still to be done."""
        version = self.version()
        if version.state.prepared:
            return {}
        began = time.perf_counter()
        settings, state = version.settings, version.state
        operations = settings.layout.preparation(state.wave)
        plans, runs, after = plan_preparation(
            operations, state.wave, settings.technique, state.runs
        )
        job = self._job(version, [w for plan in plans for w in plan.write], state.update)
        results = self.executor.write(None, job) if job.writes else []
        done = {
            "pre_transition_seconds": round(time.perf_counter() - began, 6),
            **{
                name: version.state.report.get(name, 0) + sum(r.io.get(name, 0) for r in results)
                for name in ("files_read", "bytes_read", "files_written", "bytes_written")
            },
        }
        reach("archive.prepared")
        following = replace(
            state,
            wave=after,
            runs=runs,
            prepared=True,
            report={**state.report, **done},
        )
        self._commit(version, following, results)
        return done

    def _number(self, version: ArchiveVersion, update: int | None, at: Moment | None) -> int:
        if update is not None and at is not None:
            raise InvalidSetting("both update and at were given", "give one of them")
        if at is not None:
            return version.settings.calendar.update_of(instant(at))
        return version.state.update + 1 if update is None else update

    def _steps(
        self,
        settings: ArchiveSettings,
        state: ArchiveState,
        missed: range,
        number: int,
        late: frozenset[int],
    ) -> list[Transition]:
        steps = list(settings.layout.run(state.wave, missed[-1])) if missed else []
        before = steps[-1].after if steps else state.wave
        return [*steps, settings.layout.transition(before, number, late)]

    def _plan(
        self,
        settings: ArchiveSettings,
        state: ArchiveState,
        steps: Sequence[Transition],
        arrived: frozenset[int],
        late: frozenset[int],
    ) -> tuple[UpdatePlan, bool]:
        """The plan, and whether it includes the pre-transition work (gaps and late rows do)."""
        if len(steps) > 1:
            return plan_gap(steps, settings.technique, state.runs, arrived), True
        plan = plan_update(steps[0], settings.technique, state.runs, arrived)
        return plan, bool(late) or not plan.pre_transition

    def _execute(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        plans: Sequence[RunPlan],
        number: int,
    ) -> list[PartResult]:
        job = self._job(version, [write for plan in plans for write in plan.write], number)
        if not job.writes and batch is None:
            return []
        results = self.executor.write(batch, job)
        found = sorted(result.part for result in results)
        if found != list(range(version.settings.parts)):
            raise ProtocolError(
                f"results came for parts {found}, not for all {version.settings.parts}",
                "nothing was committed; run the update again",
            )
        return results

    def _job(self, version: ArchiveVersion, writes: Sequence[RunWrite], number: int) -> WriteJob:
        needed = independent(writes)
        read = {source.run for write in needed for source in write.sources}
        directory = self.repository.directory
        return WriteJob(
            root=os.fspath(directory.root),
            sync=directory.sync,
            settings=version.settings,
            update=number,
            writes=needed,
            sources={run: version.segments_of(run) for run in sorted(read)},
        )

    def _require_admissible(
        self, summary: AdmissionSummary, number: int, results: Sequence[PartResult]
    ) -> None:
        if summary.refused:
            for result in results:
                for segment in result.segments:
                    self.repository.directory.remove(segment.path)
        summary.require_none_refused(number)

    def _commit(
        self, version: ArchiveVersion, following: ArchiveState, results: Sequence[PartResult]
    ) -> Manifest:
        used = following.used_runs()
        dropped = [
            segment
            for segment in version.manifest.in_group(RUN)
            if segment.group.partition("/")[2] not in used
        ]
        added = tuple(segment for result in results for segment in result.segments)
        return self.repository.commit(
            version.manifest,
            [
                AddSegments(added),
                DropSegments.of(dropped),
                SetProperties({"state": following.to_json()}),
            ],
        )

    def _report(
        self,
        version: ArchiveVersion,
        number: int,
        plan: UpdatePlan,
        whole: bool,
        results: Sequence[PartResult],
        summary: AdmissionSummary,
        day: int,
        began: float,
    ) -> UpdateReport:
        horizon = day - version.settings.window
        before = version.state.update - version.settings.window
        rows = version.state.day_rows
        io = {
            name: sum(result.io.get(name, 0) for result in results)
            for name in ("files_read", "bytes_read", "files_written", "bytes_written")
        }
        plans = plan.plans if whole else plan.transition
        held = plan.runs if whole else plan.runs_arrived
        lingering = {d for runs in held.values() for run in runs for d in run.days if d <= horizon}
        return UpdateReport(
            update=number,
            rows_in=summary.rows,
            stored=summary.stored,
            late=summary.late,
            dead_on_arrival=summary.dead_on_arrival,
            removed=sum(count for d, count in rows.items() if before < d <= horizon),
            dead_but_stored=sum(rows.get(d, 0) for d in lingering),
            indexes_touched=len({one.target for one in plans}),
            files_read=io["files_read"],
            bytes_read=io["bytes_read"],
            files_written=io["files_written"],
            bytes_written=io["bytes_written"],
            transition_seconds=round(time.perf_counter() - began, 6),
        )

    def _tidy(self, settings: ArchiveSettings) -> None:
        if len(self.repository.versions()) > settings.keep_versions:
            vacuum(self.repository, keep_versions=settings.keep_versions)

    # -- reading -----------------------------------------------------------------------------

    def probe(
        self,
        *keys: Any,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows under these keys that are alive at ``as_of`` (by default the last update)."""

        def read(reader: Reader, moment: int) -> pa.Table:
            return reader.probe(keys, selection(moment, generated_between, soft), columns)

        return self._read(read, as_of, report)

    def probe_range(
        self,
        low: Any = None,
        high: Any = None,
        *,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows whose first key column lies between ``low`` and ``high``, both included."""

        def read(reader: Reader, moment: int) -> pa.Table:
            wanted = selection(moment, generated_between, soft)
            return reader.probe_range(KeyRange(low, high), wanted, columns)

        return self._read(read, as_of, report)

    def scan(
        self,
        *,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """All rows alive at ``as_of``."""

        def read(reader: Reader, moment: int) -> pa.Table:
            return reader.scan(selection(moment, generated_between, soft), columns)

        return self._read(read, as_of, report)

    def scan_tables(self, *, as_of: Moment | None = None, soft: bool = False) -> Iterator[pa.Table]:
        """All rows alive at ``as_of``, file by file, for archives larger than memory."""
        moment = self.version().time if as_of is None else instant(as_of)
        wanted = self.version_at(moment)
        with self.pin(wanted.manifest.version):
            reader = Reader(self.repository.directory, wanted)
            for table in reader.scan_tables(selection(moment, None, soft)):
                yield table.select(list(wanted.settings.all_columns))

    def pin(self, version: int | None = None) -> Pin:
        """Keep a version readable across updates and vacuums until the pin is released."""
        return self.repository.pin(version)

    def version_at(self, as_of: int) -> ArchiveVersion:
        """The newest retained version whose update is not later than ``as_of``."""
        current = self.version()
        if current.time <= as_of or current.state.update == 0:
            return current
        for number in reversed(self.repository.versions()):
            version = ArchiveVersion.of(self.repository.load(number))
            if version.state.update == 0 or version.time <= as_of:
                return version
        raise VersionExpired(
            f"no retained version of {self.repository.directory.root} is as old as {as_of}",
            "ask for a later instant, or keep more versions (keep_versions)",
        )

    def _read(
        self,
        read: Callable[[Reader, int], pa.Table],
        as_of: Moment | None,
        report: ReadReport | None,
    ) -> pa.Table:
        """A short read without a pin: if a vacuum takes its files away, it starts anew."""
        for last in (False, False, True):
            moment = self.version().time if as_of is None else instant(as_of)
            wanted = self.version_at(moment)
            found = ReadReport()
            try:
                rows = read(Reader(self.repository.directory, wanted, report=found), moment)
            except CorruptFile:
                if last or self.repository.newest() == wanted.manifest.version:
                    raise
                continue
            if report is not None:
                report.take(found)
            return rows
        raise AssertionError("unreachable")

    # -- care --------------------------------------------------------------------------------

    def add_column(self, name: str, kind: str) -> None:
        """Add a column; rows stored before have NULL in it."""
        version = self.version()
        settings = version.settings.with_column(name, kind)
        self.repository.commit(version.manifest, [SetProperties({"archive": settings.to_json()})])

    def rollback(self, version: int) -> None:
        """Make a retained version the current one again, as a new version."""
        self.repository.rollback(version)

    def history(self) -> list[ArchiveVersion]:
        """The retained versions, oldest first."""
        return [ArchiveVersion.of(self.repository.load(v)) for v in self.repository.versions()]

    def verify(self) -> VerifyReport:
        """Look into every file of the current version."""
        return verify(self.repository)

    def vacuum(self, *, keep_versions: int | None = None, grace: int | None = None) -> VacuumReport:
        """Remove what no kept version needs."""
        kept = self.settings.keep_versions if keep_versions is None else keep_versions
        options = {} if grace is None else {"grace": grace}
        return vacuum(self.repository, keep_versions=kept, **options)


def turn_id(batch_id: str | None, number: int) -> str:
    return batch_id or f"update {number}"


def _day_rows(
    before: Mapping[int, int], results: Sequence[PartResult], after: Any
) -> dict[int, int]:
    rows = dict(before)
    for result in results:
        for day, count in result.day_rows.items():
            rows[day] = rows.get(day, 0) + count
    held = (
        after.stored_days.union(*after.temporaries.values())
        if after.temporaries
        else (after.stored_days)
    )
    oldest = min(held, default=0)
    return {day: count for day, count in rows.items() if day >= oldest}


def selection(
    as_of: int, between: tuple[Moment | None, Moment | None] | None, soft: bool
) -> Selection:
    low, high = between or (None, None)
    return Selection(
        as_of,
        None if low is None else instant(low),
        None if high is None else instant(high),
        soft,
    )
