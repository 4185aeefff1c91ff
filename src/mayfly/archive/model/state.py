"""The state of an archive, as its manifest's properties hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mayfly.archive.layouts import WaveState
from mayfly.archive.layouts.run_plan import IndexRuns, Run, is_old
from mayfly.archive.model.invalidation import INVALID, Invalidation
from mayfly.archive.model.row_counts import Positions
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.display import Facts
from mayfly.lifetime import instant_text
from mayfly.storage.manifest import Manifest
from mayfly.storage.segment import Segment

RUN = "run"
PART, DAYS = "part", "days"
"""Tags of a file: which part of its run it is, and how many rows of which days it holds."""
BATCHES_REMEMBERED = 1000


def run_group(run: str) -> str:
    return f"{RUN}/{run}"


@dataclass(frozen=True)
class ArchiveState:
    """Which days every index holds, in which runs, and what was committed."""

    wave: WaveState = field(default_factory=WaveState)
    runs: IndexRuns = field(default_factory=dict)
    day_rows: Mapping[int, int] = field(default_factory=dict)
    """Rows of each stored day, copies in several indexes counted once."""
    batches: Mapping[str, int] = field(default_factory=dict)
    prepared: bool = True
    """False between the commit of a day and the commit of its pre-transition work."""
    report: Mapping[str, Any] = field(default_factory=dict)
    invalid: tuple[Invalidation, ...] = ()
    """What was declared void and is still stored."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    """Of windows of a number of rows: how far each stream has come, and its rate."""

    @property
    def update(self) -> int:
        return self.wave.day

    def constituent_runs(self) -> dict[str, tuple[Run, ...]]:
        """Also of those that a former layout left behind: what reads have to look into."""
        left = (name for name in self.runs if is_old(name))
        names = dict.fromkeys((*self.wave.constituents, *left))
        return {name: tuple(self.runs.get(name, ())) for name in names}

    @property
    def pending_runs(self) -> frozenset[str]:
        """Runs that hold rows which were declared void."""
        return frozenset(run for entry in self.invalid for run in entry.pending)

    def hidden_rows(self, after: int) -> int:
        """Void rows of labels beyond ``after`` that are still stored where reads look."""
        shown = self.shown_runs()
        return sum(entry.rows_hidden(after, run) for entry in self.invalid for run in shown)

    def shown_runs(self) -> frozenset[str]:
        """The runs that reads look into: not those of temporaries alone."""
        return frozenset(run.id for held in self.constituent_runs().values() for run in held)

    def used_runs(self) -> set[str]:
        return {run.id for held in self.runs.values() for run in held}

    def to_json(self) -> dict[str, Any]:
        latest = sorted(self.batches.items(), key=lambda item: item[1])[-BATCHES_REMEMBERED:]
        return {
            "day": self.wave.day,
            "constituents": _days_json(self.wave.constituents),
            "temporaries": _days_json(self.wave.temporaries),
            "runs": {
                name: [[run.id, sorted(run.days), sorted(run.deleted_days)] for run in held]
                for name, held in self.runs.items()
            },
            "day_rows": {str(day): rows for day, rows in self.day_rows.items()},
            "batches": dict(latest),
            "prepared": self.prepared,
            "report": dict(self.report),
            **({"positions": dict(self.positions)} if self.positions else {}),
            **({INVALID: [entry.to_json() for entry in self.invalid]} if self.invalid else {}),
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> ArchiveState:
        return ArchiveState(
            wave=WaveState(
                stored["day"],
                _days(stored["constituents"]),
                _days(stored["temporaries"]),
            ),
            runs={
                name: tuple(Run(id, frozenset(days), frozenset(gone)) for id, days, gone in held)
                for name, held in stored["runs"].items()
            },
            day_rows={int(day): rows for day, rows in stored["day_rows"].items()},
            batches=stored["batches"],
            prepared=stored["prepared"],
            report=stored["report"],
            positions=stored.get("positions", {}),
            invalid=tuple(Invalidation.from_json(entry) for entry in stored.get(INVALID, ())),
        )


@dataclass(frozen=True, repr=False)
class ArchiveVersion(Facts):
    """One version of an archive: its manifest, read as settings and state."""

    manifest: Manifest
    settings: ArchiveSettings
    state: ArchiveState

    @staticmethod
    def of(manifest: Manifest) -> ArchiveVersion:
        properties = manifest.properties
        return ArchiveVersion(
            manifest,
            ArchiveSettings.from_json(properties["archive"]),
            ArchiveState.from_json(properties["state"]),
        )

    def facts(self) -> dict[str, object]:
        last = f"{self.state.update} at {instant_text(self.time)}"
        return {
            "version": self.manifest.version,
            "update": last if self.state.update else "none yet",
            "rows": f"{self.manifest.rows:,} stored",
            "written at": instant_text(self.manifest.written_at),
        }

    @property
    def time(self) -> int:
        """The time of the last update."""
        return self.settings.calendar.time_of(self.state.update)

    @cached_property
    def positions(self) -> Positions:
        """Of windows of a number of rows."""
        return Positions.from_json(self.settings.family.counts, self.state.positions)

    @property
    def invalid_segments(self) -> dict[str, Segment]:
        """The files that list what is void, by their group."""
        return {segment.group: segment for segment in self.manifest.in_group(INVALID)}

    @cached_property
    def files_by_part(self) -> dict[int, tuple[tuple[str, Run, Segment], ...]]:
        """The files of the constituents, by part, each with its constituent and its run."""
        groups: dict[int, list[tuple[str, Run, Segment]]] = {}
        for name, runs in self.state.constituent_runs().items():
            for run in runs:
                for segment in self.segments_of(run.id):
                    groups.setdefault(segment.tags[PART], []).append((name, run, segment))
        return {part: tuple(files) for part, files in groups.items()}

    @cached_property
    def key_places(self) -> dict[int, Any]:
        """Where keys lie, by part: what probes of this version have found out so far."""
        return {}

    def unused_by(self, following: ArchiveState) -> list[Segment]:
        """Files that a state after this one no longer needs."""
        runs, void = following.used_runs(), {entry.group for entry in following.invalid}
        gone = [s for s in self.manifest.in_group(RUN) if s.group.partition("/")[2] not in runs]
        return gone + [s for group, s in self.invalid_segments.items() if group not in void]

    def segments_of(self, run: str) -> tuple[Segment, ...]:
        return tuple(self.manifest.in_group(run_group(run)))


def _days_json(indexes: Mapping[str, frozenset[int]]) -> dict[str, list[int]]:
    return {name: sorted(days) for name, days in indexes.items()}


def _days(stored: Mapping[str, list[int]]) -> dict[str, frozenset[int]]:
    return {name: frozenset(days) for name, days in stored.items()}
