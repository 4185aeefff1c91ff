"""Where a checkpoint may be made, and where sinks may write."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mayfly.errors import InvalidSetting
from mayfly.runtime.buckets import MOST_BUCKETS
from mayfly.spark.io.sinks import ParquetFiles
from mayfly.spark.stream.query_migration import migrate_checkpoint
from mayfly.spark.stream.start import bucket_count, run_settings, sink_folders
from mayfly.storage import Directory, Repository
from mayfly.storage.commit import check_place


def test_a_checkpoint_is_not_made_among_other_things(tmp_path: Path) -> None:
    """A folder ``data`` would be taken for the checkpoint's own, and emptied."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.json").write_text("{}")
    with pytest.raises(InvalidSetting, match=r"not made by Mayfly.*such as data"):
        check_place(Directory.at(tmp_path))
    with pytest.raises(InvalidSetting, match="not made by Mayfly"):
        Repository.create(tmp_path, {"buckets": 1}, sync=False)
    assert not (tmp_path / "manifest").exists()
    with pytest.raises(InvalidSetting, match="is a file"):
        check_place(Directory.at(tmp_path / "data" / "mine.json"))


def test_a_checkpoint_is_made_where_nothing_is_or_only_its_own(tmp_path: Path) -> None:
    check_place(Directory.at(tmp_path / "new"))
    (tmp_path / ".hidden").touch()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "manifest").mkdir()
    check_place(Directory.at(tmp_path))
    Repository.create(tmp_path, {}, sync=False)
    (tmp_path / "data").mkdir()
    check_place(Directory.at(tmp_path))


def test_two_queries_do_not_write_to_one_folder(tmp_path: Path) -> None:
    one, other = ParquetFiles(f"{tmp_path}/a"), ParquetFiles(f"{tmp_path}/b/../a")
    assert sink_folders({"p": [one], "q": []}) == {f"{tmp_path}/a": "p"}
    with pytest.raises(InvalidSetting, match="the changes of p and of q go to one folder"):
        sink_folders({"p": [one], "q": [other]})


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="max_state_bytes = 0"):
        run_settings(2, {"max_state_bytes": 0})


def cluster(cores: int) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores))


def test_there_are_as_many_buckets_as_cores_or_as_asked_for() -> None:
    assert bucket_count(cluster(8), None) == 8
    assert bucket_count(cluster(8), 3) == 3
    assert bucket_count(cluster(8), MOST_BUCKETS) == MOST_BUCKETS
    assert bucket_count(cluster(100_000), None) == MOST_BUCKETS


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (0, "0 buckets"),
        (-1, "-1 buckets"),
        (MOST_BUCKETS + 1, "4,097 buckets: every batch runs a task for each"),
        ("two", "buckets = 'two' is not a whole number"),
        (2.0, "buckets = 2.0 is not"),
        (True, "buckets = True is not"),
    ],
)
def test_senseless_buckets_are_refused(asked: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match=problem) as caught:
        bucket_count(cluster(2), asked)
    assert "use 1 to 4,096" in caught.value.hint
    with pytest.raises(InvalidSetting, match=problem):
        migrate_checkpoint(str(tmp_path), {}, asked)
