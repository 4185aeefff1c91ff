"""The format in which states of queries are stored: newer ones are refused, older ones upgraded.

| format | since then |
|---|---|
| 1 | (no number in the manifest) rows that a window admits are numbered from 0 in every bucket |
| 2 | every bucket numbers from its own multiple of 2^40 on; what needs one place is in bucket 0 |
| 3 | a key has one place, whichever operator asks, NULL too, so that it is exchanged once |
| 4 | results that are never cut lie in the log as they came, without identity and code |
| 5 | codes that are hashes, and the buckets of all codes, are made by Spark's xxhash64 |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from mayfly.checkpoint.code_upgrade import recoded, without_copies
from mayfly.checkpoint.operator_state import Stored, load_state, store_state, stored_paths
from mayfly.checkpoint.repartition import lies_by_code
from mayfly.checkpoint.result_log import LOG
from mayfly.errors import UnsupportedFormat
from mayfly.faults import reach
from mayfly.kernels.delta import ID, mixed_ids, with_numbers
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, clustered, numbers
from mayfly.kernels.operator import Moving
from mayfly.kernels.outputs import Sent
from mayfly.physical.shared_program import SharedProgram
from mayfly.physical.stager import staged
from mayfly.physical.stages import IDENTITIES, Feed, StagedProgram, StagedTask
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.stage_tasks import OUT, SENT
from mayfly.spark.stream.state_move import StateMove
from mayfly.storage import AddSegments, DropSegments, Manifest, Repository, Segment, SetProperties

STATE_FORMAT = "state_format"
CURRENT = 5


def check_format(root: str, properties: Mapping[str, Any]) -> None:
    """Refuse what a later version of Mayfly wrote."""
    stored_format = properties.get(STATE_FORMAT, 1)
    if stored_format > CURRENT:
        raise UnsupportedFormat(
            f"the states in {root} have format {stored_format}; this version of Mayfly knows up to "
            f"{CURRENT}",
            "use the version that wrote them, or a later one",
        )


def upgrade_state(
    repository: Repository, program: SharedProgram, newcomers: Collection[str] = ()
) -> Manifest:
    """Bring the checkpoint to the current format, by one commit for each that came since; nothing
    is done to one that has it. Queries of it that do not go on, because the program lacks them or
    has a newcomer of that name, leave with their states."""
    base = repository.current()
    if base.properties.get(STATE_FORMAT, 1) < 2:
        base = repository.commit(base, _numbered_apart(repository, base, staged(program)))
        reach("format.numbered")
    if base.properties[STATE_FORMAT] < CURRENT:
        stay = {member.name for member in program.members} - set(newcomers)
        stored, upgrade = base.properties, _Upgrade(base, staged(program))
        move = StateMove(
            repository, base, program, stored["buckets"], without=newcomers, upgrade=upgrade
        )
        properties = {
            part: {name: entry for name, entry in stored.get(part, {}).items() if name in stay}
            for part in ("queries", "answers", "kept_from", "refreshes")
        }
        edits = move.edits({STATE_FORMAT: CURRENT, **properties})
        for name in stored["queries"].keys() - stay:
            gone = (segment.path for segment in base.in_group(f"{OUT}/{name}"))
            edits.append(DropSegments(tuple(sorted(gone))))
        reach("format.written")
        base = repository.commit(base, edits)
        reach("format.committed")
    return base


def _numbered_apart(repository: Repository, base: Manifest, stages: StagedProgram) -> list[Any]:
    """From format 1 to 2."""
    states, added = dict(base.properties["state"]), list[Segment]()
    for name in _out_of_place(states, stages):
        del states[name]
    for task in stages.tasks:
        for bucket in range(base.properties["buckets"]):
            name = f"task/{task.name}/{bucket}"
            if task.operator.opens is not None and name in states:
                stored, fresh = _numbered(repository, base, task, bucket, states[name])
                states[name] = stored.to_json()
                added += fresh
    gone = stored_paths(base.properties["state"]) - stored_paths(states)
    return [
        AddSegments(tuple(added)),
        DropSegments(tuple(sorted(gone))),
        SetProperties({"state": states, STATE_FORMAT: 2}),
    ]


class _Upgrade:
    """From formats 2 to 4 to 5. What a log of format 3 holds more of than it must is left out when
    it is merged."""

    def __init__(self, base: Manifest, stages: StagedProgram) -> None:
        self.buckets: int = base.properties["buckets"]
        self.clock = Clocks.from_json(base.properties["clocks"]).query
        fed = base.properties[STATE_FORMAT] < 3
        self.feeds = {feed.task: feed for feed in stages.feeds if feed.path and fed}

    def task(self, task: StagedTask, state: Any, bucket: int | None) -> Any:
        if bucket is not None and lies_by_code(task):
            state = without_copies(state, bucket, self.buckets)
        return recoded(task.operator, self._fed(task, state), self.clock)

    def sent(self, sent: Sent, state: Any) -> Any:
        return recoded(sent, state, self.clock)

    def _fed(self, task: StagedTask, state: Any) -> Any:
        """Windows whose selections and projections came after them in format 2: those of the left
        side of a negation by other conditions than equality. They now come before."""
        feed = self.feeds.get(task.number)
        if feed is None:
            return state
        waiting = _through(feed, state.waiting)
        leaving = replace(state.leaving, runs=_through(feed, state.leaving.runs))
        return replace(state, waiting=waiting, leaving=leaving)


def _through(feed: Feed, runs: tuple[RowRun, ...]) -> tuple[RowRun, ...]:
    """Rows as a feed brings them; those that already are have other columns, or pass unchanged."""
    new_runs, names = [], {f"{feed.source.alias}.{name}" for name in feed.source.columns}
    for run in runs:
        rows = run.load()
        if names <= set(rows.schema.names):
            for operator in feed.path:
                rows = operator.prepared(rows)
        if rows.num_rows:
            new_runs.append(RowRun.of(rows.combine_chunks(), level=run.level))
    return tuple(new_runs)


def _out_of_place(states: Mapping[str, Any], stages: StagedProgram) -> list[str]:
    """States that format 1 kept in buckets where nothing ever comes."""
    single = {f"task/{task.name}" for task in stages.tasks if not task.bucketed}
    for answer in stages.answers:
        spread = not answer.route.single if answer.sent else stages.tasks[answer.task].bucketed
        single |= set() if spread else {f"{kind}/{answer.query}" for kind in (LOG, SENT)}
    return [
        name for name in states if name.rpartition("/")[0] in single and not name.endswith("/0")
    ]


def _numbered(
    repository: Repository, base: Manifest, task: StagedTask, bucket: int, entry: Mapping[str, Any]
) -> tuple[Stored, list[Segment]]:
    """A window's state whose rows are known by the identities they went out with."""
    stored, operator, directory = Stored.from_json(entry), task.operator, repository.directory
    number = (bucket << IDENTITIES) + int(stored.numbers["number"] or 0)
    added: list[Segment] = []
    runs = dict(stored.runs)
    if operator.moving is Moving.FREE and runs.get("leaving"):
        state = load_state(operator.state(), stored, base.segments, directory)
        left = KeptRows(
            state.leaving.shape, tuple(_renamed(run, bucket) for run in state.leaving.runs)
        )
        group = f"state/task/{task.name}/{bucket}/leaving"
        written, added, _ = store_state(left, group.removesuffix("/leaving"), directory)
        runs["leaving"] = written.runs["kept"]
    return Stored(runs, {**stored.numbers, "number": number}), added


def _renamed(run: RowRun, bucket: int) -> RowRun:
    """Format 1 mixed the bucket into identities when rows left the window."""
    rows = run.load()
    ids = numbers(rows, ID)
    mixed = mixed_ids(ids, ids * 0 + bucket)
    return RowRun.of(clustered(with_numbers(rows, **{ID: mixed, CODE: mixed})), level=run.level)
