"""A pipeline read from outside, running or stopped: no Spark, and nothing is written.

A reader shows one committed version of the checkpoint for as long as it lives; ``latest()`` is a
reader of the newest one. It leaves no pin behind, so a vacuum may take its version away: a read
that needs a file which is gone says so (VersionExpired).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from mayfly.checkpoint.stored_relations import STORED_RELATIONS
from mayfly.cql import CqlError, bind_query
from mayfly.cql.messages import suggestion
from mayfly.display import html_table, one_line
from mayfly.errors import InvalidSetting, StaleAnswer, UnsupportedFormat, VersionExpired
from mayfly.keywords import known_settings, text
from mayfly.lifetime import MIN_TIME, NEVER, Duration, in_zone, instant
from mayfly.pipeline.control_log import DECLARED
from mayfly.pipeline.declared_catalog import declared_catalog
from mayfly.plan.catalog import (
    Catalog,
    ColumnDefinition,
    Definition,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.logical_operators import Output
from mayfly.plan.strategy import Strategy
from mayfly.plan.types import arrow_type
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.clock import Clocks
from mayfly.runtime.one_time_query import OneTimePlan, OneTimeSources
from mayfly.runtime.prepared_query import PreparedQuery
from mayfly.runtime.query_shapes import PreparedQueries
from mayfly.runtime.table_sources import Keys, StreamSource, TableSource
from mayfly.serving.answer_age import AgeLimit, AnswerAge
from mayfly.serving.kept_streams import KeptStream, kept_streams
from mayfly.serving.key_index import KeyIndex
from mayfly.serving.pipeline_status import (
    QUERIES,
    PipelineStatus,
    check_pipeline,
    status_of_pipeline,
)
from mayfly.serving.tables import StoredRelation, View
from mayfly.storage import Manifest, Repository

if TYPE_CHECKING:
    from mayfly.physical.explain.explanation import Explanation
    from mayfly.runtime.one_time_explanation import OneTimeExplanation
    from mayfly.serving.pane_tables import PaneTables
    from mayfly.serving.stored_archive import StoredArchive
    from mayfly.serving.stored_panes import StoredPanes

Moment = int | str | date
ATTEMPTS = 20
"""How often a version may be vacuumed away while it is read, until the reader says so."""
_PLANNED = (QUERIES, DECLARED, "zone")
"""The properties of a manifest that plans are made from."""
T = TypeVar("T")


@dataclass(frozen=True)
class PipelineReader:
    """The queries of a checkpoint, as one committed version has them."""

    repository: Repository
    manifest: Manifest
    archives: Mapping[str, StoredArchive] = field(default_factory=dict)
    """By name."""
    index: KeyIndex = field(default_factory=KeyIndex, compare=False, repr=False)
    """What was decoded to look up keys; newer readers go on with it."""

    @staticmethod
    def open(
        checkpoint: str | os.PathLike[str],
        archives: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> PipelineReader:
        """The newest version of a checkpoint, with these archives by name."""
        repository = Repository.open(checkpoint)
        manifest = repository.current()
        check_pipeline(checkpoint, manifest)
        return PipelineReader(repository, manifest, _open_archives(archives or {}))

    def __repr__(self) -> str:
        return one_line(self, self.checkpoint, f"version {self.version}", *self.views)

    def _repr_html_(self) -> str:
        facts = {view.name: view.text for view in self.views.values()}
        return html_table(f"{self.checkpoint}, version {self.version}", facts)

    @property
    def checkpoint(self) -> str:
        return self.repository.directory.address

    @property
    def version(self) -> int:
        """The committed version that is shown."""
        return self.manifest.version

    def latest(self) -> PipelineReader:
        """A reader of the newest version; archives at their newest ones, too."""
        archives = {name: archive.latest_version() for name, archive in self.archives.items()}
        newest = self.repository.current()
        self.index.retain(newest.segments)
        reader = replace(self, manifest=newest, archives=archives)
        same = all(newest.properties.get(n) == self.manifest.properties.get(n) for n in _PLANNED)
        if same and "_plans" in self.__dict__:
            reader.__dict__["_plans"] = self._plans
            if _columns_of(archives) == _columns_of(self.archives):
                reader.__dict__["_prepared"] = self._prepared
        return reader

    @property
    def zone(self) -> str:
        """The time zone in which the pipeline computes."""
        return str(self.manifest.properties.get("zone", "UTC"))

    @cached_property
    def catalog(self) -> Catalog:
        """The streams and relations as they were declared."""
        declared = self.manifest.properties.get(DECLARED)
        if declared is None:
            raise UnsupportedFormat(
                f"the checkpoint {self.checkpoint} does not say what its streams are: an earlier "
                "version of Mayfly wrote it",
                "start the pipeline once with this version",
            )
        return declared_catalog(declared)

    @cached_property
    def views(self) -> Mapping[str, View]:
        """The queries, those that send changes too, by name."""
        stored: Mapping[str, Any] = self.manifest.properties[QUERIES]
        directory, manifest = self.repository.directory, self.manifest
        return {
            name: View(name, stored[name]["text"], plan, directory, manifest, self.index)
            for name, plan in self._plans.items()
        }

    @cached_property
    def _plans(self) -> Mapping[str, Output]:
        """Of the queries, by name; newer readers go on with them while nothing is declared anew."""
        stored: Mapping[str, Any] = self.manifest.properties[QUERIES]
        catalog = self.catalog
        with in_zone(self.zone):
            return {name: bind_query(query["text"], catalog) for name, query in stored.items()}

    @cached_property
    def relations(self) -> Mapping[str, StoredRelation]:
        """The relations that the queries read, by name."""
        stored = self.manifest.properties.get(STORED_RELATIONS, {})
        return {
            relation.name: StoredRelation(relation, self.repository.directory, self.manifest)
            for relation in self.catalog.of_kind(RelationDefinition)
            if relation.name.casefold() in stored
        }

    @cached_property
    def kept_streams(self) -> Mapping[str, KeptStream]:
        """The streams whose last rows a query keeps whole, by name."""
        return kept_streams(self.views.values(), self.catalog)

    def status(self) -> PipelineStatus:
        """Clocks, rows, state and results in figures."""
        return status_of_pipeline(self.checkpoint, self.manifest)

    @known_settings()
    def view(
        self,
        name: str,
        *,
        as_of: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        staleness: Duration | None = None,
        lag: Duration | None = None,
        wait: Duration | None = None,
    ) -> QueryAnswer:
        """The answer of a query at a closed instant, by default the last one.

        ``where`` looks up the rows that have these values, by column; None stands for NULL. Too old
        an answer is refused, as in ``query``.
        """
        limit = AgeLimit.of(staleness, lag, wait)
        return limit.await_answer(
            lambda newest: self._reader(newest)._view_answer(name, as_of, where or {}, limit),
            None if as_of is None else instant(as_of),
        )

    def _view_answer(
        self, name: str, as_of: Moment | None, where: Mapping[str, Any], limit: AgeLimit
    ) -> QueryAnswer:
        view = self._view(name)
        moment = view.latest() if as_of is None else instant(as_of)
        self._check_age(limit, view.streams, moment)
        columns = [column.name for column in view.columns]
        rows = view.rows(moment, columns, _keys(view, where))
        return QueryAnswer(rows, moment, tuple(view.missing(moment)), self.version)

    @known_settings()
    def changes(
        self, name: str, *, since: Moment | None = None, until: Moment | None = None
    ) -> pa.Table:
        """Results generated in ``[since, until)``; a view's have their lifetimes as known now."""
        low = MIN_TIME if since is None else instant(since)
        return self._view(name).changes(low, NEVER if until is None else instant(until))

    @known_settings()
    def query(
        self,
        sql: str,
        *,
        as_of: Moment | None = None,
        staleness: Duration | None = None,
        lag: Duration | None = None,
        wait: Duration | None = None,
    ) -> QueryAnswer:
        """A one-time query over views, relations and archives together.

        ``as_of`` is the instant of which the answer is; by default the last one that is closed for
        all views that are read. An answer that is more than ``staleness`` behind the clock of the
        pipeline, or ``lag`` behind the wall clock, is refused; with ``wait`` a newer version, or
        one that has closed ``as_of``, is waited for so long.
        """
        limit = AgeLimit.of(staleness, lag, wait)
        return limit.await_answer(
            lambda newest: self._reader(newest)._query_answer(sql, as_of, limit),
            None if as_of is None else instant(as_of),
        )

    def _query_answer(self, sql: str, as_of: Moment | None, limit: AgeLimit) -> QueryAnswer:
        with in_zone(self.zone):
            plan = self._plan(text("the query", sql))
            moment = None if as_of is None else instant(as_of)
            if plan.query.synopses:
                plan = self.by_scan_where_needed(plan, moment, limit)
            shown = plan.instant(self.last_instant()) if moment is None else moment
            self.check_age(plan, shown, limit)
            return plan.answer(shown, self.version)

    def by_scan_where_needed(
        self, plan: OneTimePlan, moment: int | None, limit: AgeLimit | None = None
    ) -> OneTimePlan:
        """A plan over panes, or over rows where these are kept and panes do not show the moment
        that is asked for, or an old one."""
        try:
            if moment is None:
                self.check_age(plan, plan.instant(self.last_instant()), limit)
                return plan
            if plan.shows(moment):
                return plan
        except StaleAnswer:
            pass
        try:
            return self.sources.plan(plan.query.text)
        except CqlError:  # rows are not kept
            return plan

    def synopses(self) -> PaneTables:
        """What can stand for parts of a query over streams."""
        # Here: panes take all operators, and few queries ask for them.
        from mayfly.serving.pane_tables import PaneTables

        return PaneTables(self._panes_of, self.catalog, self._row_panes_of)

    def _panes_of(self, stream: str) -> list[StoredPanes]:
        from mayfly.serving.stored_panes import stored_panes

        if stream not in self._stored_panes:
            self._stored_panes[stream] = stored_panes(self.views.values(), stream)
        return self._stored_panes[stream]

    def _row_panes_of(self, stream: str) -> Sequence[StoredPanes]:
        from mayfly.serving.row_pane_tables import stored_row_panes

        if stream in self.kept_streams:
            return ()
        return stored_row_panes(self.views.values(), stream, self.catalog)

    @cached_property
    def _stored_panes(self) -> dict[str, list[StoredPanes]]:
        return {}

    @cached_property
    def sources(self) -> OneTimeSources:
        """What one-time queries can read, and what exists beside it."""
        return OneTimeSources.of(self.tables(), self.unreadable(), self.kept_streams.values())

    @cached_property
    def _prepared(self) -> PreparedQueries:
        """The last one-time queries; newer readers go on with them as with plans."""
        return PreparedQueries()

    def _plan(self, sql: str) -> OneTimePlan:
        def bind(text: str) -> PreparedQuery:
            return self.sources.plan(text, synopses=self.synopses).query

        return self.sources.plan(sql, self._prepared.find(sql, bind))

    def check_age(self, plan: OneTimePlan, moment: int, limit: AgeLimit | None = None) -> None:
        """Refuse an answer that is older than its reader or the query itself allows."""
        sources: tuple[TableSource | StreamSource, ...] = (*plan.reads, *plan.feeds)
        streams = {name for source in sources for name in source.streams}
        bounded = (limit or AgeLimit()).tightened(plan.bound.staleness)
        self._check_age(bounded, streams or None, moment)

    def _check_age(self, limit: AgeLimit, streams: Iterable[str] | None, moment: int) -> None:
        if not limit.unlimited:
            limit.check(AnswerAge.of(self.repository, streams, moment))

    def _reader(self, newest: bool) -> PipelineReader:
        return self.latest() if newest else self

    @known_settings()
    def explain(self, query: str) -> Explanation | OneTimeExplanation:
        """The plan of a query of the pipeline, by its name, or of a one-time query."""
        with in_zone(self.zone):
            if query not in self.views and not text("the query", query).isidentifier():
                return self._plan(query).explain()
            view = self._view(query)
            # Here: to draw a plan takes all operators.
            from mayfly.physical.explain.explainer import explain

            stored = self.manifest.properties[QUERIES][view.name]
            way = Strategy.named(stored.get("strategy", "UPA"))
            return explain(view.plan, self.catalog, view.text, strategy=way)

    def tables(self) -> Iterator[TableSource]:
        """What one-time queries can read; an archive stands before the query that feeds it."""
        hidden = {name.casefold() for name in self.archives}
        yield from self.archives.values()
        for view in self.views.values():
            if not view.sends and view.name.casefold() not in hidden:
                yield view
        yield from self.relations.values()

    def unreadable(self) -> Iterator[Definition]:
        """What one-time queries cannot read; a message says why."""
        for view in self.views.values():
            if view.sends:
                yield QueryDefinition(view.name, view.plan, view.text)
        yield from self.catalog.of_kind(StreamDefinition)
        yield from self.catalog.of_kind(RelationDefinition)

    def _view(self, name: str) -> View:
        for view in self.views.values():
            if view.name.casefold() == text("the name of a query", name).casefold():
                return view
        raise InvalidSetting(
            f"{self.checkpoint} has no query {name}", suggestion(name, self.views, "its queries")
        )

    def last_instant(self) -> int:
        """The last one that is closed for some query."""
        clock = Clocks.from_json(self.manifest.properties["clocks"]).query
        return max((v.latest() for v in self.views.values() if v.clock != MIN_TIME), default=clock)


