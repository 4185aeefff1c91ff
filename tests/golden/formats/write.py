"""Writes the golden directories with the code at hand.

    python -m tests.golden.formats.write tests/golden/formats/version-1

Run it once per format version, from the project's directory, and commit what it wrote; never
overwrite what an earlier version wrote, for that is what later code must still read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    DropSegments,
    MoveSegments,
    Repository,
    SetProperties,
    TagSegment,
    vacuum,
    write_segment,
)
from mayfly.storage.verify import SORTED_BY
from tests.golden.formats.content import KEYS, LIFE, STATE, UNORDERED


def rows(ids: list[int]) -> pa.Table:
    born = pa.array(ids, pa.int64())
    return pa.table({"id": born, TS: born, EXP: pa.array([one + LIFE for one in ids], pa.int64())})


def write_state(root: Path) -> None:
    repository = Repository.create(root, {"query": "golden", "clock": 0})
    directory = repository.directory
    first, second = STATE[1], STATE[2]
    left, log = first["groups"]["state/0/left"], first["groups"]["log/0"]
    state = write_segment(directory, "state/0/left", rows(left), key="id", tags={SORTED_BY: ["id"]})
    results = write_segment(directory, "log/0", rows(log), level=2, compression="lz4")
    assert state is not None
    assert results is not None
    manifest = repository.commit(
        repository.current(),
        [AddSegments((state, results)), SetProperties(first["properties"])],
    )
    fresh = write_segment(
        directory,
        "state/0/left",
        rows(second["groups"]["state/0/left"]).to_batches(max_chunksize=3),
        key="id",
    )
    assert fresh is not None
    repository.commit(
        manifest,
        [
            AddSegments((fresh,)),
            DropSegments.of([state]),
            MoveSegments((results.path,), "log/1"),
            TagSegment(results.path, {"cell": 7}),
            SetProperties({"clock": 20}),
        ],
    )
    vacuum(repository, keep_versions=2, grace=0)


def write_archive(root: Path) -> None:
    repository = Repository.create(root, {"layout": "golden"})
    segments = []
    for name, (kind, values) in {**KEYS, **UNORDERED}.items():
        table = rows(list(range(len(values)))).append_column("key", pa.array(values, kind))
        segment = write_segment(
            repository.directory, f"keys/{name}", table, format="parquet", key="key"
        )
        assert segment is not None
        segments.append(segment)
    repository.commit(repository.current(), [AddSegments(tuple(segments))])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    write_state(target / "state")
    write_archive(target / "archive")
