"""Readers of a query's stored results whose files are taken from under them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.checkpoint.stored_results import SegmentReader
from mayfly.errors import CorruptFile, VersionExpired
from mayfly.storage import AddSegments, DropSegments, Manifest, Repository, vacuum, write_segment

ROWS = pa.table({"q.k": [7], "_ts": [1], "_exp": [9]})
SHOWN = pa.schema([("k", pa.int64())])


def reader(repository: Repository, manifest: Manifest) -> SegmentReader:
    root = str(repository.directory.root)
    segments = tuple(manifest.segments.values())
    return SegmentReader(root, manifest.version, segments, SHOWN, ("q.k",))


def added(repository: Repository) -> Manifest:
    segment = write_segment(repository.directory, "log", ROWS)
    assert segment is not None
    base = repository.current()
    return repository.commit(base, [DropSegments(tuple(base.segments)), AddSegments((segment,))])


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "checkpoint", {})


def ids(number: int) -> pa.RecordBatch:
    return pa.record_batch({"id": [number]})


def test_a_reader_shows_its_rows_here_and_in_executors(repository: Repository) -> None:
    found = reader(repository, added(repository))
    for batches in (found.batches(repository.directory), found(iter([ids(0)]))):
        assert pa.Table.from_batches(batches).to_pydict() == {"k": [7]}


def test_a_version_that_was_taken_away_is_not_called_damaged(repository: Repository) -> None:
    """A promise to erase bytes wins over readers, and they are told so."""
    found = reader(repository, added(repository))
    added(repository)
    vacuum(repository, keep_versions=1, grace=0)
    for batches in (found.batches(repository.directory), found(iter([ids(0)]))):
        with pytest.raises(VersionExpired, match="is gone"):
            list(batches)


def test_a_missing_file_of_a_kept_version_is_damage(repository: Repository) -> None:
    manifest = added(repository)
    found = reader(repository, manifest)
    repository.directory.remove(next(iter(manifest.segments)))
    with pytest.raises(CorruptFile):
        list(found.batches(repository.directory))
