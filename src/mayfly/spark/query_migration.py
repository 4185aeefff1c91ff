"""A checkpoint of queries moved to another number of buckets or another strategy.

Idea: the new states are written beside the old ones, and one manifest puts them in force. Whoever
is killed before leaves the old version as it was, and files that nobody names for vacuum to remove.
A running driver notices at its next commit that the checkpoint has gone on without it.
Buckets are described in ``resplitting``. UPA and DIRECT keep the same rows in different structures,
so their states are the same rows. NT keeps lifetimes in its windows only, and nothing else that
another strategy could go on from: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.kernels.kept import Kept, Shape
from mayfly.pipeline.bucketing import checked_buckets
from mayfly.pipeline.program import Task
from mayfly.pipeline.resplitting import Resplitting
from mayfly.pipeline.sharing import SharedProgram, described, shared
from mayfly.pipeline.staging import StagedAnswer, StagedProgram, StagedTask, first_state, staged
from mayfly.pipeline.storing import Stored, load_state, store_state, stored_paths
from mayfly.plan.physical import Strategy, Structure
from mayfly.spark.program_tasks import LOG, SENT
from mayfly.spark.query_checkpoint import ENTRY, SINCE, check_same, opened
from mayfly.spark.state_format import renewed
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    MoveSegments,
    Repository,
    Segment,
    SetProperties,
)

if TYPE_CHECKING:
    from mayfly.queries import CqlQuery

_OTHER_STRUCTURES = ("shape", "shapes", "name")


@dataclass(frozen=True)
class Migration:
    """From the program a checkpoint was made for to the one that goes on with it."""

    repository: Repository
    before: SharedProgram
    after: SharedProgram
    buckets: int
    queries: Mapping[str, Mapping[str, Any]]
    """What the manifest says of the queries afterwards."""

    def done(self) -> Manifest:
        """The version that puts the new states in force; the old one if nothing changes."""
        renamed = _same_tasks(self.before, self.after)
        base = renewed(self.repository, staged(self.before))
        if base.properties["buckets"] == self.buckets and all(a == b for a, b in renamed.items()):
            return base
        move = _Move(self, base, staged(self.after), renamed)
        edits = move.edits()
        reach("migration.written")
        committed = self.repository.commit(base, edits)
        reach("migration.committed")
        return committed


def migrated(root: Path, queries: Mapping[str, CqlQuery], buckets: int | None) -> int:
    """The checkpoint at ``root`` moved to so many buckets and the strategies of these queries."""
    asked = None if buckets is None else checked_buckets(buckets)
    if not Repository.exists(root):
        raise InvalidSetting(f"there is no checkpoint at {root}", "start the queries first")
    repository = opened(root, sync=True)
    stored = repository.current().properties
    known: dict[str, Any] = stored["queries"]
    for name in [one for one in known if one not in queries]:
        raise InvalidSetting(
            f"the checkpoint {root} also has the query {name}",
            "declare it too, or start the others once: it leaves with its state then",
        )
    before = {}
    for name, one in known.items():
        before[name] = queries[name].under(Strategy(one["strategy"]))
        check_same(root, name, one, before[name].description())
    since = {name: one[SINCE] for name, one in known.items()}
    entries = {name: one.get(ENTRY) for name, one in known.items()}
    old = shared({name: one.program for name, one in before.items()}, since, entries)
    new = shared({name: queries[name].program for name in known}, since, entries)
    told = {name: {**one, **queries[name].description()} for name, one in known.items()}
    wanted = asked or stored["buckets"]
    Migration(repository, old, new, wanted, told).done()
    return int(wanted)


def _same_tasks(before: SharedProgram, after: SharedProgram) -> dict[str, str]:
    """New task name → old one; refused where the strategies do not keep the same rows."""
    found: dict[str, str] = {}
    for old, new in zip(before.members, after.members, strict=True):
        ways = [one.program.strategy for one in (old, new)]
        if ways[0] is not ways[1] and Strategy.NT in ways:
            raise InvalidSetting(
                f"the query {old.name} cannot go from {ways[0].value} to {ways[1].value}: under NT "
                "rows do not know when they expire, which every other strategy stores with them",
                "go on with the strategy it has, use a new checkpoint, or let the query begin "
                f"anew with --replace {old.name}",
            )
        _match(old.name, old.program.answer, new.program.answer, before, after, found)
    return found


def _match(
    query: str,
    old: Task,
    new: Task,
    before: SharedProgram,
    after: SharedProgram,
    found: dict[str, str],
) -> None:
    if _kind(old) != _kind(new) or len(old.inputs) != len(new.inputs):
        raise InvalidSetting(
            f"the query {query} gets another plan under the other strategy, whose states are not "
            f"those it has: at {new.operator.name}",
            f"use a new checkpoint, or let it begin anew with --replace {query}",
        )
    found[after.names[new]] = before.names[old]
    for one, other in zip(old.inputs, new.inputs, strict=True):
        if isinstance(one, Task) and isinstance(other, Task):
            _match(query, one, other, before, after, found)


def _kind(task: Task) -> list[str]:
    """What a task computes, whatever structure it keeps its rows in."""
    operator: Any = task.operator
    own = [
        f"{one.name}={described(getattr(operator, one.name))}"
        for one in fields(operator)
        if one.compare and one.name not in _OTHER_STRUCTURES
    ]
    sources = [described(one) for one in task.inputs if not isinstance(one, Task)]
    return [type(operator).__name__, *own, *sources]


class _Move:
    """Writes the states of a program in their new places."""

    def __init__(
        self, plan: Migration, base: Manifest, stages: StagedProgram, renamed: Mapping[str, str]
    ) -> None:
        self.plan, self.base, self.stages, self.renamed = plan, base, stages, renamed
        self.known, self.directory = base.properties["state"], plan.repository.directory
        self.old: int = base.properties["buckets"]
        same = all(one == other for one, other in renamed.items())
        self.resplit = Resplitting(stages, self.old, plan.buckets, cells=same)
        self.states: dict[str, Any] = {}
        self.added: list[Segment] = []
        self.moved: list[MoveSegments] = []

    def edits(self) -> list[Any]:
        for task in self.stages.tasks:
            self._task(task)
        for answer in self.stages.answers:
            self._answer(answer)
        gone = stored_paths(self.known) - stored_paths(self.states)
        properties = self.base.properties
        seen = {name: properties["relations"][old] for name, old in self.renamed.items()
                if old in properties["relations"]}  # fmt: skip
        changed = {
            "buckets": self.plan.buckets,
            "state": self.states,
            "queries": {name: dict(one) for name, one in self.plan.queries.items()},
            "relations": seen,
            "due": self._due(),
        }
        dropped = DropSegments(tuple(sorted(gone)))
        return [AddSegments(tuple(self.added)), *self.moved, dropped, SetProperties(changed)]

    def _due(self) -> dict[str, int]:
        """A bucket has something to do no earlier than some old one had."""
        found: dict[str, int] = {}
        for place, at in self.base.properties["due"].items():
            stage = int(place.partition("/")[0])
            for bucket in range(1 if self.stages.single(stage) else self.plan.buckets):
                own = f"{stage}/{bucket}"
                found[own] = min(at, found.get(own, at))
        return found

    def _task(self, task: StagedTask) -> None:
        old, new = f"task/{self.renamed[task.name]}", f"task/{task.name}"
        if f"{old}/0" not in self.known:
            return
        if not task.bucketed:
            self._stay(f"{old}/0", f"{new}/0")
            return
        blanks = [first_state(task.operator, bucket) for bucket in range(self.old)]
        self._written(new, self.resplit.task(task, self._loaded(old, blanks)))

    def _answer(self, answer: StagedAnswer) -> None:
        log, name = f"{LOG}/{answer.query}", f"{SENT}/{answer.query}"
        if f"{log}/0" not in self.known:
            return
        spread = not answer.route.single
        if answer.sent is None:
            spread = self.stages.tasks[answer.task].bucketed
        elif spread:
            self._written(name, self.resplit.sent(self._loaded(name, [answer.sent.state()])))
        else:
            self._stay(f"{name}/0", f"{name}/0")
        if not spread:
            self._stay(f"{log}/0", f"{log}/0")
            return
        strict = answer.sent is None and next(
            one.program.answer.strict for one in self.plan.after.members if one.name == answer.query
        )
        logs = self._loaded(log, [Kept(Shape(Structure.APPEND))])
        self._written(log, self.resplit.log(answer, strict, logs))

    def _loaded(self, name: str, blanks: list[Any]) -> list[Any]:
        found = []
        for bucket in range(self.old):
            known = self.known.get(f"{name}/{bucket}")
            stored = None if known is None else Stored.from_json(known)
            blank = blanks[min(bucket, len(blanks) - 1)]
            found.append(load_state(blank, stored, self.base.segments, self.directory))
        return found

    def _written(self, name: str, states: list[Any]) -> None:
        for bucket, state in enumerate(states):
            group = f"state/{name}/{bucket}"
            stored, added, _ = store_state(state, group, self.directory)
            self.added += added
            self.states[f"{name}/{bucket}"] = stored.to_json()

    def _stay(self, old: str, new: str) -> None:
        """In one place before and after."""
        self.states[new] = self.known[old]
        for part, paths in self.known[old]["runs"].items():
            if old != new and paths:
                self.moved.append(MoveSegments(tuple(paths), f"state/{new}/{part}"))
