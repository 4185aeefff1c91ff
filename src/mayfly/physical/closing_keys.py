"""What a program may forget of keys that a punctuation has closed (thesis 2.3).

Idea: over an unbounded window nothing expires, but no row comes of a closed key. So its groups are
final, once every stream below has closed it; and a join needs no rows that only waited for partners
of the other side. What is kept behind windows that end goes when these end.
Invariant: nothing that is forgotten could meet, or change, a later row: answers stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from mayfly.kernels.delta import column_name
from mayfly.kernels.key_ends import CloseKeys
from mayfly.kernels.operator import same_kind
from mayfly.physical.program import RelationInput, Source, StreamInput, Task
from mayfly.plan.expressions import Column
from mayfly.plan.window_kinds import Unbounded


@dataclass(frozen=True, slots=True)
class Closing:
    """A stream that closes keys, and the columns in which rows have the key."""

    stream: str
    columns: tuple[str, ...]

    def renamed(self, names: dict[str, str]) -> Closing | None:
        """The same where other rows have the key; None if they do not have all of it."""
        if not all(name in names for name in self.columns):
            return None
        return Closing(self.stream, tuple(names[name] for name in self.columns))


@dataclass(frozen=True, slots=True)
class Forgetful:
    """Parts of a task's state whose rows go when all these streams have closed their key."""

    task: Task
    parts: tuple[str, ...]
    closings: tuple[Closing, ...]


def forgetful_states(tasks: Iterable[Task]) -> list[Forgetful]:
    """Every part of a state that punctuations make smaller.

    ``SELECT k, SUM(v) FROM s GROUP BY k`` → the members and groups of the aggregate.
    """
    states = (state for task in tasks for state in _of_task(task))
    return [state for state in states if state.closings]


def _of_task(task: Task) -> Iterator[Forgetful]:
    relations = [_reads_relation(source) for source in task.inputs]
    if any(relations):
        return  # rows of it may be changed later
    if any(isinstance(source, Task) and source.strict for source in task.inputs):
        return  # with the rows of a state the results are found that a cut of its input concerns
    for forgetting in task.operator.forgets():
        by_side = [
            _renamed(_closings(task.inputs[side]), dict(columns))
            for side, columns in forgetting.columns.items()
        ]
        if all(by_side):
            yield Forgetful(task, forgetting.parts, tuple(chain.from_iterable(by_side)))


def _closings(source: Task | Source) -> tuple[Closing, ...]:
    """What has to close a key so that no row of it comes from here; nothing if rows may come or
    go for other reasons."""
    if not isinstance(source, Task):
        return ()
    operator = source.operator
    match operator.opens:
        case Unbounded(slide=None):
            return _of_window(source) if operator.foresees else ()
    if operator.selects is not None:
        return _closings(source.inputs[0])
    computed = operator.computes()
    if computed is not None:
        names = {column_name(e): name for name, e in computed if isinstance(e, Column)}
        return _renamed(_closings(source.inputs[0]), names)
    return _of_partners(source) if operator.combines else ()


def _of_partners(task: Task) -> tuple[Closing, ...]:
    """All inputs have to close the key by which they are joined."""
    closings: list[Closing] = []
    for side, source in enumerate(task.inputs):
        pairs = zip(task.operator.key_of(side), task.operator.key_of(0), strict=True)
        names = {name: first for name, first in pairs if name is not None and first is not None}
        own = _renamed(_closings(source), names)
        if not own:
            return ()
        closings += own
    return tuple(closings)


def _of_window(task: Task) -> tuple[Closing, ...]:
    (source,) = task.inputs
    if not isinstance(source, StreamInput) or source.closing is None:
        return ()
    closer = CloseKeys.of(source.closing)
    columns = tuple(source.alias + key.removeprefix(closer.stream) for key in closer.keys)
    for name, key in zip(columns, closer.keys, strict=True):
        place = task.columns.get_field_index(name)
        kind = closer.columns.field(key).type
        if place < 0 or not same_kind(task.columns.field(place).type, kind):
            return ()
    return (Closing(closer.stream, columns),)


def _reads_relation(source: Task | Source) -> bool:
    if not isinstance(source, Task):
        return isinstance(source, RelationInput)
    return any(map(_reads_relation, source.inputs))


def _renamed(closings: tuple[Closing, ...], names: dict[str, str]) -> tuple[Closing, ...]:
    """All of them, or none."""
    renamed = [closing.renamed(names) for closing in closings]
    return tuple(closing for closing in renamed if closing) if all(renamed) else ()
