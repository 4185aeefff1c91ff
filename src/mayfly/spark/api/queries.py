"""Queries of the language on Spark: started over streaming DataFrames, asked while they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import DataFrame

from mayfly.checkpoint.source_log import ORIGINS, SOURCES, folder_of, ordered
from mayfly.display import html_table, one_line, shortened
from mayfly.errors import InvalidSetting
from mayfly.keywords import known_settings
from mayfly.lifetime import in_zone
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.rules.share_panes import LATER_RULES
from mayfly.periodic.sharing.pane_covers import NO_COVER, PaneCover
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.explanation import Explanation
from mayfly.physical.explain.shared_parts import Together, together
from mayfly.physical.explain.sharing import Sharing, sharing_of
from mayfly.physical.program import Program
from mayfly.physical.shared_program import canonical, shared
from mayfly.pipeline.commands import Commands, Reading
from mayfly.pipeline.control_log import DECLARED
from mayfly.pipeline.control_requests import Control
from mayfly.pipeline.declared_catalog import check_query_name, declarations
from mayfly.pipeline.sink_checks import check_changes_of
from mayfly.plan.catalog import Catalog, RelationDefinition
from mayfly.plan.logical_operators import Output, RelationScan, StreamScan
from mayfly.plan.strategy import Joining, Strategy
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.relation_log import Changing
from mayfly.runtime.shed_load import RANDOM, Shedding
from mayfly.spark.api.control_loop import Serving, sinks_of_command
from mayfly.spark.api.query_run import QUERY, QueryRun
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.query_feeds import archive_sink, promises_of
from mayfly.spark.cluster.shared_storage import check_shared
from mayfly.spark.io.sinks import Sink
from mayfly.spark.io.sources import declare_stream, relation_rows
from mayfly.spark.stream.checkpoint_properties import identity
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.query_checkpoint import (
    COVER,
    DERIVATION,
    JOINED,
    PLAN,
    TEXT,
    ZONE,
    RegisteredQueries,
    check_zone,
    differing,
    opened,
    origins_of,
    plan_digest,
    register_queries,
    sources_of,
    streams_known_to,
)
from mayfly.spark.stream.query_covers import all_as_begun, with_covers
from mayfly.spark.stream.query_history import deliver_history, settle
from mayfly.spark.stream.query_migration import migrate_checkpoint
from mayfly.spark.stream.results import Results
from mayfly.spark.stream.runner import Runner
from mayfly.spark.stream.start import (
    StartSettings,
    bucket_count,
    check_owners,
    check_spark_part,
    check_streams,
    run_settings,
    sink_folders,
    sinks_of,
    start_stream,
)
from mayfly.spark.stream.state_format import upgrade_state
from mayfly.storage import Directory, Repository
from mayfly.storage.commit import check_place
from mayfly.storage.store import absolute_address, local_root

if TYPE_CHECKING:
    from mayfly.spark.api.session import Session


@dataclass(frozen=True)
class CqlQuery:
    """A query of the language that can be explained and started."""

    session: Session
    text: str
    bound: Output
    program: Program
    without: tuple[str, ...] = ()
    joining: Joining = Joining.COST
    cover: PaneCover = NO_COVER
    """The queries whose panes it reads in the place of its own (SS4)."""
    joined_with: tuple[str, ...] = ()
    """The texts of the queries that share its join, with its own (SS3)."""

    @staticmethod
    def of(
        session: Session,
        text: str,
        bound: Output,
        strategy: Strategy,
        without: Sequence[str],
        joining: Joining = Joining.COST,
        joined_with: Sequence[str] = (),
    ) -> CqlQuery:
        with in_zone(session.zone):
            optimized = optimize(bound, strategy=strategy, without=without, joining=joining)
        chosen, context = optimized.chosen, optimized.context
        assert isinstance(chosen.plan, Output)
        program = compile_plan(
            canonical(chosen.plan), session.catalog, strategy, context.weak_distinct, joining,
            chosen.strict, context.early_pruning, context.panes, context.sharing,
            tuple(session.query(other).program.plan for other in joined_with),
        )  # fmt: skip
        return CqlQuery(
            session, text, bound, program, tuple(without), joining, joined_with=tuple(joined_with)
        )

    def __repr__(self) -> str:
        return one_line(self, shortened(self.text))

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()

    def explain(self, *, compare: bool = False) -> Explanation:
        """The plan with its update patterns, state and cost."""
        with in_zone(self.session.zone):
            return explain(
                self.bound,
                self.session.catalog,
                self.text,
                strategy=self.program.strategy,
                without=self.without,
                compare=compare,
                joining=self.joining,
            )

    def under(
        self, strategy: Strategy, joining: Joining | None = None, without: Sequence[str] = ()
    ) -> CqlQuery:
        """The same query, run in another way."""
        way, rules = joining or self.joining, (*self.without, *without)
        return CqlQuery.of(self.session, self.text, self.bound, strategy, rules, way)

    def as_begun(self, stored: Mapping[str, Any] | None) -> CqlQuery:
        """The query as a checkpoint was begun with it, which may have been before joins ran whole,
        aggregates kept panes or DISTINCT left rows out, or by other estimates: what it keeps is
        what that plan keeps."""
        if stored is not None and differing(stored, self.description()):
            for joining, without in product(Joining, LATER_RULES):
                other = self.under(self.program.strategy, joining, without)
                if not differing(stored, other.description()):
                    return other
        return self

    def streams(self) -> tuple[Stream, ...]:
        names = dict.fromkeys(
            node.stream for node in self.bound.walk() if isinstance(node, StreamScan)
        )
        return tuple(self.session.declared(name) for name in names)

    def sources(self) -> tuple[str, ...]:
        """The streams and relations it reads."""
        relations = (n.relation for n in self.bound.walk() if isinstance(n, RelationScan))
        return (*(stream.name for stream in self.streams()), *dict.fromkeys(relations))

    @known_settings(StartSettings)
    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_changes: Callable[[DataFrame, int], object] | None = None,
        parquet: str | os.PathLike[str] | None = None,
        archive: SparkArchive | None = None,
        sinks: Sequence[Sink] = (),
        **settings: Unpack[StartSettings],
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
        parts: dict[str, Any] = {
            TEXT: self.text,
            "strategy": self.program.strategy.value,
            PLAN: plan_digest(self.program),
            "streams": [stream.name for stream in self.streams()],
        }
        if self.cover.plus:
            parts[COVER] = self.cover.to_json()
        if self.joined_with:
            parts[JOINED] = list(self.joined_with)
        for stream in self.streams():
            columns = [f"{name} {stream.type_of(name).sql()}" for name in stream.schema.names]
            parts[f"columns of {stream.name}"] = ", ".join(columns)
            parts[f"time of {stream.name}"] = stream.time
            if stream.derivation is not None:
                parts[f"{DERIVATION}{stream.name}"] = stream.derivation
        return parts


@dataclass(frozen=True)
class Queries:
    """Queries that run together: each stream is read once, equal sub-plans are computed once."""

    session: Session
    queries: Mapping[str, CqlQuery]
    dead_letters: str | None = None
    letters: Mapping[str, str] = field(default_factory=dict)
    """Per query whose results are archived: where rows that the archive leaves out go."""
    anew: tuple[str, ...] = ()
    """Names that may have stood for other queries: these begin anew then."""

    def __post_init__(self) -> None:
        for name in self.queries:
            check_query_name(name)

    def __repr__(self) -> str:
        return one_line(self, *self.queries)

    def _repr_html_(self) -> str:
        return html_table("Queries", {name: query.text for name, query in self.queries.items()})

    def explain(self) -> Together:
        """What the queries share: streams, parts that are computed once, clocks."""
        queries = with_covers(self.queries)
        return together({name: query.program for name, query in queries.items()})

    def sharing(self) -> Sharing:
        """What the queries share of panes, and what that saves."""
        queries = with_covers(self.queries)
        return sharing_of({name: query.program for name, query in queries.items()})

    def streams(self, stored_names: Sequence[str] = ()) -> tuple[Stream, ...]:
        """Those that are read, and those declared that a checkpoint names: these first,
        the others as the session ordered them."""
        read = {stream.name for query in self.queries.values() for stream in query.streams()}
        names = [name for name in self.session.streams() if name in read or name in stored_names]
        declared_streams = [self.session.declared(name) for name in ordered(stored_names, names)]
        return tuple(
            stream
            if self.dead_letters is None or stream.dead_letter is not None
            else replace(stream, dead_letter=self.dead_letters, null_time="dead_letter")
            for stream in declared_streams
        )

    @known_settings(StartSettings)
    def start(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        sinks: Mapping[str, Sequence[Sink]] | None = None,
        archives: Mapping[str, SparkArchive] | None = None,
        resumed: bool = False,
        **settings: Unpack[StartSettings],
    ) -> dict[str, QueryRun]:
        """Start all queries, or continue them from their checkpoint: a handle for each.

        ``history`` is how long dead results stay in the change log, at most as long as archives
        that promise PHYSICAL WITHIN allow. ``available_now`` processes
        what is there, closes the last instant and ends; otherwise a batch starts every
        ``interval``, or as soon as there is data. ``pace`` replays recorded streams at a speed.
        Rows that come too late or have no time go to Parquet files under ``dead_letters``, unless
        their stream was declared with a place of its own, and so do rows that archives leave out.
        ``shed`` is the share of rows that is left out, at random or (``shed_by="partners"``) those
        that find the fewest partners in joins; ``status().shed`` counts them. A batch of more than
        ``stretch_above`` rows answers only the last of the refreshes it closes;
        ``status().refreshes`` counts those. Names in ``anew`` may stand for other queries than they
        did in the checkpoint: these begin anew, and what they replace is gone. ``resumed`` says
        that the queries ran a moment ago and are only started again, so that a command to stop
        them still holds.
        With ``sync=False`` a power cut may lose the last batches; a killed process never does.
        """
        available_now = settings.get("available_now", False)
        if (letters := settings.get("dead_letters")) is not None:
            self = replace(self, dead_letters=os.fspath(local_root(letters)))
        self = replace(self, anew=tuple(settings.get("anew", ())))
        for name, written in {**(sinks or {}), **(archives or {})}.items():
            check_changes_of(name, self.queries[name].bound, written)
        root, folders = absolute_address(checkpoint), sink_folders(sinks or {})
        check_streams(folders, [self.session.declared(stream) for stream in self.session.streams()])
        check_place(Directory.at(root))
        if Repository.exists(root):
            check_zone(Repository.open(root), self.session.zone)

        def take(commands: Commands, reading: Reading) -> None:
            commands.folders = folders
            commands.take_all(reading, resumed=resumed)

        self, commands = self._under_control(root, take)
        runner, register = self._runner(root, commands, settings)
        check_spark_part(register.repository)
        stored = [archive.repository for archive in (archives or {}).values()]
        folders_read = filter(
            None, (folder_of(stream.source) for stream in runner.dataflow.streams)
        )
        check_shared(self.session.spark, [register.repository, *stored], folders_read)
        assert runner.commands is not None
        left = runner.commands.state.dropped  # what has their names now has other sinks
        fed = {n: archive for n, archive in (archives or {}).items() if n not in left}
        own = {n: () if n in left else (sinks or {}).get(n, ()) for n in runner.results}
        asked = {n: sinks_of_command(runner, n) for n in runner.results}
        listed = {n: [*query_sinks, *asked[n]] for n, query_sinks in own.items()}
        check_streams(sink_folders(listed), runner.dataflow.streams)
        check_owners(
            (sink for query_sinks in listed.values() for sink in query_sinks), register.repository
        )
        shed, shed_by = settings.get("shed", 0.0), settings.get("shed_by", RANDOM)
        shedding = Shedding(shed, shed_by, settings.get("stretch_above"))
        shedding.check(runner.dataflow.stages)
        runner.dataflow = replace(runner.dataflow, shedding=shedding)
        runner.promises = lambda: promises_of((archives or {}).values())
        runner.check_dead_letters()
        upgrade_state(register.repository, runner.dataflow.program, register.added)
        register.check_claimed(runner.dataflow.stages)
        settle(runner, register, self._remembered(runner))
        runner.sinks_of = {
            name: [*own[name], *self._archived(runner, fed, name), *asked[name]]
            for name in runner.results
        }
        deliver_history(runner)
        streams = runner.dataflow.streams
        frames = {stream.name: self.session.frame_of(stream.name) for stream in streams}
        query = start_stream(
            runner, streams, frames, available_now=available_now, interval=settings.get("interval")
        )
        return {
            name: QueryRun(runner, query, available_now, name, register) for name in runner.results
        }

    @known_settings(StartSettings)
    def serve(
        self,
        checkpoint: str | os.PathLike[str],
        *,
        on_start: Callable[[dict[str, QueryRun]], object] | None = None,
        sinks: Mapping[str, Sequence[Sink]] | None = None,
        archives: Mapping[str, SparkArchive] | None = None,
        **settings: Unpack[StartSettings],
    ) -> None:
        """Run the queries and do what the control log asks for, until it asks to stop or the
        input ends. ``on_start`` gets the handles, again whenever a query came or went: that of a
        query which stays is the same one, and goes on."""
        serving = Serving()
        try:
            while True:
                again = bool(serving.handles)
                runs = self.start(
                    checkpoint, sinks=sinks, archives=archives, resumed=again, **settings
                )
                handles = serving.take_over(runs)
                if on_start is not None:
                    on_start(handles)
                if not serving.await_end():
                    return
        except Exception as error:
            serving.error = error
            raise
        finally:
            serving.over.set()

    def _archived(
        self, runner: Runner, archives: Mapping[str, SparkArchive], name: str
    ) -> list[Sink]:
        if name not in archives:
            return []
        source = f"{identity(runner.repository)}/{name}"
        place = runner.repository.directory.address
        letters = self.letters.get(name, self.dead_letters)
        return [archive_sink(archives[name], runner.results[name], source, place, letters)]

    def open(self, checkpoint: str | os.PathLike[str]) -> dict[str, QueryRun]:
        """Handles on a checkpoint for reading, without starting anything."""
        if not Repository.exists(checkpoint):
            raise InvalidSetting(f"there is no checkpoint at {checkpoint}", "start the query first")
        root = absolute_address(checkpoint)
        self, commands = self._under_control(root)
        runner, register = self._runner(root, commands, {})
        return {name: QueryRun(runner, None, False, name, register) for name in runner.results}

    @known_settings()
    def migrate(self, checkpoint: str | os.PathLike[str], *, buckets: int | None = None) -> int:
        """Move a stopped checkpoint to so many buckets, and to the strategies these queries have
        now; the number of buckets it then has. Answers stay as they are. Queries that are new to
        the checkpoint come to it at the next start."""
        root = absolute_address(checkpoint)
        return migrate_checkpoint(root, self._under_control(root)[0].queries, buckets)

    def _under_control(
        self, root: str, take: Callable[[Commands, Reading], None] | None = None
    ) -> tuple[Queries, Commands | None]:
        """These queries without those that commands have dropped, with those that they added."""
        if not Repository.exists(root):
            return self, None
        session = self.session.fork()

        def filled(definition: RelationDefinition, folder: str | None) -> Changing:
            rows = relation_rows(session.spark, definition, Path(folder or root))
            session.add_relation(definition, rows)
            return session.relations[definition.name.casefold()].twin()

        commands = Commands.of(
            Control.of(root), session.catalog, session.relations,
            lambda stream, folder: declare_stream(session, stream, Path(folder or root)), filled,
        )  # fmt: skip
        if take is not None:
            reading = {name: query.sources() for name, query in self.queries.items()}
            take(commands, reading)
        named = {n: query for n, query in self.queries.items() if n not in commands.state.dropped}
        added = {
            name: session.query(str(entry["text"]))
            for name, entry in commands.state.queries.items()
            if name not in named
        }
        anew = (*self.anew, *(name for name in commands.renamed if name in added))
        return replace(self, session=session, queries={**named, **added}, anew=anew), commands

    def _remembered(self, runner: Runner) -> dict[str, Any]:
        """What the checkpoint must say to others who ask for more, and to the next start."""
        assert runner.commands is not None
        state = runner.commands.property() if runner.commands.state.applied else {}
        return {**state, **self._declarations(runner.commands.catalog, runner.dataflow.streams)}

    def results(self) -> dict[str, Results]:
        """What each query gives, before anything is started."""
        program = shared({name: query.program for name, query in self.queries.items()}, {})
        return {member.name: Results(member) for member in program.members}

    def _as_begun(self, root: str) -> Queries:
        stored_queries: Mapping[str, Any] = {}
        if Repository.exists(root):
            stored_queries = opened(root, sync=False).current().properties["queries"]
        return replace(self, queries=all_as_begun(self.queries, stored_queries, self.anew))

    def _runner(
        self,
        root: str,
        commands: Commands | None,
        settings: StartSettings,
    ) -> tuple[Runner, RegisteredQueries]:
        spark, leaving = self.session.spark, set() if commands is None else commands.leaving
        names = streams_known_to(root, self.session.streams())
        streams = self.streams([name for name in names if name not in leaving])
        self = self._as_begun(root)
        described_queries = {name: query.description() for name, query in self.queries.items()}
        buckets = settings.get("buckets")
        count = bucket_count(spark, buckets)
        register = register_queries(
            root, streams, described_queries, count, buckets, sync=settings.get("sync", True),
            remembered=self._declarations(self.session.catalog, streams), replace=self.anew,
        )  # fmt: skip
        run = run_settings(register.buckets, settings)
        types = {stream.name: dict(self.session.frame_of(stream.name).dtypes) for stream in streams}
        programs = {name: query.program for name, query in self.queries.items()}
        program = shared(programs, register.since, register.entries)
        dataflow = Dataflow.of(program, streams, types, register.buckets)
        dataflow = replace(dataflow, zone=self.session.zone)
        runner = Runner(spark, dataflow, register.repository, run)
        runner.commands = commands or self._under_control(root)[1]
        assert runner.commands is not None
        runner.relations = runner.commands.relations
        read = register.repository.current().properties["read"]
        runner.reads.check(read, runner.commands.changes_of)
        return runner, register

    def _declarations(self, catalog: Catalog, streams: Sequence[Stream]) -> dict[str, Any]:
        """What a checkpoint says of its streams and relations, where their rows come from, and in
        which zone they are looked at."""
        return {
            DECLARED: declarations(catalog),
            SOURCES: sources_of(streams),
            ORIGINS: origins_of(streams),
            ZONE: self.session.zone,
        }
