"""How a pipeline gets on: its last batches, how far it is behind, what each operator keeps.

Everything is told by the manifest, so any process that can read the checkpoint knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mayfly.lifetime import MIN_TIME
from mayfly.physical.stages import StagedTask
from mayfly.pipeline.clocks import Clocks
from mayfly.spark.receipts import Receipt
from mayfly.storage import Manifest

if TYPE_CHECKING:
    from mayfly.spark.batches import BatchFacts

RECENT = "recent"
"""Property: the last batches in figures."""
_DIGEST = re.compile(r"_[0-9a-f]{8}\b")
"""In names of operators: what tells apart sources that queries read in different ways."""
REMEMBERED = 20
FAST = 2.0
"""A clock that moves so many times as fast as time is catching up; a little more is chance."""


@dataclass(frozen=True)
class Batch:
    """One batch in figures."""

    ended: int
    """The wall clock at its commit, µs."""
    seconds: float
    rows: Mapping[str, int]
    clocks: Mapping[str, int | None]
    """Of the streams, after it."""

    def to_json(self) -> list[Any]:
        return [self.ended, round(self.seconds, 3), dict(self.rows), dict(self.clocks)]


@dataclass(frozen=True)
class OperatorState:
    """What one operator keeps in all buckets."""

    operator: str
    stage: int
    rows: int
    bytes: int


def with_batch(before: Manifest, batch: Batch) -> list[Any]:
    """The property after one batch more."""
    return [*before.properties.get(RECENT, []), batch.to_json()][-REMEMBERED:]


@dataclass(frozen=True)
class Progress:
    """The last batches as the queries over some streams see them."""

    batches: tuple[Batch, ...] = ()
    streams: tuple[str, ...] = ()

    @staticmethod
    def of(manifest: Manifest, streams: Iterable[str]) -> Progress:
        batches = (Batch(*one) for one in manifest.properties.get(RECENT, []))
        return Progress(tuple(batches), tuple(streams))

    @property
    def rate(self) -> float:
        """Rows a second that came to these streams, over the last batches."""
        rows = [sum(one.rows.get(name, 0) for name in self.streams) for one in self.batches]
        if len(rows) < 2:
            seconds = self.batches[0].seconds if rows else 0.0
            return sum(rows) / seconds if seconds else 0.0
        return sum(rows[1:]) / max(self._elapsed / 1e6, 1e-6)

    @property
    def catch_up(self) -> float | None:
        """Seconds until the clock is where time is, if it goes on as in the last batches; None
        while it does not move much faster than time."""
        clocks = [clock for clock in map(self._clock, self.batches) if clock != MIN_TIME]
        if len(clocks) < 2 or len(clocks) < len(self.batches):
            return None
        behind = self.batches[-1].ended - clocks[-1]
        speed = (clocks[-1] - clocks[0]) / max(self._elapsed, 1)
        return behind / (speed - 1) / 1e6 if speed >= FAST and behind > 0 else None

    @property
    def _elapsed(self) -> int:
        return self.batches[-1].ended - self.batches[0].ended

    def _clock(self, batch: Batch) -> int:
        return Clocks(batch.clocks).of(self.streams).query


def operator_states(manifest: Manifest, tasks: Sequence[StagedTask]) -> tuple[OperatorState, ...]:
    """What each operator of queries keeps, in the order in which they run."""
    found: dict[str, list[str]] = {}
    for name, stored in manifest.properties["state"].items():
        paths = found.setdefault(name.rpartition("/")[0], [])
        paths += [path for listed in stored["runs"].values() for path in listed]
    states = []
    for task in tasks:
        held = [manifest.segments[path] for path in found.get(f"task/{task.name}", ())]
        if held:
            rows, size = sum(one.rows for one in held), sum(one.bytes for one in held)
            name = _DIGEST.sub("", task.operator.name)
            states.append(OperatorState(name, task.stage + 1, rows, size))
    return tuple(states)


def totals_after(
    before: Mapping[str, Any], facts: BatchFacts, receipts: Sequence[Receipt]
) -> dict[str, Any]:
    """Counters since the beginning, after one batch more."""
    totals = {name: dict(value) for name, value in before.items() if isinstance(value, dict)}
    counted = {
        "rows": facts.rows, "timeless": facts.timeless, "late": facts.late, "shed": facts.shed,
        "beyond": facts.beyond,
    }  # fmt: skip
    for name, found in counted.items():
        for stream, count in found.items():
            own = totals.setdefault(name, {})
            own[stream] = own.get(stream, 0) + count
    for receipt in receipts:
        for name in ("null_keys", "shed"):
            for stream, count in getattr(receipt, name).items():
                totals[name][stream] = totals[name].get(stream, 0) + count
    last = max((receipt.stage for receipt in receipts), default=0)
    changes = sum(receipt.changes for receipt in receipts if receipt.stage == last)
    return {**totals, "changes": before["changes"] + changes}


def last_batch(receipts: Sequence[Receipt]) -> dict[str, Any]:
    """The last batch in figures, for status and progress."""
    stage = max((receipt.stage for receipt in receipts), default=0)
    final = [receipt for receipt in receipts if receipt.stage == stage]
    io: dict[str, int] = {}
    for receipt in receipts:
        for name, count in receipt.io.items():
            io[name] = io.get(name, 0) + count
    seconds = [receipt.seconds for receipt in receipts]
    rows = [sum(receipt.rows_in.values()) for receipt in receipts if receipt.stage == 0]
    return {
        "changes": sum(receipt.changes for receipt in final),
        "bucket_rows": rows,
        "slowest_task_seconds": round(max(seconds, default=0.0), 6),
        "io": io,
    }
