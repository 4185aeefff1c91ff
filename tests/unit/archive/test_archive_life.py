"""The life of an archive: two commits of a day, versions, columns, pins, vacuums, long gaps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme, WaveState
from mayfly.archive.model import state as archive_state
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.selection import Selection
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.local_jobs import InProcess
from mayfly.archive.write.part_writer import PartResult, WriteJob
from mayfly.archive.write.update_report import UpdateReport
from mayfly.errors import (
    BadInput,
    CommitConflict,
    InvalidSetting,
    ProtocolError,
    StorageError,
    VersionExpired,
)
from mayfly.faults import on_reach
from mayfly.storage import DropSegments, Repository, SetProperties
from mayfly.storage.commit import manifest_name
from tests.unit.archive.small_archive import day_rows, said, small_archive, small_settings, values

LADDERS = [
    WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, 6, 2),
    WaveLayout(WaveScheme.RATA, 6, 2),
    WaveLayout(WaveScheme.RATA, 7, 3, spread=True),
    WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, 7, 2, spread=True),
]


class PowerCut(Exception):
    """Stands for the end of the process."""


def cut() -> None:
    raise PowerCut


def reopened(archive: Archive) -> Archive:
    return Archive.open(archive.repository.directory.root, archive.executor, sync=False)


# -- a day in two commits ------------------------------------------------------------------------


@pytest.mark.parametrize("technique", UpdateTechnique)
@pytest.mark.parametrize("layout", LADDERS, ids=str)
@pytest.mark.parametrize("point", ["archive.committed", "archive.prepared"])
def test_work_for_later_days_is_made_up_for_after_a_crash(
    tmp_path: Path, layout: WaveLayout, technique: UpdateTechnique, point: str
) -> None:
    """The day can be queried after its first commit, and nobody notices that the rest was late."""
    settings = small_settings(layout=layout, technique=technique)
    archive = small_archive(tmp_path / "archive", settings=settings)
    interrupted = 0
    for day in range(1, 2 * layout.window + 3):
        step = layout.transition(layout.state_after(day - 1), day)
        window = range(max(1, day - layout.window + 1), day + 1)
        if step.pre_transition:
            with on_reach(point, cut), pytest.raises(PowerCut):
                archive.update(day_rows(day))
            archive = reopened(archive)
            interrupted += 1
            assert not archive.version().state.prepared
            assert archive.version().state.wave == step.arrived
            assert values(archive.scan()) == said(window)
            assert values(archive.probe(3)) == said(window, [3])
            if day % 2 or point == "archive.prepared":  # otherwise the next update does it
                assert archive.updates.committer.prepare()["pre_transition_seconds"] >= 0
                assert archive.updates.committer.prepare() == {}
                assert archive.version().state.wave == step.after
                assert archive.maintain.verify().ok
        else:
            archive.update(day_rows(day))
        assert values(archive.scan()) == said(window)
    assert interrupted >= 2


def test_the_two_commits_are_reported_apart(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", scheme="REINDEX++", window=6, keep_versions=9)
    for day in range(1, 6):
        archive.update(day_rows(day))
    report = archive.update(day_rows(6))
    arrived, prepared = archive.inspect.history()[-2:]
    assert (arrived.state.prepared, prepared.state.prepared) == (False, True)
    assert arrived.state.report["pre_transition_seconds"] == 0.0
    assert report.pre_transition_seconds > 0.0
    assert report.bytes_written > arrived.state.report["bytes_written"] > 0
    assert report.transition_seconds == arrived.state.report["transition_seconds"]


def test_another_writer_may_do_the_work_for_later_days(tmp_path: Path) -> None:
    """Between the two commits somebody else prepares: the first writer has nothing to regret."""
    archive = small_archive(tmp_path / "archive", days=5, scheme="REINDEX++", window=6)
    other = reopened(archive)
    with on_reach("archive.committed", other.updates.committer.prepare):
        report = archive.update(day_rows(6))
    assert report.update == 6
    assert not report.repeated
    raced = iter([other.updates.committer.prepare])
    with on_reach("archive.prepared", lambda: next(raced, lambda: None)()):
        archive.update(day_rows(7))
    assert archive.version().state.wave == archive.settings.wave.state_after(7)
    assert values(archive.scan()) == said(range(2, 8))


def test_late_rows_and_gaps_take_one_commit(tmp_path: Path) -> None:
    archive = small_archive(
        tmp_path / "archive", days=6, scheme="REINDEX++", window=6, late="own day"
    )
    before = archive.version().manifest.version
    late = pa.concat_tables([day_rows(7), day_rows(5)])
    assert archive.update(late).late == 10
    assert archive.version().manifest.version == before + 1
    assert_only_needed_runs_are_named(archive)
    archive.update(day_rows(10), update=10)
    assert archive.version().manifest.version == before + 2
    assert values(archive.scan()) == sorted(said([5, 6, 7, 10]) + said([5]))
    for day in range(11, 18):
        archive.update(pa.concat_tables([day_rows(day), day_rows(day - 1), day_rows(day - 2)]))
        assert_only_needed_runs_are_named(archive)


def assert_only_needed_runs_are_named(archive: Archive) -> None:
    named = set(archive.version().manifest.groups)
    assert named <= {f"run/{run}" for run in archive.version().state.used_runs()}


# -- which update --------------------------------------------------------------------------------


def test_updates_by_number_by_time_and_by_turn(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive")
    assert archive.update(day_rows(1)).update == 1
    assert archive.update(day_rows(3), update=3).update == 3
    assert archive.update(day_rows(5), at=401).update == 5
    assert archive.update(None, at="1970-01-01T00:00:00.000600").update == 6
    assert values(archive.scan()) == said([3, 5])
    with pytest.raises(InvalidSetting, match="both update and at"):
        archive.update(None, update=7, at=700)
    with pytest.raises(BadInput, match="update 4, but update 6 is already committed"):
        archive.update(day_rows(4), update=4)


def test_a_batch_is_taken_once(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive")
    archive.update(day_rows(1), batch_id="a")
    archive.update(day_rows(2))
    assert archive.update(day_rows(1), batch_id="a") == UpdateReport(1, repeated=True)
    assert archive.update(day_rows(9), batch_id="a", update=9) == UpdateReport(1, repeated=True)
    assert archive.update(day_rows(2), update=2) == UpdateReport(2, repeated=True)
    assert archive.version().state.update == 2
    assert values(reopened(archive).scan()) == said([1, 2])


def test_the_oldest_batch_ids_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By age: a manifest sorts them by their text, in which 10 comes before 9."""
    monkeypatch.setattr(archive_state, "BATCHES_REMEMBERED", 3)
    archive = small_archive(tmp_path / "archive", days=12)
    assert set(archive.version().state.batches) == {"update 10", "update 11", "update 12"}
    assert archive.update(day_rows(10), update=10).repeated
    with pytest.raises(BadInput, match="update 9, but update 12 is already committed"):
        archive.update(day_rows(9), update=9)


