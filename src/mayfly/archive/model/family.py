"""What differs between the three families of archives, as one list of questions.

*Waves*: all rows of an update live equally long. *Cells*: every row has its own lifetime. *Counts*:
rows live in windows of a number of rows, and cells hold them by estimate. The settings of an
archive choose its family once, and code that meets a difference asks it; no code asks which one it
is. The answers draw on every room of the archive, so families stand above the rooms
(``archive.families``) and enlist here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from mayfly.archive.model.calendar import Int64Array, UpdateCalendar
from mayfly.archive.model.row_counts import Positions

if TYPE_CHECKING:
    from mayfly.archive.advice.cell_advisor import CellAdvice
    from mayfly.archive.advice.wave_advice import ArchiveAdvice, Workload
    from mayfly.archive.advice.wave_advisor import Need
    from mayfly.archive.advice.wave_constants import Prediction
    from mayfly.archive.change.relabels import Relabelled
    from mayfly.archive.change.requested_changes import Advised, Changes
    from mayfly.archive.model.admission import AdmissionSummary
    from mayfly.archive.model.sequence import Turn
    from mayfly.archive.model.settings import ArchiveSettings
    from mayfly.archive.model.state import ArchiveVersion
    from mayfly.archive.read.selection import Selection, Window
    from mayfly.archive.write.job_plan import PlannedCommit
    from mayfly.archive.write.part_writer import Arrivals, PartResult
    from mayfly.storage.directory import Directory
    from mayfly.storage.segment import Format

WAVES, CELLS, COUNTS = "waves", "cells", "counts"


@dataclass(frozen=True)
class Description:
    """An archive in words."""

    scheme: str
    technique: str
    kept: str


class Family(Protocol):
    """All that depends on how the rows of an archive live and leave."""

    name: ClassVar[str]
    settings: ArchiveSettings

    def __init__(self, settings: ArchiveSettings) -> None: ...

    # -- the declaration ---------------------------------------------------------------------

    def check(self) -> None:
        """Refuse settings that do not go with the family."""

    def layout_json(self) -> dict[str, Any]:
        """The layout, and what belongs to it, as the manifest holds it."""

    def description(self) -> Description:
        """What the archive is, in words."""

    def __str__(self) -> str: ...

    # -- rows --------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """BIGINT columns that are stored with every row, besides its times."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Windows of a number of rows: the column of positions in each, and its size."""

    @property
    def exp(self) -> str | None:
        """The user's column of expirations, if there is one."""

    @property
    def lifetime_columns(self) -> tuple[str, ...]:
        """What a refused row shows beside its key and its time."""

    @property
    def longest(self) -> int:
        """A bound on exp − ts, µs."""

    @property
    def longest_lifetime(self) -> int | None:
        """The longest lifetime that was declared, µs, where rows have their own."""

    @property
    def clustered(self) -> bool:
        """Whether rows are sorted by key."""

    def format_of(self, level: int) -> Format:
        """How a run of this level is stored."""

    def expirations(
        self, rows: pa.Table, ts: Int64Array, update: int, positions: Positions
    ) -> pa.Array:
        """exp of arriving rows, NULL where nothing says it."""

    def labels_of(self, rows: pa.Table) -> Int64Array:
        """By what runs tell stored rows apart: an update that brought or will remove them."""

    def belongs(self, rows: pa.Table, labels: Iterable[int]) -> pa.ChunkedArray | pa.Array:
        """Which of the stored rows have one of these labels."""

    def horizon(self, update: int) -> int:
        """The last label whose rows are dead after an update."""

    def hidden_until(self, moment: int) -> int | None:
        """Rows that expired up to this instant are not returned at ``moment``; None where rows
        leave with their update."""

    # -- reads -------------------------------------------------------------------------------

    def within(self, selection: Selection, window: Window | None) -> Selection:
        """The selection for a window smaller than the archive's; None for its own."""

    # -- updates -----------------------------------------------------------------------------

    def positions_after(
        self,
        version: ArchiveVersion,
        highest: Callable[[], Mapping[str, int | None]],
        announced: Mapping[str, int] | None,
        updates: int,
    ) -> Positions:
        """Where windows of a number of rows stand so many updates after the version."""

    def plan(
        self,
        version: ArchiveVersion,
        turn: Turn,
        positions: Positions,
        late_days: Callable[[], frozenset[int]] | None,
    ) -> PlannedCommit:
        """The commit of an update; ``late_days`` looks into its batch, if it has one."""

    def rows_by_label(
        self, version: ArchiveVersion, planned: PlannedCommit, results: Sequence[PartResult]
    ) -> dict[int, int]:
        """The rows of every label that is alive or still lies in some run after a commit."""

    def removed_rows(
        self,
        version: ArchiveVersion,
        planned: PlannedCommit,
        summary: AdmissionSummary,
        results: Sequence[PartResult],
    ) -> int:
        """How many rows have died with an update."""

    def expected_seconds(
        self, version: ArchiveVersion, planned: PlannedCommit, rows: int | None
    ) -> float | None:
        """What an update should take, where that depends on its plan."""

    # -- inspection and advice ---------------------------------------------------------------

    def plan_lines(self, version: ArchiveVersion, updates: range) -> list[str]:
        """The coming updates as the lines of a table."""

    def predictions(self, properties: Mapping[str, Any]) -> list[Prediction]:
        """For each kept report, what the cost model expected of it and what it took."""

    def need(self, *, soft: bool) -> Need | None:
        """What a new layout must keep: with ``soft`` expired rows may linger; None for the
        family's own rule."""

    def advise(
        self, directory: Directory, version: ArchiveVersion, workload: Workload, need: Need | None
    ) -> ArchiveAdvice | CellAdvice:
        """Which layout would do the least work."""

    # -- migration: asked of the family before it --------------------------------------------

    def changed(
        self, changes: Changes, calendar: UpdateCalendar, advised: Advised
    ) -> ArchiveSettings:
        """The settings after these changes."""

    def require_lasting(self, after: ArchiveSettings) -> None:
        """Refuse to leave stored rows as they are where ``after`` asks otherwise of them."""

    def last_expiration(self, version: ArchiveVersion, after: ArchiveSettings) -> int:
        """When the last stored row expires under the settings ``after``, at the latest."""

    def note_of_change(self, version: ArchiveVersion, after: ArchiveSettings) -> dict[str, Any]:
        """Properties by which versions before the change say what they hold."""

    def move(self, rows: pa.Table, part: int, after: Family, arrivals: Arrivals, now: int) -> None:
        """Give stored rows of one part, all alive, to another layout or family."""

    # -- migration: asked of the family after it ---------------------------------------------

    def receive(self, rows: pa.Table, part: int, arrivals: Arrivals, now: int) -> None:
        """Take in stored rows that lived equally long."""

    def plan_of_everything(self, version: ArchiveVersion, update: int) -> PlannedCommit:
        """Every run that the live rows of a version before can make up."""

    def set_aside(self, directory: Directory, version: ArchiveVersion, update: int) -> Relabelled:
        """The state where all stored runs only run empty, and the tags that files get."""


_FAMILIES: dict[str, type[Family]] = {}


def enlist(*families: type[Family]) -> None:
    """Make families known by their names."""
    _FAMILIES.update({family.name: family for family in families})


def family_of(settings: ArchiveSettings) -> Family:
    """The family that these settings declare."""
    lifetimes = settings.lifetimes
    name = WAVES if lifetimes is None else COUNTS if lifetimes.counts else CELLS
    return _FAMILIES[name](settings)
