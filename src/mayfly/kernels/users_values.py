"""Aggregates that users write: their class over the values of a group, version by version.

Idea: with ``subtract`` a group is one instance that events are added to and subtracted from.
Without it the values of a group are a tree in their order, each node with an instance over all
below it, so that what comes or goes asks for ``merge`` along one path. The tree's shape follows
from the values alone (a treap whose priorities are checksums), so that an answer depends on
nothing but the rows alive, even where ``merge`` rounds. Invariants: instances live in memory only;
a state that is stored has the values, and from these they are made again. No node is changed.
Cost: one call of ``add`` or ``subtract`` per event, or ``merge`` some log(values) times; a group
of few rows is made anew in a step that touches it, large ones go from step to step.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.errors import BadInput, InvalidSetting, MayflyError
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import AggregateUpkeep, Versions
from mayfly.lifetime import instant_text
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import arrow_type
from mayfly.plan.user_aggregates import AggregateDefinition

USERS = "users"
NODE_BYTES = 400
"""What a node or an instance is taken to need; users' classes do not say."""
Row: TypeAlias = tuple[Any, ...]
"""The values that a row brings."""


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A value with how often it is there, the smaller and larger ones, and what is known of all."""

    place: Row
    row: Row
    count: int
    priority: int
    left: ValueNode | None
    right: ValueNode | None
    own: Any
    """An instance over the value alone, as often as it is there."""
    whole: Any
    nodes: int


class ValueTree:
    """The values of a group in a treap that is never changed, only replaced along a path."""

    def __init__(self, code: Callable[[], Any], root: ValueNode | None = None) -> None:
        self.code, self.root = code, root

    def changed(self, row: Row, sign: int) -> ValueTree:
        """With the value once more, or once less."""
        place = tuple(map(_place, row))
        return ValueTree(self.code, self._changed(self.root, place, row, sign))

    def result(self) -> Any:
        return None if self.root is None else self.root.whole.result()

    @property
    def nodes(self) -> int:
        return _size(self.root)

    def _changed(self, node: ValueNode | None, place: Row, row: Row, sign: int) -> ValueNode | None:
        if node is None:
            return self._node(place, row, 1, crc32(repr(row).encode()), None, None)
        if place == node.place:
            count = node.count + sign
            if count:
                return self._node(place, node.row, count, node.priority, node.left, node.right)
            return self._joined(node.left, node.right)
        if place < node.place:
            left = self._changed(node.left, place, row, sign)
            if left is not None and _above(left, node):
                # The child goes up; its larger values come under the node.
                below = self._with(node, left.right, node.right)
                return self._with(left, left.left, below)
            return self._with(node, left, node.right)
        right = self._changed(node.right, place, row, sign)
        if right is not None and _above(right, node):
            below = self._with(node, node.left, right.left)
            return self._with(right, below, right.right)
        return self._with(node, node.left, right)

    def _joined(self, left: ValueNode | None, right: ValueNode | None) -> ValueNode | None:
        """Two trees of which the first has the smaller values."""
        if left is None or right is None:
            return left or right
        if _above(left, right):
            return self._with(left, left.left, self._joined(left.right, right))
        return self._with(right, self._joined(left, right.left), right.right)

    def _node(
        self,
        place: Row,
        row: Row,
        count: int,
        priority: int,
        left: ValueNode | None,
        right: ValueNode | None,
    ) -> ValueNode:
        own = self._repeated(row, count)
        whole = self._over(own, left, right)
        nodes = 1 + _size(left) + _size(right)
        return ValueNode(place, row, count, priority, left, right, own, whole, nodes)

    def _with(self, node: ValueNode, left: ValueNode | None, right: ValueNode | None) -> ValueNode:
        whole = self._over(node.own, left, right)
        nodes = 1 + _size(left) + _size(right)
        return replace(node, left=left, right=right, whole=whole, nodes=nodes)

    def _over(self, own: Any, left: ValueNode | None, right: ValueNode | None) -> Any:
        """An instance over a value and what is below it, in their order."""
        whole = self.code()
        for part in (left and left.whole, own, right and right.whole):
            if part is not None:
                whole.merge(part)
        return whole

    def _repeated(self, row: Row, count: int) -> Any:
        """An instance over a value so many times, by doubling."""
        whole, power = self.code(), self.code()
        power.add(*row)
        while True:
            if count & 1:
                whole.merge(power)
            count >>= 1
            if not count:
                return whole
            doubled = self.code()
            doubled.merge(power)
            doubled.merge(power)
            power = doubled


def _above(node: ValueNode, other: ValueNode) -> bool:
    return (node.priority, node.place) > (other.priority, other.place)


def _size(node: ValueNode | None) -> int:
    return 0 if node is None else node.nodes


def _place(value: Any) -> Any:
    """What a value is ordered by: NaN behind all numbers."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


class RunningInstance:
    """One instance that values are added to and subtracted from; none while there is no value."""

    nodes = 1

    def __init__(self, code: Callable[[], Any]) -> None:
        self.code, self.count, self.instance = code, 0, code()

    def changed(self, row: Row, sign: int) -> RunningInstance:
        self.count += sign
        if not self.count:
            self.instance = self.code()  # what rounding has left goes with the last value
        elif sign > 0:
            self.instance.add(*row)
        else:
            self.instance.subtract(*row)
        return self

    def result(self) -> Any:
        return self.instance.result() if self.count else None


