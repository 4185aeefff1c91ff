"""Directories that earlier versions wrote are still read, continued and cleaned up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    Bounds,
    Repository,
    open_segment,
    segment_batches,
    vacuum,
    verify,
    write_segment,
)
from mayfly.storage.verify import SORTED_BY
from tests.golden.formats.content import KEYS, LIFE, STATE, UNORDERED

WRITTEN = sorted(path for path in Path(__file__).parent.glob("version-*") if path.is_dir())


@pytest.fixture(params=WRITTEN, ids=lambda path: path.name)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, since even readers leave traces (pins) in a directory."""
    return Path(shutil.copytree(request.param, tmp_path / "copy"))


def test_there_are_golden_directories() -> None:
    assert [path.name for path in WRITTEN][:1] == ["version-1"]


def test_state_is_read(written: Path) -> None:
    repository = Repository.open(written / "state")
    assert repository.versions() == [1, 2]
    assert repository.oldest() == 1
    for version, expected in STATE.items():
        manifest = repository.load(version)
        assert manifest.properties == expected["properties"]
        assert manifest.groups == tuple(sorted(expected["groups"]))
        for group, ids in expected["groups"].items():
            (segment,) = manifest.in_group(group)
            table = open_segment(repository.directory, segment, again=True)
            assert table["id"].to_pylist() == ids
            assert table[TS].to_pylist() == ids
            assert table[EXP].to_pylist() == [one + LIFE for one in ids]
            batches = segment_batches(repository.directory, segment)
            assert sum(batch.num_rows for batch in batches) == len(ids)
            assert segment.ts == Bounds(ids[0], ids[-1])
            assert segment.exp == Bounds(ids[0] + LIFE, ids[-1] + LIFE)
        assert verify(repository, version).ok


def test_labels_of_state_are_read(written: Path) -> None:
    repository = Repository.open(written / "state")
    (left,) = repository.load(1).in_group("state")
    assert (left.key, left.level, left.tags) == (Bounds(1, 3), 0, {SORTED_BY: ["id"]})
    (log,) = repository.load(2).in_group("log")
    assert (log.key, log.level, log.tags) == (None, 2, {"cell": 7})
    newest, before = (repository.load(version) for version in (2, 1))
    assert newest.commit_id(1) == before.commit_id(1)


def test_keys_of_every_type_are_read(written: Path) -> None:
    repository = Repository.open(written / "archive")
    manifest = repository.current()
    assert manifest.properties == {"layout": "golden"}
    assert manifest.groups == tuple(sorted(f"keys/{name}" for name in {**KEYS, **UNORDERED}))
    for name, (kind, values) in {**KEYS, **UNORDERED}.items():
        (segment,) = manifest.in_group(f"keys/{name}")
        table = open_segment(repository.directory, segment, again=True)
        assert table.schema.field("key").type == kind
        assert list(map(str, table["key"].to_pylist())) == list(map(str, values))
        assert segment.key == (Bounds(values[0], values[-1]) if name in KEYS else None)
    assert verify(repository).ok


def test_work_goes_on(written: Path) -> None:
    repository = Repository.open(written / "state")
    kept = repository.load(1)
    (left,) = kept.in_group("state")
    again = open_segment(repository.directory, left)
    segment = write_segment(repository.directory, "state/0/right", again)
    assert segment is not None
    manifest = repository.commit(repository.current(), [AddSegments((segment,))])
    assert manifest.version == 3
    back = repository.rollback(1)
    assert (back.version, back.segments) == (4, kept.segments)
    vacuum(repository, keep_versions=1, grace=0)
    assert set(repository.directory.all_names("data")) == set(kept.segments)
    assert verify(repository).ok
