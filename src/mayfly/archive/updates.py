"""Updates: rows of one interval come, what has expired goes, as one commit.

The archive decides; an executor carries out. What an update has to write is a plan over runs
(``layouts.run_plan``); the executor writes it part by part, in this process or on Spark; the
archive commits the result as one version. The new day is queryable after the first commit; work
for later days (pre-transition) follows in a second one, and is made up for after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from mayfly.archive.advice.cell_advice import AUTO, PENDING
from mayfly.archive.advice.foresight import Foresight
from mayfly.archive.erase.erasure import VOID, Erasure
from mayfly.archive.model.admission import total
from mayfly.archive.model.calendar import UpdateCalendar
from mayfly.archive.model.invalidation import still_pending
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.origin import ORIGIN_IS_OPEN, Origin
from mayfly.archive.model.reports import REPORTS
from mayfly.archive.model.row_counts import Positions
from mayfly.archive.model.sequence import Turn, require_plausible, take_turn, turn_id
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.read.questions import Moment
from mayfly.archive.write.committer import Committer
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.archive.write.update_report import UpdateReport, account
from mayfly.errors import CommitConflict, InvalidSetting
from mayfly.faults import reach
from mayfly.keywords import known_settings, text, whole
from mayfly.lifetime import instant
from mayfly.storage.commit import wall_clock

ARCHIVE = "archive"
OWN_PROPERTIES = frozenset({"kind", ARCHIVE, "state", ORIGIN_IS_OPEN, REPORTS, VOID, AUTO, PENDING})


class Updates(Part):
    """The part of an archive that takes rows in."""

    def __init__(
        self, committer: Committer, origin: Origin, erasure: Erasure, foresight: Foresight
    ) -> None:
        super().__init__(committer.ledger)
        self.committer, self._origin = committer, origin
        self._erasure, self._foresight = erasure, foresight
        self.incoming: Callable[[Any | None], Any | None] = lambda batch: batch
        """Makes of what users bring what the executor takes."""

    @property
    def are_counted(self) -> bool:
        """Whether it is settled from when updates are counted."""
        return self._origin.is_settled

    def count_from(self, first: int) -> None:
        """Count updates from the interval that holds ``first``, for good."""
        self._origin.settle(first)

    def begin(
        self, batch: Any | None, moment: int | None = None, *, checked: bool = False
    ) -> ArchiveVersion:
        """The version that an update builds on: what the last one left to be done is done, and an
        open origin is decided by the ``moment`` or the batch, whose times may be ``checked``."""
        self.committer.prepare()
        return self._origin.propose_origin(batch, moment, checked=checked)

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
        missed updates before it run as empty ones in the same commit. The batch is an Arrow table,
        a pandas DataFrame or a list of dicts, on Spark also a DataFrame; ``None`` is an empty one.
        A ``batch_id`` that is already committed does nothing. ``properties`` become part
        of the same commit. Where windows are of a number of rows, ``positions`` say how far their
        streams have come, if further than the rows of the batch. An update that was numbered by
        a ``calendar`` is not done (CommitConflict) if the archive has got another since.
        """
        batch = self.incoming(batch)
        if batch_id is not None:
            text("batch_id", batch_id)
        _check_properties(properties)
        moment = None if at is None else instant(at)
        version = self.begin(batch, moment, checked=update is not None)
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
        self._erasure.require_erasable(number, properties=properties)
        gone = self._erasure.erased_by_last() if promised and state.update else None
        began = time.perf_counter()
        reached = self._reached(batch, version, number, positions)
        planned = self._planned(batch, version, turn, reached)
        forecast = self._foresight.foreseen(version, planned, batch)
        results = self.committer.execute(batch, version, planned)
        summary = total(result.summary for result in results)
        self.committer.require_admissible(summary, version.settings, number, results)
        planned = planned.settled(results)
        reach("archive.written")
        rows = version.settings.family.rows_by_label(version, planned, results)
        report = account(version, planned, summary, results)
        seconds = round(time.perf_counter() - began, 6)
        report = replace(report, transition_seconds=seconds, **forecast)
        report, remembered = self._foresight.with_proposal(version, report)
        following = ArchiveState(
            wave=planned.after,
            runs=planned.runs,
            day_rows=rows,
            batches={**state.batches, turn_id(batch_id, number): number},
            prepared=planned.complete,
            report=asdict(report),
            invalid=still_pending(state.invalid, planned.runs),
            positions=reached.to_json(),
        )
        added = {**(properties or {}), **remembered}
        self.committer.commit(version, following, results, added, erased_before=gone)
        self.ledger.asked.subtract({"probes": report.probes, "scans": report.scans})
        reach("archive.committed")
        prepared = self.committer.prepare()
        self.committer.prune()
        return replace(report, **prepared, **self._erasure.erase_due())

    def _reached(
        self,
        batch: Any | None,
        version: ArchiveVersion,
        number: int,
        announced: Mapping[str, int] | None,
    ) -> Positions:
        """Where windows of a number of rows stand after the update."""

        def highest() -> Mapping[str, int | None]:
            executor = self.committer.executor
            return {} if batch is None else executor.highest(batch, version.settings)

        updates = number - version.state.update
        return version.settings.family.positions_after(version, highest, announced, updates)

    def _planned(
        self, batch: Any | None, version: ArchiveVersion, turn: Turn, reached: Positions
    ) -> PlannedCommit:
        def late_days() -> frozenset[int]:
            return self.committer.executor.late_days(batch, version.settings, turn.update)

        looked_for = None if batch is None else late_days
        return version.settings.family.plan(version, turn, reached, looked_for)

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


def _check_properties(properties: object) -> None:
    """Properties of a commit beside those that are the archive itself."""
    if properties is None:
        return
    if not isinstance(properties, Mapping) or not all(isinstance(name, str) for name in properties):
        raise InvalidSetting(f"properties is {properties!r}", "give them by name")
    if taken := sorted(OWN_PROPERTIES & properties.keys()):
        raise InvalidSetting(
            f"the property {', '.join(taken)} is the archive's own", "choose another name"
        )
