"""The checkpoint of some queries of the language: made, continued, grown and shrunk.

A query is known by its name and by what it computes; its text may be laid out anew. A query that is
new to a checkpoint begins at the clock it finds there, and one that is no longer asked for leaves
with its state. Streams come and go with them: one that is new begins at its beginning, with a
clock of its own, so that queries over others go on as if it were not there. Nothing is changed by
looking.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mayfly.checkpoint.awaited_rows import WHOLE_ROWS
from mayfly.checkpoint.clock_record import clock_record
from mayfly.checkpoint.operator_state import stored_paths
from mayfly.checkpoint.result_log import LOG
from mayfly.checkpoint.source_log import (
    HEARTBEAT,
    PART,
    SOURCES,
    Move,
    clocks_of,
    part_of,
    sources_left,
    with_origins,
)
from mayfly.errors import InvalidSetting, UnsupportedFormat
from mayfly.physical.program import Program
from mayfly.physical.shared_program import described, fingerprint
from mayfly.physical.stages import StagedProgram
from mayfly.pipeline.control_log import Controlled
from mayfly.pipeline.control_requests import Control
from mayfly.plan.stream_joins import Stream
from mayfly.plan.zone_instants import same_zone
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.checkpoint_properties import empty_properties
from mayfly.spark.stream.stage_tasks import OUT, SENT
from mayfly.spark.stream.start import beats, check_spark_part
from mayfly.spark.stream.state_format import check_format
from mayfly.spark.stream.status_figures import REFRESHES
from mayfly.storage import Directory, DropSegments, Manifest, Repository, SetProperties
from mayfly.storage.commit import check_place

SINCE, TEXT, PLAN = "since", "text", "plan"
ENTRY, WHOLE_FROM = "entry", "whole_from"
_OF_ENTRY = (SINCE, ENTRY, WHOLE_FROM, WHOLE_ROWS)
"""What a query has had since it came."""
ZONE = "zone"
"""Property: the time zone in which answers were computed so far."""
COVER = "cover"
JOINED = "joined"
"""The texts of the queries whose panes a query reads in the place of its own."""
DERIVATION = "derivation of "
"""What a query says of a stream some of whose columns are computed."""


@dataclass(frozen=True)
class RegisteredQueries:
    """The queries of a checkpoint: when each began, and what is new and gone."""

    repository: Repository
    buckets: int
    queries: Mapping[str, Mapping[str, Any]]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """Names that were others' before; these queries are among the added ones."""
    move: Move | None = None
    """From the sources the checkpoint was left with; None if it is new."""

    @property
    def new_streams(self) -> tuple[str, ...]:
        return _missing(self.move.after, self.move.before) if self.move is not None else ()

    @property
    def gone_streams(self) -> tuple[str, ...]:
        return _missing(self.move.before, self.move.after) if self.move is not None else ()

    @property
    def since(self) -> dict[str, int | None]:
        return {name: query[SINCE] for name, query in self.queries.items()}

    @property
    def entries(self) -> dict[str, int | None]:
        return {name: query.get(ENTRY) for name, query in self.queries.items()}

    def check_claimed(self, stages: StagedProgram) -> None:
        """Refuse states that no operator goes on from: it would begin again unnoticed."""
        stored = self.repository.current().properties["state"]
        if self.dropped or self.replaced:
            self._check_logs(stored, stages)
            return  # what they leave behind goes with them
        unclaimed = stored.keys() - _needed(stored, stages, set()).keys()
        if unclaimed:
            names = sorted({name.rpartition("/")[0] for name in unclaimed})
            raise UnsupportedFormat(
                f"the checkpoint {self.repository.directory.address} has states that no operator "
                f"of its queries goes on from: {', '.join(names)}",
                "the queries would begin anew unnoticed: use the version of Mayfly that wrote "
                "them, or a new checkpoint",
            )

    def _check_logs(self, stored: Mapping[str, Any], stages: StagedProgram) -> None:
        """Refuse queries that were answered by themselves and would be answered with others."""
        names = {name.rpartition("/")[0] for name in stored}
        alone = [
            answer.query
            for answer in stages.answers
            if f"{LOG}/{answer.query}" in names and answer.share is not None
        ]
        if left := [name for name in alone if name not in (*self.replaced, *self.added)]:
            raise UnsupportedFormat(
                f"the checkpoint {self.repository.directory.address} has results of "
                f"{', '.join(left)} alone, which this version answers in one pass with others",
                "the queries would begin anew unnoticed: use the version of Mayfly that wrote "
                'them, a new checkpoint, or without=["CS2"]',
            )

    def edits(self, base: Manifest, stages: StagedProgram) -> list[Any]:
        """Which queries there are now, and no more of what belonged to others."""
        stored = base.properties
        anew = {f"{kind}/{name}" for name in self.replaced for kind in (LOG, SENT)}
        states = _needed(stored["state"], stages, anew)
        gone = stored_paths(stored["state"]) - stored_paths(states)
        # Changes of the last batch would be delivered as those of what has their name next.
        for name in (*self.replaced, *self.dropped):
            gone |= {segment.path for segment in base.in_group(f"{OUT}/{name}")}
        tasks = {task.name for task in stages.tasks}
        stay = set(self.queries) - set(self.replaced)
        properties = {
            "queries": {name: dict(query) for name, query in self.queries.items()},
            "state": states,
            "relations": {k: v for k, v in stored["relations"].items() if k in tasks},
            "answers": {k: v for k, v in stored["answers"].items() if k in stay},
            "kept_from": {k: v for k, v in stored["kept_from"].items() if k in stay},
            REFRESHES: {k: v for k, v in stored.get(REFRESHES, {}).items() if k in stay},
        }
        return [DropSegments(tuple(sorted(gone))), SetProperties(properties)]


