"""Changing what an archive is: layout, longest lifetime, window, refresh, contract, largest gap.

Idea: *stop and rebuild* writes all that is alive and valid anew, part by part, into the indexes of
the new layout; *side by side* leaves the runs where they are, under names no update inserts into,
and they go when they have expired. Either is one commit, so a crash leaves the archive before or
after it. Invariant: no row with its own lifetime changes its expiration, so reads show the same
rows before and after: those longer-lived than a lowered S stay until then. The rows of a window are
those of its last W updates, before by the old W and after by the new.
Cost: everything alive is read and written once; side by side, nothing, or for another refresh
interval the column of expirations is read. variable-lifetimes-2006, 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from mayfly.archive.advice.foresight import Foresight
from mayfly.archive.change.relabels import at_another_pace
from mayfly.archive.change.requested_changes import ChangeOptions, Changes
from mayfly.archive.erase.erasure import Erasure
from mayfly.archive.layouts.run_plan import is_old
from mayfly.archive.model.admission import total
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.reports import CHANGED_AT
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.write.committer import Committer
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.archive.write.part_writer import PartResult
from mayfly.archive.write.staged_rows import require_nothing_staged
from mayfly.archive.write.update_report import moved
from mayfly.display import Facts
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.keywords import known_settings
from mayfly.storage import DropSegments, SetProperties, TagSegment
from mayfly.storage.edits import Edit

METHODS = ("rebuild", "side by side")


@dataclass(frozen=True, repr=False)
class MigrationReport(Facts):
    """What a migration did."""

    layout: str
    rows: int
    """Rows alive when it was done."""
    bytes_read: int = 0
    bytes_written: int = 0
    left: int = 0
    """Indexes of the former layout that empty themselves over the coming updates."""
    ended: int = 0
    """Rows that were alive before, and are not by a smaller window or by lifetimes of their own."""


class Migration(Part):
    """The part of an archive that changes what it is."""

    def __init__(self, committer: Committer, erasure: Erasure, foresight: Foresight) -> None:
        super().__init__(committer.ledger)
        self.committer, self.erasure, self.foresight = committer, erasure, foresight

    @known_settings(ChangeOptions)
    def migrate(
        self, *, method: str = "rebuild", **options: Unpack[ChangeOptions]
    ) -> MigrationReport:
        """Change what is given; the rest stays.

        ``method`` is "rebuild" (all at once) or "side by side" (the old indexes take no more rows
        and empty themselves; not where stored rows would expire at other times). ``layout="auto"``
        takes the one that does the least work under the load of the last updates. An archive of a
        window can change its ``scheme``, ``constituents``, ``technique``, ``window`` and
        ``refresh``; with ``max_lifetime`` and ``exp`` or ``lifetime``, as at its creation, it
        becomes one of rows with their own lifetimes. For another ``max_gap`` alone nothing is
        written anew.
        """
        if method not in METHODS:
            raise InvalidSetting(f"cannot migrate by {method!r}", f"use {' or '.join(METHODS)}")
        changes = Changes(**options)
        self.committer.prepare()
        version = self.version()
        after, update = changes.applied(version, self.foresight.advised_layout)
        if not changes.of_stored_rows:
            self.repository.commit(version.manifest, [SetProperties({"archive": after.to_json()})])
            return MigrationReport(str(after.family), _alive(version))
        require_nothing_staged(self.repository.directory.address, version.settings, after)
        if method == "side by side":
            return self._side_by_side(version, after, update)
        return self._rebuilt(version, after, update)

    def _side_by_side(
        self, version: ArchiveVersion, after: ArchiveSettings, update: int
    ) -> MigrationReport:
        version.settings.family.require_lasting(after)
        aside = after.family.set_aside(self.repository.directory, version, update)
        following = at_another_pace(aside.state, version.settings.calendar, after.calendar)
        reach("archive.moved")
        self._publish(version, after, following, aside.tags)
        left = sum(is_old(name) for name in following.runs)
        return MigrationReport(str(after.family), _alive(version), left=left)

    def _publish(
        self,
        version: ArchiveVersion,
        after: ArchiveSettings,
        following: ArchiveState,
        tags: Sequence[TagSegment],
    ) -> None:
        require_nothing_staged(self.repository.directory.address, version.settings, after)
        state = following.to_json()
        stored = {"archive": after.to_json(), "state": state, CHANGED_AT: following.update}
        edits: list[Edit] = [
            *tags,
            DropSegments.of(version.unused_by(following)),
            SetProperties(stored),
        ]
        self.repository.commit(version.manifest, edits)

    def _rebuilt(
        self, version: ArchiveVersion, after: ArchiveSettings, update: int
    ) -> MigrationReport:
        self.erasure.require_erasable(update, settings=after)
        planned = after.family.plan_of_everything(version, update)
        results = self._execute(version, planned, after)
        settled = planned.settled(results)
        rows: dict[int, int] = {}
        for result in results:
            for label, number in result.day_rows.items():
                rows[label] = rows.get(label, 0) + number
        following = replace(
            at_another_pace(version.state, version.settings.calendar, after.calendar),
            wave=settled.after,
            runs=settled.runs,
            day_rows=dict(sorted(rows.items())),
            invalid=(),
        )
        reach("archive.moved")
        # Rows that were staged while all was written anew: the check before was in vain.
        require_nothing_staged(self.repository.directory.address, version.settings, after)
        noted = {CHANGED_AT: update, **version.settings.family.note_of_change(version, after)}
        self._commit(version, following, results, after, noted)
        counts, alive = moved(results), sum(rows.values())
        return MigrationReport(
            str(after.family),
            alive,
            counts["bytes_read"],
            counts["bytes_written"],
            ended=_alive(version) - alive,
        )

    def _execute(
        self, version: ArchiveVersion, planned: PlannedCommit, after: ArchiveSettings
    ) -> list[PartResult]:
        """Write everything anew under other settings."""
        results = self.committer.execute(None, version, planned, after)
        summary = total(result.summary for result in results)
        self.committer.require_admissible(summary, after, planned.update, results)
        return results

    def _commit(
        self,
        version: ArchiveVersion,
        following: ArchiveState,
        results: list[PartResult],
        after: ArchiveSettings,
        noted: Mapping[str, Any],
    ) -> None:
        """Publish what was written, the settings, and what is to be remembered of the change."""
        changed = {"archive": after.to_json(), **noted}
        self.committer.commit(version, following, results, changed, reported=False)
        self.committer.prune()
        self.erasure.erase_due()


def _alive(version: ArchiveVersion) -> int:
    state, horizon = version.state, version.settings.family.horizon(version.state.update)
    stored = sum(rows for label, rows in state.day_rows.items() if label > horizon)
    return stored - state.hidden_rows(horizon)
