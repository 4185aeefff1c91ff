"""What is looked at of a source before Spark reads it."""

from __future__ import annotations

import os
from pathlib import Path

from mayfly.spark.io.sources import LOOKED_AT, _oldest_and_newest


def test_a_source_that_is_one_file_or_gone_shows_no_columns(tmp_path: Path) -> None:
    (tmp_path / "alone.parquet").touch()
    assert _oldest_and_newest(tmp_path / "alone.parquet") == []
    assert _oldest_and_newest(tmp_path / "gone") == []


def test_of_many_files_the_oldest_and_some_of_the_newest_are_looked_at(tmp_path: Path) -> None:
    for at in range(2 * LOOKED_AT):
        file = tmp_path / f"{at:02d}.parquet"
        file.touch()
        os.utime(file, (at, at))
    (tmp_path / "_hidden").touch()
    found = [one.name for one in _oldest_and_newest(tmp_path)]
    newest = [f"{at:02d}.parquet" for at in range(LOOKED_AT, 2 * LOOKED_AT)]
    assert found == ["00.parquet", *newest]
