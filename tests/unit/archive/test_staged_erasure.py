"""Staged rows that fall due while their stream has stopped, or goes on at the same time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.erase import staged_erasure
from mayfly.archive.write.staged_rows import Brought, Staging, day_group
from mayfly.errors import CorruptFile
from mayfly.storage import EXP, Segment
from mayfly.storage.segment import DATA, write_segment

PHYSICAL = "PHYSICAL WITHIN 10 us"


def promising(path: Path, contract: str = PHYSICAL) -> Archive:
    """Updates every 10 µs; bytes are gone 10 µs after an expiration. Two updates are done."""
    archive = mayfly.archive.create(
        path, "key BIGINT, ts BIGINT, exp BIGINT", key="key", time="ts", max_lifetime="80 us",
        refresh="10 us", origin=0, layout="NoRebuild 2x2", contract=contract,
        max_gap="none",
    )  # fmt: skip
    archive.update(None)
    archive.update(None)
    return archive


def stage(staging: Staging, *exps: int) -> Segment:
    """A staged file with a row for each of these expirations."""
    rows = pa.table({"key": [1] * len(exps), "ts": [1] * len(exps), "exp": list(exps)})
    rows = rows.append_column("_ts", rows["ts"]).append_column(EXP, rows["exp"])
    file = write_segment(staging.repository.directory, day_group(1), rows, format="parquet")
    assert file is not None
    base = staging.current()
    staging.add(base, [file], (), Brought(batch=base.version, rows=base.rows + len(exps)))
    return file


def damage(staging: Staging, file: Segment) -> None:
    path = staging.repository.directory.path(file.path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_an_update_beside_a_damaged_staged_file_commits_nothing(tmp_path: Path) -> None:
    """It holds rows that are due and others, so it would have to be written anew."""
    archive = promising(tmp_path / "a")
    staging = Staging.at(tmp_path / "a", "slow")
    file = stage(staging, 25, 60)
    damage(staging, file)
    before = archive.version().manifest.version
    for _ in range(2):
        with pytest.raises(CorruptFile, match=Path(file.path).name):
            archive.update(None)
        assert archive.version().manifest.version == before
    assert archive.version().state.update == 2
    staging.add(staging.current(), (), [file], Brought(batch=9, rows=2))
    assert archive.update(None).update == 3


def keyed(key: int) -> list[dict[str, int]]:
    return [{"key": key, "ts": 25, "exp": 80}]


@pytest.mark.parametrize(
    ("contract", "change"),
    [
        (PHYSICAL, lambda archive: archive.invalidate([1])),
        (PHYSICAL, lambda archive: archive.migrate(layout="NoRebuild 3x2")),
        ("HARD", lambda archive: archive.migrate(contract=PHYSICAL)),
        ("PHYSICAL WITHIN 40 us", lambda archive: archive.migrate(contract=PHYSICAL)),
    ],
    ids=["invalidate", "another layout", "a new promise", "a tighter promise"],
)
def test_a_change_beside_a_damaged_staged_file_commits_nothing(
    tmp_path: Path, contract: str, change: Callable[[Archive], object]
) -> None:
    """Bytes that a change has to erase are looked at before it is committed."""
    archive = promising(tmp_path / "a", contract)
    archive.update(keyed(1))
    staging = Staging.at(tmp_path / "a", "slow")
    file = stage(staging, 25, 60)
    damage(staging, file)
    before = archive.version().manifest
    files = sorted(archive.repository.directory.all_names(DATA))
    for _ in range(2):
        with pytest.raises(CorruptFile, match=Path(file.path).name):
            change(archive)
        assert archive.version().manifest == before
        assert archive.probe(1).num_rows == 1
        assert sorted(archive.repository.directory.all_names(DATA)) == files
    staging.add(staging.current(), (), [file], Brought(batch=9, rows=2))
    change(archive)
    assert archive.version().manifest.version == before.version + 1


def test_a_staged_file_that_is_due_as_a_whole_goes_unread(tmp_path: Path) -> None:
    archive = promising(tmp_path / "a")
    staging = Staging.at(tmp_path / "a", "slow")
    file = stage(staging, 25, 26)
    damage(staging, file)
    assert archive.update(None).erased_until == 30
    assert not staging.repository.directory.exists(file.path)
    assert archive.maintain.verify().ok


def test_a_stream_that_stages_meanwhile_does_not_fail_the_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update is committed by then: what is due is removed from the newer staged version."""
    archive = promising(tmp_path / "a")
    staging = Staging.at(tmp_path / "a", "slow")
    stage(staging, 25, 60)
    left = iter([lambda: stage(staging, 70)])

    def overtaken(*arguments: Any, **settings: Any) -> Segment | None:
        next(left, lambda: None)()
        return write_segment(*arguments, **settings)

    monkeypatch.setattr(staged_erasure, "write_segment", overtaken)
    assert archive.update(None).update == 3
    kept = [segment.exp.low for segment in staging.current().segments.values()]
    assert sorted(kept) == [60, 70]
    assert archive.maintain.verify().ok
