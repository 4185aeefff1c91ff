"""Changing what an archive is: the same rows before, during and after."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly import faults
from mayfly.archive import Archive
from mayfly.archive.model.calendar import DAY
from mayfly.archive.write.staged_rows import Brought, Staging
from mayfly.errors import BadInput, CommitConflict, InvalidSetting
from mayfly.lifetime import NEVER
from mayfly.storage.segment import EXP, TS, Segment, write_segment
from tests.unit.archive.rows_with_lifetimes import DDL, P, ids, made, rows_of, table

Row = tuple[int, int, int, int]
STEPS: list[dict[str, Any]] = [
    {"layout": "Rebuild 2x2"},
    {"layout": "NoRebuild 3x2"},
    {"layout": "lazy 3x2"},
    {"layout": "chronological 2x3", "rebuild": True},
    {"layout": "R-exp3"},
    {"layout": "NoRebuild 1x3", "span": 3},
    {"groups": 2},
    {"fan_in": 2},
    {"layout": "WATA3"},
]


def check(archive: Archive, given: list[Row], now: int) -> None:
    alive = [row for row in given if row[2] > now]
    assert ids(archive.scan()) == sorted(row[3] for row in alive)
    for key in range(5):
        assert ids(archive.probe(key)) == sorted(row[3] for row in alive if row[0] == key)
    assert archive.inspect.status().rows == len(alive)
    assert archive.maintain.verify().ok, archive.maintain.verify()


@pytest.mark.parametrize("method", ["rebuild", "side by side"])
def test_from_layout_to_layout(tmp_path: Path, method: str) -> None:
    archive, chance = made(tmp_path / "a", "NoRebuild 2x2", parts=2), Random(method)
    given: list[Row] = []
    steps = iter(STEPS)
    for update in range(1, 3 * len(STEPS)):
        archive.update(table(rows_of(update)))
        given += rows_of(update)
        if update % 3 == 0:
            void = chance.choice([row for row in given if row[2] > 10 * update])
            archive.invalidate(rows=table([void]))
            given.remove(void)
            step = next(steps)
            report = archive.migrate(**step, method=method)
            assert report.rows == sum(row[2] > 10 * update for row in given)
            if "layout" in step:
                assert (
                    str(archive.settings.layout).split()[0]
                    in step["layout"] + " round-robin chronological"
                )
        check(archive, given, 10 * update)
    for update in range(3 * len(STEPS), 3 * len(STEPS) + 3 * P):
        archive.update(None)
        check(archive, given, 10 * update)
    assert not archive.version().manifest.segments
    assert set(archive.version().state.wave.constituents) == set(archive.settings.layout.names)  # type: ignore[union-attr]


def test_side_by_side_moves_nothing_and_empties_itself(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    for update in range(1, P + 1):
        archive.update(table(rows_of(update)))
    report = archive.migrate(layout="NoRebuild 3x3", method="side by side")
    assert (report.bytes_read, report.bytes_written) == (0, 0)
    assert report.left == 4
    for update in range(P + 1, 2 * P + 1):
        archive.update(table(rows_of(update)))
    assert not [name for name in archive.version().state.runs if name.startswith("old")]


def test_a_longer_lifetime(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    given = rows_of(1)
    archive.update(table(given))
    long = [(1, 20, 20 + 3 * P * 10, 999)]
    with pytest.raises(BadInput, match="migrate the archive to a longer one"):
        archive.update(table(long))
    archive.migrate(max_lifetime=f"{3 * P * 10} us")
    archive.update(table(long))
    check(archive, given + long, 20)
    archive.migrate(max_lifetime=f"{P * 10} us", method="side by side")
    for update in range(3, 3 * P + 3):  # what lives longer than the lowered S stays until its exp
        archive.update(None)
        check(archive, given + long, 10 * update)


@pytest.mark.halved
@pytest.mark.parametrize("method", ["rebuild", "side by side"])
@pytest.mark.parametrize("layout", ["Rebuild 2x2", "NoRebuild 2x2"])
@pytest.mark.parametrize("refresh", [5, 20, 7])
def test_another_refresh_interval(tmp_path: Path, refresh: int, layout: str, method: str) -> None:
    archive = made(tmp_path / "a", layout)
    given: list[Row] = []
    for update in range(1, 7):
        archive.update(table(rows_of(update)))
        given += rows_of(update)
    for void in given[-1], given[-3]:
        archive.invalidate(rows=table([void]))
        given.remove(void)
    report = archive.migrate(refresh=f"{refresh} us", method=method)
    assert report.rows == sum(row[2] > 60 for row in given)
    assert report.ended == 0
    assert (report.bytes_written == 0) == (method == "side by side")
    check(archive, given, 60)
    now = archive.version().time
    assert now == 60
    for number in range(10):
        ts = now + refresh
        archive.update(table([(number % 5, ts, ts + 30, 5000 + number)]))
        given.append((number % 5, ts, ts + 30, 5000 + number))
        now = archive.version().time
        assert now == ts
        check(archive, given, now)
        if number == 3:  # what came before the change is meant, too
            archive.invalidate([2])
            given = [row for row in given if row[0] != 2]
            check(archive, given, now)
    archive.migrate(refresh="10 us")
    check(archive, given, now)


def test_a_change_of_pace_does_not_show_the_dead_again(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2", contract="SOFT(2)")
    for update in range(1, 7):
        archive.update(table(rows_of(update)))
    shown = ids(archive.scan())
    with pytest.raises(InvalidSetting, match='use method="rebuild"'):
        archive.migrate(refresh="30 us", method="side by side")
    archive.migrate(refresh="5 us", method="side by side")
    assert set(ids(archive.scan())) <= set(shown)
    assert archive.maintain.verify().ok


def waiting_row(staging: Staging) -> Segment:
    row = pa.table({TS: pa.array([15], pa.int64()), EXP: pa.array([30], pa.int64())})
    waiting = write_segment(staging.repository.directory, "day/2", row, format="parquet")
    assert waiting is not None
    return waiting


def test_times_of_updates_stay_while_rows_wait_for_them(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    archive.update(table(rows_of(1)))
    staging = Staging.at(tmp_path / "a", "web")
    staging.add(staging.current(), [waiting_row(staging)], (), Brought(batch=0, rows=1))
    with pytest.raises(InvalidSetting, match="the sink web holds 1 row back") as refusal:
        archive.migrate(refresh="5 us")
    assert "flush()" in refusal.value.hint
    archive.migrate(layout="NoRebuild 2x2")
    wave = mayfly.archive.create(tmp_path / "w", DDL, key="k", window=3, refresh="10 us", origin=0)
    wave.update(table([]), update=1)
    before = wave.version().manifest.version
    wave.migrate(refresh="5 us")
    (tmp_path / "a" / "staged").rename(tmp_path / "w" / "staged")
    for refused in (
        lambda: wave.maintain.rollback(before),
        lambda: wave.migrate(max_lifetime="30 us", exp="exp"),
        lambda: wave.migrate(refresh="10 us"),
    ):
        with pytest.raises(InvalidSetting, match="the sink web holds 1 row back"):
            refused()


def test_rows_that_are_staged_meanwhile_stop_a_change(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    archive.update(table(rows_of(1)))

    def stage() -> None:
        staging = Staging.at(tmp_path / "a", "web")
        staging.add(staging.current(), [waiting_row(staging)], (), Brought(batch=0, rows=1))

    with (
        faults.on_reach("archive.moved", stage),
        pytest.raises(InvalidSetting, match="holds 1 row back"),
    ):
        archive.migrate(refresh="5 us")
    check(archive, rows_of(1), 10)
    assert archive.settings.calendar.time_of(2) == 20


def test_an_update_that_was_numbered_by_former_times_is_not_done(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    archive.update(table(rows_of(1)))
    former = archive.settings.calendar
    archive.migrate(refresh="100 us", max_lifetime="800 us")
    with pytest.raises(CommitConflict, match="times of updates"):
        archive.update(None, update=2, calendar=former)
    assert archive.update(None, update=2, calendar=archive.settings.calendar).update == 2


def test_rows_declared_void_before_a_column_came(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    for update in range(1, 4):
        archive.update(table(rows_of(update)))
    given = rows_of(1) + rows_of(2) + rows_of(3)
    void = next(row for row in given if row[2] > 30)
    archive.invalidate(rows=table([void]))
    archive.maintain.add_column("w", "STRING")
    given.remove(void)
    check(archive, given, 30)
    archive.migrate(refresh="5 us", method="side by side")
    check(archive, given, 30)


def test_what_is_rebuilt_is_not_young(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    for update in range(1, 7):
        archive.update(table(rows_of(update)))
    archive.migrate(span=2)
    files = archive.version().manifest.segments.values()
    assert {(one.path.rpartition(".")[2], one.level) for one in files} == {("parquet", 2)}


def test_a_promise_can_be_added(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "WATA3")
    given: list[Row] = []
    for update in range(1, 14):
        archive.update(table(rows_of(update)))
        given += rows_of(update)
    archive.migrate(contract="PHYSICAL WITHIN 10 us")
    assert archive.inspect.status().contract == "HARD PHYSICAL WITHIN 10 us"
    check(archive, given, 130)
    assert archive.inspect.status().erased_until == 130


@pytest.mark.parametrize("point", ["archive.run-written", "archive.moved", "commit.checked"])
def test_a_migration_that_fails_changes_nothing(tmp_path: Path, point: str) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    given: list[Row] = []
    for update in range(1, 6):
        archive.update(table(rows_of(update)))
        given += rows_of(update)

    def fail() -> None:
        raise OSError("pulled the plug")

    with faults.on_reach(point, fail), pytest.raises(OSError, match="plug"):
        archive.migrate(layout="Rebuild 3x3")
    again = mayfly.archive.open(tmp_path / "a")
    check(again, given, 50)
    again.update(table(rows_of(6)))
    check(again, given + rows_of(6), 60)
    again.migrate(layout="Rebuild 3x3")
    check(again, given + rows_of(6), 60)


def test_an_archive_without_updates_is_migrated_and_goes_on(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    archive.migrate(layout="Rebuild 2x2")
    assert archive.inspect.reports() == []
    archive.update(table(rows_of(1)))
    archive.update(table(rows_of(2)))
    check(archive, rows_of(1) + rows_of(2), 20)
    assert [one["update"] for one in archive.inspect.reports()] == [1, 2]


@pytest.mark.parametrize(("refresh", "last"), [(5, 12), (20, 6), (9, 7)])
def test_past_updates_are_reported_once_whatever_their_numbers_become(
    tmp_path: Path, refresh: int, last: int
) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2")
    for update in range(1, 7):
        archive.update(table(rows_of(update)))
    archive.migrate(refresh=f"{refresh} us")
    assert archive.version().state.update == last
    archive.update(None)
    archive.update(None)
    assert [one["update"] for one in archive.inspect.reports()] == [
        *range(1, 7),
        last + 1,
        last + 2,
    ]


def test_what_is_not_given_stays(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "NoRebuild 2x2", fan_in=7, clustered=False)
    archive.migrate(layout="lazy 3x2")
    assert (archive.settings.layout.fan_in, archive.settings.family.clustered) == (7, False)  # type: ignore[union-attr]
    archive.migrate(layout="lazy 3x2", fan_in=3)
    assert archive.settings.layout.fan_in == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("layout", ["Rebuild 2x7", "NoRebuild 2x9", None])
def test_no_row_outlives_a_gap_because_lifetimes_were_lowered(
    tmp_path: Path, layout: str | None
) -> None:
    archive = made(tmp_path / "a", layout)
    for update in range(1, 9):
        archive.update(table(rows_of(update)))
    archive.migrate(max_lifetime="20 us")
    report = archive.update(None, update=20)
    assert report.dead_but_stored == archive.scan(soft=True).num_rows == 0


def test_a_promise_about_bytes_is_not_added_where_nothing_moves(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "WATA3")
    for update in range(1, 14):
        archive.update(table(rows_of(update)))
    with pytest.raises(InvalidSetting, match='use method="rebuild"'):
        archive.migrate(contract="PHYSICAL WITHIN 10 us", method="side by side")
    archive.migrate(contract="PHYSICAL WITHIN 30 us")
    archive.migrate(contract="PHYSICAL WITHIN 40 us", layout="Rebuild 2x2", method="side by side")
    assert archive.maintain.verify().ok


def test_what_cannot_be_migrated(tmp_path: Path) -> None:
    wave = mayfly.archive.create(tmp_path / "w", DDL, key="k", window=3)
    with pytest.raises(InvalidSetting, match="layout: not for an archive of a window"):
        wave.migrate(layout="Rebuild 2x2")
    with pytest.raises(InvalidSetting, match="scheme: not for an archive whose rows have their"):
        made(tmp_path / "b").migrate(scheme="DEL")
    with pytest.raises(InvalidSetting, match="side by side"):
        made(tmp_path / "a").migrate(method="slowly")


def test_the_largest_gap_is_changed_without_writing_rows(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2", max_gap="2 days")
    archive.update(table(rows_of(1)))
    files = list(archive.version().manifest.segments)
    report = archive.migrate(max_gap="none", method="side by side")
    assert (report.rows, report.bytes_written, report.left) == (len(rows_of(1)), 0, 0)
    assert archive.settings.max_gap == NEVER
    archive.migrate(max_gap="3 days")
    assert list(archive.version().manifest.segments) == files
    archive.migrate(layout="NoRebuild 3x2", method="side by side")
    assert mayfly.archive.open(tmp_path / "a").settings.max_gap == 3 * DAY
    with pytest.raises(InvalidSetting, match="max_gap is 0"):
        archive.migrate(max_gap="0 days")


def test_rows_that_get_lifetimes_keep_the_largest_gap(tmp_path: Path) -> None:
    archive = mayfly.archive.create(tmp_path / "a", DDL, key="k", window=3, max_gap="5 days")
    archive.migrate(max_lifetime="9 days", lifetime="2 days")
    assert archive.settings.max_gap == 5 * DAY
