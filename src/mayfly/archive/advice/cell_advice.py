"""Advice for archives of rows with their own lifetimes: new ones, existing ones, changed loads.

An archive that was created with ``layout="auto"`` remembers what it was laid out for. When its
updates bring twice or half as much, or twice or half as many reads come in between, the next
update weighs the layouts anew with measured constants and proposes a migration if that would save
a fifth of the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from statistics import fmean
from typing import Any

from mayfly.archive.advice.cell_advisor import CellAdvice, advise_cells, cell_name
from mayfly.archive.advice.cell_constants import (
    Report,
    measured_constants,
    measured_load,
    sampled_constants,
    seconds_of,
)
from mayfly.archive.advice.cell_cost import CellLoad
from mayfly.archive.advice.wave_advice import Workload
from mayfly.archive.advice.wave_advisor import Need
from mayfly.archive.layouts.cell_run import uniform
from mayfly.archive.model.declaration import Declaration
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.errors import InvalidSetting
from mayfly.storage.directory import Directory

AUTO = "auto"
"""The layout to be chosen, and the manifest's property of what it was chosen for."""
MOST_SUB_INDICES = 100
SAVES_ENOUGH = 0.8
_REPORTS_AVERAGED, _REPORTS_NEEDED = 4, 3


@dataclass(frozen=True)
class LaidOutFor:
    """The load that the layout of an automatic archive was chosen for."""

    megabytes: float
    probes: float = 0.0
    scans: float = 0.0
    measured: bool = False
    """Whether it was chosen by the archive's own constants, not by a sample."""

    @staticmethod
    def of(properties: Mapping[str, Any]) -> LaidOutFor | None:
        stored = properties.get(AUTO)
        return None if stored is None else LaidOutFor(**stored)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def differs(self, other: LaidOutFor) -> bool:
        """Whether something has doubled or halved."""
        pairs = (
            (self.megabytes, other.megabytes),
            (1 + self.probes, 1 + other.probes),
            (1 + self.scans, 1 + other.scans),
        )
        return any(abs(log(amount / two, 2)) >= 1 for amount, two in pairs)


def need_of(settings: ArchiveSettings) -> Need:
    """Expired rows may linger on disk unless their bytes must be gone within some time."""
    hard = settings.contract.erased_within is not None
    return Need(settings.window, hard=hard, most_constituents=MOST_SUB_INDICES)


def advise_lifetimes(
    directory: Directory,
    version: ArchiveVersion,
    reports: Sequence[Report],
    workload: Workload,
    need: Need | None = None,
) -> CellAdvice:
    """Advice from the archive's own updates and reads."""
    settings = version.settings
    _refuse_parts_of_windows(workload)
    constants = measured_constants(directory, version, reports)
    load = measured_load(version, reports, probes=workload.probes, scans=workload.scans)
    if workload.megabytes is not None:
        load = replace(load, megabytes=workload.megabytes)
    took = fmean(seconds_of(report) for report in reports[-_REPORTS_AVERAGED:])
    requirement = need or need_of(settings)
    return advise_cells(settings.window, load, constants, requirement, settings.cells, took)


def with_advised_layout(
    declared: Declaration, folder: Path, workload: Workload | None
) -> tuple[Declaration, CellAdvice]:
    """The declaration with the layout that does the least work, by a sample on this machine."""
    if not isinstance(workload, Workload) or not workload.megabytes:
        raise InvalidSetting(
            'layout="auto" needs to know what to expect',
            "give expect=mayfly.archive.Workload(megabytes=…, probes=…, scans=…), per update; "
            "on the command line --megabytes, --probes and --scans",
        )
    _refuse_parts_of_windows(workload)
    settings = declared.settings
    load = CellLoad(
        workload.megabytes,
        uniform(settings.window),
        workload.probes,
        workload.scans,
        settings.parts,
        patience=settings.contract.late,
    )
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.is_dir())
    constants = sampled_constants(existing)
    advice = advise_cells(settings.window, load, constants, need_of(settings))
    return replace(declared, settings=replace(settings, layout=advice.best.layout)), advice


def laid_out_for(advice: CellAdvice | None) -> dict[str, Any]:
    """By what an archive remembers the load its layout was chosen for, if it was."""
    if advice is None:
        return {}
    load = advice.load
    return {AUTO: LaidOutFor(load.megabytes, load.probes, load.scans).to_json()}


PENDING = "proposal"
"""Property: what was proposed last, by which update, and the layout it was proposed for."""


def pending_proposal(version: ArchiveVersion) -> Mapping[str, Any] | None:
    """The proposal that stands: nothing was weighed since, and the layout is still that one."""
    proposal: Mapping[str, Any] | None = version.manifest.properties.get(PENDING)
    layout = str(version.settings.layout)
    return proposal if proposal is not None and proposal["layout"] == layout else None


@dataclass(frozen=True)
class Proposal:
    """The load that the layout has now been weighed for, and another layout if that is better."""

    load: LaidOutFor
    text: str | None


def propose(
    directory: Directory, version: ArchiveVersion, reports: Sequence[Report]
) -> Proposal | None:
    """For an automatic archive whose load has changed: what would be better, if anything."""
    basis = LaidOutFor.of(version.manifest.properties)
    recent = [report for report in reports if report["stored"]][-_REPORTS_AVERAGED:]
    if basis is None or len(recent) < _REPORTS_NEEDED or not version.state.used_runs():
        return None
    megabytes = measured_load(version, recent).megabytes
    observation = LaidOutFor(megabytes, *_reads(recent, basis), measured=True)
    early = not basis.measured and version.state.update >= version.settings.window
    if not (early or observation.differs(basis)):
        return None
    workload = Workload(probes=observation.probes, scans=observation.scans)
    advice = advise_lifetimes(directory, version, recent, workload)
    now = advice.current
    assert now is not None
    if advice.best.total_work > SAVES_ENOUGH * now.total_work:
        return Proposal(observation, None)
    saved = 1 - advice.best.total_work / now.total_work
    return Proposal(
        observation,
        f"{cell_name(advice.best.layout)} would save {saved:.0%} of the work with "
        f"{observation.megabytes:.3g} MB, {observation.probes:.3g} probes and "
        f"{observation.scans:.3g} scans "
        'an update: archive.migrate(layout="auto")',
    )


def observed_load(version: ArchiveVersion, reports: Sequence[Report]) -> Workload:
    """The reads between the last updates, or what was expected when the archive was created."""
    basis = LaidOutFor.of(version.manifest.properties) or LaidOutFor(0)
    recent = [report for report in reports if report["stored"]][-_REPORTS_AVERAGED:]
    probes, scans = _reads(recent, basis)
    return Workload(probes=probes, scans=scans)


def _reads(recent: Sequence[Report], basis: LaidOutFor) -> tuple[float, float]:
    """Reads are counted where updates are made; if none were seen, others may read, and what was
    expected stands."""
    if not recent:
        return basis.probes, basis.scans
    probes = fmean(report.get("probes", 0) for report in recent)
    scans = fmean(report.get("scans", 0) for report in recent)
    return (probes, scans) if probes or scans else (basis.probes, basis.scans)


def _refuse_parts_of_windows(workload: Workload) -> None:
    if workload.probed_updates is not None or workload.scanned_updates is not None:
        raise InvalidSetting(
            "probes of the newest updates only were expected of rows with their own lifetimes",
            "leave probed_updates and scanned_updates out: a read meets every run",
        )
