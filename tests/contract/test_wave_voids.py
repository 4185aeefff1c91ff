"""Rows of waves declared void, and smaller windows: every scheme and technique against a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals, UpdateCalendar
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write.local_jobs import InProcess
from mayfly.errors import InvalidSetting

SHAPES = [
    *(WaveLayout(scheme, 5, 2) for scheme in WaveScheme),
    WaveLayout(WaveScheme.RATA, 6, 3, spread=True),
    WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, 6, 2, spread=True),
]
CALENDARS: list[UpdateCalendar] = [
    FixedIntervals(1_000),
    CalendarDays("Europe/Berlin", date(2026, 3, 26)),
]
KEYS = ["a", "b", "c", "d"]


@dataclass
class Played:
    """An archive and the rows it was given: (key values, day, id), of which some are void."""

    archive: Archive
    chance: Random
    rows: list[tuple[list[str], int, int]] = field(default_factory=list)
    void: set[int] = field(default_factory=set)
    update: int = 0

    @property
    def settings(self) -> ArchiveSettings:
        return self.archive.settings

    def alive(self, window: int) -> list[tuple[list[str], int, int]]:
        first = self.update - window
        return [row for row in self.rows if row[1] > first and row[2] not in self.void]

    def table(self, rows: list[tuple[list[str], int, int]]) -> pa.Table:
        keys = [row[0] if self.settings.array_key else row[0][0] for row in rows]
        return pa.table(
            {
                "k": pa.array(keys, self.settings.stored.field("k").type),
                "ts": pa.array(
                    [self.settings.calendar.time_of(row[1]) for row in rows], pa.int64()
                ),
                "id": pa.array([row[2] for row in rows], pa.int64()),
            }
        )

    def play(self) -> None:
        self.update += 1
        removed = [
            row for row in self.rows
            if row[1] == self.update - self.settings.window and row[2] not in self.void
        ]  # fmt: skip
        batch: list[tuple[list[str], int, int]] = []
        for _ in range(self.chance.randint(0, 6)):
            late = self.settings.late is LateRows.OWN_DAY and self.chance.random() < 0.3
            back = self.chance.randint(0, self.settings.window - 1) if late else 0
            keys = self.chance.sample(KEYS, self.chance.randint(1, 3))
            batch.append((keys, max(1, self.update - back), len(self.rows) + len(batch)))
        report = self.archive.update(self.table(batch))
        assert report.removed == len(removed)
        self.rows += batch

    def invalidate(self) -> None:
        before = self.alive(self.settings.window)
        if self.chance.random() < 0.5 and before:
            chosen = self.chance.sample(before, self.chance.randint(1, min(3, len(before))))
            report = self.archive.invalidate(rows=self.table(chosen))
        else:
            keys = self.chance.sample(KEYS, 1)
            chosen = [row for row in before if self.found_under(row, keys)]
            report = self.archive.invalidate(keys)
        assert report.rows == len(chosen)
        self.void |= {row[2] for row in chosen}

    def found_under(self, row: tuple[list[str], int, int], keys: list[str]) -> bool:
        own = row[0] if self.settings.array_key else row[0][:1]
        return bool(set(own) & set(keys))

    def check(self) -> None:
        archive, whole = self.archive, self.settings.window
        assert archive.maintain.verify().ok
        assert archive.inspect.status().rows == len(self.alive(whole))
        for window in (None, 1, self.chance.randint(1, whole), str(whole)):
            rows = self.alive(whole if window is None else int(window))
            assert ids(archive.scan(window=window)) == sorted(row[2] for row in rows)
            keys = self.chance.sample(KEYS, 2)
            for asked in (keys[:1], keys):
                expected = sorted(row[2] for row in rows if self.found_under(row, asked))
                assert ids(archive.probe(*asked, window=window)) == expected
            low, high = sorted(keys)
            between = [key for key in KEYS if low <= key <= high]
            expected = sorted(row[2] for row in rows if self.found_under(row, between))
            assert ids(archive.probe_range(low, high, window=window)) == expected


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def begin(root: Path, layout: WaveLayout, technique: UpdateTechnique, chance: Random) -> Played:
    kind = chance.choice(["string", "string", "array<string>"])
    chosen = ArchiveSettings(
        columns={"k": kind, "ts": "bigint", "id": "bigint"},
        key=("k",),
        time="ts",
        calendar=chance.choice(CALENDARS),
        layout=layout,
        technique=technique,
        late=chance.choice(list(LateRows)[:2]),
        parts=chance.randint(1, 2),
    )
    return Played(Archive.create(root, chosen, InProcess(), sync=False), chance)


@pytest.mark.halved
@pytest.mark.parametrize("technique", UpdateTechnique)
@pytest.mark.parametrize("layout", SHAPES, ids=str)
def test_void_rows_and_those_before_a_smaller_window_are_not_returned(
    layout: WaveLayout, technique: UpdateTechnique, tmp_path: Path
) -> None:
    played = begin(tmp_path / "archive", layout, technique, Random(f"{layout} {technique}"))
    for _ in range(2 * layout.window + 2):
        played.play()
        if played.chance.random() < 0.6:
            played.invalidate()
        played.check()
    assert played.void


def test_a_void_row_stays_so_when_a_prepared_index_takes_its_place(tmp_path: Path) -> None:
    """The row is in the constituent and in the temporaries that will replace it."""
    for layout in (SHAPES[3], SHAPES[5]):
        place = tmp_path / layout.scheme
        played = begin(place, layout, UpdateTechnique.PACKED_SHADOW, Random(1))
        while played.update < layout.window:
            played.play()
            played.archive.version()
        before = played.alive(layout.window)
        played.void |= {row[2] for row in before if played.found_under(row, ["a"])}
        assert played.archive.invalidate(["a"]).rows == len(played.void) > 0
        assert played.archive.version().state.wave.temporaries
        for _ in range(layout.window):
            played.play()
            played.check()


@pytest.mark.parametrize(
    ("window", "complaint"),
    [
        (6, "last 5"),
        ("1 µs", "not a (multiple|whole)"),
        (0, "0 updates"),
        ({"k": "1 s"}, "time column"),
    ],
)
def test_windows_that_a_wave_does_not_have_are_refused(
    window: object, complaint: str, tmp_path: Path
) -> None:
    archive = begin(tmp_path / "archive", SHAPES[0], UpdateTechnique.IN_PLACE, Random(0)).archive
    with pytest.raises(InvalidSetting, match=complaint):
        archive.scan(window=window)  # type: ignore[arg-type]