def move_sources(register: RegisteredQueries, base: Manifest) -> dict[str, Any]:
    """Write the folder from which Spark goes on if the sources are others now; its properties."""
    move = register.move
    if move is None or not move.needed:
        return {}
    stored = base.properties
    names = [name for name in move.after if name != HEARTBEAT]
    # The batch that is planned next, if one is, was to be over other streams.
    move.directory.remove(clock_record(stored["batch"] + 1))
    return {
        PART: move.write_anew(base.version),
        SOURCES: list(move.after),
        "clocks": clocks_of(stored["clocks"], names),
        "first": {name: instant for name, instant in stored["first"].items() if name in names},
        "totals": {
            kind: {name: count for name, count in counts.items() if name in names}
            if isinstance(counts, dict)
            else counts
            for kind, counts in stored["totals"].items()
        },
    }


def streams_known_to(root: str, declared: Sequence[str]) -> list[str]:
    """The streams a checkpoint reads, in the order in which Spark does."""
    if not Repository.exists(root):
        return []
    repository = opened(root, sync=False)
    left = sources_left(repository.directory, repository.current(), declared)
    return [name for name in left if name != HEARTBEAT]


def _missing(names: Sequence[str], among: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in among and name != HEARTBEAT)


def _needed(states: Mapping[str, Any], stages: StagedProgram, anew: set[str]) -> dict[str, Any]:
    mine = {f"task/{task.name}" for task in stages.tasks}
    logs = {f"{LOG}/{answer.log}" for answer in stages.answers}
    mine |= (logs | {f"{SENT}/{answer.query}" for answer in stages.answers}) - anew
    return {name: state for name, state in states.items() if name.rpartition("/")[0] in mine}


def register_queries(
    root: str,
    streams: Sequence[Stream],
    queries: Mapping[str, Mapping[str, Any]],
    buckets: int,
    asked: int | None,
    *,
    sync: bool,
    remembered: Mapping[str, Any] | None = None,
    replace: Collection[str] = (),
) -> RegisteredQueries:
    """Open the checkpoint at ``root`` for these queries; create it, with what is to be remembered,
    if there is none. Those to ``replace`` begin anew if their name stands for others there."""
    for name in [query for query in replace if query not in queries]:
        raise InvalidSetting(f"there is no query {name} to replace", f"use one of {list(queries)}")
    if not Repository.exists(root):
        named = {name: {**query, SINCE: None} for name, query in queries.items()}
        properties = {**empty_properties(streams, named, buckets), **(remembered or {})}
        return RegisteredQueries(Repository.create(root, properties, sync=sync), buckets, named)
    repository = opened(root, sync=sync, buckets=asked)
    manifest = repository.current()
    stored = manifest.properties
    move = _move(repository, manifest, streams)
    move.check()
    stored_queries: dict[str, Any] = stored["queries"]
    others = [
        n for n in replace if n in stored_queries and differing(stored_queries[n], queries[n])
    ]
    for name in [query for query in queries if query in stored_queries and query not in others]:
        check_same(root, name, stored_queries[name], queries[name])
    old = {name: query for name, query in stored_queries.items() if name not in others}
    now = {
        name: {**query, **_entered(manifest, old, name, query)} for name, query in queries.items()
    }
    return RegisteredQueries(
        repository,
        stored["buckets"],
        now,
        tuple(name for name in now if name not in old),
        tuple(name for name in stored_queries if name not in now),
        tuple(others),
        move,
    )


def opened(root: str, *, sync: bool, buckets: int | None = None) -> Repository:
    """A checkpoint of queries whose states this version can read, with so many buckets."""
    repository = Repository.open(root, sync=sync)
    stored = repository.current().properties
    if "queries" not in stored:
        raise UnsupportedFormat(
            f"the checkpoint {root} is one of a window join as an earlier version of Mayfly ran it",
            "its states cannot be continued: use a new checkpoint directory, from which the "
            "sources are read again, or finish with the version that wrote it",
        )
    check_format(root, stored)
    if buckets is not None and stored["buckets"] != buckets:
        raise InvalidSetting(
            f"the checkpoint {root} has {stored['buckets']} buckets, not {buckets}",
            "leave buckets out to continue it, or move it with mayfly migrate",
        )
    return repository


