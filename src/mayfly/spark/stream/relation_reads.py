"""What tasks over stored tables read of them: changes of a step, and which were read so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mayfly.checkpoint.stored_relations import store_relations
from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import Delta
from mayfly.kernels.interval import Interval
from mayfly.physical.stages import StagedProgram, StagedTask
from mayfly.runtime.relation_log import Changing
from mayfly.storage import Directory, Edit, Manifest


@dataclass(frozen=True)
class RelationReads:
    """The stored tables that a program reads."""

    stages: StagedProgram
    changing: Mapping[str, Changing]

    def tasks(self) -> Iterator[StagedTask]:
        return (task for task in self.stages.tasks if task.relation is not None)

    def _changing(self, task: StagedTask) -> Changing:
        assert task.relation is not None
        return self.changing[task.relation.relation.casefold()]

    def changes(
        self, base: Manifest, intervals: Sequence[Interval]
    ) -> dict[str, tuple[Delta, tuple[int, ...]]]:
        """Per task over a stored table: what changes for it, and when all changes took effect."""
        deltas = {}
        for task in self.tasks():
            assert task.relation is not None
            seen, own = base.properties["relations"].get(task.name, ()), intervals[task.group]
            deltas[task.name] = self._changing(task).between(task.relation, own, seen)
        return deltas

    def digests(self, seen: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
        """Per relation, the changes that some task has seen."""
        read: dict[str, list[str]] = {}
        for task in self.tasks():
            assert task.relation is not None
            name, changing = task.relation.relation.casefold(), self._changing(task)
            count = max(len(seen[task.name]), len(read.get(name, ())))
            read[name] = changing.digests(count)
        return read

    def store(
        self,
        base: Manifest,
        directory: Directory,
        seen: Mapping[str, Sequence[int]],
        horizon: int,
    ) -> list[Edit]:
        """Store the tables as their tasks have read them, for other processes; the edits."""
        effective: dict[str, Sequence[int]] = {}
        for task in self.tasks():
            assert task.relation is not None
            name = task.relation.relation.casefold()
            effective[name] = max(effective.get(name, ()), seen[task.name], key=len)
        return store_relations(
            directory,
            base,
            effective,
            lambda name, instants: self.changing[name].versions(instants),
            horizon,
        )

    def check(
        self,
        read: Mapping[str, list[str]],
        commands: Callable[[str], Sequence[str]] = lambda relation: (),
    ) -> None:
        """Refuse relations that are not those the checkpoint has read, with changes at most.

        ``commands`` gives the texts of commands that have changed a relation.
        """
        for task in self.tasks():
            assert task.relation is not None
            name, changing = task.relation.relation, self._changing(task)
            digests = read.get(name.casefold(), [])
            if digests != changing.digests(len(digests)):
                raise _other_relation(name, commands(name))

    def come(self, base: Manifest) -> bool:
        """Whether a table has changed since the tasks read it."""
        seen = base.properties["relations"]
        return any(
            len(self._changing(task).changes) > len(seen.get(task.name, ()))
            for task in self.tasks()
        )


def _other_relation(name: str, commands: Sequence[str]) -> InvalidSetting:
    problem = f"the relation {name} is not the one this checkpoint has read"
    if not commands:
        return InvalidSetting(
            problem, "leave what filled it as it was, and add INSERT, UPDATE or DELETE after it"
        )
    count = f"{len(commands)} commands" if len(commands) > 1 else "a command"
    return InvalidSetting(
        f"{problem}: {count} changed it after what the program says (the last: {commands[-1]}), "
        "so a statement that is new in the program would come before them",
        "take what is new out of the program and give it to the checkpoint with mayfly control "
        "change (from Python run.control.change)",
    )
