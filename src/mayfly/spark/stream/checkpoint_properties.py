"""What the manifest of a checkpoint says besides its files: counters, clocks, what is due."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from mayfly.checkpoint.result_folders import IDENTITY
from mayfly.checkpoint.result_log import LOG, horizon
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.physical.stages import StagedProgram
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.receipts import Receipt
from mayfly.spark.stream.stage_tasks import OUT
from mayfly.spark.stream.state_format import CURRENT, STATE_FORMAT
from mayfly.storage import Manifest, Repository, Segment

KNOWN = "known"
"""Property: per task of a query that came later, the instant from which it knows all rows."""
DELIVERED = "delivered"
"""Property: the batch whose changes were erased after all sinks had taken them."""


def empty_properties(
    streams: Sequence[Stream], queries: Mapping[str, Mapping[str, Any]], buckets: int
) -> dict[str, Any]:
    """The properties of a checkpoint before its first batch."""
    names = tuple(stream.name for stream in streams)
    counted = ("rows", "timeless", "late", "null_keys", "shed")
    return {
        IDENTITY: uuid.uuid4().hex,
        "kind": "queries",
        STATE_FORMAT: CURRENT,
        "queries": dict(queries),
        "buckets": buckets,
        "batch": -1,
        "clocks": Clocks.unset(names).to_json(),
        "interval": [MIN_TIME, MIN_TIME],
        "due": {},
        "totals": {**{name: {} for name in counted}, "changes": 0},
        "last": {"changes": 0, "bucket_rows": [], "slowest_task_seconds": 0.0, "io": {}},
        **{name: {} for name in ("first", "state", "relations", "answers", "read", "kept_from")},
        "delivery": 0,
    }


def identity(repository: Repository) -> str:
    """What a checkpoint is known by to the sinks of its batches: it may be moved, and another
    one made in its place. One of an earlier version is known by its path."""
    return str(repository.current().properties.get(IDENTITY, repository.directory.address))


def without_dead(base: Manifest, ends: Mapping[str, int]) -> dict[str, Any]:
    """The states that hold segments which are dead at their end, without these: nothing is read."""
    changed = {}
    for name, stored in base.properties["state"].items():
        end = ends.get(name.rpartition("/")[0], MIN_TIME)
        runs = {
            part: [path for path in paths if not base.segments[path].dead_at(end)]
            for part, paths in stored["runs"].items()
        }
        if runs != stored["runs"]:
            changed[name] = {**stored, "runs": runs}
    return changed


def ends_of_states(stages: StagedProgram, clocks: Clocks, history: int) -> dict[str, int]:
    """Per state of which dead rows are of no use: the instant at which they are dead."""
    instants = [clocks.of(group.streams).query for group in stages.groups]
    logs = {f"{LOG}/{a.log}": horizon(instants[a.group], history) for a in stages.answers}
    quiet = (task for task in stages.tasks if task.operator.quiet)
    return logs | {f"task/{task.name}": instants[task.group] for task in quiet}


def kept_from(
    base: Manifest, stages: StagedProgram, clocks: Clocks, history: int
) -> dict[str, int]:
    """Per query, the instant from which its history is whole."""
    kept = {}
    for answer in stages.answers:
        clock = clocks.of(stages.groups[answer.group].streams).query
        forever = history >= NEVER or clock == MIN_TIME
        oldest = MIN_TIME if forever else max(clock - history, MIN_TIME)
        kept[answer.query] = max(base.properties["kept_from"].get(answer.query, MIN_TIME), oldest)
    return kept


def began_at(base: Manifest, stages: StagedProgram, added: Sequence[Segment]) -> dict[str, int]:
    """Where results that several queries share are delivered from their log and state: the log, and
    the instant from which on what they show came in this batch."""
    clocks = Clocks.from_json(base.properties["clocks"])
    shared = {a.log: stages.groups[a.group] for a in stages.answers if a.share is not None}
    return {
        log: clocks.of(group.streams).query
        for log, group in shared.items()
        if not any(segment.group.startswith(f"{OUT}/{log}/") for segment in added)
    }


def dues(receipts: Sequence[Receipt]) -> dict[str, int]:
    """Where something is to happen, stage/bucket → the instant from which on it may."""
    instants = {f"{receipt.stage}/{receipt.bucket}": receipt.next_due for receipt in receipts}
    return {place: instant for place, instant in instants.items() if instant is not None}
