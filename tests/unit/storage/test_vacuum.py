"""Vacuum: what goes, what stays, and the races with readers and writers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mayfly.errors import CorruptFile, InvalidSetting, VersionExpired
from mayfly.faults import on_reach
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Edit,
    Manifest,
    Pin,
    Repository,
    SegmentWriter,
    VacuumReport,
    vacuum,
)
from mayfly.storage.commit import manifest_name
from tests.unit.storage.rows import data_files, flip_a_byte, ids_of, segment, table

HOUR = 3_600_000_000


def roll(repository: Repository, number: int) -> Manifest:
    """Replace everything by one segment with one row."""
    base = repository.current()
    fresh = segment(repository, [number])
    edits: list[Edit] = [DropSegments(tuple(base.segments)), AddSegments((fresh,))]
    return repository.commit(base, edits)


def clean(repository: Repository, keep_versions: int = 1) -> VacuumReport:
    return vacuum(repository, keep_versions=keep_versions, grace=0)


def test_only_what_kept_versions_name_stays(repository: Repository) -> None:
    for number in range(1, 6):
        roll(repository, number)
    sizes = repository.directory.size(manifest_name(1))
    report = clean(repository, keep_versions=2)
    assert repository.versions() == [4, 5]
    assert (report.versions_removed, report.files_removed) == (4, 3)
    assert sizes is not None
    assert report.bytes_removed > 3 * sizes
    assert data_files(repository) == {
        path for version in (4, 5) for path in repository.load(version).segments
    }
    assert ids_of(repository, repository.load(4)) == [4]


def test_a_second_vacuum_finds_nothing(repository: Repository) -> None:
    for number in range(3):
        roll(repository, number)
    clean(repository)
    assert clean(repository) == VacuumReport(0, 0, 0, 0)


def test_the_newest_version_always_stays(repository: Repository) -> None:
    assert clean(repository) == VacuumReport(0, 0, 0, 0)
    assert repository.versions() == [0]


@pytest.mark.parametrize("settings", [{"keep_versions": 0}, {"keep_for": -1}, {"grace": -1}])
def test_senseless_settings_are_refused(repository: Repository, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match="vacuum cannot keep"):
        vacuum(repository, **settings)


def test_pinned_versions_stay_readable_over_many_vacuums(repository: Repository) -> None:
    roll(repository, 1)
    with repository.pin() as pinned:
        for number in range(2, 6):
            roll(repository, number)
            clean(repository)
            assert ids_of(repository, pinned) == [1]
        assert repository.load(pinned.version) == pinned
        assert repository.versions() == [5]
    clean(repository)
    assert data_files(repository) == set(repository.current().segments)
    assert not repository.directory.exists(manifest_name(1))


def test_two_pins_of_one_version_are_two_claims(repository: Repository) -> None:
    roll(repository, 1)
    first, second = repository.pin(), repository.pin()
    roll(repository, 2)
    first.release()
    clean(repository)
    assert ids_of(repository, second.manifest) == [1]
    second.release()
    assert clean(repository).files_removed == 1


def test_a_pin_runs_out(repository: Repository) -> None:
    roll(repository, 1)
    pin = repository.pin(lease=0)
    roll(repository, 2)
    report = clean(repository)
    assert report.files_removed == 1
    assert repository.directory.names("pins") == []
    with pytest.raises(CorruptFile, match="is missing"):
        ids_of(repository, pin.manifest)
    pin.release()


def test_a_damaged_pin_stops_vacuum_by_name(repository: Repository) -> None:
    roll(repository, 1)
    repository.directory.put_if_absent("pins/torn.json", b"{")
    with pytest.raises(CorruptFile, match=r"the pin pins/torn.json is damaged"):
        clean(repository)
    assert len(data_files(repository)) == 1


def test_unnamed_young_files_are_left_to_their_commit(repository: Repository) -> None:
    young, old = segment(repository, [1]), segment(repository, [2])
    two_hours_ago = time.time() - 7200
    os.utime(repository.directory.root / old.path, (two_hours_ago, two_hours_ago))
    report = vacuum(repository)
    assert (report.files_removed, report.files_too_young) == (1, 1)
    assert data_files(repository) == {young.path}
    manifest = repository.commit(repository.current(), [AddSegments((young,))])
    assert ids_of(repository, manifest) == [1]


def test_an_abandoned_writer_leaves_nothing_behind(repository: Repository) -> None:
    writer = SegmentWriter(repository.directory, "g", table([]).schema)
    writer.write(table([1]))
    assert len(data_files(repository)) == 1
    clean(repository)
    assert data_files(repository) == set()
    writer.abandon()


def test_temporary_files_of_dead_processes_go(repository: Repository) -> None:
    left = ["manifest/.tmp-1", "pins/.tmp-2", "data/.tmp-3"]
    for name in left:
        repository.directory.put_if_absent(name, b"half a f")
    assert vacuum(repository).files_too_young == 3
    report = clean(repository)
    assert (report.files_removed, report.bytes_removed) == (3, 24)
    for name in left:
        assert not repository.directory.exists(name)


def test_what_is_not_ours_stays(repository: Repository, tmp_path: Path) -> None:
    notes = repository.directory.root / "notes.txt"
    notes.write_text("mine")
    (repository.directory.root / "other").mkdir()
    (repository.directory.root / "other/x").write_text("mine too")
    clean(repository)
    assert notes.read_text() == "mine"
    assert (repository.directory.root / "other/x").exists()


def test_versions_are_kept_for_a_time(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version n is current from hour n on; at 5:30, two and a half hours reach back to 3:00."""
    now = 0.0

    def clock() -> int:
        return int(now * HOUR) * 1000

    monkeypatch.setattr(time, "time_ns", clock)
    store = Repository.create(repository.directory.root / "timed", {}, sync=False)
    for number in range(1, 6):
        now = number
        roll(store, number)
    now = 5.5
    vacuum(store, keep_versions=1, keep_for=int(2.4 * HOUR))
    assert store.versions() == [3, 4, 5]
    vacuum(store, keep_versions=1, keep_for=int(1.5 * HOUR))
    assert store.versions() == [4, 5], "version 3 stopped being current exactly 1.5 hours ago"
    vacuum(store, keep_versions=2, keep_for=1)
    assert store.versions() == [4, 5]
    now = 50
    vacuum(store, keep_versions=1, keep_for=HOUR)
    assert store.versions() == [5]


