"""The state of one step in one bucket: loaded when it is needed, stored under fresh names after it.

Invariant: nothing that is committed changes. What the step no longer uses is named as dropped, and
compared with its checksum first, unless all its rows are dead: others hold these rows now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
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
from mayfly.kernels.delta import Delta, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.key_ends import ClosedKeys
from mayfly.lifetime import NEVER
from mayfly.physical.stages import ClosedStream, StagedProgram, StagedTask
from mayfly.runtime.closed_keys import forget
from mayfly.spark.stream.dead_letters import CLOSED_KEY, DEAD_LETTERS, with_reason
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, Segment, write_segment

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
    late: dict[str, int] = field(default_factory=dict)
    """Per stream: rows whose key was closed."""

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

    def write_letters(self, stream: str, rows: pa.Table) -> None:
        """Keep dead letters of a stream until they are delivered."""
        rows = with_numbers(rows, **{EXP: np.full(rows.num_rows, NEVER)})
        group = f"{DEAD_LETTERS}/{stream}/{self.bucket}"
        segment = write_segment(self.directory, group, rows)
        self.added += [segment] if segment else []

    def tell_late(
        self, staged: StagedTask, before: Any, inputs: Sequence[Delta], interval: Interval
    ) -> None:
        """Count the rows whose key was closed, and keep them where dead letters are kept."""
        for closed in self.program.closed:
            if closed.task != staged.number or not closed.tells:
                continue
            count = staged.operator.late(self.after[f"task/{staged.name}"])
            count -= staged.operator.late(before)
            if count:
                self.late[closed.stream] = count
            if count and closed.stream in self.task.letters:
                rows = staged.operator.late_rows(before, inputs, interval)
                self.write_letters(closed.stream, with_reason(rows, CLOSED_KEY))

    def forget_closed(self, closed: ClosedStream) -> None:
        """Leave rows of closed keys out of states that have doubled since that was done."""
        own, tasks = f"task/{self.program.tasks[closed.task].name}", self.program.tasks
        state: ClosedKeys = self.after[own]
        names = {f"task/{tasks[forgetting.task].name}" for forgetting in closed.forgetting}
        if sum(self.after[name].rows for name in names) < 2 * max(1, state.looked):
            return
        for forgetting in closed.forgetting:
            name = f"task/{tasks[forgetting.task].name}"
            closers: Any = {closing.stream: tasks[n].operator for n, closing in forgetting.by}
            keys = {c.stream: self.after[f"task/{tasks[n].name}"] for n, c in forgetting.by}
            closings = [closing for _, closing in forgetting.by]
            before = [self.after[name]]
            (self.after[name],) = forget(forgetting.parts, closings, before, closers, keys)
        looked = sum(self.after[name].rows for name in names)
        self.after[own] = replace(state, looked=looked)

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
