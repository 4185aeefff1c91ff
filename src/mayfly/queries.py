"""Queries of the language on Spark: started over streaming DataFrames, asked while they run."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.lifetime import MIN_TIME, NEVER, instant
from mayfly.optimizer import explain
from mayfly.optimizer.pipeline import optimize
from mayfly.pipeline.commands import Commands
from mayfly.pipeline.compiling import compile_plan
from mayfly.pipeline.control import (
    DECLARED,
    Control,
    declarations,
    declared_catalog,
)
from mayfly.pipeline.explain_sharing import Together, together
from mayfly.pipeline.pacing import Pace
from mayfly.pipeline.program import Program
from mayfly.pipeline.query import Stream
from mayfly.pipeline.sharing import canonical, described, fingerprint, shared
from mayfly.pipeline.shedding import RANDOM, Shedding
from mayfly.plan.explain import Explanation
from mayfly.plan.logical import Output, StreamScan
from mayfly.plan.physical import Strategy
from mayfly.spark.archives import SparkArchive
from mayfly.spark.program_results import EVERYTHING, Results, Wanted
from mayfly.spark.program_runner import REFRESHES, ProgramRunner
from mayfly.spark.program_wiring import ProgramWiring
from mayfly.spark.query_archives import archive_sink, promises_of
from mayfly.spark.query_checkpoint import (
    PLAN,
    TEXT,
    WHOLE_FROM,
    Registered,
    registered,
    streams_known_to,
)
from mayfly.spark.query_history import deliver_history, settle
from mayfly.spark.query_migration import migrated
from mayfly.spark.run import Run, Status
from mayfly.spark.serving import sinks_of_command, wanted_anew
from mayfly.spark.sinks import Sink
from mayfly.spark.starting import (
    DEFAULT_HISTORY,
    bucket_count,
    check_spark_part,
    run_settings,
    sinks_of,
    started,
)
from mayfly.spark.state_format import renewed
from mayfly.storage import Manifest, Repository
from mayfly.storage.files import local_root

if TYPE_CHECKING:
    from mayfly.session import Session

QUERY = "query"
"""The name of a query that was started alone."""


@dataclass(frozen=True)
class CqlQuery:
    """A query of the language that can be explained and started."""

    session: Session
    text: str
    bound: Output
    program: Program
    without: tuple[str, ...] = ()

    @staticmethod
    def of(
        session: Session, text: str, bound: Output, strategy: Strategy, without: Sequence[str]
    ) -> CqlQuery:
        plan = optimize(bound, strategy=strategy, without=without).plan
        assert isinstance(plan, Output)
        weak = "weak-distinct" not in without
        program = compile_plan(canonical(plan), session.catalog, strategy, weak)
        return CqlQuery(session, text, bound, program, tuple(without))

    def explain(self, *, compare: bool = False) -> Explanation:
        """The plan with its update patterns, state and cost."""
        return explain(
            self.bound,
            self.text,
            strategy=self.program.strategy,
            without=self.without,
            compare=compare,
        )

    def under(self, strategy: Strategy) -> CqlQuery:
        """The same query, run in another way."""
        return CqlQuery.of(self.session, self.text, self.bound, strategy, self.without)

    def streams(self) -> tuple[Stream, ...]:
        names = dict.fromkeys(
            node.stream for node in self.bound.walk() if isinstance(node, StreamScan)
        )
        return tuple(self.session.declared(name) for name in names)

    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_changes: Callable[[DataFrame, int], object] | None = None,
        parquet: str | os.PathLike[str] | None = None,
        archive: SparkArchive | None = None,
        sinks: Sequence[Sink] = (),
        **settings: Any,
    ) -> QueryRun:
        """Start the query, or continue it from its checkpoint.

        Changes go to ``on_changes(DataFrame, batch_id)`` (at least once per batch) and to Parquet
        files under ``parquet`` (exactly once), and become updates of ``archive`` as its intervals
        end (exactly once). A view's changes have ``ts`` and ``exp``; where its pattern is STR also
        ``cut``: the earlier row of the same values, ts and exp ends then. The other settings are
        those of ``Queries.start``.
        """
        named = sinks_of(sinks, on_changes, parquet)
        archives = {} if archive is None else {QUERY: archive}
        queries = Queries(self.session, {QUERY: self})
        runs = queries.start(checkpoint, sinks={QUERY: named}, archives=archives, **settings)
        return runs[QUERY]

    def open(self, checkpoint: str | os.PathLike[str]) -> QueryRun:
        """A handle on a checkpoint for reading, without starting the query."""
        return Queries(self.session, {QUERY: self}).open(checkpoint)[QUERY]

    def description(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to be continued."""
        described_plan = [fingerprint(self.program.answer), described(self.program.sent)]
        found: dict[str, Any] = {
            TEXT: " ".join(self.text.split()),
            "strategy": self.program.strategy.value,
            PLAN: " ".join(described_plan),
            "streams": [stream.name for stream in self.streams()],
        }
        for stream in self.streams():
            columns = [f"{name} {stream.type_of(name).sql()}" for name in stream.schema.names]
            found[f"columns of {stream.name}"] = ", ".join(columns)
            found[f"time of {stream.name}"] = stream.time
        return found


