"""One layout under one load, as the studies measured theirs.

Building stage: a roll-over of updates, taken in once and moved into the layout. Update stage: the
next roll-over; after each update one probe of a random key and one scan. Reported are averages.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from experiments.lifetime_figures.loads import INTERVAL, KEYS, ROLLOVER, Load, Recorded
from mayfly.archive import Archive, ReadReport
from mayfly.archive.model.lifetime_declaration import LifetimeRequest
from mayfly.archive.write.local_jobs import InProcess


@dataclass(frozen=True)
class Point:
    """Averages over the update stage."""

    layout: str
    sub_indices: int
    megabytes: float
    fluctuating: bool
    invalidated: int
    """Rows declared void after each update."""
    update_seconds: float
    update_bytes: float
    """Read and written by an update."""
    touched: float
    """Sub-indices changed by an update."""
    probe_seconds: float
    probe_bytes: float
    scan_seconds: float
    stored_bytes: float
    runs: float
    invalidate_seconds: float = 0.0
    updates: list[float] = field(default_factory=list)
    """The seconds of every update."""


class Stage:
    """Loads recorded and built once, and a place for the archives under test."""

    def __init__(self, updates: int = ROLLOVER) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="mayfly-lifetimes-"))
        self.updates = updates
        self._recorded: dict[Load, tuple[Recorded, int]] = {}
        self._built: dict[tuple[Load, bool], Path] = {}

    def close(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def recorded(self, load: Load) -> tuple[Recorded, int]:
        """The load, and how many of its rows are alive at the end."""
        if load not in self._recorded:
            rows = Recorded.of(load, self.root / f"rows {len(self._recorded)}")
            self._recorded[load] = (rows, rows.alive(ROLLOVER + self.updates))
        return self._recorded[load]

    def built(self, load: Load, clustered: bool) -> Path:
        """An archive after its first roll-over."""
        if (load, clustered) not in self._built:
            place = self.root / f"built {len(self._built)}"
            settings = LifetimeRequest(
                load.columns, key="k", max_lifetime=f"{ROLLOVER * INTERVAL} us",
                refresh=f"{INTERVAL} us", origin=0, clustered=clustered,
                counts={"pos": load.window} if load.counted else None,
            ).declaration().settings  # fmt: skip
            archive = Archive.create(place, settings, InProcess(), sync=False)
            rows, _ = self.recorded(load)
            for update in range(1, ROLLOVER + 1):
                archive.update(rows.rows(update), positions=_reached(load, update))
            archive.maintain.vacuum(keep_versions=1, grace=0)
            self._built[load, clustered] = place
        return self._built[load, clustered]

    def measure(
        self, layout: str, load: Load, *, clustered: bool = True, invalidated: int = 0
    ) -> Point:
        """A layout by its name, under a load."""
        recorded, alive = self.recorded(load)
        place = self.root / "measured"
        shutil.copytree(self.built(load, clustered), place)
        try:
            return self._measured(layout, recorded, place, alive, clustered, invalidated)
        finally:
            shutil.rmtree(place)

    def _measured(
        self, layout: str, recorded: Recorded, place: Path, alive: int, clustered: bool, void: int
    ) -> Point:
        archive = Archive.open(place, InProcess(), sync=False)
        chronological = layout.startswith("chronological Rebuild")
        named = layout.replace("chronological Rebuild", "chronological")
        archive.migrate(layout=named, rebuild=True if chronological else None)
        archive.maintain.vacuum(keep_versions=1, grace=0)
        chance = random.Random(3)
        reports, probes, scans, voiding, stored, runs = [], [], [], [], [], []
        touched = ReadReport()
        taken_back = 0
        for update in range(ROLLOVER + 1, ROLLOVER + self.updates + 1):
            rows = recorded.rows(update)
            reports.append(archive.update(rows, positions=_reached(recorded.load, update)))
            if void:
                some = rows.slice(0, void)
                voiding.append(_timed(partial(archive.invalidate, rows=some)))
                taken_back += _lasting(some, ROLLOVER + self.updates)
            key = chance.randrange(KEYS)
            probes.append(_timed(partial(archive.probe, key, report=touched)))
            scans.append(_timed(archive.scan))
            stored.append(archive.version().manifest.stored_bytes)
            runs.append(len(archive.version().state.used_runs()))
        found = archive.scan().num_rows
        assert found == alive - taken_back, f"{layout}: {found} rows of {alive - taken_back}"
        seconds = [one.transition_seconds for one in reports]
        of: Any = archive.settings.layout
        return Point(
            layout if clustered else f"{layout}, unindexed",
            of.constituents,
            recorded.load.megabytes,
            recorded.load.fluctuating,
            void,
            update_seconds=fmean(seconds),
            update_bytes=fmean(one.bytes_read + one.bytes_written for one in reports),
            touched=fmean(one.indexes_touched for one in reports),
            probe_seconds=fmean(probes),
            probe_bytes=touched.bytes / len(probes),
            scan_seconds=fmean(scans),
            stored_bytes=fmean(stored),
            runs=fmean(runs),
            invalidate_seconds=fmean(voiding) if voiding else 0.0,
            updates=seconds,
        )


def _reached(load: Load, update: int) -> dict[str, int] | None:
    """Where the window of a counted load stands after an update."""
    return {"pos": load.reached(update)} if load.counted else None


def _lasting(rows: pa.Table, update: int) -> int:
    """How many of the rows would be alive after this update."""
    return sum(exp > update * INTERVAL for exp in rows["exp"].to_pylist())


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
