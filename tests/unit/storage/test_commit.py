"""One commit path: conflicts, stale writers, rollback, pins, and directories that move."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mayfly.errors import CommitConflict, CorruptFile, InvalidEdit, StorageError, VersionExpired
from mayfly.faults import on_reach
from mayfly.storage import (
    AddSegments,
    Manifest,
    MoveSegments,
    Repository,
    SetProperties,
    TagSegment,
    open_segment,
    vacuum,
    verify,
)
from mayfly.storage.commit import LOST_AT_MOST, head_name, manifest_name
from mayfly.storage.directory import Directory
from mayfly.storage.manifest import LINEAGE
from tests.unit.storage.rows import flip_a_byte, ids_of, segment


def advance(repository: Repository, times: int = 1) -> Manifest:
    for _ in range(times):
        base = repository.current()
        repository.commit(base, [SetProperties({"n": base.version + 1})])
    return repository.current()


def once(action: Callable[[], object]) -> Callable[[], None]:
    """A race that happens the first time only; the racing code passes the same points."""
    left = [action]

    def run() -> None:
        if left:
            left.pop()()

    return run


def test_a_new_directory_has_version_0(repository: Repository) -> None:
    assert repository.versions() == [0]
    assert repository.current().properties == {"made": "here"}
    assert Repository.exists(repository.directory.root)
    assert Repository.open(repository.directory.root).current() == repository.current()


def test_a_directory_is_created_once(repository: Repository) -> None:
    with pytest.raises(CommitConflict, match="already holds a Mayfly directory"):
        Repository.create(repository.directory.root, {})


def test_a_directory_is_not_created_over_a_vacuumed_one(repository: Repository) -> None:
    advance(repository, 3)
    vacuum(repository, keep_versions=1)
    with pytest.raises(CommitConflict, match="already holds a Mayfly directory"):
        Repository.create(repository.directory.root, {})


def test_opening_nothing_says_so(tmp_path: Path) -> None:
    assert not Repository.exists(tmp_path)
    with pytest.raises(StorageError, match="there is no Mayfly directory at"):
        Repository.open(tmp_path)


def test_of_two_writers_one_wins_and_the_other_loses_nothing(repository: Repository) -> None:
    base = repository.current()
    mine, other = segment(repository, [1]), segment(repository, [2])
    repository.commit(base, [AddSegments((other,))])
    with pytest.raises(CommitConflict, match="another writer committed version 1"):
        repository.commit(base, [AddSegments((mine,))])
    current = repository.current()
    assert ids_of(repository, current) == [2]
    assert ids_of(repository, repository.commit(current, [AddSegments((mine,))])) == [1, 2]


def test_a_writer_that_commits_between_check_and_link_wins(repository: Repository) -> None:
    base = repository.current()

    def overtake() -> None:
        repository.commit(base, [SetProperties({"by": "other"})])

    with (
        on_reach("commit.checked", once(overtake)),
        pytest.raises(CommitConflict, match="another writer committed version 1"),
    ):
        repository.commit(base, [SetProperties({"by": "me"})])
    assert repository.current().properties["by"] == "other"
    assert repository.directory.all_names("manifest") == [
        manifest_name(0),
        manifest_name(1),
        head_name(1),
    ]


def test_a_stale_writer_cannot_take_a_number_that_was_vacuumed(repository: Repository) -> None:
    stale = repository.current()
    latest = advance(repository, 4)
    with repository.pin(0):
        pass
    vacuum(repository, keep_versions=1)
    assert not repository.directory.exists(manifest_name(1))
    with pytest.raises(CommitConflict):
        repository.commit(stale, [SetProperties({"by": "stale"})])
    assert repository.current() == latest


def test_nor_one_that_was_vacuumed_while_its_base_is_pinned(repository: Repository) -> None:
    stale = repository.current()
    with repository.pin(0):
        latest = advance(repository, 4)
        vacuum(repository, keep_versions=1)
        assert repository.directory.exists(manifest_name(0))
        with pytest.raises(CommitConflict):
            repository.commit(stale, [SetProperties({"by": "stale"})])
    assert repository.current() == latest


def test_nor_one_that_is_vacuumed_between_check_and_link(repository: Repository) -> None:
    """A writer held up for so long that others commit and vacuum meanwhile."""
    stale = repository.current()

    def overtake() -> None:
        advance(repository, 4)
        vacuum(repository, keep_versions=1)

    with (
        on_reach("commit.checked", once(overtake)),
        pytest.raises(CommitConflict, match="another writer committed version 1"),
    ):
        repository.commit(stale, [SetProperties({"by": "stale"})])
    assert repository.versions() == [4]
    assert "by" not in repository.current().properties
    vacuum(repository, keep_versions=1)
    assert not repository.directory.exists(manifest_name(1))


def test_a_writer_held_up_for_too_many_versions_is_told_to_look(repository: Repository) -> None:
    stale = repository.current()

    def overtake() -> None:
        advance(repository, LINEAGE + 1)
        vacuum(repository, keep_versions=1)

    with (
        on_reach("commit.checked", once(overtake)),
        pytest.raises(StorageError, match=r"moved .* far past version 1") as caught,
    ):
        repository.commit(stale, [SetProperties({"by": "stale"})])
    assert "read the current version" in caught.value.hint


def test_a_commit_that_others_build_on_and_vacuum_at_once_has_succeeded(
    repository: Repository,
) -> None:
    def overtake() -> None:
        advance(repository, 4)
        vacuum(repository, keep_versions=1)

    with on_reach("commit.published", once(overtake)):
        mine = repository.commit(repository.current(), [SetProperties({"by": "me"})])
    assert mine.version == 1
    assert repository.versions() == [5]
    assert repository.current().properties["by"] == "me"


def test_a_rollback_starts_a_lineage_of_its_own(repository: Repository) -> None:
    advance(repository, 3)
    back = repository.rollback(1)
    assert len(back.lineage) == 1
    assert back.commit_id(3) is None


def test_a_base_from_elsewhere_is_refused(repository: Repository, tmp_path: Path) -> None:
    other = Repository.create(tmp_path / "other", {}, sync=False)
    foreign = advance(other, 3)
    with pytest.raises(StorageError, match="there is no version 3 in"):
        repository.commit(foreign, [])


def test_a_segment_without_its_file_cannot_be_committed(repository: Repository) -> None:
    base = repository.current()
    gone, cut = segment(repository, [1]), segment(repository, [2])
    repository.directory.remove(gone.path)
    os.truncate(repository.directory.root / cut.path, cut.bytes - 1)
    with pytest.raises(CommitConflict, match="was removed by a vacuum, or written"):
        repository.commit(base, [AddSegments((gone,))])
    with pytest.raises(CorruptFile, match="bytes instead of"):
        repository.commit(base, [AddSegments((cut,))])
    assert repository.versions() == [0]
    assert repository.directory.all_names("intents") == []


def test_a_failing_edit_publishes_nothing(repository: Repository) -> None:
    with pytest.raises(InvalidEdit):
        repository.commit(repository.current(), [MoveSegments(("data/none",), "g")])
    assert repository.versions() == [0]


def test_old_versions_stay_what_they_were(repository: Repository) -> None:
    one, two = segment(repository, [1]), segment(repository, [2])
    first = repository.commit(repository.current(), [AddSegments((one,))])
    second = repository.commit(first, [AddSegments((two,)), TagSegment(one.path, {"x": 1})])
    assert repository.load(1) == first
    assert repository.load(2) == second
    assert ids_of(repository, repository.load(1)) == [1]


def test_a_version_that_is_not_there_is_reported_with_those_that_are(
    repository: Repository,
) -> None:
    advance(repository, 5)
    vacuum(repository, keep_versions=2)
    for read in (repository.load, repository.pin, repository.rollback):
        with pytest.raises(VersionExpired, match=r"version 1 .* is not retained .kept: 4 to 5."):
            read(1)
    assert repository.pinned_versions() == {}


def test_rollback_is_a_new_version_with_the_old_content(repository: Repository) -> None:
    one, two = segment(repository, [1]), segment(repository, [2])
    first = repository.commit(repository.current(), [AddSegments((one,)), SetProperties({"n": 1})])
    second = repository.commit(first, [AddSegments((two,)), SetProperties({"n": 2, "m": 3})])
    back = repository.rollback(1)
    assert back.version == 3
    assert (back.segments, back.properties) == (first.segments, first.properties)
    assert repository.current() == back
    assert repository.load(2) == second
    assert repository.pinned_versions() == {}
    vacuum(repository, keep_versions=1, grace=0)
    assert ids_of(repository, repository.current()) == [1]


def test_rollback_over_a_damaged_newest_manifest(repository: Repository) -> None:
    good = advance(repository)
    advance(repository)
    flip_a_byte(repository.directory.root / manifest_name(2), 120)
    with pytest.raises(CorruptFile, match="roll back to an older version"):
        repository.current()
    report = verify(repository)
    assert [problem.path for problem in report.problems] == [manifest_name(2)]
    assert repository.rollback(1).properties == good.properties
    assert repository.current().version == 3
    vacuum(repository, keep_versions=1, grace=0)
    assert repository.versions() == [3]


def test_rollback_to_a_version_with_a_missing_file_is_refused(repository: Repository) -> None:
    one = segment(repository, [1])
    repository.commit(repository.current(), [AddSegments((one,))])
    advance(repository)
    repository.directory.remove(one.path)
    with pytest.raises(CorruptFile, match=one.path):
        repository.rollback(1)
    assert repository.versions() == [0, 1, 2]
    assert repository.pinned_versions() == {}


def test_rollback_to_a_version_with_a_damaged_file_is_refused(repository: Repository) -> None:
    one = segment(repository, [1])
    repository.commit(repository.current(), [AddSegments((one,))])
    open_segment(repository.directory, one)  # this process has found it intact
    advance(repository)
    flip_a_byte(repository.directory.root / one.path, one.bytes // 2)
    with pytest.raises(CorruptFile, match=f"version 1 of .* is not whole: .*{one.path}"):
        repository.rollback(1)
    assert repository.versions() == [0, 1, 2]
    assert repository.rollback(0).version == 3


def test_a_lost_newest_manifest_is_noticed(repository: Repository) -> None:
    base, _ = advance(repository), advance(repository)
    repository.directory.remove(manifest_name(2))
    for attempt in (
        repository.current,
        repository.pin,
        lambda: repository.commit(base, []),
        lambda: vacuum(repository),
    ):
        with pytest.raises(CorruptFile, match=r"version 2 .*0002\.json is gone") as caught:
            attempt()
        assert "roll back to version 1" in caught.value.hint
    assert repository.rollback(1).version == 3
    assert repository.current().properties == base.properties
    assert verify(repository).ok


def test_a_newest_manifest_that_is_lost_with_its_mark_is_noticed(repository: Repository) -> None:
    base, _ = advance(repository), advance(repository)
    for name in (manifest_name(2), head_name(2)):
        repository.directory.remove(name)
    for attempt in (
        repository.current,
        repository.pin,
        lambda: repository.commit(base, []),
        lambda: vacuum(repository),
    ):
        with pytest.raises(
            CorruptFile, match=r"version 1 is the newest .* later .* may be"
        ) as lost:
            attempt()
        assert "roll back to version 1" in lost.value.hint
    (problem,) = verify(repository).problems
    assert problem.path == head_name(1)
    back = repository.rollback(1)
    assert (back.version, back.after) == (1 + LOST_AT_MOST + 1, 1)
    assert repository.current().properties == base.properties
    assert verify(repository).ok
    assert advance(repository).after is None
    repository.directory.remove(manifest_name(back.version))
    assert [one.path for one in verify(repository).problems].count(manifest_name(back.version))
    vacuum(repository, keep_versions=1, grace=0)
    assert verify(repository).ok


def test_who_has_seen_a_lost_version_gets_no_other_by_its_number(repository: Repository) -> None:
    base = advance(repository)
    seen = [advance(repository) for _ in range(3)]
    for version in (2, 3, 4):
        repository.directory.remove(manifest_name(version))
    repository.directory.remove(head_name(4))
    repository.rollback(1)
    for manifest in seen:
        with pytest.raises(VersionExpired):
            repository.load(manifest.version)
    for manifest in (base, *seen):
        with pytest.raises(CommitConflict):
            repository.commit(manifest, [SetProperties({"by": "a writer of then"})])


def test_a_writer_from_before_a_lost_version_conflicts_with_the_rollback(
    repository: Repository,
) -> None:
    base, _ = advance(repository), advance(repository)
    repository.directory.remove(manifest_name(2))
    assert repository.rollback(1).version == 3
    with pytest.raises(CommitConflict):
        repository.commit(base, [SetProperties({"by": "a writer of then"})])
    assert repository.versions() == [0, 1, 3]


def test_a_mark_that_a_crash_did_not_move_is_mark_enough(repository: Repository) -> None:
    advance(repository)

    def crash() -> None:
        raise KeyboardInterrupt

    with on_reach("commit.published", once(crash)), pytest.raises(KeyboardInterrupt):
        advance(repository)
    vacuum(repository, keep_versions=1, grace=0)
    assert repository.current().version == 2
    assert advance(repository).version == 3


def test_directories_without_marks_are_read_on(repository: Repository) -> None:
    """Earlier versions made none, and a creation may be cut short before the first."""
    repository.directory.remove(head_name(0))
    assert repository.current().version == 0
    for version in (1, 2):
        unmarked = replace(repository.load(version - 1).followed_by(), marked=False)
        repository.directory.put_if_absent(manifest_name(version), unmarked.encode())
    assert repository.current().version == 2
    assert advance(repository).version == 3


def test_a_version_that_appears_while_others_are_listed_is_not_lost(repository: Repository) -> None:
    """A listing may show the head and not yet the manifest, or miss what a vacuum then removes."""
    advance(repository)
    real = Directory.names

    def late(directory: Directory, folder: str) -> list[str]:
        found = real(directory, folder)
        monkeypatch.undo()
        advance(repository, 3)
        vacuum(repository, keep_versions=1, grace=0)
        return [*found, head_name(2)]

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Directory, "names", late)
        assert repository.newest() == 4


def test_rollback_loses_against_a_commit_in_between(repository: Repository) -> None:
    advance(repository, 2)
    with (
        on_reach("commit.checked", once(lambda: advance(repository))),
        pytest.raises(CommitConflict),
    ):
        repository.rollback(1)
    assert repository.current().properties["n"] == 3
    assert repository.pinned_versions() == {}


def test_a_manifest_under_the_wrong_number_is_refused(repository: Repository) -> None:
    advance(repository)
    root = repository.directory.root
    shutil.copy(root / manifest_name(0), root / manifest_name(2))
    with pytest.raises(CorruptFile, match=r"0002\.json holds version 0"):
        repository.current()


def test_a_directory_that_lost_its_manifests_says_so(repository: Repository) -> None:
    repository.directory.remove(manifest_name(0))
    for read in (
        repository.current,
        repository.pin,
        lambda: vacuum(repository),
        lambda: Repository.open(repository.directory.root),
    ):
        with pytest.raises(CorruptFile, match="has lost all its manifests"):
            read()


def test_a_damaged_oldest_number_is_reported(repository: Repository) -> None:
    advance(repository, 3)
    vacuum(repository, keep_versions=1)
    repository.directory.replace("manifest/oldest", b"many\n")
    with pytest.raises(CorruptFile, match="manifest/oldest is damaged"):
        repository.versions()


def test_a_moved_directory_works_on(repository: Repository, tmp_path: Path) -> None:
    one = segment(repository, [1])
    repository.commit(repository.current(), [AddSegments((one,))])
    moved = shutil.move(repository.directory.root, tmp_path / "elsewhere/deep")
    again = Repository.open(moved, sync=False)
    assert ids_of(again, again.current()) == [1]
    two = segment(again, [2])
    manifest = again.commit(again.current(), [AddSegments((two,))])
    assert ids_of(again, manifest) == [1, 2]
    assert verify(again).ok
    for name in again.directory.names("manifest"):
        assert str(tmp_path).encode() not in again.directory.read(name)


def test_a_root_that_is_a_link_works(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository.directory.root)
    again = Repository.open(tmp_path / "link/../link", sync=False)
    one = segment(again, [1])
    again.commit(again.current(), [AddSegments((one,))])
    assert ids_of(repository, repository.current()) == [1]
    assert open_segment(again.directory, one).num_rows == 1


def test_the_wall_clock_of_commits_does_not_run_backwards(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repository.current().written_at
    monkeypatch.setattr("mayfly.storage.commit.wall_clock", lambda: before - 10)
    assert repository.commit(repository.current(), []).written_at == before


def test_the_folder_of_new_data_is_synced_before_the_manifest_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository.create(tmp_path / "store", {})
    one = segment(repository, [1])
    order: list[str] = []
    fsync, link = os.fsync, os.link

    def note_sync(descriptor: int) -> None:
        order.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def note_link(source: Path, target: Path) -> None:
        order.append(f"link {target.name}")
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    repository.commit(repository.current(), [AddSegments((one,))])
    intent, data, temporary, linked, folder = order
    assert intent.startswith("link 00000000000000000001-")
    assert data == "data"
    assert temporary.startswith(".tmp-")
    assert linked == f"link {Path(manifest_name(1)).name}"
    assert folder == "manifest"
