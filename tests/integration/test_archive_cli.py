"""``mayfly archive create`` and ``update`` with files: the commands that start Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mayfly.archive
from mayfly.cli import main
from mayfly.testing import assert_same_rows

DAY = 86_400_000_000
AHEAD = time.time() * 1_000_000 // DAY + 4.5
"""A day after tomorrow; five days before, it is yesterday."""


def run(*arguments: object) -> int:
    """The exit code of ``mayfly archive`` with these arguments, in the session of the tests."""
    with pytest.raises(SystemExit) as ended:
        main(["archive", *map(str, arguments)])
    assert not isinstance(ended.value.code, str)
    return ended.value.code or 0


def rows(*days: float) -> pa.Table:
    return pa.table(
        {
            "k": [f"c{at % 2}" for at in range(len(days))],
            "ts": pa.array([round(day * DAY) for day in days], pa.timestamp("us", "UTC")),
            "v": pa.array(range(len(days)), pa.int64()),
        }
    )


def test_files_are_loaded_interval_by_interval(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = rows(0.5, 1.5, 1.6)
    pq.write_table(given, tmp_path / "given.parquet")
    path = tmp_path / "a"
    arguments = ["create", path, tmp_path / "given.parquet", "--key", "k", "--window", "2"]
    assert run(*arguments, "--parts", "2") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("update 1: 1 row in, 0 out, ")
    assert told[1].startswith("update 2: 2 rows in, 0 out, ")
    assert "(expected " in told[1]
    assert told[2] == f"created {path}: WATA over 2 updates in 2 constituents, packed shadow"
    assert_same_rows(mayfly.archive.open(path).scan(), given)
    pq.write_table(rows(2.5), tmp_path / "more.parquet")
    assert run("update", path, tmp_path / "more.parquet", "--json") == 0
    (update,) = json.loads(capsys.readouterr().out)
    expected = mayfly.archive.open(path).inspect.predictions()[-1].expected
    assert (update["update"], update["expected_seconds"]) == (3, expected)
    assert expected is not None


def test_rows_of_a_wrong_year_are_refused_unless_somebody_says_that_they_are_right(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, path = tmp_path / "given.parquet", tmp_path / "a"
    pq.write_table(rows(AHEAD - 5, AHEAD), file)
    create = ("create", path, "--columns", "k STRING, ts TIMESTAMP, v BIGINT", "--key", "k")
    assert run(*create, "--window", "2") == 0
    capsys.readouterr()
    assert run("update", path, file) == 2
    said = capsys.readouterr().err
    assert "1 row: the row is later than the wall clock plus max_gap" in said
    assert "--max-gap none" in said
    assert run("update", path, file, "--max-gap", "5") == 2
    assert "cannot read the duration '5'" in capsys.readouterr().err
    assert run("update", path, file, "--update", "80", "--max-gap", "1 h") == 2
    assert "--max-gap says nothing" in capsys.readouterr().err
    assert mayfly.archive.open(path).version().state.update == 0
    assert run("update", path, file, "--max-gap", "none") == 0
    assert mayfly.archive.open(path).scan().num_rows == 1


def test_an_archive_keeps_its_gap(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, path = tmp_path / "given.parquet", tmp_path / "a"
    pq.write_table(rows(AHEAD - 5, AHEAD), file)
    assert run("create", path, file, "--key", "k", "--window", "2", "--max-gap", "NONE") == 0
    assert mayfly.archive.open(path).version().state.update == 6
    assert run("create", tmp_path / "b", file, "--key", "k", "--window", "2") == 2
    assert "too far ahead to be true" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["csv", "json"])
def test_text_files_are_read_by_the_names_of_their_columns(
    spark: SparkSession, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "a", tmp_path / f"given.{form}"
    mayfly.archive.create(path, rows(0.5).schema, key="k", window=3, origin=0)
    given = rows(0.5, 0.7).select(["v", "ts", "k"])
    if form == "csv":
        pa_csv.write_csv(given, file)
    else:
        lines = [{**row, "ts": row["ts"].isoformat()} for row in given.to_pylist()]
        file.write_text("\n".join(map(json.dumps, lines)))
    assert run("update", path, file, "--json") == 0
    assert [one["stored"] for one in json.loads(capsys.readouterr().out)] == [2]
    assert_same_rows(mayfly.archive.open(path).scan(), given)
    assert run("update", path, file, "--update", "2") == 2
    assert "belongs to an earlier update" in capsys.readouterr().err

    text = file.read_text()
    file.write_text(text.replace('"v"', '"w"'))
    assert run("update", path, file) == 2
    assert "columns that the archive does not have: w" in capsys.readouterr().err
    file.write_text(text.replace("0", "no", 1) if form == "csv" else text.replace(": 0", ': "no"'))
    assert run("update", path, file, "--update", "2") == 2
    refused = capsys.readouterr().err
    assert "Spark failed" in refused
    assert "Traceback" not in refused
    assert mayfly.archive.open(path).version().state.update == 1
