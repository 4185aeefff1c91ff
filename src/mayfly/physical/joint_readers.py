"""Queries over the same panes that are answered together: one task, one state, one log (CS2).

Before: for each query, groups of panes and a projection of their columns, and a log.
After: one task for all queries that ask the same of the same panes, whatever their windows; the
results of a query are those under the number of its window, its columns some of the task's.
Only views join: what a stream operator sends has its own refreshes. A query that came later has
other instants to begin with, and stays alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mayfly.kernels.delta import column_name
from mayfly.kernels.pane_readers import reader_number
from mayfly.physical.program import Task
from mayfly.physical.shared_program import Member, SharedProgram, described, digest, fingerprint
from mayfly.plan.expressions import Column
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
    """What a query asks of panes: a task of groups, and which of its columns the query has."""

    task: Task
    columns: tuple[str, ...]

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
        operator = self.task.operator.joint(())
        assert operator is not None
        return described(operator.state_key())

    def share(self, log: str, joint_task: Task) -> LogShare:
        """Where the answer is among those of others."""
        names = joint_task.columns.names[1:]
        stored = dict(zip(self.task.columns.names, names, strict=True))
        sources = tuple(stored[name] for name in self.columns)
        return LogShare(log, reader_number(self.window), sources)


def joint(program: SharedProgram) -> JointProgram:
    """The program with one task for all queries that ask the same of the same panes."""
    questions = {
        member: question
        for member in program.members
        if (question := _question(member)) is not None
    }
    together: dict[tuple[object, ...], list[Member]] = {}
    for member, question in questions.items():
        together.setdefault((member.group, question.panes, question.kind), []).append(member)
    answers: dict[str, Task] = {}
    shares: dict[str, LogShare] = {}
    names, groups = dict(program.names), dict(program.groups)
    for members in together.values():
        task = _joint_task([questions[member] for member in members])
        groups[task] = members[0].group
        names[task] = digest(groups[task].name, "", fingerprint(task))
        log = f"{LOG_OF} {names[task]}"
        for member in members:
            shares[member.name] = questions[member].share(log, task)
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
    if program.sent is not None or member.group.since is not None:
        return None
    columns = tuple(column_name(column) for column in program.plan.schema)
    outputs = task.operator.computes()
    if outputs is not None:
        (below,) = task.inputs
        renamed = {name: column_name(o) for name, o in outputs if isinstance(o, Column)}
        if not isinstance(below, Task) or len(renamed) < len(outputs):
            return None
        kinds = task.columns, below.columns
        if any(kinds[0].field(n).type != kinds[1].field(o).type for n, o in renamed.items()):
            return None
        task, columns = below, tuple(renamed[name] for name in columns)
    return None if task.operator.joint(()) is None else _Question(task, columns)


def _joint_task(questions: list[_Question]) -> Task:
    windows = tuple(dict.fromkeys(question.window for question in questions))
    asked: list[Any] = [question.task.operator.joint(windows) for question in questions]
    operator: Any = next((each for each in asked if not each.forwards), asked[0])
    return Task(operator, (questions[0].panes,), operator.columns, True)
