"""What one-time queries read: the views and relations of a checkpoint (archives: stored_archive).

Each shows its rows at an instant, of one committed version, and says what is missing. A reader
writes nothing, pins included: if its version is vacuumed away meanwhile, it gets an
error (VersionExpired), and opens the newest one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.checkpoint.awaited_rows import warming_words
from mayfly.checkpoint.result_log import SHARES
from mayfly.checkpoint.stored_relations import relation_at
from mayfly.checkpoint.stored_results import TIMESTAMP, StoredResults, check_kept
from mayfly.display import counted
from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.kernels.delta import column_name
from mayfly.lifetime import MIN_TIME, NEVER, instant_text
from mayfly.physical.slides import outer_slide
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.catalog import ColumnDefinition, RelationDefinition
from mayfly.plan.logical_operators import Output, OutputKind
from mayfly.plan.types import arrow_type
from mayfly.runtime.clock import Clocks, closed_instant
from mayfly.runtime.table_sources import SCAN, Keys, access_words
from mayfly.serving.key_index import KeyIndex, key_values
from mayfly.storage import Directory, Manifest
from mayfly.storage.commit import reading_version


@dataclass(frozen=True)
class View:
    """The results of a query in a checkpoint."""

    name: str
    text: str
    plan: Output
    directory: Directory
    manifest: Manifest
    index: KeyIndex = field(default_factory=KeyIndex, compare=False, repr=False)

    kind = "view"

    @cached_property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(
            ColumnDefinition(column.name, column.type, column.nullable)
            for column in self.plan.schema
        )

    @property
    def sends(self) -> bool:
        """Whether a stream operator sends its results, so that there is no answer to look at."""
        return self.plan.kind is not OutputKind.VIEW

    @property
    def times(self) -> LifetimeColumns:
        """What the times of results are called, beside the columns of the query."""
        return LifetimeColumns.beside(column.name for column in self.columns)

    @cached_property
    def clock(self) -> int:
        stored = self.manifest.properties
        return Clocks.from_json(stored["clocks"]).of(self.streams).query

    @property
    def _registered(self) -> Mapping[str, Any]:
        registered: Mapping[str, Any] = self.manifest.properties["queries"][self.name]
        return registered

    @property
    def strategy(self) -> str:
        """How its state is kept."""
        return str(self._registered.get("strategy", "UPA"))

    @property
    def streams(self) -> tuple[str, ...]:
        """Those that the query reads."""
        clocks = Clocks.from_json(self.manifest.properties["clocks"])
        return tuple(self._registered.get("streams", clocks.streams))

    def latest(self) -> int:
        return closed_instant(None, self.clock)

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        """The rows of keys alone, if there are any."""
        self._check_readable(closed_instant(instant, self.clock))
        results = self._stored(columns)
        reader = results.log_reader(self.directory, self.manifest, (MIN_TIME, instant + 1, instant))
        if not keys:
            return reader.table(self.directory)
        own = {column.name: column for column in self.plan.schema}
        sources = dict(zip(keys, self._stored(list(keys)).sources, strict=True))
        kinds = {source: arrow_type(own[name].type) for name, source in sources.items()}
        values = key_values({sources[name]: listed for name, listed in keys.items()}, kinds)
        with reading_version(self.directory, self.manifest.version):
            parts = [
                reader.shown(batch)
                for segment in reader.segments
                for batch in self.index.select(self.directory, segment, values)
            ]
        return pa.Table.from_batches(parts, schema=reader.schema)

    def access(self, keys: Keys) -> str:
        return access_words(keys)

    def changes(self, since: int = MIN_TIME, until: int = NEVER) -> pa.Table:
        """Results generated in [since, until), with their times as known now."""
        names = [column.name for column in self.columns]
        times = (self.times.ts, self.times.exp)[: 1 if self.sends else 2]
        self._check_kept()
        results = self._stored(names, times)
        return results.log_reader(self.directory, self.manifest, (since, until, None)).table(
            self.directory
        )

    def turnover(self, since: int, until: int) -> pa.Table:
        """Results that begin or end in [since, until), with their times; all instants before
        ``until`` are closed."""
        self._check_kept()
        if self.sends:
            return self.changes(since, until)
        names = [column.name for column in self.columns]
        results = self._stored(names, (self.times.ts, self.times.exp))
        segments = [
            segment
            for segment in results.logged(self.manifest)
            if segment.ts.low < until
            and not segment.dead_at(since - 1)
            and (segment.ts.high >= since or segment.exp.low < until)
        ]
        extent = (MIN_TIME, until, since - 1 if since > MIN_TIME else None)
        reader = results.reader(self.directory, self.manifest, segments, extent)
        turned = (
            batch.filter(_begins_or_ends(batch, since, until))
            for batch in reader.batches(self.directory)
        )
        return pa.Table.from_batches(turned, schema=reader.schema)

    def check_changes(self, since: int) -> None:
        """Refuse an instant from which the log is no longer whole."""
        kept = self.manifest.properties["kept_from"].get(self.name, MIN_TIME)
        if since < kept:
            raise VersionExpired(
                f"the log of {self.name} is kept from {instant_text(kept)} on, and changes since "
                f"{instant_text(since)} were requested",
                "read the view and go on with the changes since then; or run with a longer "
                "--history",
            )

    def missing(self, instant: int) -> Iterator[str]:
        if until := warming_words(self._registered, instant):
            yield f"{self.name} was added later and does not know all earlier rows, {until}"
        yield from rows_left_out(self.manifest, self._registered.get("streams", ()))

    @property
    def logged_rows(self) -> int:
        """Rows in the files of its results, with those that are merged later."""
        return sum(segment.rows for segment in self._stored(()).logged(self.manifest))

    def _stored(self, columns: Sequence[str], times: Sequence[str] = ()) -> StoredResults:
        own = {column.name: column for column in self.plan.schema}
        fields = [(name, arrow_type(own[name].type)) for name in columns]
        schema = pa.schema([*fields, *((name, TIMESTAMP) for name in times)])
        slide = outer_slide(self.plan) if self.plan.kind is OutputKind.RSTREAM else None
        share = self.manifest.properties.get(SHARES, {}).get(self.name)
        if share is None:
            sources = tuple(column_name(own[name]) for name in columns)
            return StoredResults(self.name, schema, sources, not self.sends, slide, again=False)
        log, number, listed, still = share
        stored = dict(zip((column.name for column in self.plan.schema), listed, strict=True))
        sources = tuple(stored[name] for name in columns)
        return StoredResults(
            self.name,
            schema,
            sources,
            not self.sends,
            slide,
            again=False,
            share=(log, number, still),
        )

    def _check_kept(self) -> None:
        if self.plan.serve is not None:
            raise InvalidSetting(
                f"{self.name} is served: the pipeline keeps its panes and no answers",
                f"run mayfly serve and ask that: /served/{self.name}",
            )

    def _check_readable(self, instant: int) -> None:
        self._check_kept()
        if self.sends:
            raise InvalidSetting(
                f"the query {self.name} sends {self.plan.kind.value}; it has no answer to look at",
                "read its log: changes(), or mayfly query --changes; or leave the stream operator "
                "out to keep a view",
            )
        since = self._registered.get("since")
        remedy = "run with a longer --history"
        check_kept(self.manifest, self.name, instant, since, self.name, remedy)


def rows_left_out(manifest: Manifest, streams: Iterable[str]) -> Iterator[str]:
    """Which rows of streams no answer has, in words."""
    totals = manifest.properties["totals"]
    for figure, words in (("shed", "left out on purpose"), ("beyond", "beyond MAX GAP")):
        for stream in streams:
            if count := totals.get(figure, {}).get(stream, 0):
                verb = "was" if count == 1 else "were"
                yield f"{counted(count, 'row')} of {stream} {verb} {words}"


def _begins_or_ends(batch: pa.RecordBatch, since: int, until: int) -> pa.Array:
    """Of results that begin before ``until`` and end at ``since`` or later."""
    ts, exp = (batch.column(number).cast(pa.int64()) for number in (-2, -1))
    begins = pc.fill_null(pc.greater_equal(ts, since), since == MIN_TIME)
    return pc.or_(begins, pc.fill_null(pc.less(exp, until), False))


@dataclass(frozen=True)
class StoredRelation:
    """A relation as the queries of a checkpoint have read it."""

    definition: RelationDefinition
    directory: Directory
    manifest: Manifest

    streams = ()

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def kind(self) -> str:
        return self.definition.kind

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return self.definition.columns

    def latest(self) -> None:
        return None

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        kinds = {column.name: arrow_type(column.type) for column in self.columns}
        names = [f"{self.name}.{column}" for column in columns]
        rows = relation_at(self.directory, self.manifest, self.name, names, instant)
        if rows is None:
            return pa.schema([(name, kinds[name]) for name in columns]).empty_table()
        return rows.rename_columns(list(columns))

    def access(self, keys: Keys) -> str:
        return SCAN

    def missing(self, instant: int) -> Iterator[str]:
        return iter(())
