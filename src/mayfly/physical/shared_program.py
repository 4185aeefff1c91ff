"""Several queries as one program: equal sub-plans run once, and states have names that last.

Idea: aliases are renamed after what they stand for, bottom-up, so that plans which mean the same
are equal whatever their texts call things; then equal operators over equal inputs become one task.
Chains of selections and projections over a time window keep no state worth sharing and stay apart,
so that each is exchanged by the key of the operator it feeds. Invariant: queries share only within
a *clock group*: those that read the same streams and were registered together. All of a group see
the same instants closed, and none meets results from before its time.
Every task gets a name made from what it computes and for whom; the names of states in a checkpoint
are these, so they survive other queries' coming and going (thesis 2.4 on sharing).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from mayfly.kernels.operator import Moving, StateKey
from mayfly.physical.program import Program, StreamInput, Task
from mayfly.plan.alias_names import with_aliases
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import Node, Output


@dataclass(frozen=True)
class ClockGroup:
    """Queries that read the same streams, registered when their clock was ``since``.

    ``entry`` tells apart those that came one after the other at one clock.
    """

    streams: tuple[str, ...]
    since: int | None = None
    entry: int | None = None

    @property
    def name(self) -> str:
        begun = "" if self.since is None else f"@{self.since}"
        return "+".join(self.streams) + begun + ("" if self.entry is None else f"#{self.entry}")


@dataclass(frozen=True)
class Member:
    """A query of a shared program."""

    name: str
    program: Program
    group: ClockGroup


@dataclass(frozen=True)
class SharedProgram:
    """Queries whose equal sub-plans are the same tasks."""

    members: tuple[Member, ...]
    names: Mapping[Task, str]
    """What the state of each task is called."""
    groups: Mapping[Task, ClockGroup]

    def tasks(self) -> list[Task]:
        """Every task once, inputs first."""
        all_tasks: dict[Task, None] = {}
        for member in self.members:
            all_tasks.update(dict.fromkeys(member.program.answer.walk()))
        return list(all_tasks)


def streams_of(program: Program) -> tuple[str, ...]:
    """The streams a program reads, in alphabetical order."""
    streams = {
        source.stream
        for task in program.tasks()
        for source in task.inputs
        if isinstance(source, StreamInput)
    }
    return tuple(sorted(streams))


def shared(
    programs: Mapping[str, Program],
    since: Mapping[str, int | None],
    entries: Mapping[str, int | None] | None = None,
) -> SharedProgram:
    """The programs by query name as one; ``since`` and ``entries`` say when each was registered."""
    pool: dict[tuple[ClockGroup, str], Task] = {}
    members = []
    groups_of = {
        name: ClockGroup(streams_of(program), since.get(name), (entries or {}).get(name))
        for name, program in programs.items()
    }
    for name, program in programs.items():
        _pool_standing(pool, program, groups_of[name])
    for name, program in programs.items():
        group = groups_of[name]
        answer = _Pooling(pool, group).pooled(program.answer)
        members.append(Member(name, replace(program, answer=answer), group))
    names: dict[Task, str] = {}
    groups: dict[Task, ClockGroup] = {}
    for member in members:
        _name(member.program.answer, member.name, member.group, names, groups)
    return SharedProgram(tuple(members), names, groups)


def _pool_standing(
    pool: dict[tuple[ClockGroup, str], Task], program: Program, group: ClockGroup
) -> None:
    """What keeps panes serves queries that come at any time: it is one, for all of them."""
    for task in program.tasks():
        if task.operator.is_standing:
            place = _group_of(task, group), fingerprint(task)
            pool[place] = task if place not in pool else _united(pool[place], task)


def _group_of(task: Task, group: ClockGroup) -> ClockGroup:
    """Whose a task is that a query of a group reads."""
    return ClockGroup(group.streams) if task.operator.is_standing else group


def _united(task: Task, other: Task) -> Task:
    source, more = task.inputs[0], other.inputs[0]
    assert isinstance(source, StreamInput)
    assert isinstance(more, StreamInput)
    columns = tuple(dict.fromkeys((*source.columns, *more.columns)))
    operator: Any = task.operator.united(other.operator)
    inputs = (replace(source, columns=columns),)
    return replace(task, operator=operator, inputs=inputs, columns=operator.columns)


class _Pooling:
    """Puts the tasks of one program into the pool, or finds them there."""

    def __init__(self, pool: dict[tuple[ClockGroup, str], Task], group: ClockGroup) -> None:
        self.pool, self.group = pool, group
        self.done: dict[Task, Task] = {}

    def pooled(self, task: Task) -> Task:
        if task not in self.done:
            inputs = tuple(
                self.pooled(source) if isinstance(source, Task) else source
                for source in task.inputs
            )
            same = all(old is new for old, new in zip(task.inputs, inputs, strict=True))
            own = task if same else replace(task, inputs=inputs)
            if task.operator.is_standing:
                own = self.pool[_group_of(own, self.group), fingerprint(own)]
            elif not moves_freely(task):
                own = self.pool.setdefault((self.group, fingerprint(own)), own)
            self.done[task] = own
        return self.done[task]


def with_equal_tasks_once(program: Program) -> Program:
    """The program with equal tasks as one."""
    pool: dict[tuple[ClockGroup, str], Task] = {}
    group = ClockGroup(streams_of(program))
    _pool_standing(pool, program, group)
    answer = _Pooling(pool, group).pooled(program.answer)
    return replace(program, answer=answer)


def moves_freely(task: Task) -> bool:
    """Whether a task only prepares rows for its readers, wherever they are."""
    below = [source for source in task.inputs if isinstance(source, Task)]
    if not below:
        return task.operator.moving is Moving.FREE
    return task.operator.passes and all(map(moves_freely, below))


def _name(
    task: Task,
    context: str,
    group: ClockGroup,
    names: dict[Task, str],
    groups: dict[Task, ClockGroup],
) -> None:
    """Name a task and those below: by what it computes, and whose it is unless shared."""
    if task in names:
        return
    group = _group_of(task, group)
    whom = context if moves_freely(task) else ""
    names[task] = digest(group.name, whom, fingerprint(task))
    groups[task] = group
    for side, source in enumerate(task.inputs):
        if isinstance(source, Task):
            _name(source, f"{names[task]}.{side}", group, names, groups)


# ── what things are ───────────────────────────────────────────────────────────────────────


_STORED_NAMES = {
    "StreamInput": "Stream", "RelationInput": "Relation", "RowsWindow": "Rows",
    "PaneNumber": "Content",
}  # fmt: skip
"""Checkpoints hold digests of texts in which these classes have shorter names."""
_FINGERPRINTS: WeakKeyDictionary[Task, str] = WeakKeyDictionary()
"""Those of tasks in use: a deep plan asks for those below again at every level."""


def fingerprint(task: Task) -> str:
    """A short text that is equal for tasks that compute the same."""
    if task not in _FINGERPRINTS:
        _FINGERPRINTS[task] = _fingerprint(task)
    return _FINGERPRINTS[task]


def _fingerprint(task: Task) -> str:
    inputs = [
        fingerprint(source) if isinstance(source, Task) else described(source)
        for source in task.inputs
        if not task.operator.is_standing
    ]
    return digest(*described_operator(task), *inputs)


def described_operator(task: Task, without: Collection[str] = ()) -> list[str]:
    """What a task's operator computes, by the parts of its state key but those left out."""
    key = task.operator.state_key()
    parts = (f"{name}={described(value)}" for name, value in key.parts if name not in without)
    return [key.kind, *parts]


