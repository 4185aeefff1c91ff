"""Where keys of streams are closed in a program that runs in stages: one task for each stream.

Before: window ← stream. After: window ← its columns ← rows in time for their key ← stream.
Rows meet by the key of the PUNCTUATION, whatever they are exchanged by after that. Which rows are
late is the same for all that read the stream at one clock, so it is found out once, of whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from mayfly.kernels.interval import Interval
from mayfly.kernels.key_ends import CloseKeys, ReadOpen
from mayfly.patterns.propagation import unbounded
from mayfly.physical.program import Source, StreamInput, Task, stream_input
from mayfly.physical.shared_program import ClockGroup, SharedProgram, digest, fingerprint
from mayfly.plan.catalog import StreamDefinition
from mayfly.storage.segment import TS


def with_closed_keys(program: SharedProgram) -> SharedProgram:
    """The program with tasks that leave out rows of closed keys, where streams close any."""
    tasks = program.tasks()
    if not any(isinstance(s, StreamInput) and s.closing for task in tasks for s in task.inputs):
        return program
    closing = _Closing(program)
    for task in tasks:
        closing.add(task)
    members = (
        replace(m, program=replace(m.program, answer=closing.made[m.program.answer]))
        for m in program.members
    )
    return SharedProgram(tuple(members), closing.names, closing.groups)


@dataclass
class _Closing:
    program: SharedProgram
    made: dict[Task, Task] = field(default_factory=dict)
    closers: dict[tuple[ClockGroup, str], Task] = field(default_factory=dict)
    names: dict[Task, str] = field(default_factory=dict)
    groups: dict[Task, ClockGroup] = field(default_factory=dict)

    def add(self, task: Task) -> None:
        """A task whose inputs were added before."""
        name, group = self.program.names[task], self.program.groups[task]
        inputs = tuple(
            self.made[source] if isinstance(source, Task) else self._entering(source, task, group)
            for source in task.inputs
        )
        same = all(old is new for old, new in zip(task.inputs, inputs, strict=True))
        self.made[task] = self._named(task if same else replace(task, inputs=inputs), name, group)

    def _entering(self, source: Source, task: Task, group: ClockGroup) -> Task | Source:
        if not isinstance(source, StreamInput) or source.closing is None:
            return source
        closer = self._closer(source.closing, group)
        operator = ReadOpen(
            f"rows of {source.stream} in time", source.stream, source.alias, source.columns,
            task.operator.intake,
        )  # fmt: skip
        nothing = operator.read(closer.operator.no_input(), Interval())
        columns = pa.schema([column for column in nothing.schema if column.name != TS])
        reading = Task(operator, (closer,), columns, False, label=unbounded(source.alias))
        return self._named(reading, digest(self.program.names[task], "rows in time"), group)

    def _closer(self, stream: StreamDefinition, group: ClockGroup) -> Task:
        place = group, stream.name
        if place not in self.closers:
            operator = CloseKeys.of(stream)
            whole = stream_input(stream, stream.name, tuple(c.name for c in stream.columns))
            label = unbounded(stream.name)
            task = Task(operator, (whole,), operator.columns, False, label=label)
            name = digest(group.name, fingerprint(task))
            self.closers[place] = self._named(task, name, group)
        return self.closers[place]

    def _named(self, task: Task, name: str, group: ClockGroup) -> Task:
        self.names[task], self.groups[task] = name, group
        return task