@dataclass(frozen=True)
class Queries:
    """Queries that run together: each stream is read once, equal sub-plans are computed once."""

    session: Session
    queries: Mapping[str, CqlQuery]
    dead_letters: str | None = None
    anew: tuple[str, ...] = ()
    """Names that may have stood for other queries: these begin anew then."""

    def __post_init__(self) -> None:
        for name in self.queries:
            if not name or "/" in name:
                raise InvalidSetting(f"{name!r} cannot name a query", "leave out the slash")

    def explain(self) -> Together:
        """What the queries share: streams, parts that are computed once, clocks."""
        return together({name: one.program for name, one in self.queries.items()})

    def streams(self, known: Collection[str] = ()) -> tuple[Stream, ...]:
        """Those that are read, and those ``known`` to a checkpoint, as the session ordered them."""
        read = {stream.name for query in self.queries.values() for stream in query.streams()}
        read |= set(known)
        found = [self.session.declared(name) for name in self.session.streams() if name in read]
        return tuple(
            one
            if self.dead_letters is None or one.dead_letter is not None
            else replace(one, dead_letter=self.dead_letters, null_time="dead_letter")
            for one in found
        )

    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        sinks: Mapping[str, Sequence[Sink]] | None = None,
        archives: Mapping[str, SparkArchive] | None = None,
        buckets: int | None = None,
        history: str | int = DEFAULT_HISTORY,
        max_state_bytes: int | None = None,
        max_gap: str | int | None = None,
        available_now: bool = False,
        interval: str | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
        pace: Pace | None = None,
        dead_letters: str | os.PathLike[str] | None = None,
        shed: float = 0.0,
        shed_by: str = RANDOM,
        stretch_above: int | None = None,
        anew: Sequence[str] = (),
        resumed: bool = False,
    ) -> dict[str, QueryRun]:
        """Start all queries, or continue them from their checkpoint: a handle for each.

        ``history`` is how long dead results stay in the change log, at most as long as archives
        that promise PHYSICAL WITHIN allow. ``available_now`` processes
        what is there, closes the last instant and ends; otherwise a batch starts every
        ``interval``, or as soon as there is data. ``pace`` replays recorded streams at a speed.
        Rows that come too late or have no time go to Parquet files under ``dead_letters``, unless
        their stream was declared with a place of its own. ``shed`` is the share of rows that is
        left out, at random or (``shed_by="partners"``) those that find the fewest partners in
        joins; ``status().shed`` counts them. A batch of more than ``stretch_above`` rows answers
        only the last of the refreshes it closes; ``status().refreshes`` counts those. Names in
        ``anew`` may stand for other queries than they did in the checkpoint: these begin anew, and
        what they replace is gone. ``resumed`` says that the queries ran a moment ago and are only
        started again, so that a command to stop them still holds.
        With ``sync=False`` a power cut may lose the last batches; a killed process never does.
        """
        if dead_letters is not None:
            self = replace(self, dead_letters=os.fspath(local_root(dead_letters)))
        self = replace(self, anew=tuple(anew))
        runner, register = self._runner(
            checkpoint, history, buckets, max_state_bytes, max_gap, sync, wall_clock, pace,
            taking=lambda commands, names: commands.all_taken(names, resumed=resumed),
        )  # fmt: skip
        shedding = Shedding(shed, shed_by, stretch_above)
        shedding.check(runner.wiring.stages)
        runner.wiring = replace(runner.wiring, shedding=shedding)
        runner.promises = lambda: promises_of((archives or {}).values())
        runner.check_dead_letters()
        renewed(register.repository, runner.wiring.stages)
        settle(runner, register, self._remembered(runner))
        runner.sinks_of = {
            name: [
                *(sinks or {}).get(name, ()),
                *self._archived(runner, archives or {}, name),
                *sinks_of_command(runner, name),
            ]
            for name in runner.results
        }
        deliver_history(runner)
        streams = runner.wiring.streams
        frames = {one.name: self.session.frame_of(one.name) for one in streams}
        query = started(runner, streams, frames, available_now=available_now, interval=interval)
        return {
            name: QueryRun(runner, query, available_now, name, register) for name in runner.results
        }

    def serve(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_start: Callable[[dict[str, QueryRun]], object] | None = None,
        **settings: Any,
    ) -> None:
        """Run the queries and do what the control log asks for, until it asks to stop or the
        input ends. ``on_start`` gets the handles, again whenever a query came or went."""
        resumed = False
        while True:
            runs = self.start(checkpoint, resumed=resumed, **settings)
            resumed = True
            if on_start is not None:
                on_start(runs)
            if not wanted_anew(runs):
                return

    def _archived(
        self, runner: ProgramRunner, archives: Mapping[str, SparkArchive], name: str
    ) -> list[Sink]:
        if name not in archives:
            return []
        root = os.fspath(runner.repository.directory.root)
        return [archive_sink(archives[name], runner.results[name], f"{root}/{name}")]

    def open(self, checkpoint: str | os.PathLike[str]) -> dict[str, QueryRun]:
        """Handles on a checkpoint for reading, without starting anything."""
        if not Repository.exists(checkpoint):
            raise InvalidSetting(f"there is no checkpoint at {checkpoint}", "start the query first")
        runner, register = self._runner(checkpoint)
        return {name: QueryRun(runner, None, False, name, register) for name in runner.results}

    def migrate(self, checkpoint: str | os.PathLike[str], *, buckets: int | None = None) -> int:
        """Move a stopped checkpoint to so many buckets, and to the strategies these queries have
        now; the number of buckets it then has. Answers stay as they are. Queries that are new to
        the checkpoint come to it at the next start."""
        root = local_root(checkpoint)
        return migrated(root, self._under_control(root)[0].queries, buckets)

    def _under_control(
        self, root: Path, taking: Callable[[Commands, set[str]], None] | None = None
    ) -> tuple[Queries, Commands | None]:
        """These queries without those that commands have dropped, with those that they added."""
        if not Repository.exists(root):
            return self, None
        streams = set(streams_known_to(root))
        catalog = declared_catalog(declarations(self.session.catalog, streams))
        commands = Commands.of(Control.of(root), catalog, self.session.relations)
        if taking is not None:
            taking(commands, set(self.queries))
        named = {n: one for n, one in self.queries.items() if n not in commands.state.dropped}
        added = {
            name: self.session.query(str(one["text"]))
            for name, one in commands.state.queries.items()
            if name not in named
        }
        return replace(self, queries={**named, **added}), commands

    def _remembered(self, runner: ProgramRunner) -> dict[str, Any]:
        """What other processes must find in the checkpoint to ask for more."""
        assert runner.commands is not None
        streams = {one.name for one in runner.wiring.streams}
        state = runner.commands.property() if runner.commands.state.applied else {}
        return {**state, DECLARED: declarations(self.session.catalog, streams)}

    def results(self) -> dict[str, Results]:
        """What each query gives, before anything is started."""
        program = shared({name: one.program for name, one in self.queries.items()}, {})
        return {member.name: Results(member) for member in program.members}

    def _runner(
        self,
        checkpoint: str | os.PathLike[str],
        history: str | int = DEFAULT_HISTORY,
        buckets: int | None = None,
        max_state_bytes: int | None = None,
        max_gap: str | int | None = None,
        sync: bool = True,
        wall_clock: Callable[[], int] | None = None,
        pace: Pace | None = None,
        *,
        taking: Callable[[Commands, set[str]], None] | None = None,
    ) -> tuple[ProgramRunner, Registered]:
        spark, root = self.session.spark, local_root(checkpoint)
        self, commands = self._under_control(root, taking)
        streams = self.streams(streams_known_to(root))
        described_queries = {name: one.description() for name, one in self.queries.items()}
        wanted = bucket_count(spark, buckets)
        declared = {DECLARED: declarations(self.session.catalog, {one.name for one in streams})}
        register = registered(
            root, streams, described_queries, wanted, buckets, sync=sync, remembered=declared,
            replace=self.anew,
        )  # fmt: skip
        check_spark_part(register.repository)
        settings = run_settings(
            register.buckets, history, max_state_bytes, max_gap, sync, wall_clock, pace
        )
        types = {one.name: dict(self.session.frame_of(one.name).dtypes) for one in streams}
        programs = {name: one.program for name, one in self.queries.items()}
        program = shared(programs, register.since, register.entries)
        wiring = ProgramWiring.of(program, streams, types)
        runner = ProgramRunner(spark, None, wiring, register.repository, settings)  # type: ignore[arg-type]
        runner.commands = commands or self._under_control(root)[1]
        assert runner.commands is not None
        runner.relations = runner.commands.relations
        runner.check_relations()
        return runner, register