@pytest.mark.parametrize("technique", UpdateTechnique)
@pytest.mark.parametrize(
    "layout",
    [
        *(WaveLayout(scheme, 5, 3) for scheme in WaveScheme),
        WaveLayout(WaveScheme.DEL, 1, 1),
        WaveLayout(WaveScheme.WATA, 2, 2),
        WaveLayout(WaveScheme.RATA, 7, 3, spread=True),
    ],
    ids=str,
)
def test_a_gap_of_many_rounds_is_skipped(
    tmp_path: Path, layout: WaveLayout, technique: UpdateTechnique
) -> None:
    settings = small_settings(layout=layout, technique=technique)
    archive = small_archive(tmp_path / "archive", settings=settings)
    day = 0
    for gap in (0, 1, 300, 0, 0, 317, 1, 5):
        day += gap + 1
        report = archive.update(day_rows(day), update=day)
        assert archive.version().state.wave == layout.state_after(day)
        if gap > 100:
            assert values(archive.scan(soft=True)) == said([day])
            assert report.dead_but_stored == 0
    assert archive.maintain.verify().ok


def test_a_first_update_long_after_the_origin(tmp_path: Path) -> None:
    """Minutes since 1970: millions of updates are missed before the first."""
    archive = small_archive(tmp_path / "archive", scheme="RATA", window=60, constituents=5)
    first = 29_000_000
    for day in (first, first + 1, first + 60):
        archive.update(day_rows(day), update=day)
    assert values(archive.scan()) == said([first + 1, first + 60])


