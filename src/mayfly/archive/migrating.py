"""Changing the layout, the longest lifetime or the refresh interval of an archive.

Idea: *stop and rebuild* writes all that is alive and valid anew, part by part, into the sub-indices
of the new layout; *side by side* leaves the runs where they are, under names no update inserts
into, and they go when they have expired. Either is one commit, so a crash leaves the archive before
or after it. Invariant: reads show the same rows before and after, and no row's expiration changes:
rows longer-lived than a lowered S stay until then.
Cost: everything alive is read and written once; side by side, nothing. variable-lifetimes-2006, 5.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mayfly.archive.accounting import moved
from mayfly.archive.calendar import FixedIntervals, UpdateCalendar
from mayfly.archive.cell_advising import AUTO
from mayfly.archive.contract import Contract
from mayfly.archive.declaring import default_constituents
from mayfly.archive.declaring_lifetimes import layout_named, rollover
from mayfly.archive.layouts import UpdateTechnique, WaveScheme
from mayfly.archive.layouts.cell_plan import set_aside
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.layouts.operations import WaveState
from mayfly.archive.layouts.run_plan import RunPlan, RunWrite
from mayfly.archive.planning import PlannedCommit
from mayfly.archive.sequence import turn_id
from mayfly.archive.settings import ArchiveSettings
from mayfly.archive.state import ArchiveState, ArchiveVersion
from mayfly.archive.wave_migrating import changed_layout, moved_state, planned_move
from mayfly.archive.writing import PartResult
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.lifetime import micros
from mayfly.storage import Repository, SetProperties

METHODS = ("rebuild", "side by side")


@dataclass(frozen=True)
class MigrationReport:
    """What a migration did."""

    layout: str
    rows: int
    """Rows alive when it was done."""
    bytes_read: int = 0
    bytes_written: int = 0
    left: int = 0
    """Sub-indices of the former layout that empty themselves over the coming updates."""


class Migrating:
    """The part of an archive that changes what it is."""

    repository: Repository

    def version(self) -> ArchiveVersion:
        """The current version."""
        raise AssertionError("every archive has one")

    def migrate(
        self,
        *,
        layout: str | None = None,
        groups: int | None = None,
        lanes: int | None = None,
        rebuild: bool | None = None,
        span: int | None = None,
        fan_in: int | None = None,
        max_lifetime: str | int | timedelta | None = None,
        refresh: str | int | timedelta | None = None,
        contract: str | None = None,
        scheme: str | None = None,
        constituents: int | None = None,
        technique: str | None = None,
        method: str = "rebuild",
    ) -> MigrationReport:
        """Change the layout, its sizes, S, Δ or the contract; what is not given stays.

        ``method`` is "rebuild" (all at once) or "side by side" (the old sub-indices take no more
        rows and empty themselves; not for a changed ``refresh``). ``layout="auto"`` takes the one
        that does the least work under the load of the last updates. An archive of a window can
        change its ``scheme``, ``constituents`` and ``technique``, by a rebuild.
        """
        if method not in METHODS:
            raise InvalidSetting(f"cannot migrate by {method!r}", f"use {' or '.join(METHODS)}")
        version = self.version()
        before = version.settings
        of_lifetimes = (
            layout, groups, lanes, rebuild, span, fan_in, max_lifetime, refresh, contract,
        )  # fmt: skip
        of_windows = scheme, constituents, technique
        if before.lifetimes is None or not isinstance(before.layout, PartitionedLayout):
            if method != METHODS[0] or any(one is not None for one in of_lifetimes):
                raise InvalidSetting(
                    "an archive of a window can change its scheme, constituents and technique only",
                    "leave the rest out, or create another archive and load the rows into it",
                )
            return self._wave_rebuilt(*of_windows)
        if any(one is not None for one in of_windows):
            raise InvalidSetting(
                "scheme, constituents and technique are for archives of a window",
                "leave them out; rows with their own lifetimes have a layout",
            )
        update, calendar = _renumbered(version, refresh)
        longest = before.lifetimes.longest if max_lifetime is None else micros(max_lifetime)
        updates = rollover(longest, calendar)
        chosen = self._chosen(before.layout, updates, layout, groups, lanes, rebuild)
        sizes: dict[str, Any] = {"span": span, "fan_in": fan_in}
        chosen = replace(chosen, **{n: v for n, v in sizes.items() if v is not None})
        after = replace(
            before,
            calendar=calendar,
            layout=chosen,
            lifetimes=replace(before.lifetimes, longest=longest),
            contract=before.contract if contract is None else Contract.parse(contract),
        )
        if method == "side by side":
            return self._side_by_side(version, after)
        return self._rebuilt(version, after, update)

    def _chosen(
        self,
        now: PartitionedLayout,
        updates: int,
        layout: str | None,
        groups: int | None,
        lanes: int | None,
        rebuild: bool | None,
    ) -> PartitionedLayout:
        if layout is None:
            wanted: dict[str, Any] = {"groups": groups, "lanes": lanes, "rebuild": rebuild}
            if rebuild:
                wanted["span"] = 1
            wanted = {name: value for name, value in wanted.items() if value is not None}
            return replace(now, rollover=updates, **wanted)
        if layout.lower() != AUTO:
            named = layout_named(layout, updates, groups, lanes, rebuild)
            return replace(named, fan_in=now.fan_in, clustered=now.clustered)
        if groups is not None or lanes is not None or rebuild is not None:
            raise InvalidSetting(
                'layout="auto" decides about groups, lanes and rebuild',
                "leave them out, or name a layout",
            )
        return replace(self.advised_layout(), rollover=updates, clustered=now.clustered)

    def _side_by_side(self, version: ArchiveVersion, after: ArchiveSettings) -> MigrationReport:
        if after.calendar != version.settings.calendar:
            raise InvalidSetting(
                "side by side the times of updates cannot change", 'use method="rebuild"'
            )
        before = version.settings.contract
        if not before.keeps(replace(before, erased_within=after.contract.erased_within)):
            raise InvalidSetting(
                f"{after.contract} cannot be promised side by side: rows that expired under "
                f"{before} would stay in files that nobody moves",
                'use method="rebuild"',
            )
        state, layout = version.state, after.layout
        runs = set_aside(state.runs)
        held = {name: frozenset(j for run in runs[name] for j in run.days) for name in runs}
        fresh = dict.fromkeys(_names(layout), frozenset[int]())
        following = replace(state, wave=WaveState(state.update, {**fresh, **held}), runs=runs)
        changes = {"archive": after.to_json(), "state": following.to_json()}
        self.repository.commit(version.manifest, [SetProperties(changes)])
        return MigrationReport(str(layout), _alive(version), left=len(runs))

    def _rebuilt(
        self, version: ArchiveVersion, after: ArchiveSettings, update: int
    ) -> MigrationReport:
        planned = _everything(version, after, update)
        results = self.execute_moved(version, planned, after)
        settled = planned.settled(results)
        rows: dict[int, int] = {}
        for result in results:
            for label, number in result.day_rows.items():
                rows[label] = rows.get(label, 0) + number
        following = replace(
            version.state,
            wave=settled.after,
            runs=settled.runs,
            day_rows=dict(sorted(rows.items())),
            batches=_known_batches(version, after, update),
            invalid=(),
        )
        reach("archive.moved")
        self.commit_moved(version, following, results, after)
        counts = moved(results)
        return MigrationReport(
            str(after.layout), sum(rows.values()), counts["bytes_read"], counts["bytes_written"]
        )

    def _wave_rebuilt(
        self, scheme: str | None, constituents: int | None, technique: str | None
    ) -> MigrationReport:
        self.prepare()
        version = self.version()
        settings = version.settings
        wanted = WaveScheme(scheme or settings.wave.scheme)
        default = default_constituents(wanted, settings.window)
        layout = changed_layout(settings.wave, scheme, constituents, default)
        chosen = settings.technique if technique is None else UpdateTechnique(technique)
        after = replace(settings, layout=layout, technique=chosen)
        planned = planned_move(version, layout)
        results = self.execute_moved(version, planned)
        reach("archive.moved")
        self.commit_moved(version, moved_state(version.state, planned), results, after)
        counts = moved(results)
        told = f"{layout.scheme} in {layout.constituents} constituents, {chosen}"
        return MigrationReport(
            told, _alive(self.version()), counts["bytes_read"], counts["bytes_written"]
        )

    def prepare(self) -> dict[str, Any]:
        """Do what the last update has left to do."""
        raise AssertionError("every archive can")

    def advised_layout(self) -> PartitionedLayout:
        """The layout that does the least work under the load of the last updates."""
        raise AssertionError("every archive can tell")

    def execute_moved(
        self,
        version: ArchiveVersion,
        planned: PlannedCommit,
        after: ArchiveSettings | None = None,
    ) -> list[PartResult]:
        """Write everything anew, under other settings if they change what is stored."""
        raise AssertionError("every archive can")

    def commit_moved(
        self,
        version: ArchiveVersion,
        following: ArchiveState,
        results: list[PartResult],
        after: ArchiveSettings,
    ) -> None:
        """Publish what was written, and the settings."""
        raise AssertionError("every archive can")


def _renumbered(
    version: ArchiveVersion, refresh: str | int | timedelta | None
) -> tuple[int, UpdateCalendar]:
    """The number of the last update and the calendar, under the wanted refresh interval."""
    calendar, update = version.settings.calendar, version.state.update
    if refresh is None:
        return update, calendar
    if not isinstance(calendar, FixedIntervals):
        raise InvalidSetting("updates at midnights of a time zone stay daily", "leave refresh out")
    interval, now = micros(refresh), version.time
    number = max(1 if update else 0, (now - calendar.origin) // max(1, interval))
    return number, FixedIntervals(interval, now - number * interval)


def _everything(version: ArchiveVersion, after: ArchiveSettings, update: int) -> PlannedCommit:
    """Every run that the live rows can make up under the new layout."""
    layout = after.layout
    assert isinstance(layout, PartitionedLayout)
    latest = max((s.exp.high for s in version.manifest.segments.values()), default=version.time)
    labels = range(update + 1, after.calendar.update_of(latest) + 1)
    stamp = f"{update}m{uuid.uuid4().hex[:6]}"
    plans = []
    for name in layout.names:
        lane = (int(name.removeprefix("I")) - 1) % layout.lanes
        own = [j for j in labels if layout.lane_of(j) == lane]
        ranges = [own] if layout.rebuild else _by_slot(layout, own)
        writes = tuple(
            RunWrite(f"{stamp}.{name}.{number}", (), frozenset(some), only=name)
            for number, some in enumerate(ranges, start=1)
            if some
        )
        plans.append(RunPlan(name, write=writes))
    nothing = WaveState(update, dict.fromkeys(layout.names, frozenset[int]()))
    return PlannedCommit(update, tuple(plans), nothing, {}, True, open_labels=True)


def _known_batches(
    version: ArchiveVersion, after: ArchiveSettings, update: int
) -> Mapping[str, int]:
    """Batch ids that stay done; ids made from numbers of updates end with the numbering."""
    known = version.state.batches
    if after.calendar == version.settings.calendar:
        return known
    given = {name: number for name, number in known.items() if name != turn_id(None, number)}
    return {name: min(number, update) for name, number in given.items()}


def _by_slot(layout: PartitionedLayout, labels: Iterable[int]) -> list[list[int]]:
    slots: dict[int, list[int]] = {}
    for label in labels:
        slots.setdefault(layout.slot_of(label), []).append(label)
    return list(slots.values())


def _names(layout: Any) -> tuple[str, ...]:
    assert isinstance(layout, PartitionedLayout)
    return layout.names


def _alive(version: ArchiveVersion) -> int:
    state, horizon = version.state, version.settings.horizon(version.state.update)
    stored = sum(rows for label, rows in state.day_rows.items() if label > horizon)
    return stored - state.hidden_rows(horizon)