def test_a_longer_retention_does_not_bring_versions_back(repository: Repository) -> None:
    for number in range(1, 6):
        roll(repository, number)
    with repository.pin(2):
        clean(repository, keep_versions=2)
        clean(repository, keep_versions=5)
        assert repository.versions() == [4, 5]
        assert repository.oldest() == 4


def test_a_slower_vacuum_does_not_lower_the_number(repository: Repository) -> None:
    for number in range(1, 6):
        roll(repository, number)
    raised: list[int] = []

    def overtake() -> None:
        if not raised:
            raised.append(4)
            clean(repository, keep_versions=2)

    with on_reach("vacuum.listed", overtake):
        clean(repository, keep_versions=4)
    assert repository.oldest() == 4
    repository.raise_oldest(2)
    assert repository.oldest() == 4


def test_directories_of_earlier_versions_have_their_number_in_a_file(
    repository: Repository,
) -> None:
    for number in range(1, 6):
        roll(repository, number)
    repository.directory.put_if_absent("manifest/oldest", b"3\n")
    assert repository.versions() == [3, 4, 5]
    clean(repository, keep_versions=2)
    assert repository.versions() == [4, 5]
    assert not repository.directory.exists("manifest/oldest")


def race(point: str, action: Callable[[], object], repository: Repository) -> None:
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            action()

    with on_reach(point, once):
        clean(repository)
    assert done


def test_a_reader_that_looked_before_the_number_was_raised_is_served(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pin is on disk before vacuum looks for pins: this and every later vacuum honour it."""
    roll(repository, 1)
    roll(repository, 2)
    pins: list[Pin] = []
    raise_oldest = Repository.raise_oldest

    def pin_then_raise(self: Repository, version: int) -> None:
        pins.append(repository.pin(1))
        raise_oldest(self, version)

    monkeypatch.setattr(Repository, "raise_oldest", pin_then_raise)
    clean(repository)
    clean(repository)
    (pin,) = pins
    assert ids_of(repository, pin.manifest) == [1]
    pin.release()
    assert clean(repository).files_removed == 1


def test_a_reader_that_comes_after_the_number_is_raised_is_refused(repository: Repository) -> None:
    """Vacuum may have looked for pins already, so the reader must not rely on its own."""
    roll(repository, 1)
    roll(repository, 2)
    refused: list[bool] = []

    def read() -> None:
        with pytest.raises(VersionExpired):
            repository.pin(1)
        refused.append(True)

    race("vacuum.oldest-raised", read, repository)
    race("vacuum.oldest-raised", read, repository)
    assert refused == [True, True]
    assert repository.directory.names("pins") == []


def test_a_reader_overtaken_between_pin_and_look_is_refused_or_served(
    repository: Repository,
) -> None:
    roll(repository, 1)
    roll(repository, 2)

    def vacuum_now() -> None:
        assert clean(repository).versions_removed == 1, "version 0; version 1 is pinned by now"

    with on_reach("pin.written", vacuum_now), pytest.raises(VersionExpired):
        repository.pin(1)
    assert repository.directory.names("pins") == []


def test_a_reader_of_the_current_version_tries_again(repository: Repository) -> None:
    roll(repository, 1)
    done: list[bool] = []

    def overtake() -> None:
        if not done:
            done.append(True)
            roll(repository, 2)
            roll(repository, 3)
            clean(repository)

    with on_reach("pin.written", overtake), repository.pin() as manifest:
        assert ids_of(repository, manifest) == [3]


@pytest.mark.parametrize(
    "point", ["vacuum.oldest-raised", "vacuum.manifest-removed", "vacuum.manifests-read"]
)
def test_a_commit_during_vacuum_keeps_its_files(repository: Repository, point: str) -> None:
    roll(repository, 1)
    race(point, lambda: roll(repository, 2), repository)
    assert ids_of(repository, repository.current()) == [2]


def test_a_rollback_during_vacuum_keeps_its_files(repository: Repository) -> None:
    for number in (1, 2, 3):
        roll(repository, number)

    with on_reach("vacuum.oldest-raised", lambda: repository.rollback(2)):
        clean(repository, keep_versions=2)
    assert ids_of(repository, repository.current()) == [2]


def test_a_damaged_kept_manifest_stops_the_removal_of_data(repository: Repository) -> None:
    for number in (1, 2, 3):
        roll(repository, number)
    flip_a_byte(repository.directory.root / manifest_name(2), 200)
    before = data_files(repository)
    with pytest.raises(CorruptFile, match=r"0002\.json"):
        clean(repository, keep_versions=2)
    assert data_files(repository) == before
    clean(repository, keep_versions=1)
    assert data_files(repository) == set(repository.current().segments)
