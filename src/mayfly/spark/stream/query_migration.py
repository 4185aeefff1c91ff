"""A checkpoint of queries moved to another number of buckets or another strategy.

Idea: the new states are written beside the old ones, and one manifest puts them in force. A process
that is killed before leaves the old version as it was, and unnamed files for vacuum to remove.
A running driver notices at its next commit that the checkpoint has gone on without it.
Buckets: ``checkpoint.repartition``. UPA and DIRECT keep the same rows in different structures,
so their states are the same rows. NT keeps lifetimes in its windows only, and nothing else that
another strategy could go on from: it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.physical.program import Task
from mayfly.physical.shared_program import SharedProgram, described, described_operator, shared
from mayfly.plan.strategy import Strategy
from mayfly.runtime.buckets import checked_buckets
from mayfly.spark.stream.query_checkpoint import ENTRY, SINCE, check_same, opened
from mayfly.spark.stream.query_covers import as_begun, as_read
from mayfly.spark.stream.state_format import upgrade_state
from mayfly.spark.stream.state_move import StateMove
from mayfly.storage import Manifest, Repository

if TYPE_CHECKING:
    from mayfly.spark.api.queries import CqlQuery

_OTHER_STRUCTURES = ("shape", "shapes")


@dataclass(frozen=True)
class QueryMigration:
    """From the program a checkpoint was made for to the one that goes on with it."""

    repository: Repository
    before: SharedProgram
    after: SharedProgram
    buckets: int
    queries: Mapping[str, Mapping[str, Any]]
    """What the manifest says of the queries afterwards."""

    def carry_out(self) -> Manifest:
        """The version that puts the new states in force; the old one if nothing changes."""
        renamed = _same_tasks(self.before, self.after)
        base = upgrade_state(self.repository, self.before)
        if base.properties["buckets"] == self.buckets and all(a == b for a, b in renamed.items()):
            return base
        move = StateMove(self.repository, base, self.after, self.buckets, renamed)
        edits = move.edits({"queries": {name: dict(query) for name, query in self.queries.items()}})
        reach("migration.written")
        committed = self.repository.commit(base, edits)
        reach("migration.committed")
        return committed


def migrate_checkpoint(root: str, queries: Mapping[str, CqlQuery], buckets: int | None) -> int:
    """Move the checkpoint at ``root`` to so many buckets and the strategies of these queries."""
    asked = None if buckets is None else checked_buckets(buckets)
    if not Repository.exists(root):
        raise InvalidSetting(f"there is no checkpoint at {root}", "start the queries first")
    repository = opened(root, sync=True)
    stored = repository.current().properties
    stored_queries: dict[str, Any] = stored["queries"]
    for name in [query for query in stored_queries if query not in queries]:
        raise InvalidSetting(
            f"the checkpoint {root} also has the query {name}",
            "declare it too, or start the others once: it leaves with its state then",
        )
    before = {}
    for name, entry in stored_queries.items():
        before[name] = as_begun(queries[name].under(Strategy(entry["strategy"])), entry)
        check_same(root, name, entry, before[name].description())
    since = {name: entry[SINCE] for name, entry in stored_queries.items()}
    entries = {name: entry.get(ENTRY) for name, entry in stored_queries.items()}
    after = {
        name: as_read(queries[name].under(queries[name].program.strategy, query.joining), query)
        for name, query in before.items()
    }
    old = shared({name: query.program for name, query in before.items()}, since, entries)
    new = shared({name: query.program for name, query in after.items()}, since, entries)
    descriptions = {
        name: {**entry, **after[name].description()} for name, entry in stored_queries.items()
    }
    count = asked or stored["buckets"]
    QueryMigration(repository, old, new, count, descriptions).carry_out()
    return int(count)


def _same_tasks(before: SharedProgram, after: SharedProgram) -> dict[str, str]:
    """New task name → old one; refused where the strategies do not keep the same rows."""
    names: dict[str, str] = {}
    for old, new in zip(before.members, after.members, strict=True):
        ways = [member.program.strategy for member in (old, new)]
        if ways[0] is not ways[1] and Strategy.NT in ways:
            raise InvalidSetting(
                f"the query {old.name} cannot go from {ways[0].value} to {ways[1].value}: under NT "
                "rows do not know when they expire, which every other strategy stores with them",
                "go on with the strategy it has, use a new checkpoint, or let the query begin "
                f"anew with --replace {old.name}",
            )
        _match(old.name, old.program.answer, new.program.answer, before, after, names)
    return names


def _match(
    query: str,
    old: Task,
    new: Task,
    before: SharedProgram,
    after: SharedProgram,
    names: dict[str, str],
) -> None:
    if _kind(old) != _kind(new) or len(old.inputs) != len(new.inputs):
        raise InvalidSetting(
            f"the query {query} gets another plan under the other strategy, whose states are not "
            f"those it has: at {new.operator.name}",
            f"use a new checkpoint, or let it begin anew with --replace {query}",
        )
    names[after.names[new]] = before.names[old]
    for source, other in zip(old.inputs, new.inputs, strict=True):
        if isinstance(source, Task) and isinstance(other, Task):
            _match(query, source, other, before, after, names)


def _kind(task: Task) -> list[str]:
    """What a task computes, whatever structure it keeps its rows in."""
    sources = [described(source) for source in task.inputs if not isinstance(source, Task)]
    return [*described_operator(task, _OTHER_STRUCTURES), *sources]
