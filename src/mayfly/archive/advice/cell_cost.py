"""What a doubly partitioned layout costs: space, update, probe and scan.

Idea: the layout is run on counted rows until a roll-over is past (``layouts.cell_run``); what its
updates move over the next roll-over is priced and averaged. With f files and w megabytes written
and r read, an update takes
  overhead + f·file + w·write + r·read
a probe reaches every stored run once and decodes at most a row group of each; a scan opens every
file and decodes all of it. Without clustering a probe is a scan.
Total work is update + probes × probe + scans × scan. Constants come from the archive itself
(``cell_measuring``). variable-lifetimes-2006, 3.2; results-index-2005, 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import fmean

import numpy as np

from mayfly.archive.layouts.cell_run import CountedUpdate, counted_updates
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.errors import InvalidSetting

MOST_AVERAGED = 128
"""Updates of a roll-over that are averaged over; longer ones repeat themselves."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What an update reads and writes."""

    files: float = 0.0
    written: float = 0.0
    """Megabytes."""
    read: float = 0.0


@dataclass(frozen=True, slots=True)
class CellConstants:
    """Seconds that an archive's operations take on its machine."""

    name: str
    overhead: float
    """Of every update, whatever it moves."""
    file: float
    """Per file written."""
    write: float
    """Per megabyte written, sorting or merging it included."""
    read: float
    """Per megabyte read by an update."""
    reach: float
    """Per run that a probe looks into."""
    decode: float
    """Per megabyte that a probe decodes."""
    open: float
    """Per file scanned."""
    scan: float
    """Per megabyte scanned."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, int | float) and not value >= 0:
                raise InvalidSetting(
                    f"cost constant {entry.name} of {self.name} is {value}",
                    "give a number of seconds, 0 or more",
                )

    def update(self, moved: Moved) -> float:
        """Seconds of an update."""
        return (
            self.overhead
            + moved.files * self.file
            + moved.written * self.write
            + moved.read * self.read
        )


@dataclass(frozen=True, slots=True)
class CellLoad:
    """What comes with every update, and what is asked between two."""

    megabytes: float
    """Stored size of one update's rows."""
    profile: tuple[float, ...]
    """Which share of them is removed 1, 2, …, p updates later."""
    probes: float = 0.0
    scans: float = 0.0
    parts: int = 1
    """Files per run."""
    row_group: float = 0.05
    """Stored megabytes of a row group: what a probe decodes of a run at most."""
    patience: int = 0
    """Updates for which dead rows may be returned."""

    def __post_init__(self) -> None:
        if not self.megabytes > 0 or not sum(self.profile) > 0 or min(self.profile) < 0:
            raise InvalidSetting(
                f"{self.megabytes} MB an update, with lifetimes {self.profile[:3]}…",
                "give a positive number of megabytes, and shares of 0 or more",
            )

    @property
    def live(self) -> float:
        """Megabytes alive after an update, once as much goes as comes."""
        return self.megabytes * float(np.dot(range(1, len(self.profile) + 1), self.profile))


@dataclass(frozen=True, slots=True)
class CellCost:
    """Predicted measures of a layout, averages over a roll-over."""

    layout: PartitionedLayout
    space: float
    """Megabytes stored between updates."""
    dead: float
    """How many of them have expired."""
    largest_space: float
    """Megabytes at the worst moment: what is stored and what an update writes beside it."""
    moved: Moved
    transition: float
    """Seconds of an update."""
    runs: float
    """How many a probe looks into."""
    probe: float
    scan: float
    queries: float
    """Seconds of all probes and scans between two updates."""

    @property
    def total_work(self) -> float:
        """Seconds from one update to the next, done one after the other."""
        return self.transition + self.queries


def cell_cost(layout: PartitionedLayout, load: CellLoad, constants: CellConstants) -> CellCost:
    """The predicted measures of a layout under a load."""
    updates = _steady_updates(layout, _normal(load.profile), load.patience)
    size = load.megabytes
    moved = Moved(
        fmean(update.runs_written for update in updates) * load.parts,
        fmean(update.written for update in updates) * size,
        fmean(update.read for update in updates) * size,
    )
    runs = fmean(len(update.runs) for update in updates)
    stored = [float(update.runs.sum()) * size for update in updates]
    scan = runs * load.parts * constants.open + fmean(stored) * constants.scan
    decoded = fmean(_decoded(update, load) for update in updates)
    probe = runs * constants.reach + decoded * constants.decode if layout.clustered else scan
    return CellCost(
        layout,
        space=fmean(stored),
        dead=fmean(update.dead for update in updates) * size,
        largest_space=max(
            all + update.written * size for all, update in zip(stored, updates, strict=True)
        ),
        moved=moved,
        transition=constants.update(moved),
        runs=runs,
        probe=probe,
        scan=scan,
        queries=load.probes * probe + load.scans * scan,
    )


def sub_index_sizes(layout: PartitionedLayout, updates: int) -> list[float]:
    """How far sub-index sizes are from equal after each of the last updates of a roll-over: the
    sum of their squared deviations, in cells, at a constant rate and uniform lifetimes."""
    p, n = layout.rollover, layout.constituents
    packed = replace(layout, rebuild=True, span=1)
    deviations = []
    for update in counted_updates(packed, (1.0,) * p, p + updates, first=p + 1):
        sizes = np.zeros(n)
        sizes[: len(update.runs)] = update.runs
        deviations.append(float(((sizes - sizes.mean()) ** 2).sum()))
    return deviations


def _normal(profile: tuple[float, ...]) -> tuple[float, ...]:
    total = sum(profile)
    return tuple(share / total for share in profile)


@lru_cache(maxsize=256)
def _steady_updates(
    layout: PartitionedLayout, profile: tuple[float, ...], patience: int
) -> tuple[CountedUpdate, ...]:
    """The updates of a roll-over in the steady state."""
    past = layout.rollover * (2 if layout.rule.throws_away else 1)
    averaged = min(layout.rollover, MOST_AVERAGED)
    return tuple(
        counted_updates(layout, profile, past + averaged, first=past + 1, patience=patience)
    )


def _decoded(update: CountedUpdate, load: CellLoad) -> float:
    """Megabytes that a probe decodes: of each run its part of the key, at most a row group."""
    return float(np.minimum(update.runs * load.megabytes / load.parts, load.row_group).sum())
