"""Declaring rows void before their time: results that ceased to hold, erasure on request."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mayfly.archive.erase.erasure import Erasure, noted_void
from mayfly.archive.layouts.run_plan import RunPlan, RunWrite, Source
from mayfly.archive.model.invalidation import (
    KEYS,
    ROWS,
    Hiding,
    Invalidation,
    hidden_rows,
    listing,
    still_pending,
    visible,
)
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.state import ArchiveState, ArchiveVersion
from mayfly.archive.read.questions import Moment
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.committer import Committer
from mayfly.archive.write.job_plan import PlannedCommit
from mayfly.archive.write.local_jobs import as_declared
from mayfly.display import Facts
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.keywords import known_settings
from mayfly.lifetime import instant
from mayfly.storage import AddSegments, Segment, SetProperties
from mayfly.storage.segment import write_segment


@dataclass(frozen=True, repr=False)
class VoidReport(Facts):
    """What ``invalidate`` found."""

    rows: int
    """Rows that are no longer returned from now on."""
    runs: int
    """Runs that hold them."""
    erased: bool
    """Whether they are gone from the current version already."""


class Voids(Part):
    """The part of an archive that takes rows back."""

    def __init__(self, committer: Committer, erasure: Erasure) -> None:
        super().__init__(committer.ledger)
        self.committer, self.erasure = committer, erasure

    @known_settings()
    def invalidate(
        self,
        keys: Iterable[Any] | None = None,
        *,
        rows: Any | None = None,
        ended: Moment | None = None,
    ) -> VoidReport:
        """Return no longer what is stored under these keys, or the rows equal to these.

        Only rows stored by now are meant: what later updates bring is not. They are left out of
        every read at once, and removed when an update touches their sub-index; an archive that
        promises PHYSICAL WITHIN rewrites the runs that hold them at once, and removes older
        versions as if the rows had expired now, or at the instant ``ended``.
        """
        version, ended = self.version(), None if ended is None else instant(ended)
        values, kind = self._values(version, keys, rows)
        entry = Invalidation(uuid.uuid4().hex[:12], version.state.update, kind)
        pending, latest = self._meant_rows(version, Hiding(entry, values, version.settings))
        if not pending:
            return VoidReport(0, 0, True)
        entry = replace(entry, pending=pending)
        at_once = version.settings.contract.erased_within is not None
        self.erasure.require_erasable(version.state.update)
        # A list that is needed for this commit only goes with the next update if a crash leaves it.
        listed = listing(values, version.time + 1 if at_once else latest)
        directory = self.repository.directory
        file = write_segment(directory, entry.group, listed, format="parquet")
        assert file is not None
        reach("archive.void-written")
        state = replace(version.state, invalid=(*version.state.invalid, entry))
        if at_once:
            self._erase(version, state, file, ended)
        else:
            properties = SetProperties({"state": state.to_json()})
            self.repository.commit(version.manifest, [AddSegments((file,)), properties])
        settings = version.settings
        returned = settings.family.horizon(version.state.update) - settings.contract.late
        shown = version.state.shown_runs()
        hidden = sum(entry.rows_hidden(returned, run) for run in shown)
        return VoidReport(hidden, len(shown & pending.keys()), at_once)

    def _values(
        self, version: ArchiveVersion, keys: Iterable[Any] | None, rows: Any | None
    ) -> tuple[pa.Table, str]:
        settings = version.settings
        if (keys is None) == (rows is None):
            raise InvalidSetting("invalidate needs keys or rows", "give one of them")
        if keys is not None and (isinstance(keys, str | bytes) or not isinstance(keys, Iterable)):
            raise InvalidSetting(f"{keys!r} is one key", f"give it in a list: [{keys!r}]")
        if rows is not None:
            if any(settings.type_of(name).name == "map" for name in settings.all_columns):
                raise InvalidSetting("rows with maps cannot be compared", "invalidate by key")
            return as_declared(rows, settings), ROWS
        reader = Reader(self.repository.directory, version)
        key_tuples = [reader.key_values(key) for key in keys or ()]
        if settings.array_key:
            kind = settings.stored.field(settings.sort_columns[0]).type
            return pa.table({settings.key[0]: pa.array([k[0] for k in key_tuples], kind)}), KEYS
        columns = {
            name: pa.array([key[position] for key in key_tuples], settings.stored.field(name).type)
            for position, name in enumerate(settings.key)
        }
        return pa.table(columns), KEYS

    def _meant_rows(
        self, version: ArchiveVersion, hiding: Hiding
    ) -> tuple[dict[str, dict[int, int]], int]:
        """The rows that are meant and not void already, by run and label; the latest expiration."""
        reader = Reader(self.repository.directory, version)
        contract, calendar = version.settings.contract, version.settings.calendar
        # Also rows that have expired and are still returned.
        until = contract.returned_until(calendar, version.time)
        pending: dict[str, Counter[int]] = {}
        latest = version.time + 1
        for run, segment, table in reader.stored_rows(until):
            own = hidden_rows(visible(table, run, reader.hiding), hiding)
            if own:
                pending[run] = pending.get(run, Counter()) + own
                latest = max(latest, segment.exp.high)
        return {run: dict(labels) for run, labels in pending.items()}, latest

    def _erase(
        self, version: ArchiveVersion, state: ArchiveState, file: Segment, ended: int | None
    ) -> None:
        """Write the runs that hold void rows anew, without them; the list itself is not kept."""
        directory = self.repository.directory
        manifest = replace(
            version.manifest, segments={**version.manifest.segments, file.path: file}
        )
        listed = replace(version, manifest=manifest, state=state)
        planned = _without_void(listed)
        try:
            self._rewrite(version, listed, planned, noted_void(version, ended))
        finally:
            directory.remove(file.path)

    def _rewrite(
        self,
        version: ArchiveVersion,
        listed: ArchiveVersion,
        planned: PlannedCommit,
        properties: Mapping[str, Any],
    ) -> None:
        """Carry out a plan that changes runs but is no update."""
        results = self.committer.execute(None, listed, planned)
        settled = planned.settled(results)
        following = replace(
            listed.state,
            wave=settled.after,
            runs=settled.runs,
            day_rows=listed.settings.family.rows_by_label(listed, settled, results),
            invalid=still_pending(listed.state.invalid, settled.runs),
        )
        self.committer.commit(version, following, results, properties, reported=False)
        self.erasure.erase_due()


def _without_void(version: ArchiveVersion) -> PlannedCommit:
    """Every run with void rows, written anew where it is."""
    state = version.state
    void = state.pending_runs
    stamp = uuid.uuid4().hex[:6]
    plans = []
    for name, runs in state.runs.items():
        dirty = [run for run in runs if run.id in void]
        if not dirty:
            continue
        writes = tuple(
            RunWrite(
                f"{state.update}v{stamp}.{name}.{number}",
                (Source(run.id, run.days),),
                level=max(segment.level for segment in version.segments_of(run.id)),
            )
            for number, run in enumerate(dirty, start=1)
        )
        keep = tuple(run for run in runs if run.id not in void)
        plans.append(RunPlan(name, keep, writes, release=tuple(run.id for run in dirty)))
    return PlannedCommit(state.update, tuple(plans), state.wave, state.runs, True, open_labels=True)
