"""Queries over the same panes that are answered together: one task, one state, one log (CS2).

Before: for each query, groups of panes and a projection of their columns, and a log.
After: one task for all queries that ask the same of the same panes, whatever their windows; the
results of a query are those under the number of its reader, its columns some of the task's.
Only views join: what a stream operator sends has its own refreshes. A query that comes later is one
more reader, with instants of its own to begin with. HAVING is a reader's; what a query computes of
aggregates is the task's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mayfly.kernels.delta import column_name
from mayfly.kernels.pane_readers import PaneReaders, WindowReader
from mayfly.physical.program import Task
from mayfly.physical.shared_program import (
    ClockGroup,
    Member,
    SharedProgram,
    described,
    digest,
    fingerprint,
)
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.window_kinds import Range

LOG_OF = "shared by"
"""How the name of a log begins that several queries have: no query is called so unless quoted."""


@dataclass(frozen=True)
class LogShare:
    """Where the results of a query are, among those of others."""

    log: str
    """The name of the log."""
    reader: int
    """The number under which they lie there."""
    sources: tuple[str, ...]
    """What the columns of the query are called there."""

    @property
    def open(self) -> str:
        """The state with the results that still hold."""
        return f"task/{self.log.removeprefix(LOG_OF).strip()}"

    def to_json(self) -> list[object]:
        return [self.log, self.reader, list(self.sources), self.open]


@dataclass(frozen=True)
class JointProgram:
    """A program in which queries over the same panes are answered together."""

    program: SharedProgram
    shares: Mapping[str, LogShare]
    """By query, of those that are."""


@dataclass(frozen=True)
class _Question:
    """What a query asks of panes: a task of groups, what is computed of these, and what the columns
    of the query are called in the joint answer."""

    task: Task
    joined: PaneReaders
    having: Expression | None
    sources: tuple[str, ...]

    @property
    def window(self) -> Range:
        (window,) = self.task.operator.reads
        return window

    @property
    def panes(self) -> Task:
        (source,) = self.task.inputs
        assert isinstance(source, Task)
        return source

    @property
    def kind(self) -> str:
        """What is equal for questions that are answered together."""
        return described(self.joined.state_key())

    def reader(self, group: ClockGroup) -> WindowReader:
        return WindowReader(self.window, self.having, group.since, group.entry)


def joint(program: SharedProgram) -> JointProgram:
    """The program with one task for all queries that ask the same of the same panes."""
    questions = {
        member: question
        for member in program.members
        if (question := _question(member)) is not None
    }
    together: dict[tuple[object, ...], list[Member]] = {}
    for member, question in questions.items():
        together.setdefault((question.panes, question.kind), []).append(member)
    answers: dict[str, Task] = {}
    shares: dict[str, LogShare] = {}
    names, groups = dict(program.names), dict(program.groups)
    for members in together.values():
        readers = {member: questions[member].reader(member.group) for member in members}
        task = _joint_task([questions[member] for member in members], tuple(readers.values()))
        groups[task] = ClockGroup(members[0].group.streams)
        names[task] = digest(groups[task].name, "", fingerprint(task))
        log = f"{LOG_OF} {names[task]}"
        for member in members:
            sources = questions[member].sources
            shares[member.name] = LogShare(log, readers[member].number, sources)
            answers[member.name] = task
    members_now = tuple(
        replace(member, program=replace(member.program, answer=answers[member.name]))
        if member.name in answers
        else member
        for member in program.members
    )
    return JointProgram(SharedProgram(members_now, names, groups), shares)


def _question(member: Member) -> _Question | None:
    """What a query asks of panes, if that is all it does."""
    program, task = member.program, member.program.answer
    outputs = task.operator.computes()
    if program.sent is not None:
        return None
    if outputs is not None:
        (below,) = task.inputs
        if not isinstance(below, Task):
            return None
        task = below
    joined: Any = task.operator.joint()
    if joined is None:
        return None
    stored = dict(zip(task.columns.names, joined.columns.names[1:], strict=True))

    def renamed(part: Expression) -> Expression:
        if not isinstance(part, Column):
            return part
        return replace(part, relation="", name=stored[column_name(part)].removeprefix("."))

    having = getattr(task.operator, "having", None)
    having = None if having is None else having.transform(renamed)
    columns = tuple(column_name(column) for column in program.plan.schema)
    if outputs is None:
        return _Question(task, joined, having, tuple(stored[name] for name in columns))
    kinds = dict(zip(program.answer.columns.names, program.answer.columns.types, strict=True))
    own = set(joined.own_key())
    sources: dict[str, str] = {}
    computed: dict[Expression, pa.DataType] = {}
    for name, output in outputs:
        place = output.transform(renamed)
        is_key = isinstance(place, Column) and column_name(place) in own
        if not (is_key and _is_stored(output, task, kinds[name])):
            computed[place] = kinds[name]
    computed = dict(sorted(computed.items(), key=lambda pair: described(pair[0])))
    plain = all(_is_stored(output, task, kinds[name]) for name, output in outputs)
    for name, output in outputs:
        place = output.transform(renamed)
        if isinstance(place, Column) and (plain or place not in computed):
            sources[name] = column_name(place)
        else:
            sources[name] = f".output{list(computed).index(place)}"
    if not plain:
        joined = joined.computing(tuple(computed), tuple(computed.values()))
    return _Question(task, joined, having, tuple(sources[name] for name in columns))


def _is_stored(output: Expression, task: Task, kind: pa.DataType) -> bool:
    """Whether a column of a query is one of the groups as it is."""
    if not isinstance(output, Column):
        return False
    return bool(task.columns.field(column_name(output)).type == kind)


def _joint_task(questions: list[_Question], readers: tuple[WindowReader, ...]) -> Task:
    joined = [question.joined for question in questions]
    operator = next((each for each in joined if not each.forwards), joined[0])
    operator = replace(operator, readers=tuple(dict.fromkeys(readers)))
    return Task(operator, (questions[0].panes,), operator.columns, True)