def _columns_of(archives: Mapping[str, StoredArchive]) -> dict[str, tuple[ColumnDefinition, ...]]:
    return {name: archive.columns for name, archive in archives.items()}


def _open_archives(paths: Mapping[str, str | os.PathLike[str]]) -> dict[str, StoredArchive]:
    if not paths:
        return {}
    from mayfly.serving.stored_archive import StoredArchive

    return {name: StoredArchive.open(name, path) for name, path in paths.items()}


def _keys(view: View, where: Mapping[str, Any]) -> Keys:
    kinds = {column.name: column.type for column in view.columns}
    for name, value in where.items():
        if name not in kinds:
            raise InvalidSetting(
                f"{view.name} has no column {name}", suggestion(name, kinds, "its columns")
            )
        if kinds[name].is_nested:
            raise InvalidSetting(
                f"{name} of {view.name} is {kinds[name].sql()}", "look up other columns, or use SQL"
            )
        try:
            pa.array([value], arrow_type(kinds[name]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InvalidSetting(
                f"{name} of {view.name} is {kinds[name].sql()}; {value!r} is not",
                "give a value of that type",
            ) from None
    return {name: (value,) for name, value in where.items()}


def read_newest(reader: PipelineReader, read: Callable[[PipelineReader], T]) -> T:
    """Read, from newer versions if this one is vacuumed away meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            return read(reader)
        except VersionExpired:
            newest = reader.latest()
            if newest.version == reader.version:
                raise
            reader = newest
    return read(reader)
