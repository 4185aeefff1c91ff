"""The state of one step in one bucket: loaded when it is needed, stored under fresh names after it.

Invariant: nothing that is committed changes. What the step no longer uses is named as dropped, and
compared with its checksum first, unless all its rows are dead: others hold these rows now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mayfly.checkpoint.operator_state import (
    Stored,
    check_copied,
    load_state,
    next_event,
    store_state,
)
from mayfly.checkpoint.result_log import LOG
from mayfly.checkpoint.state_erasure import without_expired
from mayfly.physical.stages import StagedProgram
from mayfly.storage.directory import Directory
from mayfly.storage.segment import Segment

if TYPE_CHECKING:
    from mayfly.spark.stream.stage_tasks import StageStep


@dataclass
class StepState:
    """What a step has read and written so far."""

    task: StageStep
    bucket: int
    parcels_in: Mapping[str, list[bytes]]
    directory: Directory
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    added: list[Segment] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    clocks: dict[str, int] = field(default_factory=dict)
    """Per state: the instants before are closed for it."""

    @property
    def program(self) -> StagedProgram:
        return self.task.program

    def _tables(self, edge: str) -> list[pa.Table]:
        return [pa.ipc.open_stream(data).read_all() for data in self.parcels_in.get(edge, ())]

    def _load(self, name: str, blank: Any) -> Any:
        entry = self.task.states.get(f"{name}/{self.bucket}")
        stored = None if entry is None else Stored.from_json(entry)
        state = load_state(blank, stored, self.task.segments, self.directory)
        self.before[name] = stored
        return state

    def _due(self, group: int) -> int | None:
        """The instant before which rows expired whose bytes must go."""
        return self.task.erased[group] if self.task.erased else None

    def _keep(self, name: str, state: Any, group: int) -> None:
        due = self._due(group)
        self.after[name] = state if due is None else without_expired(state, due)
        self.clocks[name] = self.task.intervals[group].clock

    def next_due(self) -> int | None:
        """Before this instant nothing happens by itself. Neither joins nor logs do anything when
        rows that they keep expire."""
        joins = (task for task in self.program.tasks if task.operator.quiet)
        quiet = {f"task/{task.name}" for task in joins}
        instants = (
            next_event([state], self.clocks[name])
            for name, state in self.after.items()
            if name not in quiet and not name.startswith(f"{LOG}/")
        )
        return min((instant for instant in instants if instant is not None), default=None)

    def _store(self) -> None:
        """Write every state that the step leaves behind."""
        for name, state in self.after.items():
            group, clock = f"state/{name}/{self.bucket}", self.clocks[name]
            stored, added, in_use = store_state(state, group, self.directory)
            self.stored[f"{name}/{self.bucket}"] = stored
            self.added += added
            previous = self.before.get(name)
            old = [path for paths in previous.runs.values() for path in paths] if previous else []
            gone = [path for path in old if path not in set(in_use)]
            check_copied((self.task.segments[path] for path in gone), clock, self.directory)
            self.dropped += gone