def described(value: Any, names: Mapping[str, str] | None = None) -> str:
    """A value as text, by everything that makes it equal to another; aliases under new names."""
    if isinstance(value, Column):
        relation = (names or {}).get(value.relation, value.relation)
        return f"{relation}.{value.name}:{value.data_type}:{value.may_be_null}"
    if isinstance(value, pa.Schema):
        return "|".join(f"{field.name} {field.type}" for field in value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, StateKey):
        return f"{value.kind}({','.join(f'{n}={described(v, names)}' for n, v in value.parts)})"
    if isinstance(value, tuple | list):
        return f"[{','.join(described(part, names) for part in value)}]"
    kind: Any = type(value)
    if (compared := _compared(kind)) is not None:
        parts = []
        for name in compared:
            own = getattr(value, name)
            if name in ("approximate", "bound") and not own:
                continue  # digests are older than that there are approximate calls
            if name == "alias" and isinstance(own, str):
                own = (names or {}).get(own, own)
            parts.append(f"{name}={described(own, names)}")
        return f"{_STORED_NAMES.get(kind.__name__, kind.__name__)}({','.join(parts)})"
    return repr(value)


@cache
def _compared(kind: type) -> tuple[str, ...] | None:
    """What makes two values of a kind equal; None if it is no dataclass."""
    return (
        tuple(field.name for field in fields(kind) if field.compare) if is_dataclass(kind) else None
    )


def digest(*parts: str) -> str:
    """A word that stands for some texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# ── aliases ───────────────────────────────────────────────────────────────────────────────


def canonical(plan: Output) -> Output:
    """The plan with aliases that depend on what they stand for and not on the text."""
    names: dict[str, str] = {}
    _collect(plan, names)
    renamed = with_aliases(plan, names)
    assert isinstance(renamed, Output)
    return renamed


def _collect(node: Node, names: dict[str, str]) -> None:
    for child in node.children():
        _collect(child, names)
    alias = getattr(node, "alias", "")
    if alias and alias not in names:
        hint = getattr(node, "stream", None) or getattr(node, "relation", None)
        start = hint if isinstance(hint, str) else type(node).__name__.lower()
        text = f"{start}_{digest(described(node, {**names, alias: ''}))[:8]}"
        taken, number = set(names.values()), 1
        while text in taken:
            number += 1
            text = f"{text.partition('#')[0]}#{number}"
        names[alias] = text


def read_streams(members: Sequence[Member]) -> tuple[str, ...]:
    """Every stream that some query reads, once."""
    return tuple(dict.fromkeys(stream for member in members for stream in member.group.streams))