def check_checkpoint(root: str, buckets: int | None, zone: str) -> None:
    """Refuse a place on which queries cannot be started, as far as that shows without them."""
    check_place(Directory.at(root))
    if Repository.exists(root):
        repository = opened(root, sync=False, buckets=buckets)
        check_zone(repository, zone)
        check_spark_part(repository)
        Control(repository).pending()


def check_unchanged(
    root: str, texts: Mapping[str, str], programs: Mapping[str, Program], replace: Collection[str]
) -> None:
    """Refuse a checkpoint of other queries, as far as that shows in their texts and plans."""
    if not Repository.exists(root):
        return
    repository = Repository.open(root)
    control, manifest = Controlled.of(repository.current()), repository.current()
    pending = (command.name for command in Control(repository).pending())
    others = {*replace, *control.dropped, *control.queries, *pending}
    stored_queries = manifest.properties["queries"]
    for name in stored_queries.keys() & programs.keys() - others:
        if _lines(stored_queries[name][TEXT]) != _lines(texts[name]):
            changed = {**stored_queries[name], TEXT: texts[name], PLAN: plan_digest(programs[name])}
            check_same(root, name, stored_queries[name], changed)


def plan_digest(program: Program) -> str:
    """What a query computes, in a word."""
    return f"{fingerprint(program.answer)} {described(program.sent)}"


def check_zone(repository: Repository, zone: str) -> None:
    """Refuse to go on in another zone: days, hours and times without a zone would be others."""
    before = repository.current().properties.get(ZONE, zone)
    if not same_zone(before, zone):
        raise InvalidSetting(
            f"the checkpoint {repository.directory.address} was made in the time zone {before}; "
            f"this session's is {zone}, in which its answers would change from here on",
            f"go on in {before}: mayfly run … --conf spark.sql.session.timeZone={before}, in "
            f'Python spark.conf.set("spark.sql.session.timeZone", "{before}"); or begin anew '
            "with another checkpoint",
        )


def _entered(
    manifest: Manifest, old: Mapping[str, Any], name: str, query: Mapping[str, Any]
) -> dict[str, Any]:
    """When a query came to the checkpoint; one that is new comes now, or with its streams."""
    entry = old.get(name)
    if entry is not None:
        return {part: entry[part] for part in _OF_ENTRY if part in entry}
    if manifest.properties["batch"] < 0:
        return {SINCE: None}
    clocks = Clocks.from_json(manifest.properties["clocks"])
    if not set(query["streams"]) & set(clocks.streams):
        return {SINCE: None}
    clock = clocks.of(query["streams"]).query
    return {SINCE: clock, ENTRY: manifest.version}


def _move(repository: Repository, manifest: Manifest, streams: Sequence[Stream]) -> Move:
    """From the sources of a checkpoint to those of these streams."""
    names = [stream.name for stream in streams]
    left = sources_left(repository.directory, manifest, names)
    before = with_origins(repository.directory, manifest, left, origins_of(streams))
    part = part_of(manifest)
    return Move(repository.directory, part, tuple(before), tuple(sources_of(streams)))


def origins_of(streams: Sequence[Stream]) -> dict[str, str]:
    """Where the rows of streams come from, as far as that is known."""
    return {stream.name: stream.source for stream in streams if stream.source is not None}


def sources_of(streams: Sequence[Stream]) -> list[str]:
    """The sources of streams in the order of Spark's plan."""
    return [*(stream.name for stream in streams), *([HEARTBEAT] if beats(streams) else ())]


def differing(stored: Mapping[str, Any], description: Mapping[str, Any]) -> list[str]:
    """In what two queries are not the same; how they are laid out does not matter."""
    unrecorded = {
        part for part in description.keys() - stored.keys() if part.startswith(DERIVATION)
    }
    parts = sorted({*stored, *description} - {*_OF_ENTRY, TEXT} - unrecorded)
    return [part for part in parts if stored.get(part) != description.get(part)]


def check_same(
    root: str, name: str, stored: Mapping[str, Any], description: Mapping[str, Any]
) -> None:
    """Refuse to continue a checkpoint with another query: its state would mean something else."""
    parts = differing(stored, description)
    if not parts:
        return
    lines = []
    texts = _lines(stored[TEXT]), _lines(description[TEXT])
    if texts[0] != texts[1]:
        compared = difflib.ndiff(*texts)
        lines += [line for line in compared if not line.startswith("?")]
    for part in parts:
        if part != PLAN:
            lines += [f"- {part}: {stored.get(part)}", f"+ {part}: {description.get(part)}"]
    if not lines:
        lines = ["  the same text, but planned differently by another version of Mayfly"]
    raise InvalidSetting(
        f"the checkpoint {root} belongs to another query {name}:\n"
        + "\n".join(f"  {line.rstrip()}" for line in lines),
        "use the query it was made for or a new checkpoint; in a pipeline, a new name lets the "
        f"changed query begin anew while the others go on, and so does --replace {name} (from "
        "Python anew=[…]) under the old name",
    )


def _lines(text: str) -> list[str]:
    """A query in lines to compare: a new one before every clause."""
    words, lines = text.split(), [""]
    for word in words:
        if word.upper() in ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "UNION", "EXCEPT"):
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