@pytest.mark.parametrize("scheme", WaveScheme)
def test_skipping_rounds_leads_where_stepping_leads(scheme: WaveScheme) -> None:
    for window, constituents in ((2, 2), (5, 2), (7, 3), (6, 6)):
        layouts = [WaveLayout(scheme, window, constituents)]
        if scheme in (WaveScheme.RATA, WaveScheme.REINDEX_PLUS_PLUS) and constituents > 2:
            layouts.append(WaveLayout(scheme, window, constituents, spread=True))
        for layout in layouts:
            for start in range(window, 2 * window + layout.round):
                state = layout.state_after(start)
                until = start + 3 * layout.round + 2 * window
                skipped = layout.skip_rounds(state, until)
                assert until - layout.round < skipped.day <= until
                assert skipped == layout.state_after(skipped.day)
            assert layout.skip_rounds(WaveState(), 10_000) == WaveState()
            young = layout.state_after(window)
            assert layout.skip_rounds(young, window + 2 * window - 1) is young


# -- versions ------------------------------------------------------------------------------------


def test_as_of_reads_reach_back_as_many_updates_as_are_kept(tmp_path: Path) -> None:
    """Also where an update has two versions."""
    for scheme in ("DEL", "REINDEX++"):
        archive = small_archive(tmp_path / scheme, days=9, scheme=scheme, keep_versions=3)
        for day in (7, 8, 9):
            window = range(day - 3, day + 1)
            assert values(archive.scan(as_of=100 * day)) == said(window)
            assert values(archive.probe(2, as_of=100 * day + 99)) == said(window, [2])
        with pytest.raises(VersionExpired, match="keep more versions"):
            archive.scan(as_of=699)
        assert {version.state.update for version in archive.inspect.history()} == {7, 8, 9}
        assert archive.maintain.vacuum(keep_versions=1, grace=0).files_removed > 0
        assert {version.state.update for version in archive.inspect.history()} == {9}
        assert values(archive.scan()) == said(range(6, 10))
        with pytest.raises(VersionExpired):
            archive.scan(as_of=899)


def test_rolling_back_and_going_on(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=6, keep_versions=6)
    (fourth,) = (v.manifest.version for v in archive.inspect.history() if v.state.update == 4)
    archive.maintain.rollback(fourth)
    assert archive.version().state.update == 4
    assert values(archive.scan()) == said(range(1, 5))
    assert values(archive.scan(as_of=500)) == said(range(2, 5))
    report = archive.update(day_rows(5, range(3)), update=5)
    assert not report.repeated
    assert values(archive.scan()) == sorted(said(range(2, 5)) + said([5], range(3)))
    archive.update(day_rows(6))
    archive.maintain.vacuum(keep_versions=1, grace=0)
    assert archive.maintain.verify().ok
    assert values(archive.scan()) == sorted(said([3, 4, 6]) + said([5], range(3)))


def test_columns_can_be_added(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=4, keep_versions=9)
    archive.maintain.add_column("price", "decimal(5,2)")
    assert archive.scan()["price"].null_count == 40
    assert archive.probe(3, columns=["price"])["price"].to_pylist() == [None] * 4
    archive.update(day_rows(5))
    priced = day_rows(6).append_column("price", pa.array([1] * 10, pa.decimal128(5, 2)))
    archive.update(priced)
    again = reopened(archive)
    assert again.scan()["price"].null_count == 30
    assert again.scan(as_of=399).column_names == ["k", "ts", "v"]
    for wrong, kind in (("price", "int"), ("_p", "int"), ("p", "quark")):
        with pytest.raises(InvalidSetting):
            again.maintain.add_column(wrong, kind)


def test_verify_compares_what_was_stored_with_what_the_files_show(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=5)
    assert archive.maintain.verify().ok
    manifest = archive.version().manifest
    wrong = archive.version().state.to_json()
    wrong["day_rows"]["4"] += 1
    archive.repository.commit(manifest, [SetProperties({"state": wrong})])
    (problem,) = archive.maintain.verify().problems
    assert problem.path == manifest_name(manifest.version + 1)
    assert problem.what == "its files show 10 rows of day 4, 11 were stored"
    lost = next(iter(manifest.segments))
    archive.repository.rollback(manifest.version)
    archive.repository.commit(archive.version().manifest, [DropSegments((lost,))])
    assert [problem.what for problem in archive.maintain.verify().problems] == [
        f"its files show 0 rows of day {day}, 10 were stored" for day in (3, 4)
    ]


