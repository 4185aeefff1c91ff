"""What a program cut into stages is: tasks by number, and how rows find their bucket on the way.

Everything here is a value that goes to the workers as it is. ``stager`` makes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import NULL_CODE, buckets, group_codes
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.operator import Operator
from mayfly.kernels.outputs import Sent
from mayfly.kernels.pane_partials import PanePartials
from mayfly.kernels.value_spans import ValueSpans
from mayfly.physical.closing_keys import Closing
from mayfly.physical.joint_readers import LogShare
from mayfly.physical.program import RelationInput, StreamInput
from mayfly.physical.shared_program import ClockGroup
from mayfly.plan.expressions import Expression
from mayfly.storage.segment import TS


@dataclass(frozen=True, eq=False)
class Route:
    """How rows find their bucket: by the key of an operator's side, anywhere, or all to one.

    ``before`` is done to the rows first, only to find their key.
    """

    key: Any = None
    side: int = 0
    single: bool = False
    before: tuple[Operator, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The key as EXPLAIN names it; nothing for one place."""
        if self.single:
            return ()
        return ("time",) if self.key is None else self.key.words(self.side)

    def buckets(self, rows: pa.Table, count: int) -> Int64s:
        """The bucket of each row; what needs one place is in bucket 0."""
        if self.single or count == 1 or not rows.num_rows:
            return np.zeros(rows.num_rows, np.int64)
        return buckets(self._codes(rows), count)

    def _codes(self, rows: pa.Table) -> Int64s:
        """The code of each row; equal keys have equal codes."""
        if self.key is None:
            return numbers(rows, TS).copy()
        # Rows that are not selected later may go anywhere.
        all_codes, left = np.zeros(rows.num_rows, np.int64), np.arange(rows.num_rows)
        for operator in self.before:
            left = left[operator.chosen(rows)]
            rows = operator.prepared(rows)
        codes: Int64s = self.key(rows, self.side)
        if len(left) == len(all_codes):
            return codes
        all_codes[left] = codes
        return all_codes


@dataclass(frozen=True)
class Feed:
    """Rows of a stream on their way to the task that puts a window on them."""

    source: StreamInput
    path: tuple[Operator, ...]
    task: int
    stage: int
    route: Route

    @property
    def selects(self) -> Expression | None:
        """The predicate that rows meet first."""
        return self.path[0].selects if self.path else None

    @property
    def panes(self) -> PanePartials | None:
        """What merges rows at the end of their way, if anything does."""
        return self.path[-1].panes if self.path else None

    @property
    def spans(self) -> ValueSpans | None:
        """What leaves out rows at the end of their way, if anything does."""
        return self.path[-1].spans if self.path else None

    @property
    def is_thinned(self) -> bool:
        """Whether rows are left out that others stand for: late ones must not be among these."""
        return self.panes is not None or self.spans is not None

    def named(self, columns: Sequence[pa.ChunkedArray], times: pa.ChunkedArray) -> pa.Table:
        """The columns it takes, in its order, under the names that its operators know."""
        names = [f"{self.source.alias}.{name}" for name in self.source.columns]
        return pa.table([*columns, times], names=[*names, TS])


@dataclass(frozen=True)
class Link:
    """Results of a task on their way to a task of a later stage."""

    task: int
    consumer: int
    side: int
    stage: int
    route: Route
    straight: bool = False
    """Whether rows go to the bucket that they are in."""


@dataclass(frozen=True)
class StagedTask:
    """A task by number: its operator, its stage, and per input the number of a task of the same
    stage, or None if its rows come from elsewhere (a feed, a link or a relation)."""

    number: int
    operator: Operator
    stage: int
    local: tuple[int | None, ...]
    relation: RelationInput | None
    columns: pa.Schema
    bucketed: bool
    name: str
    """What its state is called."""
    group: int
    """The number of its clock group."""
    place: tuple[str, ...] = ()
    """The columns of its stored rows that tell their bucket; without them their code does."""


@dataclass(frozen=True)
class StagedAnswer:
    """Where the answer of a query comes from, and where and how it leaves."""

    query: str
    task: int
    sent: Sent | None
    stage: int
    route: Route
    group: int
    place: tuple[str, ...] = ()
    """The columns of what is sent that tell the bucket of a row."""
    strict: bool = False
    """Whether results of a view may be cut."""
    share: LogShare | None = None
    """Where its results are, if they are among those of others."""

    @property
    def log(self) -> str:
        """The name of the log with its results."""
        return self.query if self.share is None else self.share.log


@dataclass(frozen=True)
class StagedForgetting:
    """Parts of a task's state whose rows go with keys that all these tasks have closed: they are
    in its stage, where each bucket has the keys of its own rows."""

    task: int
    parts: tuple[str, ...]
    by: tuple[tuple[int, Closing], ...]


@dataclass(frozen=True)
class ClosedStream:
    """A task that closes keys of a stream. Where several do, as their clocks differ, one ``tells``
    which rows are late. ``forgetting`` are states that its keys are looked for in."""

    task: int
    stream: str
    tells: bool
    forgetting: tuple[StagedForgetting, ...]


