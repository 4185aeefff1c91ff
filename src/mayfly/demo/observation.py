"""What committed manifests tell about the running query; no Spark is needed to read them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc

from mayfly.checkpoint.clock_record import CLOCKS
from mayfly.demo.figures import Figures
from mayfly.serving.pipeline_status import RESULTS
from mayfly.spark.api.run_status import Status, status_of
from mayfly.storage import EXP, TS, Manifest, Repository, segment_batches

RATES_OVER = 4_000_000
"""Rates are averages over the commits of this many µs."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One committed version, and how many results are alive at its last closed instant."""

    status: Status
    committed_at: int
    alive: int


def observe(repository: Repository) -> Observation:
    """The current version, pinned while the change log is read."""
    with repository.pin() as manifest:
        status = status_of(manifest)
        alive = 0 if status.clock is None else _alive(repository, manifest, status.clock - 1)
        return Observation(status, manifest.written_at, alive)


def _alive(repository: Repository, manifest: Manifest, instant: int) -> int:
    """The results of all queries that are alive at an instant."""
    return sum(
        pc.sum(pc.and_(pc.less_equal(batch[TS], instant), pc.greater(batch[EXP], instant))).as_py()
        for segment in manifest.in_group(RESULTS)
        if segment.ts.low <= instant and not segment.dead_at(instant)
        for batch in segment_batches(repository.directory, segment)
    )


@dataclass
class Observer:
    """Watches a checkpoint that another process writes."""

    checkpoint: Path
    seen: deque[Observation] = field(default_factory=deque, init=False)
    _repository: Repository | None = field(default=None, init=False)

    def look(self) -> Figures | None:
        """Figures of a version not seen before; None if there is none."""
        if self._repository is None:
            if not Repository.exists(self.checkpoint):
                return None
            self._repository = Repository.open(self.checkpoint)
        if self.seen and self._repository.newest() == self.version:
            return None
        self.seen.append(observe(self._repository))
        while len(self.seen) > 2 and self._span() > RATES_OVER:
            self.seen.popleft()
        return self._figures() if len(self.seen) > 1 else None

    @property
    def version(self) -> int:
        """The newest version seen."""
        return self.seen[-1].status.version

    def running_batch(self) -> int | None:
        """The batch whose clock is recorded but which is not committed, if there is one."""
        if self._repository is None:
            return None
        recorded = self._repository.directory.names(CLOCKS)
        latest = int(Path(recorded[-1]).stem) if recorded else -1
        committed = self._repository.current().properties["batch"]
        return latest if latest > committed else None

    def _span(self) -> int:
        return self.seen[-1].committed_at - self.seen[0].committed_at

    def _figures(self) -> Figures:
        first, before, last = self.seen[0].status, self.seen[-2], self.seen[-1]
        seconds = max(self._span(), 1) / 1e6
        status = last.status
        new = status.changes - before.status.changes
        return Figures(
            version=status.version,
            batch=status.batch,
            closing=status.batch == before.status.batch,
            clock=status.clock,
            rows=sum(status.rows.values()),
            late=sum(status.late.values()),
            results=status.changes,
            rows_per_second=(sum(status.rows.values()) - sum(first.rows.values())) / seconds,
            results_per_second=(status.changes - first.changes) / seconds,
            alive=last.alive,
            new=new,
            expired=before.alive + new - last.alive,
            state_rows=status.state_rows,
            state_bytes=status.state_bytes,
            segments=status.segments,
        )
