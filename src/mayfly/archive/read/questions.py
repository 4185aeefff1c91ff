"""Questions to an archive: probes and scans of the version that shows the instant asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from mayfly.archive.model.column_names import columns_named
from mayfly.archive.model.ledger import Part
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import KeyRange, ReadReport, Selection, Window
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import CorruptFile, InvalidSetting, StorageError, VersionExpired
from mayfly.keywords import flag, known_settings, whole
from mayfly.lifetime import instant, instant_text
from mayfly.storage import Pin

Moment = int | str | datetime
Between = tuple[Moment | None, Moment | None]
"""The first and the last generation time wanted; None leaves an end open."""
ATTEMPTS = 100
"""How often a version may be vacuumed between the look for it and its pin."""


class Reading(Part):
    """The part of an archive that gives out rows."""

    @known_settings()
    def probe(
        self,
        *keys: Any,
        as_of: Moment | None = None,
        generated_between: Between | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows under these keys that are alive at ``as_of`` (by default the last update).

        ``window`` asks as if rows lived shorter: a duration in place of the longest lifetime, or
        ``{column: duration}`` for the results of a join that keep the times of their inputs. Of
        windows of a number of rows it is a smaller one, or ``{column of positions: number}``.
        """

        def read(reader: Reader, moment: int) -> pa.Table:
            criteria = selection(reader.settings, moment, generated_between, soft, window)
            return reader.probe(keys, criteria, columns_named(columns, reader.settings.all_columns))

        self.ledger.asked["probes"] += len(keys)
        return self._read(read, as_of, report)

    @known_settings()
    def probe_range(
        self,
        low: Any = None,
        high: Any = None,
        *,
        as_of: Moment | None = None,
        generated_between: Between | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows whose first key column lies between ``low`` and ``high``, both included."""

        def read(reader: Reader, moment: int) -> pa.Table:
            criteria = selection(reader.settings, moment, generated_between, soft, window)
            chosen = columns_named(columns, reader.settings.all_columns)
            return reader.probe_range(KeyRange(low, high), criteria, chosen)

        self.ledger.asked["probes"] += 1
        return self._read(read, as_of, report)

    @known_settings()
    def scan(
        self,
        *,
        as_of: Moment | None = None,
        generated_between: Between | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """All rows alive at ``as_of``."""

        def read(reader: Reader, moment: int) -> pa.Table:
            criteria = selection(reader.settings, moment, generated_between, soft, window)
            return reader.scan(criteria, columns_named(columns, reader.settings.all_columns))

        self.ledger.asked["scans"] += 1
        return self._read(read, as_of, report)

    @known_settings()
    def scan_tables(
        self,
        *,
        as_of: Moment | None = None,
        generated_between: Between | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> Iterator[pa.Table]:
        """All rows alive at ``as_of``, file by file, for archives larger than memory; one empty
        table if there are none."""
        self.ledger.asked["scans"] += 1
        pin, moment = self.pin_at(as_of)
        with pin as manifest:
            version = ArchiveVersion.of(manifest)
            reader = Reader(self.repository.directory, version, report=report)
            shown = selection(version.settings, moment, generated_between, soft, window)
            stored = version.settings.all_columns
            names = columns_named(columns, stored) or list(stored)
            table = None
            for table in reader.scan_tables(shown, names):
                yield table.select(names)
            if table is None:
                schema = pa.schema([version.settings.stored.field(name) for name in names])
                yield schema.empty_table()

    @known_settings()
    def pin(self, version: int | None = None) -> Pin:
        """Keep a version readable across updates and vacuums until the pin is released.

        Where this user may not write to the archive, the pin is not ``held``: the version can be
        read, but a vacuum may take it away.
        """
        return self.repository.pin(None if version is None else whole("version", version))

    def pin_at(self, as_of: Moment | None = None) -> tuple[Pin, int]:
        """A pin on the version that shows ``as_of`` (by default the last update), and the instant.

        Where a vacuum takes the version away before the pin is written, the newest is asked again.
        """
        for _ in range(ATTEMPTS):
            snapshot, moment = self.shown_at(as_of)
            try:
                return self.pin(snapshot.manifest.version), moment
            except VersionExpired:
                continue
        raise StorageError(
            f"versions of {self.repository.directory.address} vanish faster than they can be read",
            "keep more versions (keep_versions)",
        )

    def shown_at(self, as_of: Moment | None) -> tuple[ArchiveVersion, int]:
        """The version that shows ``as_of`` (by default the last update), and the instant."""
        if as_of is None:
            version = self.version()
            return version, version.time
        moment = instant(as_of)
        return self.version_at(moment), moment

    def version_at(self, as_of: int) -> ArchiveVersion:
        """The newest retained version whose update is not later than ``as_of``."""
        current = self.version()
        if current.time <= as_of or current.state.update == 0:
            return current
        for number in reversed(self.repository.versions()):
            version = ArchiveVersion.of(self.repository.load(number))
            if version.state.update == 0 or version.time <= as_of:
                return version
        raise VersionExpired(
            f"no retained version of {self.repository.directory.address} is as old as "
            f"{instant_text(as_of)}",
            "ask for a later instant, or keep more versions (keep_versions)",
        )

    def _read(
        self,
        read: Callable[[Reader, int], pa.Table],
        as_of: Moment | None,
        report: ReadReport | None,
    ) -> pa.Table:
        """A short read without a pin; one that loses its files to a vacuum starts anew, pinned."""
        if not isinstance(report, ReadReport | None):
            raise InvalidSetting(f"report is {report!r}", "give ReadReport()")
        snapshot, moment = self.shown_at(as_of)
        tally = None if report is None else ReadReport()
        try:
            rows = read(Reader(self.repository.directory, snapshot, report=tally), moment)
        except (CorruptFile, VersionExpired):
            if self.repository.newest() == snapshot.manifest.version:
                raise
            pin, moment = self.pin_at(as_of)
            with pin as manifest:
                version = ArchiveVersion.of(manifest)
                tally = None if report is None else ReadReport()
                rows = read(Reader(self.repository.directory, version, report=tally), moment)
        if report is not None and tally is not None:
            report.take(tally)
        return rows


def selection(
    settings: ArchiveSettings,
    as_of: int,
    between: Between | None = None,
    soft: bool = False,
    window: Window | None = None,
) -> Selection:
    """Which rows a read of an archive with these settings selects."""
    flag("soft", soft)
    if between is not None and (
        isinstance(between, str) or not isinstance(between, Sequence) or len(between) != 2
    ):
        raise InvalidSetting(
            f"generated_between is {between!r}", "give two instants: (first, last), None for open"
        )
    low, high = (None if end is None else instant(end) for end in between or (None, None))
    if soft and window is not None:
        raise InvalidSetting(
            "a soft read shows what is stored, whatever the window", "leave soft or window out"
        )
    return settings.family.within(Selection(as_of, low, high, soft), window)