def test_what_is_not_an_archive(tmp_path: Path) -> None:
    Repository.create(tmp_path / "other", {"kind": "checkpoint"}, sync=False)
    with pytest.raises(StorageError, match="holds a checkpoint, not an archive"):
        Archive.open(tmp_path / "other", InProcess())
    with pytest.raises(StorageError, match="no Mayfly directory"):
        Archive.open(tmp_path / "nothing", InProcess())
    small_archive(tmp_path / "archive")
    with pytest.raises(CommitConflict, match="already holds"):
        small_archive(tmp_path / "archive")


def test_a_part_that_does_not_report_back(tmp_path: Path) -> None:
    class Forgetful(InProcess):
        def write(self, batch: pa.Table | None, job: WriteJob) -> list[PartResult]:
            return super().write(batch, job)[:-1]

    archive = small_archive(tmp_path / "archive", days=2, parts=2)
    archive.updates.committer.executor = Forgetful()
    with pytest.raises(ProtocolError, match=r"parts \[0\], not for all 2"):
        archive.update(day_rows(3))
    assert values(archive.scan()) == said([1, 2])


# -- readers beside writers ----------------------------------------------------------------------


def test_a_pinned_version_outlives_updates_and_vacuums(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=4, scheme="WATA", keep_versions=1)
    pin, moment = archive.read.pin_at()
    for day in range(5, 15):
        archive.update(day_rows(day))
        archive.maintain.vacuum(grace=0)
    reader = Reader(archive.repository.directory, ArchiveVersion.of(pin.manifest))
    assert values(reader.scan(Selection(moment))) == said(range(1, 5))
    assert values(reader.probe([3], Selection(moment))) == said(range(1, 5), [3])
    pin.release()
    archive.maintain.vacuum(grace=0)
    with pytest.raises(VersionExpired, match="is gone"):
        reader.scan(Selection(moment))


def test_a_scan_in_pieces_is_undisturbed(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "archive", days=6, window=6, constituents=6, keep_versions=1)
    tables = archive.read.scan_tables()
    seen = [next(tables)]
    for day in range(7, 20):
        archive.update(day_rows(day))
        archive.maintain.vacuum(grace=0)
    seen += tables
    assert values(pa.concat_tables(seen)) == said(range(1, 7))
    assert archive.repository.pins() == {}
    assert values(pa.concat_tables(archive.read.scan_tables(as_of=2_100))) == said(range(16, 20))


def racing(archive: Archive, reads: int) -> Callable[[Reader], None]:
    """Before each of the first reads, an update and a vacuum take its files away."""
    left = iter(range(reads))

    def overtake(reader: Reader) -> None:
        if next(left, None) is not None:
            archive.update(day_rows(archive.version().state.update + 1))
            archive.maintain.vacuum(grace=0)

    return overtake


@pytest.mark.parametrize("ask", ["scan", "probe", "scan_tables"])
def test_an_unpinned_read_that_is_overtaken_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    """Once: from then on its files are pinned, however fast others commit and vacuum."""
    archive = small_archive(tmp_path / "archive", days=4, keep_versions=1)
    overtake = racing(reopened(archive), reads=100)
    choosing = "_probed" if ask == "probe" else "_segments"
    files = getattr(Reader, choosing)

    def overtaken(self: Reader, *wanted: Any) -> Any:
        overtake(self)
        return files(self, *wanted)

    monkeypatch.setattr(Reader, choosing, overtaken)
    match ask:
        case "scan":
            assert values(archive.scan()) == said(range(2, 6))
        case "probe":
            assert values(archive.probe(4)) == said(range(2, 6), [4])
        case _:
            assert values(pa.concat_tables(archive.read.scan_tables())) == said(range(1, 5))
    assert archive.repository.pins() == {}
    with pytest.raises(VersionExpired):
        archive.probe(4, as_of=archive.version().time - 1)


def test_a_version_that_expires_while_it_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuum between the list of versions and the manifest: the newest is asked again."""
    archive = small_archive(tmp_path / "archive", days=4, keep_versions=1)
    other, left = reopened(archive), iter(range(2))
    newest = Repository.newest

    def overtaken(self: Repository) -> int:
        found = newest(self)
        if self is archive.repository and next(left, None) is not None:
            other.update(day_rows(other.version().state.update + 1))
            other.maintain.vacuum(grace=0)
        return found

    monkeypatch.setattr(Repository, "newest", overtaken)
    assert values(archive.scan()) == said(range(3, 7))
