"""Histories of archives whose rows have their own lifetimes, on files and on the model at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from mayfly.archive.archive import Archive
from mayfly.archive.layouts import is_packed
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.key_hash import key_parts
from mayfly.archive.model.settings import INSERTED, NTH, ArchiveSettings
from mayfly.archive.model.state import DAYS, PART, ArchiveVersion
from mayfly.archive.write.local_jobs import InProcess
from mayfly.archive.write.update_report import UpdateReport
from mayfly.storage import EXP, open_segment
from tests.contract.archive_history import History
from tests.contract.archive_model import (
    EPOCH,
    ArchiveModel,
    KeyKind,
    ModelRow,
    Values,
    Verdicts,
    moments_of,
)

CLASSES = {"brief": 1, "long": 7}


@dataclass
class LifetimeModel(ArchiveModel):
    """A row's ``day`` is the update that removes it."""

    kept: dict[str, list[tuple[int, ModelRow]]] = field(default_factory=dict)
    """What every sub-index holds, dead rows that linger included: (inserted by, row)."""
    shown_soft: dict[int, list[ModelRow]] = field(default_factory=dict)

    @property
    def layout(self) -> PartitionedLayout:
        assert isinstance(self.settings.layout, PartitionedLayout)
        return self.settings.layout

    @property
    def longest(self) -> int:
        assert self.settings.lifetimes is not None
        return self.settings.lifetimes.longest

    def exp_of(self, values: Values, ts: int) -> int | None:
        lifetimes = self.settings.lifetimes
        assert lifetimes is not None
        if lifetimes.exp is not None:
            found = values[lifetimes.exp]
            if isinstance(found, int) or found is None:
                return found
            micros: int = (found - EPOCH) // timedelta(microseconds=1)
            return micros
        if lifetimes.constant is not None:
            return ts + lifetimes.constant
        found = values[lifetimes.column or ""]
        if lifetimes.classes:
            found = lifetimes.classes.get(found)
        elif isinstance(found, timedelta):
            found = found // timedelta(microseconds=1)
        return None if found is None else ts + found

    def judge(self, batch: Sequence[Values], update: int) -> Verdicts:
        found = Verdicts()
        now, before = self.time_of(update), self.time_of(update - 1)
        for values in batch:
            if values[self.settings.time] is None or self._without_key(values):
                found.refused += 1
                continue
            ts = self.instant_of(values)
            exp = self.exp_of(values, ts)
            if exp is None or exp <= ts or ts > now or self.too_long(ts, exp, update):
                found.refused += 1
            elif exp <= now:
                found.dead += 1
            elif ts > before:
                found.admitted.append(ModelRow(self.day_of(exp, update), ts, exp, values))
            elif self.settings.late is LateRows.THIS_UPDATE:
                found.late.append(ModelRow(self.day_of(exp, update), ts, exp, values))
            else:
                found.refused += 1
        return found

    def too_long(self, ts: int, exp: int, near: int) -> bool:
        """By the clock, or by calendar days, which have 23 to 25 hours."""
        if isinstance(self.settings.calendar, FixedIntervals):
            return exp - ts > self.longest
        return self.day_of(exp, near) - self.day_of(ts, near) > self.layout.rollover

    def accept(self, verdicts: Verdicts, update: int, empty: bool = False) -> None:
        layout, before = self.layout, self.update
        touched = set().union(
            *(layout.removes(u) | layout.throws_away(u) for u in range(before + 1, update + 1))
        )
        if not empty:
            touched |= layout.inserts(update)
        super().accept(verdicts, update)
        for name in touched:
            held = self.kept.get(name, [])
            self.kept[name] = [(came, row) for came, row in held if row.day > update]
        for row in (*verdicts.admitted, *verdicts.late):
            self.kept.setdefault(layout.sub_index(update, row.day), []).append((update, row))
        self.shown_soft[update] = [row for held in self.kept.values() for _, row in held]

    def stored(self, update: int) -> list[ModelRow]:
        return self.shown_soft.get(update, [])

    def removed(self, before: int, update: int) -> int:
        return len(self.rows_of(range(before + 1, update + 1), before))


