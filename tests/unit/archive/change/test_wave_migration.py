"""Changing the scheme of an archive of a window: the same rows, and the new scheme's indexes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mayfly.archive
from mayfly import faults
from mayfly.archive import Archive
from mayfly.archive.change.migration import METHODS
from mayfly.archive.change.wave_migration import state_at
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.layouts.run_plan import is_old
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.errors import BadInput, InvalidSetting, VersionExpired
from tests.unit.archive.small_archive import day_rows, said, small_archive, values

WINDOW = 6


def stored_column(file: Path, name: str) -> list[int]:
    if file.suffix == ".arrow":
        rows = pa.ipc.open_file(file.read_bytes()).read_all()
    else:
        rows = pq.read_table(file)
    found: list[int] = rows[name].to_pylist()
    return found


def check(archive: Archive, day: int, window: int = WINDOW) -> None:
    expected = said(range(max(1, day - window + 1), day + 1))
    assert values(archive.scan()) == expected
    assert values(archive.probe(3)) == [one for one in expected if one.endswith("/3")]
    assert archive.inspect.status().rows == len(expected)
    assert archive.maintain.verify().ok, archive.maintain.verify()
    layout = archive.settings.wave
    held = archive.version().state.wave
    # As if it had always been so, but for days that had expired before.
    assert held == state_at(layout, day)
    new = [one for one in archive.inspect.status().constituents if not is_old(one.name)]
    assert sum(one.rows for one in new) <= 10 * layout.most_stored_days


@pytest.mark.halved
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("technique", UpdateTechnique)
def test_from_scheme_to_scheme(tmp_path: Path, technique: UpdateTechnique, method: str) -> None:
    archive = small_archive(tmp_path / "a", window=WINDOW, constituents=3, technique=technique)
    chance, day = Random(technique + method), 0
    ways = [(a, b) for a in WaveScheme for b in WaveScheme if a is not b]
    for before, after in chance.sample(ways, 8):
        archive.migrate(scheme=before, method=method)
        for _ in range(chance.randint(1, 3)):
            day += 1
            archive.update(day_rows(day))
        constituents = chance.randint(2, WINDOW)
        report = archive.migrate(scheme=after, constituents=constituents, method=method)
        assert report.layout.startswith(f"{after} in ")
        assert report.rows == archive.scan().num_rows
        assert archive.settings.technique is technique
        check(archive, day)
        for _ in range(chance.randint(1, WINDOW + 1)):
            day += 1
            archive.update(day_rows(day))
            check(archive, day)


def test_the_technique_and_an_archive_without_rows(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", window=WINDOW, constituents=3, scheme="DEL")
    archive.migrate(technique="in-place")
    for day in range(1, 10):
        archive.update(day_rows(day))
    assert archive.inspect.status().constituents[0].runs > 1
    archive.migrate(technique="packed shadow")
    assert all(one.packed for one in archive.inspect.status().constituents)
    check(archive, 9)


@pytest.mark.parametrize("point", ["archive.run-written", "archive.moved", "commit.checked"])
def test_a_change_that_fails_changes_nothing(tmp_path: Path, point: str) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3, scheme="RATA")

    def fail() -> None:
        raise OSError("pulled the plug")

    with faults.on_reach(point, fail), pytest.raises(OSError, match="plug"):
        archive.migrate(scheme="REINDEX++")
    again = mayfly.archive.open(tmp_path / "a")
    assert again.settings.wave.scheme is WaveScheme.RATA
    check(again, 8)
    again.migrate(scheme="REINDEX++")
    check(again, 8)


def test_states_are_those_that_steps_lead_to() -> None:
    for scheme in WaveScheme:
        layout = WaveLayout(scheme, 5, 3)
        for day in (0, 1, 4, 5, 6, 60, 61, 137):
            assert state_at(layout, day) == layout.state_after(day)


def test_constituents_that_the_new_scheme_cannot_have(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", window=9, constituents=1, scheme="DEL")
    archive.migrate(technique="in-place")
    assert archive.settings.wave.constituents == 1
    with pytest.raises(InvalidSetting, match="use 2 to 9"):
        archive.migrate(scheme="RATA", constituents=1)
    archive.migrate(scheme="WATA")
    assert archive.settings.wave.constituents == 3


def test_side_by_side_moves_nothing_and_the_old_constituents_go(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", 9, window=WINDOW, constituents=3, scheme="WATA")
    report = archive.migrate(scheme="REINDEX", method="side by side")
    assert (report.bytes_read, report.bytes_written, report.ended) == (0, 0, 0)
    assert report.left == 3
    left = []
    for day in range(10, 10 + WINDOW):
        archive.update(day_rows(day))
        check(archive, day)
        left.append(sum(is_old(one.name) for one in archive.inspect.status().constituents))
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0 < left[0]


def test_late_rows_find_their_day_after_a_change_side_by_side(tmp_path: Path) -> None:
    archive = small_archive(
        tmp_path / "a", 8, window=WINDOW, constituents=3, scheme="DEL", late="own day"
    )
    archive.migrate(scheme="WATA", method="side by side")
    archive.update(pa.concat_tables([day_rows(9), day_rows(7)]))
    twice = sorted([*said(range(4, 10)), *said([7])])
    assert sorted(values(archive.scan())) == twice
    assert archive.inspect.status().rows == len(twice)
    assert archive.maintain.verify().ok, archive.maintain.verify()


@pytest.mark.parametrize("scheme", WaveScheme)
def test_another_window(tmp_path: Path, scheme: WaveScheme) -> None:
    archive = small_archive(tmp_path / "a", 9, window=WINDOW, constituents=3, scheme=scheme)
    report = archive.migrate(window=4)
    assert (report.rows, report.ended) == (40, 20)
    check(archive, 9, 4)
    archive.update(day_rows(10))
    check(archive, 10, 4)
    report = archive.migrate(window=8, constituents=4)
    assert (report.rows, report.ended) == (40, 0)
    # What is gone stays away; what is there lives as long as the new window says.
    for day in range(11, 20):
        archive.update(day_rows(day))
        assert values(archive.scan()) == said(range(max(7, day - 7), day + 1))
        assert archive.inspect.status().rows == archive.scan().num_rows
        assert archive.maintain.verify().ok, archive.maintain.verify()


@pytest.mark.halved
@pytest.mark.parametrize(
    ("refresh", "window", "updates"), [(50, None, 12), (200, None, 3), (150, 3, 3), (70, 20, 20)]
)
@pytest.mark.parametrize("scheme", ["WATA", "REINDEX++"])
def test_another_refresh(
    tmp_path: Path, scheme: str, refresh: int, window: int | None, updates: int
) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3, scheme=scheme)
    given = [row for row in archive.scan().to_pylist() if row["ts"] > 800 - updates * refresh]
    report = archive.migrate(refresh=f"{refresh} us", window=window)
    assert report.rows == len(given)
    assert (archive.version().time, archive.settings.window) == (800, updates)
    assert archive.version().state.update >= 8
    for number in range(updates + 1):
        now = 800 + number * refresh
        if number:
            new = {"k": 3, "ts": now, "v": f"{now}"}
            assert archive.update(pa.Table.from_pylist([new])).stored == 1
            given.append(new)
        assert archive.version().time == now
        alive = [row["v"] for row in given if row["ts"] > now - updates * refresh]
        assert values(archive.scan()) == sorted(alive)
        assert archive.inspect.status().rows == len(alive)
        assert archive.maintain.verify().ok, archive.maintain.verify()


def test_a_window_that_the_refresh_does_not_divide(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3)
    with pytest.raises(InvalidSetting, match="not a multiple of the refresh") as refusal:
        archive.migrate(refresh="250 us")
    assert "give window too" in refusal.value.hint
    for change in (
        {"window": 4},
        {"refresh": "50 us"},
        {"max_lifetime": "900 us", "lifetime": "1 us"},
    ):
        with pytest.raises(InvalidSetting, match="another window"):
            archive.migrate(**change, method="side by side")
    check(archive, 8)


@pytest.mark.parametrize("layout", [None, "Rebuild 2x2", "lazy 3x2"])
def test_rows_get_lifetimes_of_their_own(tmp_path: Path, layout: str | None) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3, parts=2)
    given = archive.scan().to_pylist()
    ending = "CASE WHEN k < 5 THEN ts + 250 ELSE ts + 1000 END"
    report = archive.migrate(max_lifetime="1000 us", exp=ending, layout=layout)
    now = 800
    for day in range(9, 22):
        alive = [r for r in given if r["ts"] + (250 if r["k"] < 5 else 1000) > now]
        if day == 9:
            assert (report.rows, report.ended) == (len(alive), len(given) - len(alive))
        assert values(archive.scan()) == sorted(row["v"] for row in alive)
        assert values(archive.probe(3)) == sorted(row["v"] for row in alive if row["k"] == 3)
        assert archive.inspect.status().rows == len(alive)
        assert archive.maintain.verify().ok, archive.maintain.verify()
        archive.update(day_rows(day))
        given += day_rows(day).to_pylist()
        now = 100 * day
        if day == 11:
            archive.invalidate([7])
            given = [row for row in given if row["k"] != 7]
    assert archive.migrate(layout="NoRebuild 2x2", method="side by side").rows == len(
        archive.scan()
    )


def test_stored_rows_without_a_lifetime_are_refused(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3)
    archive.maintain.add_column("until", "bigint")
    with pytest.raises(BadInput, match="60 of 60 rows were refused, nothing was written"):
        archive.migrate(max_lifetime="1000 us", exp="until")
    with pytest.raises(BadInput, match="lives longer than the archive's longest lifetime"):
        archive.migrate(max_lifetime="100 us", exp="ts + 500")
    with pytest.raises(InvalidSetting, match="the longest one is missing"):
        archive.migrate(exp="until")
    with pytest.raises(InvalidSetting, match="scheme: not where rows are to have their own"):
        archive.migrate(max_lifetime="1000 us", exp="until", scheme="DEL")
    check(archive, 8)
    assert archive.migrate(max_lifetime="1000 us", exp="COALESCE(until, ts + 600)").rows == 60


@pytest.mark.parametrize("pinned", [False, True])
def test_bytes_of_the_window_go_in_time_when_rows_get_lifetimes(
    tmp_path: Path, pinned: bool
) -> None:
    archive = small_archive(tmp_path / "a", 9, window=20, constituents=3, keep_versions=5)
    pin = archive.read.pin() if pinned else None
    archive.migrate(max_lifetime="800 us", lifetime="150 us", contract="PHYSICAL WITHIN 100 us")
    for day in range(10, 14):
        archive.update(day_rows(day))
        due = 100 * (day + 1) - 100
        found = [
            at + 150
            for file in (tmp_path / "a" / "data").iterdir()
            for at in stored_column(file, "ts")
        ]
        assert min(found) >= due
        assert archive.maintain.verify().ok, archive.maintain.verify()
    if pin is not None:
        with pytest.raises(VersionExpired):
            list(
                Reader(archive.repository.directory, ArchiveVersion.of(pin.manifest)).scan_tables(
                    Selection(900)
                )
            )


def test_a_young_archive_tells_how_many_indexes_are_left(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", window=WINDOW, constituents=3, scheme="DEL")
    assert archive.migrate(scheme="WATA", method="side by side").left == 0
    archive.update(day_rows(1))
    assert archive.migrate(scheme="DEL", method="side by side").left == 1
    assert values(archive.scan()) == said([1])


def test_what_a_former_scheme_took_predicts_nothing(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", 9, window=WINDOW, constituents=3, scheme="DEL")
    archive.migrate(scheme="REINDEX")
    assert {one.expected for one in archive.inspect.predictions()} == {None}
    for day in range(10, 13):
        archive.update(day_rows(day))
    assert [one.update for one in archive.inspect.predictions() if one.expected is not None] == [
        11,
        12,
    ]