@dataclass(frozen=True)
class Resident:
    """What a group leaves in memory for the next step."""

    values: ValueTree | RunningInstance

    @property
    def nbytes(self) -> int:
        return NODE_BYTES * self.values.nodes


def _play(call: AggregateCall, events: Events, versions: Versions, argument: str) -> pa.Array:
    """The answer at every version, NULL where no row has values."""
    definition = call.user
    assert definition is not None
    code = definition.code
    if code is None:
        raise InvalidSetting(
            f"the class of the aggregate {definition.name} is not loaded here",
            "register it with session.aggregate(…), or start the pipeline with --allow-python",
        )
    before, values = versions.alive_before, events.values(argument)
    held, starts = before.present(argument, values.type)
    name = (USERS, call.function, call.argument)
    carried = before.part(name) if before.summaries else {}
    fresh: Callable[[], ValueTree | RunningInstance] = (
        (lambda: RunningInstance(code)) if definition.subtracts else (lambda: ValueTree(code))
    )
    groups = [
        carried[group][0].values if group in carried else fresh()
        for group in range(len(starts) - 1)
    ]
    last, group_of = (marks.tolist() for marks in events.marks)
    blame = _Blame(definition, events, versions)
    version_of = dict(reversed([(group, version) for version, group in enumerate(group_of)]))
    for group, row in zip(
        np.repeat(np.arange(len(groups)), np.diff(starts)).tolist(), _rows(held), strict=True
    ):
        with blame.at(version_of[group], "add"):
            groups[group] = groups[group].changed(row, 1)
    present = pc.is_valid(values).to_numpy(zero_copy_only=False) & (events.sign != 0)
    signs, listed = np.where(present, events.sign, 0).tolist(), list(_rows(values))
    event, answers = 0, list[Any]()
    for version, (end, group) in enumerate(zip(last, group_of, strict=True)):
        while event <= end:
            if signs[event]:
                with blame.at(version, "add, merge or subtract"):
                    groups[group] = groups[group].changed(listed[event], signs[event])
            event += 1
        with blame.at(version, "result"):
            answers.append(groups[group].result())
    before.leave(name, {group: (Resident(groups[group]),) for group in before.large.tolist()})
    return blame.column(answers)


@dataclass(frozen=True)
class _Blame:
    """Says of an error in a user's class in which group and at which instant it was."""

    definition: AggregateDefinition
    events: Events
    versions: Versions

    @contextmanager
    def at(self, version: int, method: str) -> Iterator[None]:
        try:
            yield
        except MayflyError:
            raise
        except RecursionError:
            raise self.error(
                version, f"needs a deeper stack than {sys.getrecursionlimit()}"
            ) from None
        except Exception as error:  # whatever the user's class raises
            method = _raised_in(error, method)
            what = f"failed in {method}: {type(error).__name__}: {error}"
            raise self.error(version, what) from error

    def error(self, version: int, what: str) -> BadInput:
        events, versions = self.events, self.versions
        keys = events.keys(events.first_of_group[versions.group[[version]]]).to_pylist()
        shown = ", ".join(repr(value) for row in keys for value in row.values())
        group = f" of the group ({shown})" if shown else ""
        instant = instant_text(int(versions.time[version]))
        code = self.definition.code
        return BadInput(
            f"the aggregate {self.definition.name}{group} {what}, at {instant}",
            f"repair the class {code.__name__ if code else ''}; "
            "what is stored is right, and the run continues from it",
        )

    def column(self, answers: list[Any]) -> pa.Array:
        """Answers as a column of the declared type."""
        kind = arrow_type(self.definition.gives)
        try:
            return pa.array(answers, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            for version, answer in enumerate(answers):
                try:
                    pa.array([answer], kind)
                except (pa.ArrowException, TypeError, ValueError, OverflowError):
                    gives = self.definition.gives
                    what = f"gives {answer!r:.80}, which is not {gives}"
                    raise self.error(version, what) from None
            raise


def _raised_in(error: Exception, otherwise: str) -> str:
    """The method of the user's class that an error came from."""
    trace, method = error.__traceback__, otherwise
    while trace is not None:
        if trace.tb_frame.f_code.co_name in ("add", "merge", "subtract", "result", "__init__"):
            method = trace.tb_frame.f_code.co_name
            break
        trace = trace.tb_next
    return method


def _rows(values: pa.Array) -> Iterator[Row]:
    """What rows bring, an empty row of NULLs where there is none."""
    members = values.flatten() if pa.types.is_struct(values.type) else [values]
    return zip(*map(_listed, members), strict=True)


def _listed(values: pa.Array) -> list[Any]:
    """The values for Python; -0.0 is 0.0, to which it is equal."""
    listed: list[Any] = values.to_pylist()
    if not pa.types.is_floating(values.type):
        return listed
    return [value if value is None else value + 0.0 for value in listed]


_RUNNING = AggregateUpkeep(
    "one instance of the user's class",
    "what comes is added, what goes is subtracted",
    _play,
    USERS,
)
_TREE = AggregateUpkeep(
    "a tree of values with instances of the user's class",
    "the class has no subtract: what comes or goes is merged along one path",
    _play,
    USERS,
)


_UNKNOWN = AggregateUpkeep(
    "one instance of the user's class, or a tree of values",
    "one if the class has subtract; EXPLAIN of a file does not load it",
    _play,
    USERS,
)


def users_way(definition: AggregateDefinition) -> AggregateUpkeep:
    """How the aggregate is maintained."""
    if definition.code is None:
        return _UNKNOWN
    return _RUNNING if definition.subtracts else _TREE