@dataclass(frozen=True)
class StagedProgram:
    """Tasks in the order in which they run, how rows reach them, and the answers of the queries."""

    tasks: tuple[StagedTask, ...]
    feeds: tuple[Feed, ...]
    links: tuple[Link, ...]
    answers: tuple[StagedAnswer, ...]
    groups: tuple[ClockGroup, ...]
    closed: tuple[ClosedStream, ...] = ()

    def source(self, task: StagedTask, side: int) -> int | None:
        """The task whose results an input reads in the bucket that they are made in, if any."""
        if task.local[side] is not None:
            return task.local[side]
        return next((link.task for link in self.links_to(task, side) if link.straight), None)

    def links_to(self, task: StagedTask, side: int) -> Iterator[Link]:
        """On which the rows of an input come from another stage: one at most."""
        return (link for link in self.links if (link.consumer, link.side) == (task.number, side))

    def behind(self, query: str) -> tuple[StagedTask, ...]:
        """The tasks that a query needs, in the order in which they run."""
        needed = {answer.task for answer in self.answers if answer.query == query}
        for task in reversed(self.tasks):
            if task.number in needed:
                needed |= {number for number in task.local if number is not None}
                needed |= {link.task for link in self.links if link.consumer == task.number}
        return tuple(task for task in self.tasks if task.number in needed)

    def drawn_once(self, stage: int) -> dict[int, frozenset[str]]:
        """Tasks whose results may be made piece by piece, and the columns that are wanted of them:
        one reader draws them, which is a selection or projection of that kind, another stage, or
        the log of a view whose results are never cut."""
        demands: dict[int, frozenset[str]] = {}
        for task in reversed([candidate for candidate in self.tasks if candidate.stage == stage]):
            inner = [candidate for candidate in self.tasks if task.number in candidate.local]
            views = [answer for answer in self.answers if answer.task == task.number]
            linked = sum(link.task == task.number for link in self.links)
            if len(inner) + len(views) + linked != 1:
                continue
            every = frozenset(task.columns.names)
            if not inner and not any(view.sent is None and view.strict for view in views):
                demands[task.number] = every
            for reader in inner:
                columns = demands.get(reader.number)
                needed = None if columns is None else reader.operator.needs(columns)
                if needed is not None:
                    demands[task.number] = needed
        return demands

    @property
    def stages(self) -> int:
        last = max(answer.stage for answer in self.answers)
        return max([last, *(task.stage for task in self.tasks)]) + 1

    def single(self, stage: int) -> bool:
        """Whether a stage runs in one bucket only."""
        spread = any(task.bucketed for task in self.tasks if task.stage == stage)
        return not spread and not any(
            answer.sent is not None and not answer.route.single
            for answer in self.answers
            if answer.stage == stage
        )

    def count(self, stage: int, buckets: int) -> int:
        """In how many of the buckets a stage runs."""
        return 1 if self.single(stage) else buckets

    def counts(self, buckets: int) -> tuple[int, ...]:
        """In how many of the buckets each stage runs."""
        return tuple(self.count(stage, buckets) for stage in range(self.stages))


def feeds_of(stages: StagedProgram, answer: StagedAnswer) -> list[int]:
    """The feeds that a query's answer is made from."""
    below = {task.number for task in tasks_of(stages, answer)}
    return [number for number, feed in enumerate(stages.feeds) if feed.task in below]


def tasks_of(stages: StagedProgram, answer: StagedAnswer) -> list[StagedTask]:
    """The tasks that compute an answer."""
    tasks: dict[int, StagedTask] = {}
    waiting = [answer.task]
    while waiting:
        number = waiting.pop()
        if number not in tasks:
            tasks[number] = stages.tasks[number]
            waiting += [source for source in stages.tasks[number].local if source is not None]
            waiting += [link.task for link in stages.links if link.consumer == number]
    return list(tasks.values())


IDENTITIES = 40
"""Each bucket numbers the rows it admits from its own multiple of 2^40 on."""


def first_state(operator: Operator, bucket: int) -> Any:
    """The state in which an operator begins in a bucket: identities differ between buckets."""
    return operator.numbered(operator.state(), bucket << IDENTITIES)


@dataclass(frozen=True)
class ValueKey:
    """The code of some columns: rows that are equal in them meet."""

    names: tuple[str, ...]

    def words(self, side: int) -> tuple[str, ...]:
        return tuple(name.removeprefix(".") for name in self.names)

    def __call__(self, rows: pa.Table, side: int = 0) -> Int64s:
        return group_codes([whole(rows.column(name)) for name in self.names], rows.num_rows)


@dataclass(frozen=True)
class OperatorKey:
    """The key of an operator's side."""

    operator: Operator

    def words(self, side: int) -> tuple[str, ...]:
        return self.operator.key_words(side)

    def __call__(self, rows: pa.Table, side: int) -> Int64s:
        codes = self.operator.spread_by(rows, side)
        assert codes is not None
        return codes


@dataclass(frozen=True)
class KeyOrNull(OperatorKey):
    """The key of a negation's left rows; that of NULL for rows of which any part is missing."""

    def __call__(self, rows: pa.Table, side: int) -> Int64s:
        codes = super().__call__(rows, side)
        return np.where(self.operator.without_key(rows), NULL_CODE, codes)


@dataclass(frozen=True)
class NumberKey:
    """A column of numbers as it is."""

    name: str

    def words(self, side: int) -> tuple[str, ...]:
        return ("the left row",)

    def __call__(self, rows: pa.Table, side: int) -> Int64s:
        return numbers(rows, self.name).copy()
