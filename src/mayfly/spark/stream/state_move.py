"""The states of a checkpoint written anew in other places.

They are written beside the old ones; the commit of the edits puts them in force. Where rows
belong is said in ``checkpoint.repartition``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from mayfly.checkpoint.operator_state import Stored, load_state, store_state, stored_paths
from mayfly.checkpoint.repartition import Repartition
from mayfly.checkpoint.result_log import LOG
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.outputs import Sent
from mayfly.physical.shared_program import SharedProgram
from mayfly.physical.stager import staged
from mayfly.physical.stages import StagedAnswer, StagedTask, first_state
from mayfly.plan.strategy import Structure
from mayfly.spark.stream.stage_tasks import SENT
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    MoveSegments,
    Repository,
    Segment,
    SetProperties,
)
from mayfly.storage.segment import check_content


class Upgrade(Protocol):
    """What a later format changes in states, wherever they lie."""

    def task(self, task: StagedTask, state: Any, bucket: int | None) -> Any:
        """The state of a task in a bucket, or in its one place."""

    def sent(self, sent: Sent, state: Any) -> Any:
        """The state of an output."""


class StateMove:
    """From the states in a manifest to those of a program in so many buckets."""

    def __init__(
        self,
        repository: Repository,
        base: Manifest,
        program: SharedProgram,
        buckets: int,
        renamed: Mapping[str, str] | None = None,
        without: Collection[str] = (),
        upgrade: Upgrade | None = None,
    ) -> None:
        """``renamed`` gives the name under which the manifest knows each task's state, if tasks
        are called otherwise; what the manifest has of queries in ``without`` is left out. An
        ``upgrade`` changes states before they are taken apart."""
        self.without, self.upgrade = without, upgrade
        self.base, self.directory, self.buckets = base, repository.directory, buckets
        self.stages = staged(program)
        self.renamed = {task.name: task.name for task in self.stages.tasks} | dict(renamed or {})
        self.stored = base.properties["state"]
        self.old: int = base.properties["buckets"]
        same = all(name == other for name, other in self.renamed.items())
        self.repartition = Repartition(
            self.stages, self.old, buckets, cells=same, copies=upgrade is None
        )
        self.states: dict[str, Any] = {}
        self.added: list[Segment] = []
        self.moved: list[MoveSegments] = []

    def edits(self, properties: Mapping[str, Any]) -> list[Any]:
        """What a commit has to say, with these properties besides."""
        for task in self.stages.tasks:
            self._move_task(task)
        logs = {a.log: a for a in self.stages.answers if a.query not in self.without}
        for answer in logs.values():
            self._move_answer(answer)
        gone = stored_paths(self.stored) - stored_paths(self.states)
        relations = self.base.properties["relations"]
        changed = {
            "buckets": self.buckets,
            "state": self.states,
            "relations": {
                new: relations[old] for new, old in self.renamed.items() if old in relations
            },
            "due": self._due(),
        }
        dropped = DropSegments(tuple(sorted(gone)))
        changes = SetProperties({**changed, **properties})
        return [AddSegments(tuple(self.added)), *self.moved, dropped, changes]

    def _due(self) -> dict[str, int]:
        """No bucket has something to do before some old one had."""
        earliest = min(self.base.properties["due"].values(), default=None)
        if earliest is None:
            return {}
        return {
            f"{stage}/{bucket}": earliest
            for stage, count in enumerate(self.stages.counts(self.buckets))
            for bucket in range(count)
        }

    def _move_task(self, task: StagedTask) -> None:
        old, new = f"task/{self.renamed[task.name]}", f"task/{task.name}"
        if f"{old}/0" not in self.stored:
            return
        if not task.bucketed:
            state = self._loaded(old, [task.operator.state()])[0]
            if self.upgrade is None:
                self._stay(f"{old}/0", f"{new}/0")
            else:
                state = self.upgrade.task(task, state, None)
                self._write(new, [state])
            self.repartition.place_single(task, state)
            return
        blanks = [first_state(task.operator, bucket) for bucket in range(self.old)]
        states = self._loaded(old, blanks)
        if self.upgrade is not None:
            states = [
                self.upgrade.task(task, bucket_state, bucket)
                for bucket, bucket_state in enumerate(states)
            ]
        self._write(new, self.repartition.task(task, states))

    def _move_answer(self, answer: StagedAnswer) -> None:
        log, name = f"{LOG}/{answer.log}", f"{SENT}/{answer.query}"
        if f"{log}/0" not in self.stored:
            return
        spread = not answer.route.single
        if answer.sent is None:
            spread = self.stages.tasks[answer.task].bucketed
        else:
            self._move_sent(answer, name, spread)
        if not spread:
            self._stay(f"{log}/0", f"{log}/0")
            return
        if answer.strict and answer.share is None:
            logs = self._loaded(log, [KeptRows(Shape(Structure.APPEND))])
            self._write(log, self.repartition.log(answer, logs))
        else:
            self._gather(log)

    def _move_sent(self, answer: StagedAnswer, name: str, spread: bool) -> None:
        assert answer.sent is not None
        if not spread and self.upgrade is None:
            self._stay(f"{name}/0", f"{name}/0")
            return
        states = self._loaded(name, [answer.sent.state()])
        if self.upgrade is not None:
            states = [self.upgrade.sent(answer.sent, state) for state in states]
        self._write(name, self.repartition.sent(answer, states) if spread else states[:1])

    def _gather(self, log: str) -> None:
        """Give the files of results that are never cut other owners: they may lie anywhere."""
        for bucket in range(self.buckets):
            held = [
                self.base.segments[path]
                for old in range(bucket, self.old, self.buckets)
                for path in self.stored.get(f"{log}/{old}", {"runs": {"kept": ()}})["runs"]["kept"]
            ]
            paths = tuple(
                segment.path for segment in sorted(held, key=lambda segment: segment.ts.low)
            )
            self.states[f"{log}/{bucket}"] = Stored({"kept": paths}, {}).to_json()
            self.moved.append(MoveSegments(paths, f"state/{log}/{bucket}/kept"))

    def _loaded(self, name: str, blanks: list[Any]) -> list[Any]:
        states = []
        for bucket in range(self.old):
            entry = self.stored.get(f"{name}/{bucket}")
            stored = None if entry is None else Stored.from_json(entry)
            for path in stored_paths({name: entry} if entry else {}):
                check_content(self.directory, self.base.segments[path])
            blank = blanks[min(bucket, len(blanks) - 1)]
            states.append(load_state(blank, stored, self.base.segments, self.directory))
        return states

    def _write(self, name: str, states: list[Any]) -> None:
        for bucket, state in enumerate(states):
            group = f"state/{name}/{bucket}"
            stored, added, _ = store_state(state, group, self.directory)
            self.added += added
            self.states[f"{name}/{bucket}"] = stored.to_json()

    def _stay(self, old: str, new: str) -> None:
        """Keep a state that is in one place before and after."""
        self.states[new] = self.stored[old]
        for part, paths in self.stored[old]["runs"].items():
            if old != new and paths:
                self.moved.append(MoveSegments(tuple(paths), f"state/{new}/{part}"))
