"""Random histories of a directory against a model that is nothing but dictionaries.

After every step, each retained and each pinned version must read back exactly the rows the model
remembers, whatever commits, conflicts, rollbacks, crashes and vacuums happened in between.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mayfly.errors import CommitConflict, VersionExpired
from mayfly.faults import on_reach
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Edit,
    Manifest,
    MoveSegments,
    Pin,
    Repository,
    Segment,
    SegmentWriter,
    SetProperties,
    TagSegment,
    open_segment,
    vacuum,
    verify,
    write_segment,
)
from tests.unit.storage.rows import data_files, table

T = TypeVar("T")


class Crash(BaseException):
    """Stands in for the end of the process: nothing in the code may handle it."""


def crash() -> None:
    raise Crash


@dataclass(frozen=True)
class Remembered:
    """What the model knows of a version: rows and labels by file, and the properties."""

    rows: dict[str, list[int]]
    groups: dict[str, str]
    tags: dict[str, int]
    properties: dict[str, Any]


def chosen(data: st.DataObject, among: list[T]) -> list[T]:
    """A few of them, in their order."""
    return [one for one in among if data.draw(st.integers(0, 2)) == 0]


class Versions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="mayfly-versions-"))
        self.moves = self.fresh_id = 0
        self.content: dict[str, list[int]] = {}
        self.pending: list[Segment] = []
        self.bases: list[Manifest] = []
        self.history: dict[int, Remembered] = {}
        self.kept: set[int] = set()
        self.pins: list[Pin] = []
        self.unfinished: list[SegmentWriter] = []

    def teardown(self) -> None:
        for writer in self.unfinished:
            writer.abandon()
        shutil.rmtree(self.base)

    @initialize()
    def create(self) -> None:
        self.repository = Repository.create(self.base / "0", {"n": 0}, sync=False)
        self.remember(self.repository.current(), Remembered({}, {}, {}, {"n": 0}))

    def remember(self, manifest: Manifest, expected: Remembered) -> None:
        self.history[manifest.version] = expected
        self.kept.add(manifest.version)
        self.bases.append(manifest)

    @property
    def newest(self) -> Remembered:
        return self.history[max(self.kept)]

    # -- writers ---------------------------------------------------------------------------

    def new_ids(self, count: int) -> list[int]:
        self.fresh_id += count
        return list(range(self.fresh_id - count, self.fresh_id))

    @rule(count=st.integers(1, 5), format=st.sampled_from(["arrow", "parquet"]))
    def write(self, count: int, format: str) -> None:
        ids = self.new_ids(count)
        written = write_segment(self.repository.directory, "new", table(ids), format=format)
        assert written is not None
        self.content[written.path] = ids
        self.pending.append(written)

    @rule()
    def die_while_writing(self) -> None:
        writer = SegmentWriter(self.repository.directory, "new", table([]).schema)
        writer.write(table(self.new_ids(2)))
        self.unfinished.append(writer)

    # -- commits ---------------------------------------------------------------------------

    def change(self, data: st.DataObject) -> tuple[list[Edit], Remembered]:
        """A random change of the newest version, as edits and as the model sees it."""
        before = self.newest
        adds = chosen(data, [one for one in self.pending if one.path not in before.rows])
        drops = set(chosen(data, sorted(before.rows)))
        stay = [path for path in before.rows if path not in drops]
        moved = chosen(data, stay)
        group, tag = data.draw(st.sampled_from(["a", "a/b", "c"])), data.draw(st.integers(0, 9))
        edits: list[Edit] = [
            AddSegments(tuple(adds)),
            DropSegments(tuple(sorted(drops))),
            MoveSegments(tuple(moved), group),
            *(TagSegment(path, {"t": tag}) for path in moved),
            SetProperties({"n": tag}),
        ]
        files = [*stay, *(one.path for one in adds)]
        labels = {**before.groups, **dict.fromkeys(moved, group)}
        tags = {**before.tags, **dict.fromkeys(moved, tag)}
        after = Remembered(
            rows={path: self.content[path] for path in files},
            groups={path: labels.get(path, "new") for path in files},
            tags={path: tags.get(path, -1) for path in files},
            properties={"n": tag},
        )
        return edits, after

    def taken(self, after: Remembered) -> None:
        self.pending = [one for one in self.pending if one.path not in after.rows]

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        edits, after = self.change(data)
        manifest = self.repository.commit(self.repository.current(), edits)
        self.remember(manifest, after)
        self.taken(after)

    @rule(data=st.data())
    def commit_on_a_stale_base(self, data: st.DataObject) -> None:
        stale = [one for one in self.bases if one.version < max(self.kept)]
        if stale:
            base = data.draw(st.sampled_from(stale))
            with pytest.raises(CommitConflict):
                self.repository.commit(base, [SetProperties({"n": "stale"})])

    @rule(data=st.data())
    def lose_a_race(self, data: st.DataObject) -> None:
        """Another writer commits after this one has checked its base."""
        edits, after = self.change(data)
        base = self.repository.current()
        won: list[Manifest] = []

        def other() -> None:
            if not won:
                won.append(base)
                won.append(self.repository.commit(base, edits))

        with on_reach("commit.checked", other), pytest.raises(CommitConflict):
            self.repository.commit(base, [SetProperties({"n": "lost"})])
        self.remember(won[1], after)
        self.taken(after)

    @rule(
        data=st.data(),
        point=st.sampled_from(["commit.checked", "link.before", "link.after", "commit.published"]),
    )
    def die_while_committing(self, data: st.DataObject, point: str) -> None:
        edits, after = self.change(data)
        base = self.repository.current()
        with on_reach(point, crash), pytest.raises(Crash):
            self.repository.commit(base, edits)
        # A commit links its intent before its manifest, so a link alone publishes nothing.
        published = self.repository.current().version > base.version
        assert published or point != "commit.published"
        if published:
            self.remember(self.repository.current(), after)
            self.taken(after)

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.kept)))
        self.remember(self.repository.rollback(version), self.history[version])

    # -- readers ---------------------------------------------------------------------------

    @rule(data=st.data())
    def pin(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from([None, *sorted(self.kept)]))
        self.pins.append(self.repository.pin(version))

    @rule(data=st.data())
    def pin_what_is_gone(self, data: st.DataObject) -> None:
        gone = sorted(set(self.history) - self.kept)
        if gone:
            with pytest.raises(VersionExpired):
                self.repository.pin(data.draw(st.sampled_from(gone)))

    @precondition(lambda self: self.pins)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        pin = data.draw(st.sampled_from(self.pins))
        self.pins.remove(pin)
        pin.release()

    # -- housekeeping ----------------------------------------------------------------------

    def forget(self, keep_versions: int) -> None:
        self.kept = set(sorted(self.kept)[-keep_versions:])

    def named(self) -> set[str]:
        versions = self.kept | {pin.manifest.version for pin in self.pins}
        return {path for version in versions for path in self.history[version].rows}

    @rule(keep_versions=st.integers(1, 3))
    def vacuum_everything(self, keep_versions: int) -> None:
        vacuum(self.repository, keep_versions=keep_versions, grace=0)
        self.forget(keep_versions)
        self.pending = [one for one in self.pending if one.path in self.named()]
        assert data_files(self.repository) == self.named()
        stored = set(self.repository.stored_versions())
        assert stored == self.kept | {pin.manifest.version for pin in self.pins}

    @rule(keep_versions=st.integers(1, 3))
    def vacuum_with_grace(self, keep_versions: int) -> None:
        before = data_files(self.repository)
        vacuum(self.repository, keep_versions=keep_versions)
        self.forget(keep_versions)
        assert data_files(self.repository) == before

    @rule(
        keep_versions=st.integers(1, 2),
        point=st.sampled_from(
            ["vacuum.oldest-raised", "vacuum.manifest-removed", "vacuum.file-removed"]
        ),
    )
    def die_while_vacuuming(self, keep_versions: int, point: str) -> None:
        with on_reach(point, crash), contextlib.suppress(Crash):
            vacuum(self.repository, keep_versions=keep_versions, grace=0)
        self.forget(keep_versions)
        there = data_files(self.repository)
        self.pending = [one for one in self.pending if one.path in there]

    @rule(
        keep_versions=st.integers(1, 2),
        point=st.sampled_from(
            ["vacuum.oldest-raised", "vacuum.manifest-removed", "vacuum.manifests-read"]
        ),
        data=st.data(),
    )
    def commit_while_vacuuming(self, keep_versions: int, point: str, data: st.DataObject) -> None:
        """Files written before the vacuum began may go; those of this commit must not."""
        done: list[bool] = []

        def write_and_commit() -> None:
            if not done:
                done.append(True)
                self.forget(keep_versions)
                self.pending = []
                self.write(2, "arrow")
                edits, after = self.change(data)
                self.remember(self.repository.commit(self.repository.current(), edits), after)
                self.taken(after)

        with on_reach(point, write_and_commit):
            vacuum(self.repository, keep_versions=keep_versions, grace=0)
        if not done:
            self.forget(keep_versions)
        there = data_files(self.repository)
        self.pending = [one for one in self.pending if one.path in there]

    @rule()
    def open_again(self) -> None:
        self.repository = Repository.open(self.repository.directory.root, sync=False)

    @precondition(lambda self: self.moves < 2)
    @rule()
    def move(self) -> None:
        self.moves += 1
        moved = shutil.move(self.repository.directory.root, self.base / str(self.moves))
        self.repository = Repository.open(moved, sync=False)
        self.pins = [replace(pin, directory=self.repository.directory) for pin in self.pins]

    # -- what must hold --------------------------------------------------------------------

    @invariant()
    def retained_versions_are_listed(self) -> None:
        if self.history:
            assert self.repository.versions() == sorted(self.kept)

    @invariant()
    def every_readable_version_is_as_remembered(self) -> None:
        for version in self.kept:
            self.check(self.repository.load(version))
        for pin in self.pins:
            self.check(pin.manifest)

    def check(self, manifest: Manifest) -> None:
        expected = self.history[manifest.version]
        directory = self.repository.directory
        rows = {
            path: open_segment(directory, one, again=True)["id"].to_pylist()
            for path, one in manifest.segments.items()
        }
        assert rows == expected.rows
        assert {path: one.group for path, one in manifest.segments.items()} == expected.groups
        tags = {path: one.tags.get("t", -1) for path, one in manifest.segments.items()}
        assert tags == expected.tags
        assert manifest.properties == expected.properties

    @invariant()
    def the_newest_version_verifies(self) -> None:
        if self.history:
            assert verify(self.repository).ok


TestVersions = Versions.TestCase
TestVersions.settings = settings(stateful_step_count=25)