@dataclass
class LifetimeHistory(History):
    """Plays and checks archives of rows with their own lifetimes."""

    model: LifetimeModel

    @staticmethod
    def begin(
        root: Path | str, settings: ArchiveSettings, keys: KeyKind, chance: Random
    ) -> LifetimeHistory:
        archive = Archive.create(root, settings, InProcess(), sync=False)
        model = LifetimeModel(settings, keys)
        history = LifetimeHistory(settings, keys, chance, archive, model)
        history.note_commit(0)
        return history

    def update(
        self, batch: Sequence[Values] | None, number: int, batch_id: str | None = None
    ) -> UpdateReport:
        before = self.archive.version()
        if batch is not None:
            # Where a calendar leaves out a day, a drawn lifetime may be longer than allowed;
            # refusals have tests of their own.
            batch = [row for row in batch if not self.model.judge([row], number).refused]
        verdicts = self.model.judge(batch or [], number)
        missed = number - before.state.update - 1
        report = self.archive.update(
            None if batch is None else self.table(batch),
            update=None if self.chance.random() < 0.3 and not missed else number,
            batch_id=batch_id,
        )
        removed = self.model.removed(self.model.update, number)
        self.model.accept(verdicts, number, empty=batch is None)
        self.note_commit(number)
        assert report.update == number
        assert report.rows_in == len(batch or [])
        assert report.stored == len(verdicts.admitted) + len(verdicts.late)
        assert (report.late, report.dead_on_arrival) == (len(verdicts.late), verdicts.dead)
        assert (report.removed, report.repeated) == (removed, False)
        self.check_report(before, report, batch is None)
        return report

    def check_report(self, before: ArchiveVersion, report: UpdateReport, empty: bool) -> None:
        after = self.archive.version()
        new = {
            path: segment.bytes
            for path, segment in after.manifest.segments.items()
            if path not in before.manifest.segments
        }
        assert (report.files_written, report.bytes_written) == (len(new), sum(new.values()))
        assert (report.files_read == 0) == (report.bytes_read == 0)
        if empty and not self.model.layout.rebuild:
            assert (report.bytes_read, report.bytes_written) == (0, 0)
        lingering = [row for row in self.soft_rows(after) if row[0] <= after.time]
        assert report.dead_but_stored == len(lingering)

    def soft_rows(self, version: ArchiveVersion) -> list[tuple[int, Any]]:
        """exp and id of every stored row."""
        return [
            (row[EXP], row["id"])
            for name in version.state.wave.constituents
            for row in self.rows_in(version, name)
        ]

    # -- rows --------------------------------------------------------------------------------

    def draw_batch(self, number: int) -> list[dict[str, Any]]:
        chance, model, batch = self.chance, self.model, []
        for _ in range(chance.choice([0, 1, 2, 3, 5, 8])):
            day = number
            if self.settings.late is LateRows.THIS_UPDATE and chance.random() < 0.2:
                day = number - chance.randint(1, model.layout.rollover)
            if moments := moments_of(model, day, chance):
                batch.append(self.living_row(chance.choice(moments), number))
        batch = [row for row in batch if not model.judge([row], number).refused]
        batch += [row for row in batch if chance.random() < 0.2]
        return batch

    def living_row(self, ts: int, number: int) -> dict[str, Any]:
        """A row that expires around an update, at once, or as late as it may."""
        chance, model = self.chance, self.model
        edge = model.time_of(number + chance.randint(0, model.layout.rollover))
        wanted = chance.choice([edge - 1, edge, edge + 1, ts + 1, ts + model.longest])
        lived = min(max(wanted - ts, 1), model.longest)
        row = self.row(ts) | self.lifetime_columns(ts, lived)
        if model.judge([row], number).refused and ts > model.time_of(number - 1):
            return self.row(ts) | self.lifetime_columns(ts, 1)
        return row

    def lifetime_columns(self, ts: int, lived: int | None) -> dict[str, Any]:
        lifetimes = self.settings.lifetimes
        assert lifetimes is not None
        if lifetimes.exp is not None:
            exp = None if lived is None else ts + lived
            is_bigint = self.settings.type_of(lifetimes.exp).name == "bigint"
            moment = exp if is_bigint or exp is None else EPOCH + timedelta(microseconds=exp)
            return {lifetimes.exp: moment}
        if lifetimes.classes:
            name = None if lived is None else self.chance.choice(list(lifetimes.classes))
            return {lifetimes.column or "": name}
        if lifetimes.column is not None:
            bigint = self.settings.type_of(lifetimes.column).name == "bigint"
            value = lived if bigint or lived is None else timedelta(microseconds=lived)
            return {lifetimes.column: value}
        return {}

    def spoiled(self, number: int) -> dict[str, Any]:
        ts = self.model.time_of(number)
        row = self.living_row(ts, number)
        first = next(iter(self.keys.columns))
        spoil: list[dict[str, Any]] = [
            {self.settings.time: None},
            {first: None},
            {self.settings.time: self.moment(ts + 1)},
        ]
        assert self.settings.lifetimes is not None
        if self.settings.lifetimes.constant is None:
            spoil.append(self.lifetime_columns(ts, None))
            if not self.settings.lifetimes.classes:
                spoil += [self.lifetime_columns(ts, lived) for lived in (0, -1)]
                spoil.append(self.lifetime_columns(ts, self.model.longest + 1))
                spoil.append(self.lifetime_columns(ts, 3 * self.model.longest))
        chosen = row | self.chance.choice(spoil)
        return chosen if self.model.judge([chosen], number).refused else row | {first: None}

    # -- what must be true -------------------------------------------------------------------

    def check(self) -> None:
        version = self.archive.version()
        assert (version.manifest.version, version.state.update) == self.commits[-1][:2]
        assert version.state.prepared
        assert self.archive.maintain.verify().ok
        self.check_indexes(version)
        self.check_reads(self.model.update, None)
        later = self.model.time_of(self.model.update + self.chance.randint(0, 3))
        later += self.chance.choice([-1, 0, 1])
        if later >= version.time:
            self.check_scans(self.model.update, later)
        self.check_windows(version)
        self.check_earlier()
        status = self.archive.inspect.status()
        assert status.rows == len(self.model.alive(self.model.update, version.time))

    def check_windows(self, version: ArchiveVersion) -> None:
        """A smaller window by d shows the rows that have more than d left."""
        shorter = self.chance.randint(0, self.model.longest - 1)
        rows = [
            row
            for row in self.model.alive(self.model.update, version.time)
            if row.exp - shorter > version.time
        ]
        found = self.archive.scan(window=f"{self.model.longest - shorter} us")
        self.same(found, rows, self.model.update)

    def check_indexes(self, version: ArchiveVersion) -> None:
        """Each sub-index has the rows of its cells, in the parts of their keys, and no others."""
        layout, runs = self.model.layout, version.state.runs
        assert set(runs) <= set(layout.names)
        if version.state.update:
            assert set(layout.names) == set(version.state.wave.constituents)
        for name in layout.names:
            if layout.rebuild:
                assert is_packed(runs.get(name, ()))
            ids = Counter(row["id"] for row in self.rows_in(version, name))
            kept = self.model.kept.get(name, [])
            assert ids == Counter(row.values["id"] for _, row in kept), name
        used = {run.id for held in runs.values() for run in held}
        named = {s.group.removeprefix("run/") for s in version.manifest.segments.values()}
        assert named == used

    def rows_in(self, version: ArchiveVersion, name: str) -> Iterator[dict[str, Any]]:
        layout, settings = self.model.layout, self.settings
        for run in version.state.runs.get(name, ()):
            labels = Counter[int]()
            for segment in version.segments_of(run.id):
                for row in open_segment(self.archive.repository.directory, segment).to_pylist():
                    label = self.model.day_of(row[EXP], version.state.update)
                    assert layout.sub_index(row[INSERTED], label) == name
                    key = [row[column] for column in settings.sort_columns]
                    part = key_parts([key], settings.key_types, settings.parts)[0]
                    assert part == segment.tags[PART]
                    if row.get(NTH, 0) == 0:
                        labels[label] += 1
                        yield row
            tagged = Counter[int]()
            for segment in version.segments_of(run.id):
                tagged.update(dict(segment.tags[DAYS]))
            assert labels == tagged
            assert run.days == frozenset(labels)
            if not layout.rebuild and layout.span == 1:
                assert len(labels) == 1
