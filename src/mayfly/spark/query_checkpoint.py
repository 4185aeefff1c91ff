"""The checkpoint of some queries of the language: made, continued, grown and shrunk.

A query is known by its name and by what it computes; its text may be laid out anew. A query that is
new to a checkpoint begins at the clock it finds there, and one that is no longer asked for leaves
with its state. Nothing is changed by looking.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mayfly.errors import InvalidSetting
from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.query import Stream
from mayfly.pipeline.staging import StagedProgram
from mayfly.spark.program_runner import empty_program_properties
from mayfly.spark.program_tasks import LOG, SENT
from mayfly.storage import DropSegments, Manifest, Repository, SetProperties

SINCE, TEXT, PLAN = "since", "text", "plan"


@dataclass(frozen=True)
class Registered:
    """The queries of a checkpoint: when each began, and what is new and gone."""

    repository: Repository
    buckets: int
    queries: Mapping[str, Mapping[str, Any]]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def since(self) -> dict[str, int | None]:
        return {name: one[SINCE] for name, one in self.queries.items()}

    def settle(self, stages: StagedProgram) -> None:
        """Write down which queries there are now, and drop what belonged to others."""
        if not self.added and not self.dropped:
            return
        base = self.repository.current()
        stored = base.properties
        states = _needed(stored["state"], stages)
        gone = {path for name, one in stored["state"].items() if name not in states
                for paths in one["runs"].values() for path in paths}  # fmt: skip
        tasks = {task.name for task in stages.tasks}
        properties = {
            "queries": {name: dict(one) for name, one in self.queries.items()},
            "state": states,
            "relations": {k: v for k, v in stored["relations"].items() if k in tasks},
            "answers": {k: v for k, v in stored["answers"].items() if k in self.queries},
            "kept_from": {k: v for k, v in stored["kept_from"].items() if k in self.queries},
        }
        self.repository.commit(base, [DropSegments(tuple(sorted(gone))), SetProperties(properties)])


def streams_known_to(root: Path) -> tuple[str, ...]:
    """The streams a checkpoint was made with: Spark goes on only if it reads the same ones."""
    if not Repository.exists(root):
        return ()
    return tuple(Repository.open(root).current().properties["clocks"]["streams"])


def _needed(states: Mapping[str, Any], stages: StagedProgram) -> dict[str, Any]:
    mine = {f"task/{task.name}" for task in stages.tasks}
    mine |= {f"{kind}/{one.query}" for one in stages.answers for kind in (LOG, SENT)}
    return {name: one for name, one in states.items() if name.rpartition("/")[0] in mine}


def registered(
    root: Path,
    streams: Sequence[Stream],
    queries: Mapping[str, Mapping[str, Any]],
    buckets: int,
    asked: int | None,
    *,
    sync: bool,
) -> Registered:
    """The checkpoint at ``root`` for these queries; made if there is none."""
    if not Repository.exists(root):
        named = {name: {**one, SINCE: None} for name, one in queries.items()}
        properties = empty_program_properties(streams, named, buckets)
        return Registered(Repository.create(root, properties, sync=sync), buckets, named)
    repository = Repository.open(root, sync=sync)
    manifest = repository.current()
    stored = manifest.properties
    if "queries" not in stored:
        raise InvalidSetting(
            f"the checkpoint {root} belongs to a {stored['kind']}", "use a new checkpoint directory"
        )
    if asked is not None and stored["buckets"] != asked:
        raise InvalidSetting(
            f"the checkpoint {root} has {stored['buckets']} buckets, not {asked}",
            "leave buckets out to continue it, or use a new checkpoint",
        )
    _check_streams(root, manifest, streams)
    for name in [one for one in queries if one in stored["queries"]]:
        _check_same(root, name, stored["queries"][name], queries[name])
    now = {name: {**one, SINCE: _since(manifest, name, one)} for name, one in queries.items()}
    return Registered(
        repository,
        stored["buckets"],
        now,
        tuple(name for name in now if name not in stored["queries"]),
        tuple(name for name in stored["queries"] if name not in now),
    )


def _since(manifest: Manifest, name: str, query: Mapping[str, Any]) -> int | None:
    known = manifest.properties["queries"].get(name)
    if known is not None:
        began: int | None = known[SINCE]
        return began
    if manifest.properties["batch"] < 0:
        return None
    return Clocks.from_json(manifest.properties["clocks"]).of(query["streams"]).query


def _check_streams(root: Path, manifest: Manifest, streams: Sequence[Stream]) -> None:
    known = list(manifest.properties["clocks"]["streams"])
    new = [one.name for one in streams if one.name not in known]
    gone = [name for name in known if name not in [one.name for one in streams]]
    if new or gone:
        told = [f"stream {name} is new" for name in new] + [f"{name} is missing" for name in gone]
        raise InvalidSetting(
            f"the checkpoint {root} belongs to other streams: {', '.join(told)}",
            "queries may come and go, but the streams of a checkpoint stay: "
            "use a new checkpoint, or run what is new as a pipeline of its own",
        )


def _check_same(
    root: Path, name: str, stored: Mapping[str, Any], wanted: Mapping[str, Any]
) -> None:
    """Refuse to continue a checkpoint with another query: its state would mean something else."""
    differing = [
        part
        for part in sorted({*stored, *wanted} - {SINCE, TEXT})
        if stored.get(part) != wanted.get(part)
    ]
    if not differing:
        return
    lines = []
    if stored[TEXT] != wanted[TEXT]:
        compared = difflib.ndiff(_lines(stored[TEXT]), _lines(wanted[TEXT]))
        lines += [line for line in compared if not line.startswith("?")]
    for part in differing:
        if part != PLAN:
            lines += [f"- {part}: {stored.get(part)}", f"+ {part}: {wanted.get(part)}"]
    if not lines:
        lines = ["  the same text, but planned differently by another version of Mayfly"]
    raise InvalidSetting(
        f"the checkpoint {root} belongs to another query {name}:\n"
        + "\n".join(f"  {line.rstrip()}" for line in lines),
        "use the query it was made for or a new checkpoint; in a pipeline, a new name lets the "
        "changed query begin anew while the others go on",
    )


def _lines(text: str) -> list[str]:
    """A query in lines to compare: a new one before every clause."""
    words, lines = text.split(), [""]
    for word in words:
        if word.upper() in ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "UNION", "EXCEPT"):
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
