"""An archive in figures: what every constituent holds, and how much of it is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mayfly.archive.advice.cell_advice import pending_proposal
from mayfly.archive.layouts.operations import format_days
from mayfly.archive.layouts.run_plan import Run, is_packed
from mayfly.archive.model.origin import ORIGIN_IS_OPEN
from mayfly.archive.model.reports import reports_of
from mayfly.archive.model.state import DAYS, ArchiveVersion
from mayfly.display import Facts
from mayfly.lifetime import instant_text


@dataclass(frozen=True, repr=False)
class IndexStatus(Facts):
    """One constituent or temporary."""

    name: str
    days: tuple[int, ...]
    """The days it shows; a temporary's are not asked yet."""
    expired: tuple[int, ...]
    """Days beyond the window among them: stored, but never returned by a hard read."""
    rows: int
    dead_rows: int
    """Rows of expired days, and rows that are hidden by a deletion or declared void."""
    runs: int
    files: int
    bytes: int
    packed: bool

    def facts(self) -> dict[str, object]:
        days = format_days(frozenset(self.days))
        rows = f"{self.rows:,} ({self.dead_rows:,} dead)"
        return {"name": self.name, "days": days, "rows": rows, "runs": self.runs}


@dataclass(frozen=True, repr=False)
class ArchiveStatus(Facts):
    """A version of an archive in figures."""

    path: str
    version: int
    written_at: int
    update: int
    time: int
    """The time of the last update, µs."""
    next_time: int
    """The time of the next update, µs."""
    counted: str
    """When updates happen, in words."""
    origin_is_open: bool
    columns: Mapping[str, str]
    key: tuple[str, ...]
    time_column: str
    scheme: str
    technique: str
    kept: str
    """What is kept and how, in words."""
    window: int
    late: str
    parts: int
    keep_versions: int
    constituents: tuple[IndexStatus, ...]
    temporaries: tuple[IndexStatus, ...]
    rows: int
    """Rows alive at the last update."""
    dead_rows: int
    files: int
    bytes: int
    """Of all files of the version, temporaries included."""
    prepared: bool
    """Whether the pre-transition work of the last update is done."""
    versions: tuple[int, ...]
    """The retained versions."""
    last: Mapping[str, Any]
    """The report of the last update."""
    sinks: Mapping[str, Any]
    """What streams have brought and what of it waits, by the name of their sink."""
    contract: str = "HARD"
    """What is promised about dead rows."""
    hidden_until: int | None = None
    """Rows with their own lifetimes that expired up to this instant are not returned, µs."""
    erased_until: int | None = None
    """And of those that expired up to this one no byte is left: neither here nor in the checkpoints
    of queries that feed the archive (``source`` of a sink), µs."""
    proposal: Mapping[str, Any] | None = None
    """What an automatic archive proposes and is not carried out yet: ``text``, ``update``."""

    def facts(self) -> dict[str, object]:
        last = f"{self.update} at {instant_text(self.time)}" if self.update else "none yet"
        return {
            "path": self.path,
            "kept": f"{self.kept}, {self.counted}",
            "key": ", ".join(self.key),
            "update": last,
            "version": self.version,
            "rows": f"{self.rows:,} alive, {self.dead_rows:,} dead",
            "files": f"{self.files:,} of {self.bytes:,} bytes",
        }

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return asdict(self)


def status_of(
    path: str,
    version: ArchiveVersion,
    versions: Sequence[int] = (),
    sinks: Mapping[str, Any] | None = None,
) -> ArchiveStatus:
    """The figures of a version, from manifests alone."""
    settings, state, manifest = version.settings, version.state, version.manifest
    horizon, described = settings.family.horizon(state.update), settings.family.description()
    constituents = tuple(
        _index(version, name, state.wave.constituents.get(name) or _days(runs), runs)
        for name, runs in state.constituent_runs().items()
    )
    temporaries = tuple(
        _index(version, name, held, state.runs.get(name, ()))
        for name, held in state.wave.temporaries.items()
    )
    reports = reports_of(manifest.properties)
    alive = {day for held in state.wave.constituents.values() for day in held if day > horizon}
    return ArchiveStatus(
        path=path,
        version=manifest.version,
        written_at=manifest.written_at,
        update=state.update,
        time=version.time,
        next_time=settings.calendar.time_of(state.update + 1),
        counted=str(settings.calendar),
        origin_is_open=not state.update and bool(manifest.properties.get(ORIGIN_IS_OPEN)),
        columns=settings.all_columns,
        key=settings.key,
        time_column=settings.time,
        scheme=described.scheme,
        technique=described.technique,
        kept=described.kept,
        window=settings.window,
        late=settings.late.value,
        parts=settings.parts,
        keep_versions=settings.keep_versions,
        constituents=constituents,
        temporaries=temporaries,
        rows=sum(state.day_rows.get(day, 0) for day in alive) - state.hidden_rows(horizon),
        dead_rows=sum(constituent.dead_rows for constituent in constituents),
        files=len(manifest.segments),
        bytes=manifest.stored_bytes,
        prepared=state.prepared,
        versions=tuple(versions),
        last=reports[-1] if reports else {},
        sinks=sinks or {},
        contract=str(settings.contract),
        hidden_until=settings.family.hidden_until(version.time),
        proposal=pending_proposal(version),
    )


def _index(
    version: ArchiveVersion, name: str, held: frozenset[int], runs: Sequence[Run]
) -> IndexStatus:
    horizon = version.settings.family.horizon(version.state.update)
    void = version.state.invalid
    segments = [segment for run in runs for segment in version.segments_of(run.id)]
    stored = [
        (run, day, count)
        for run in runs
        for segment in version.segments_of(run.id)
        for day, count in segment.tags[DAYS]
    ]
    dead = sum(n for run, day, n in stored if day <= horizon or day in run.deleted_days)
    dead += sum(entry.rows_hidden(horizon, run.id) for entry in void for run in runs)
    return IndexStatus(
        name=name,
        days=tuple(sorted(held)),
        expired=tuple(sorted(day for day in held if day <= horizon)),
        rows=sum(count for _, _, count in stored),
        dead_rows=dead,
        runs=len(runs),
        files=len(segments),
        bytes=sum(segment.bytes for segment in segments),
        packed=is_packed(runs),
    )


def _days(runs: Sequence[Run]) -> frozenset[int]:
    return frozenset(day for run in runs for day in run.live_days)
