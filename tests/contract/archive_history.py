"""Histories of archives, played on files and on the model at once and compared at every version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveScheme, is_packed
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.key_hash import key_parts
from mayfly.archive.model.settings import KEY, NTH, REFERENCE, ArchiveSettings
from mayfly.archive.model.state import DAYS, PART, ArchiveVersion
from mayfly.archive.read.selection import ReadReport
from mayfly.archive.write.local_jobs import InProcess
from mayfly.archive.write.update_report import UpdateReport
from mayfly.errors import BadInput, VersionExpired
from mayfly.storage import TS, open_segment
from tests.contract.archive_model import (
    EPOCH,
    ArchiveModel,
    KeyKind,
    ModelRow,
    Values,
    Verdicts,
    as_table,
    found,
    moments_of,
)

IN_PLACE = UpdateTechnique.IN_PLACE
READS_NOTHING_IN_PLACE = (WaveScheme.DEL, WaveScheme.WATA)


class Commit(NamedTuple):
    """A version, the update it shows, and its columns."""

    version: int
    update: int
    columns: tuple[str, ...]


@dataclass
class History:
    """One archive and its model. ``play`` does something at random, ``check`` compares."""

    settings: ArchiveSettings
    keys: KeyKind
    chance: Random
    archive: Archive
    model: ArchiveModel
    commits: list[Commit] = field(default_factory=list)
    ids: int = 0
    undisturbed: bool = True
    """So far no update was missed and no row was late."""

    @staticmethod
    def begin(
        root: Path | str, settings: ArchiveSettings, keys: KeyKind, chance: Random
    ) -> History:
        archive = Archive.create(root, settings, InProcess(), sync=False)
        history = History(settings, keys, chance, archive, ArchiveModel(settings, keys))
        history.note_commit(0)
        return history

    # -- what happens ------------------------------------------------------------------------

    def play(self) -> None:
        """One update, sometimes after a refused batch, sometimes sent twice or after a gap."""
        chance, window = self.chance, self.settings.window
        gap = chance.choice([0] * 12 + [1, 2, window, 3 * window])
        number = self.model.update + 1 + gap
        if chance.random() < 0.25:
            self.play_refused(number)
        batch = None if chance.random() < 0.1 else self.draw_batch(number)
        batch_id = chance.choice([None, f"batch of {number}"])
        self.update(batch, number, batch_id)
        if chance.random() < 0.15:
            self.repeat(batch, number, batch_id)
        if chance.random() < 0.2:
            self.archive.maintain.vacuum(grace=0)
            self.check_files()

    def update(
        self, batch: Sequence[Values] | None, number: int, batch_id: str | None = None
    ) -> UpdateReport:
        """Run an update and compare its report with what the model says about it."""
        before = self.archive.version()
        verdicts = self.model.judge(batch or [], number)
        assert not verdicts.refused
        missed = number - before.state.update - 1
        self.undisturbed &= not missed and not verdicts.late
        report = self.archive.update(
            None if batch is None else self.table(batch),
            update=None if self.chance.random() < 0.3 and not missed else number,
            batch_id=batch_id,
        )
        removed = self.model.removed(self.model.update, number)
        self.model.accept(verdicts, number)
        self.note_commits(number, missed, verdicts)
        assert report.update == number
        assert report.rows_in == len(batch or [])
        assert report.stored == len(verdicts.admitted) + len(verdicts.late)
        assert report.late == len(verdicts.late)
        assert report.dead_on_arrival == verdicts.dead
        assert report.removed == removed
        assert not report.repeated
        self.check_moved(before, report)
        assert self.archive.version().state.report == asdict(report)
        return report

    def note_commits(self, number: int, missed: int, verdicts: Verdicts) -> None:
        """An update is one commit, or two if work for later days can wait."""
        layout = self.settings.wave
        step = layout.transition(layout.state_after(number - 1), number)
        apart = bool(step.pre_transition) and not missed and not verdicts.late
        for _ in range(2 if apart else 1):
            self.note_commit(number)

    def note_commit(self, update: int) -> None:
        columns = tuple(self.settings.all_columns)
        self.commits.append(Commit(len(self.commits), update, columns))

    def repeat(self, batch: Sequence[Values] | None, number: int, batch_id: str | None) -> None:
        version = self.archive.version().manifest.version
        again = self.archive.update(
            None if batch is None else self.table(batch), update=number, batch_id=batch_id
        )
        assert again == UpdateReport(number, repeated=True)
        assert self.archive.version().manifest.version == version

    def play_refused(self, number: int) -> None:
        """A batch with bad rows changes nothing, and the message says how many there are."""
        bad = [self.spoiled(number) for _ in range(self.chance.randint(1, 2))]
        batch = self.draw_batch(number) + bad
        self.chance.shuffle(batch)
        verdicts = self.model.judge(batch, number)
        assert verdicts.refused == len(bad)
        version = self.archive.version()
        files = self.data_files()
        with pytest.raises(BadInput) as caught:
            self.archive.update(self.table(batch), update=number)
        assert (
            f"update {number}: {len(bad)} of {len(batch)} rows were refused, nothing was written"
            in caught.value.message
        )
        assert caught.value.message.count(f"{self.settings.time}=") == len(bad)
        assert self.archive.version() == version
        assert self.data_files() == files

    def spoiled(self, number: int) -> dict[str, Any]:
        row = self.row(self.model.time_of(number))
        first = next(iter(self.keys.columns))
        spoil: list[dict[str, Any]] = [
            {self.settings.time: None},
            {first: None},
            {self.settings.time: self.moment(self.model.time_of(number) + 1)},
        ]
        if self.keys.is_array:
            spoil += [{first: []}, {first: [*row[first], None]}]
        late = self.model.time_of(number - 1)
        day = self.model.day_of(late, number)
        homeless = self.settings.late is LateRows.REFUSE or day < 1
        if homeless and self.model.time_of(day + self.settings.window) > self.model.time_of(number):
            spoil.append({self.settings.time: self.moment(late)})
        return row | self.chance.choice(spoil)

    def draw_batch(self, number: int) -> list[dict[str, Any]]:
        chance, window = self.chance, self.settings.window
        batch = []
        for _ in range(chance.choice([0, 1, 2, 3, 5, 8])):
            day = number
            if chance.random() < 0.1:
                day = number - window - chance.choice([0, 0, 1, 5])  # dead on arrival
            elif self.settings.late is LateRows.OWN_DAY and chance.random() < 0.3:
                day = chance.randint(max(1, number - window), number)
            if moments := moments_of(self.model, day, chance):
                batch.append(self.row(chance.choice(moments)))
        batch += [row for row in batch if chance.random() < 0.2]
        return batch

    def row(self, ts: int) -> dict[str, Any]:
        self.ids += 1
        values = {
            **self.keys.draw(self.chance),
            self.settings.time: self.moment(ts),
            "id": self.ids,
            "note": self.chance.choice([None, "", f"note {self.ids}"]),
        }
        return values | {name: float(self.ids) for name in self.settings.added}

    def moment(self, ts: int) -> Any:
        if self.settings.type_of(self.settings.time).name == "bigint":
            return ts
        return EPOCH + timedelta(microseconds=ts)

    def table(self, batch: Sequence[Values]) -> pa.Table:
        return as_table(batch, self.settings, self.settings.all_columns)

    def add_column(self, name: str) -> None:
        self.archive.maintain.add_column(name, "double")
        self.settings = replace(self.settings, added={**self.settings.added, name: "double"})
        self.model.settings = self.settings
        self.note_commit(self.model.update)

    # -- what must be true -------------------------------------------------------------------

    def check(self) -> None:
        """Everything that can be asked of the current version and of the retained ones."""
        version = self.archive.version()
        assert (version.manifest.version, version.state.update) == self.commits[-1][:2]
        assert version.state.prepared
        assert version.state.wave == self.model.wave_after(self.model.update)
        assert self.archive.maintain.verify().ok
        self.check_indexes(version)
        self.check_reads(self.model.update, None)
        later = self.model.time_of(self.model.update + self.chance.randint(0, 3))
        later += self.chance.choice([-1, 0, 1])
        if later >= version.time:
            self.check_scans(self.model.update, later)
        self.check_earlier()

    def check_reads(self, update: int, as_of: int | None) -> None:
        """Probes by key, keys and range, and scans: hard, soft and timed."""
        self.check_scans(update, as_of)
        moment = self.model.time_of(update) if as_of is None else as_of
        keys = [*self.keys.values, *([self.keys.absent] if self.keys.absent else [])]
        several = self.chance.sample(keys, self.chance.randint(0, len(keys)))
        probes = [[key] for key in self.chance.sample(keys, min(3, len(keys)))]
        for soft in (False, True):
            rows = self.model.stored(update) if soft else self.model.alive(update, moment)
            for wanted in (*probes, several, several + several):
                table = self.archive.probe(*map(self.as_asked, wanted), as_of=as_of, soft=soft)
                self.same(table, self.model.under(rows, wanted), update)
        rows = self.model.alive(update, moment)
        first = [key[0] for key in keys]
        for low, high in ((None, None), (self.chance.choice(first), None), self.some_range(first)):
            table = self.archive.probe_range(low, high, as_of=as_of)
            self.same(table, self.model.between(rows, low, high), update)

    def some_range(self, values: list[Any]) -> tuple[Any, Any]:
        low, high = self.chance.choice(values), self.chance.choice(values)
        return low, high

    def as_asked(self, key: tuple[Any, ...]) -> Any:
        return key if len(key) > 1 else key[0]

    def check_scans(self, update: int, as_of: int | None) -> None:
        archive, model, chance = self.archive, self.model, self.chance
        moment = model.time_of(update) if as_of is None else as_of
        alive, stored = model.alive(update, moment), model.stored(update)
        report = ReadReport()
        self.same(archive.scan(as_of=as_of, report=report), alive, update)
        assert report.rows == len(alive)
        self.same(archive.scan(as_of=as_of, soft=True), stored, update)
        low, high = sorted(
            model.time_of(chance.randint(update - self.settings.window - 1, update + 1))
            + chance.choice([-1, 0, 1])
            for _ in range(2)
        )
        between = chance.choice([(low, high), (low, None), (None, high), (high, low)])
        for soft, rows in ((False, alive), (True, stored)):
            timed = [row for row in rows if _within(row.ts, between)]
            table = archive.scan(as_of=as_of, generated_between=between, soft=soft)
            self.same(table, timed, update)
            key = chance.choice(self.keys.values)
            table = archive.probe(
                self.as_asked(key), as_of=as_of, generated_between=between, soft=soft
            )
            self.same(table, model.under(timed, [key]), update)
        columns = chance.sample(self.columns_at(update), 2)
        assert found(archive.scan(as_of=as_of, columns=columns)) == model.shown(alive, columns)

    def check_earlier(self) -> None:
        """As-of reads of retained versions, and a clear error for what is no longer retained."""
        retained = self.retained()
        assert self.archive.repository.versions() == [one.version for one in retained]
        updates = sorted({one.update for one in retained})
        if earlier := list(pairwise(updates)):
            update, following = self.chance.choice(earlier)
            first, last = self.model.time_of(update), self.model.time_of(following) - 1
            if first <= last:
                self.check_scans(update, self.chance.choice([first, last]))
        too_early = self.model.time_of(updates[0]) - 1
        if updates[0]:
            with pytest.raises(VersionExpired, match="ask for a later instant"):
                self.archive.scan(as_of=too_early)
        else:
            assert self.archive.scan(as_of=too_early).num_rows == 0

    def retained(self) -> list[Commit]:
        """All versions of the last updates, as many as are to be kept."""
        updates = sorted({one.update for one in self.commits})[-self.settings.keep_versions :]
        return [one for one in self.commits if one.update >= updates[0]]

    def columns_at(self, update: int) -> tuple[str, ...]:
        return next(one.columns for one in reversed(self.commits) if one.update == update)

    def check_files(self) -> None:
        """After a vacuum there is no file that no retained version names."""
        needed = {
            path
            for one in self.retained()
            for path in self.archive.repository.load(one.version).segments
        }
        assert set(self.data_files()) == needed

    def data_files(self) -> list[str]:
        return self.archive.repository.directory.all_names("data")

    def check_indexes(self, version: ArchiveVersion) -> None:
        """Each index has the rows of its days, in the parts of their keys, and no run besides."""
        wave, runs = version.state.wave, version.state.runs
        indexes = {**wave.constituents, **wave.temporaries}
        assert set(runs) <= set(indexes)
        for name, days in indexes.items():
            rows = self.model.rows_of(days, version.state.update)
            assert self.ids_in(version, name) == Counter(row.values["id"] for row in rows), name
            if self.settings.technique is UpdateTechnique.PACKED_SHADOW:
                assert is_packed(runs.get(name, ()))
        used = {run.id for held in runs.values() for run in held}
        named = {
            segment.group.removeprefix("run/") for segment in version.manifest.segments.values()
        }
        assert named <= used

    def ids_in(self, version: ArchiveVersion, index: str) -> Counter[Hashable]:
        ids = Counter[Hashable]()
        for run in version.state.runs.get(index, ()):
            for part, row in self.stored_rows(version, run.id):
                day = self.model.day_of(row[TS], version.state.update)
                assert day in run.days
                key = [row[name] for name in self.settings.sort_columns]
                assert part == key_parts([key], self.settings.key_types, self.settings.parts)[0]
                if day not in run.deleted_days and row.get(NTH, 0) == 0:
                    ids[row["id"]] += 1
        return ids

    def stored_rows(
        self, version: ArchiveVersion, run: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for segment in version.segments_of(run):
            table = open_segment(self.archive.repository.directory, segment)
            days = Counter(
                self.model.day_of(row[TS], version.state.update)
                for row in table.to_pylist()
                if row.get(NTH, 0) == 0
            )
            assert sorted(days.items()) == [tuple(one) for one in segment.tags[DAYS]]
            for row in table.to_pylist():
                if self.keys.is_array and row[NTH] != REFERENCE:
                    assert row[KEY] in row["k"] or row[KEY] != row[KEY]
                yield segment.tags[PART], row

    def check_moved(self, before: ArchiveVersion, report: UpdateReport) -> None:
        """Bytes and rows that the report claims, against the files themselves."""
        after = self.archive.version()
        first = ArchiveVersion.of(self.archive.repository.load(before.manifest.version + 1))
        new = {
            path: segment.bytes
            for version in (first, after)
            for path, segment in version.manifest.segments.items()
            if path not in before.manifest.segments
        }
        assert (report.files_written, report.bytes_written) == (len(new), sum(new.values()))
        assert (report.files_read == 0) == (report.bytes_read == 0)
        if self.settings.technique is IN_PLACE:
            scheme = self.settings.wave.scheme
            builds = scheme in (WaveScheme.REINDEX, WaveScheme.REINDEX_PLUS)
            if scheme in READS_NOTHING_IN_PLACE or (self.undisturbed and not builds):
                assert report.bytes_read == 0
        horizon = report.update - self.settings.window
        dead = {
            row["id"]
            for runs in first.state.runs.values()
            for run in runs
            if min(run.days) <= horizon
            for _, row in self.stored_rows(first, run.id)
            if self.model.day_of(row[TS], report.update) <= horizon
        }
        lingering = self.model.rows_of(range(horizon + 1 - 10**4, horizon + 1), report.update)
        assert report.dead_but_stored == sum(row.values["id"] in dead for row in lingering)

    def same(self, table: pa.Table, expected: Sequence[ModelRow], update: int) -> None:
        columns = self.columns_at(update)
        declared = self.settings.stored
        assert table.schema == pa.schema([declared.field(name) for name in columns])
        assert found(table) == self.model.shown(expected, columns)


def _within(ts: int, between: tuple[int | None, int | None]) -> bool:
    low, high = between
    return (low is None or ts >= low) and (high is None or ts <= high)