@dataclass
class QueryRun(Run):
    """A query of the language that was started: ask it, wait for it, stop it.

    Queries that were started together run and stop together.
    """

    runner: ProgramRunner
    name: str = QUERY
    register: Registered | None = field(default=None, repr=False)

    @property
    def results(self) -> Results:
        return self.runner.results[self.name]

    @property
    def since(self) -> int | None:
        """The clock when the query was added to a running pipeline; None if it was there first."""
        return self.results.member.group.since

    @property
    def whole_from(self) -> int | None:
        """The instant from which answers are those of a query that was always there.

        None if this one was. Before ``since`` if the windows it needs were kept when it was added;
        NEVER if some earlier row will always matter.
        """
        return self._whole_from(self.runner.repository.current())

    def _whole_from(self, manifest: Manifest) -> int | None:
        found: int | None = manifest.properties["queries"].get(self.name, {}).get(WHOLE_FROM)
        return found

    @property
    def control(self) -> Control:
        """To add and drop queries, change relations, or stop, from here as from elsewhere."""
        return Control(self.runner.repository)

    def status(self) -> Status:
        """This query's changes and streams; state and input and output are those of all queries."""
        manifest = self.runner.repository.current()
        found, clocks = super().status(), self.results.clocks(manifest)
        state = [one for one in manifest.in_group("state") if not one.group.startswith("state/log")]
        log = list(manifest.in_group(f"state/log/{self.name}"))
        whole = self._whole_from(manifest)
        return replace(
            found,
            clock=None if clocks.query == MIN_TIME else clocks.query,
            gap=clocks.gap,
            rows={name: found.rows.get(name, 0) for name in clocks.streams},
            late={name: found.late.get(name, 0) for name in clocks.streams},
            changes=manifest.properties["answers"].get(self.name, 0),
            last_changes=manifest.properties.get("last_answers", {}).get(self.name, 0),
            state_rows=sum(one.rows for one in state),
            state_bytes=sum(one.bytes for one in state),
            log_rows=sum(one.rows for one in log),
            log_bytes=sum(one.bytes for one in log),
            refreshes=tuple(manifest.properties.get(REFRESHES, {}).get(self.name, (0, 0))),
            warming_until=None if whole is None or whole < clocks.query else whole,
        )

    def snapshot(self, at: int | str | None = None) -> pa.Table:
        self._need_view()
        with self.runner.repository.pin() as manifest:
            moment = self._closed_instant(manifest, at)
            return self._read(manifest, (MIN_TIME, moment + 1, moment)).drop_columns(["ts", "exp"])

    def snapshot_frame(self, at: int | str | None = None) -> DataFrame:
        self._need_view()
        pin = self.runner.repository.pin()
        moment = self._closed_instant(pin.manifest, at)
        weakref.finalize(self, pin.release)
        return self._frame_of(pin.manifest, (MIN_TIME, moment + 1, moment)).drop("ts", "exp")

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Results generated in ``[since, until)``; a view's have their lifetimes as known now."""
        with self.runner.repository.pin() as manifest:
            return self._read(manifest, self._bounds(since, until))

    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        pin = self.runner.repository.pin()
        weakref.finalize(self, pin.release)
        return self._frame_of(pin.manifest, self._bounds(since, until))

    def change_batches(self) -> Iterator[pa.RecordBatch]:
        with self.runner.repository.pin() as manifest:
            directory = self.runner.repository.directory
            yield from self.results.log_reader(directory, manifest, EVERYTHING).batches(directory)

    def _read(self, manifest: Manifest, wanted: Wanted) -> pa.Table:
        directory = self.runner.repository.directory
        reader = self.results.log_reader(directory, manifest, wanted)
        return pa.Table.from_batches(list(reader.batches(directory)), schema=reader.schema)

    def _frame_of(self, manifest: Manifest, wanted: Wanted) -> DataFrame:
        reader = self.results.log_reader(self.runner.repository.directory, manifest, wanted)
        return reader.frame(self.runner.spark, self.results.ddl(log=True))

    def _bounds(self, since: int | str | None, until: int | str | None) -> Wanted:
        low = MIN_TIME if since is None else instant(since)
        return low, NEVER if until is None else instant(until), None

    def _clock(self, manifest: Manifest) -> int:
        return self.results.clocks(manifest).query

    def _kept_from(self, manifest: Manifest) -> int:
        kept: int = manifest.properties["kept_from"].get(self.name, MIN_TIME)
        return kept

    def _closed_instant(self, manifest: Manifest, at: int | str | None) -> int:
        moment = super()._closed_instant(manifest, at)
        whole, since = self._whole_from(manifest), self.since
        if since is not None and moment < since and (whole is None or moment < whole):
            raise VersionExpired(
                f"the query {self.name} was added at {since}; it knows nothing of {moment}",
                "ask for a later instant",
            )
        return moment

    def _need_view(self) -> None:
        sent = self.results.member.program.sent
        if sent is not None:
            raise InvalidSetting(
                f"the query sends {sent.name}; it has no answer to look at",
                "read changes(), or leave the stream operator out to keep a view",
            )
