"""The figures of ``status``: counted by tasks (receipts.py), added up here after every batch, and
stored in the manifest with its effects, so that any process that can read the checkpoint has them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mayfly.physical.stages import StagedTask
from mayfly.spark.stream.receipts import Receipt
from mayfly.storage import Manifest

if TYPE_CHECKING:
    from mayfly.spark.stream.batch_record import BatchFacts

REFRESHES = "refreshes"
"""Property: refreshes answered and skipped, per query."""
_DIGEST = re.compile(r"_[0-9a-f]{8}\b")
"""In names of operators: what tells apart sources that queries read in different ways."""


@dataclass(frozen=True)
class OperatorState:
    """What one operator keeps in all buckets."""

    operator: str
    stage: int
    rows: int
    bytes: int


def operator_states(manifest: Manifest, tasks: Sequence[StagedTask]) -> tuple[OperatorState, ...]:
    """What each operator of queries keeps, in the order in which they run."""
    files: dict[str, list[str]] = {}
    for name, stored in manifest.properties["state"].items():
        paths = files.setdefault(name.rpartition("/")[0], [])
        paths += [path for listed in stored["runs"].values() for path in listed]
    states = []
    for task in tasks:
        held = [manifest.segments[path] for path in files.get(f"task/{task.name}", ())]
        if held:
            rows, size = (
                sum(segment.rows for segment in held),
                sum(segment.bytes for segment in held),
            )
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
    for name, counts in counted.items():
        for stream, count in counts.items():
            own = totals.setdefault(name, {})
            own[stream] = own.get(stream, 0) + count
    for receipt in receipts:
        for name in ("null_keys", "shed", "late"):
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


def answered(receipts: Sequence[Receipt]) -> dict[str, int]:
    """Per query, the changes of one batch."""
    counts: Counter[str] = Counter()
    for receipt in receipts:
        counts.update(receipt.answers)
    return dict(counts)


def refreshes_after(base: Manifest, receipts: Sequence[Receipt]) -> dict[str, list[int]]:
    """Per query: refreshes answered and skipped so far."""
    refreshes = {name: list(pair) for name, pair in base.properties.get(REFRESHES, {}).items()}
    for receipt in receipts:
        for name, pair in receipt.refreshes.items():
            old = refreshes.get(name, [0, 0])
            refreshes[name] = [count + other for count, other in zip(old, pair, strict=True)]
    return refreshes
