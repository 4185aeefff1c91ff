"""Archives fed by queries of the language.

Results of MON, WKS and WK carry the end of their lives, so they are archived once. A result of STR
may end earlier than was said: it is archived until the latest instant possible, and when its end
becomes known the row is declared void by the first update after that end. What waits for that
update is kept beside the archive, one file per batch; to write or apply it twice changes nothing.
The latest instant depends on the longest life the archive takes, which a migration may change; so
beside it is also noted from which ts on results were stored with which.
Rows equal in all columns, ts and exp cannot be distinguished: when one of them ends early, all go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.erase.feeds import ROWS, WAITING, waiting_rows
from mayfly.archive.model.contract import Contract, Promise, longest_interval
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.lifetime import MIN_TIME, gap_text
from mayfly.pipeline.archive_settings import archived_columns, settings_of
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.plan.catalog import ArchiveDefinition
from mayfly.plan.expressions import quoted
from mayfly.spark.archive.archives import SparkArchive
from mayfly.spark.archive.stream_sink import ArchivedResults
from mayfly.spark.io.sinks import Delivery, Sink
from mayfly.spark.stream.results import Results
from mayfly.storage.directory import Directory
from mayfly.storage.sealed_files import seal_table

if TYPE_CHECKING:
    from mayfly.spark.api.session import Session

LONGEST = f"longest{ROWS}"
"""Beside ends that wait: from which ts on results were stored with which longest life."""
_LONGEST = pa.schema([("since", pa.int64()), ("longest", pa.int64())])


def archive_sink(
    archive: SparkArchive,
    results: Results,
    source: str,
    checkpoint: str,
    dead_letter: str | None = None,
) -> Sink:
    """The sink that keeps a query's results in an archive."""
    if not results.view:
        raise InvalidSetting(
            f"the query {results.name} sends a stream; an archive keeps rows with lifetimes",
            "leave the stream operator out of the SELECT",
        )
    plain = ArchivedResults.of(archive, results.ddl(log=True), source, checkpoint, dead_letter)
    if not results.strict:
        return plain
    return ArchivedAnswers(plain.sink, source, checkpoint, results.times)


def promises_of(archives: Iterable[SparkArchive]) -> tuple[Promise, ...]:
    """What these archives promise about bytes now: a migration may have changed it."""
    settings = [archive.settings for archive in archives]
    return tuple(
        Promise(setting.contract.erased_within, longest_interval(setting.calendar))
        for setting in settings
        if setting.contract.erased_within is not None
    )


@dataclass(frozen=True)
class ArchivedAnswers(ArchivedResults):
    """Archives the results of a query whose pattern is STR."""

    times: LifetimeColumns = field(default_factory=LifetimeColumns)

    def deliver(self, delivery: Delivery) -> None:
        archive = self.sink.archive
        if delivery.rows and exp_known(archive):
            self._note_longest(delivery)
            self._set_aside(delivery)
        rows = None
        if delivery.rows:
            times = self.times
            rows = delivery.frame().where(f"{quoted(times.cut)} IS NULL")
            exp, longest = self._exp(), self._longest()
            if exp is not None:
                own = quoted(times.exp)
                latest = f"timestampadd(MICROSECOND, {longest}, {quoted(times.ts)})"
                ending = f"least({own}, {latest}) AS {quoted(exp)}"
                rows = rows.selectExpr(f"* EXCEPT ({own})", ending)
            rows = rows.select(*(quoted(name) for name in archive.settings.all_columns))
        self.hand_over(delivery, rows)
        if exp_known(archive):
            self._declare_void()

    def _exp(self) -> str | None:
        return self.sink.archive.settings.family.exp

    def _longest(self) -> int:
        return self.sink.archive.settings.family.longest_lifetime or 0

    @property
    def _directory(self) -> Directory:
        return self.sink.archive.repository.directory

    def _waiting(self, beginning: str) -> list[str]:
        """The files of waiting ends whose names begin so."""
        names = self._directory.names(WAITING)
        return [name for name in names if re.match(f"{WAITING}/{beginning}", name)]

    def _noted(self) -> pa.Table:
        listed = self._waiting(r"longest\.")  # of two, the last is the newer form
        return waiting_rows(self._directory, listed[-1]) if listed else self._note(MIN_TIME)

    def _note(self, since: int) -> pa.Table:
        return pa.table([[since], [self._longest()]], schema=_LONGEST)

    def _note_longest(self, delivery: Delivery) -> None:
        """Note the longest life of results from this batch on, if it is another than before.

        Results of later batches do not begin before those of this one.
        """
        noted = self._noted()
        if noted["longest"][-1].as_py() != self._longest():
            begun = [
                batch.filter(pc.is_null(batch.column(self.times.cut)))
                .column(self.times.ts)
                .cast(pa.int64())
                for batch in delivery.batches()
            ]
            first = pc.min(pa.chunked_array(begun, pa.int64())).as_py()
            if first is None:
                return
            noted = pa.concat_tables([noted, self._note(first)])
        elif self._directory.exists(f"{WAITING}/{LONGEST}"):
            return
        self._write(LONGEST, noted)

    def _set_aside(self, delivery: Delivery) -> None:
        """Keep what ended in this batch until an update may take it out."""
        cut = self.times.cut
        parts = [batch.filter(pc.is_valid(batch.column(cut))) for batch in delivery.batches()]
        ended = pa.Table.from_batches(parts, schema=delivery.schema)
        if ended.num_rows:
            self._write(f"{delivery.batch_id:012d}{ROWS}", ended)
        reach("archive.ends-kept")

    def _declare_void(self) -> None:
        """Declare void what ended up to the last update."""
        archive = self.sink.archive
        if not archive.updates.are_counted:
            return
        done = pa.scalar(archive.version().time, pa.int64())
        for name in self._waiting("[0-9]"):
            ended = waiting_rows(self._directory, name)
            due = pc.less_equal(ended[self.times.cut].cast(pa.int64()), done)
            if not pc.any(due).as_py():
                continue
            first = pc.min(ended[self.times.cut].cast(pa.int64())).as_py()
            archive.invalidate(rows=self._as_archived(ended.filter(due)), ended=first)
            reach("archive.ends-applied")
            rest = ended.filter(pc.invert(due))
            if rest.num_rows:
                self._write(f"{PurePath(name).stem}{ROWS}", rest)
            if not rest.num_rows or not name.endswith(ROWS):
                self._directory.remove(name)

    def _write(self, name: str, rows: pa.Table) -> None:
        self._directory.without_sync().replace(f"{WAITING}/{name}", seal_table(rows))

    def _as_archived(self, ended: pa.Table) -> pa.Table:
        """The rows as they were stored."""
        noted, ts = self._noted(), ended[self.times.ts].cast(pa.int64()).to_numpy()
        index = np.searchsorted(noted["since"].to_numpy(), ts, side="right") - 1
        latest = pa.array(ts + noted["longest"].to_numpy()[index])
        exp = self.times.exp
        expiry = pc.min_element_wise(ended[exp].cast(pa.int64()), latest)
        index = ended.schema.get_field_index(exp)
        stored = ended.set_column(index, self._exp(), expiry.cast(ended.schema.field(exp).type))
        return stored.select(list(self.sink.archive.settings.all_columns))


def exp_known(archive: SparkArchive) -> bool:
    """Whether rows of the archive carry the end of their lives."""
    return archive.settings.family.exp is not None


# ── CREATE ARCHIVE ────────────────────────────────────────────────────────────────────────


def open_or_create_archive(
    session: Session, definition: ArchiveDefinition, results: Results, path: Path
) -> SparkArchive:
    """The archive that a statement declares."""
    program = results.member.program
    columns = archived_columns(program)
    if Directory.at(path).entries():
        return _opened(session, definition, columns, path)
    return session.create_archive(path, columns, **settings_of(definition, program))


def _opened(
    session: Session, definition: ArchiveDefinition, columns: Mapping[str, str], path: Path
) -> SparkArchive:
    """The archive as it is, unless the statement has meanwhile come to mean another."""
    archive = session.open_archive(path)
    settings = archive.settings
    differing = []
    if dict(settings.columns) != dict(columns):
        differing.append(f"columns {', '.join(settings.columns)}")
    if settings.key != definition.key:
        differing.append(f"key {', '.join(settings.key)}")
    if getattr(settings.calendar, "interval", None) != definition.refresh:
        differing.append(f"refresh {settings.calendar}")
    if definition.max_gap is not None and settings.max_gap != definition.max_gap:
        differing.append(f"max_gap {gap_text(settings.max_gap) or 'of a day'}")
    contract = settings.contract
    asked = Contract(definition.soft, definition.physical_within)
    if not contract.keeps(asked):
        differing.append(f"contract {contract}")
    if differing:
        raise InvalidSetting(
            f"the archive at {path} has {' and '.join(differing)}, not what CREATE ARCHIVE "
            f"{definition.name} says",
            "change the archive (mayfly archive migrate) or the statement, give it another name, "
            "or move the old archive away",
        )
    return archive
