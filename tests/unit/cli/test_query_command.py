"""``mayfly query``: answers in every form, with the instant they are of."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from mayfly.archive import create
from mayfly.cli.app import command_line
from tests.unit.serving.stored_pipelines import PEOPLE, expected, fed

TOTALS = "SELECT user, clicks, n FROM totals WHERE user IS NOT NULL ORDER BY user"
ROWS = [row for row in expected("totals", 28) if row[0] is not None]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "ck"
    fed(folder)
    return folder


def query(checkpoint: Path, *arguments: str) -> Any:
    return CliRunner().invoke(command_line(["query"]), ["query", str(checkpoint), *arguments])


def test_a_table_with_its_instant(checkpoint: Path) -> None:
    shown = query(checkpoint, TOTALS)
    assert shown.exit_code == 0, shown.stderr
    header, *lines = shown.stdout.splitlines()
    assert header.split() == ["user", "clicks", "n"]
    assert [tuple(line.split()) for line in lines] == [tuple(map(str, row)) for row in ROWS]
    assert "3 rows" in shown.stderr
    assert "as of 1970-01-01 00:00:28.999999 UTC" in shown.stderr


def test_json_csv_and_parquet(checkpoint: Path, tmp_path: Path) -> None:
    value = json.loads(query(checkpoint, TOTALS, "--json").stdout)
    assert (value["as_of"], value["partial"]) == ("1970-01-01 00:00:28.999999", [])
    assert [tuple(row.values()) for row in value["rows"]] == ROWS
    lines = list(csv.reader(query(checkpoint, TOTALS, "--csv").stdout.splitlines()))
    assert lines[1:] == [list(map(str, row)) for row in ROWS]
    written = query(checkpoint, TOTALS, "--parquet", str(tmp_path / "out.parquet"))
    assert written.exit_code == 0, written.stderr
    table = pq.read_table(tmp_path / "out.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == ROWS
    facts = json.loads(table.schema.metadata[b"mayfly"])
    assert facts["as_of"] == "1970-01-01 00:00:28.999999"


ODD = """SELECT '' AS empty, CAST(NULL AS STRING) AS nothing, 'a"b' AS quoted,
    CAST('-0.00000001' AS DECIMAL(12, 8)) AS small, CAST('NaN' AS DOUBLE) AS nan,
    CAST('-Infinity' AS DOUBLE) AS least, n >= 0 AS yes FROM totals WHERE user = 'ann'"""


def test_values_that_programs_read_back(checkpoint: Path) -> None:
    """Decimals are not scientific, NaN is written as Spark reads it, NULL is no empty text."""
    header, line = query(checkpoint, ODD, "--csv").stdout.splitlines()
    assert line == '"",,"a""b",-0.00000001,NaN,-Infinity,true'
    (row,) = json.loads(query(checkpoint, ODD, "--json").stdout)["rows"]
    assert list(row.values()) == ["", None, 'a"b', "-0.00000001", "NaN", "-Infinity", True]
    assert list(row) == header.split(",")
    assert query(checkpoint, ODD).stdout.split()[-4:] == ["-0.00000001", "NaN", "-Infinity", "true"]


@pytest.mark.parametrize("over", ["", " OVER (ORDER BY user)"])
def test_a_sum_that_does_not_fit_names_no_instant(checkpoint: Path, over: str) -> None:
    sql = f"SELECT SUM(9223372036854775000 + n) {over} AS s FROM totals"
    shown = query(checkpoint, sql)
    assert shown.exit_code == 2
    assert "does not fit a BIGINT\n" in shown.stderr, shown.stderr


def test_earlier_instants_logs_and_plans(checkpoint: Path) -> None:
    early = query(checkpoint, TOTALS, "--as-of", "1970-01-01T00:00:03", "--json")
    rows = [tuple(row.values()) for row in json.loads(early.stdout)["rows"]]
    assert rows == [row for row in expected("totals", 3) if row[0] is not None]
    log = query(checkpoint, "--changes", "fresh", "--until", "1970-01-01T00:00:05", "--csv")
    assert len(log.stdout.splitlines()) == 6
    assert "totals" in query(checkpoint, TOTALS, "--explain").stdout


def test_archives_are_joined_with_views_and_relations(checkpoint: Path, tmp_path: Path) -> None:
    archive = create(
        tmp_path / "visits", {"user": "string", "shop": "string", "ts": "timestamp"}, key="user",
        window="9 minutes", time="ts", refresh="10 seconds", origin="1970-01-01",
    )  # fmt: skip
    archive.update(
        [{"user": "ann", "shop": "tea", "ts": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    )
    sql = (
        "SELECT v.shop, t.n, p.town FROM visits v, totals t, people p "
        "WHERE v.user = t.user AND p.user = v.user"
    )
    place = f"visits={tmp_path / 'visits'}"
    shown = query(checkpoint, sql, "--archive", place, "--json")
    assert shown.exit_code == 0, shown.stderr
    (n,) = (row[2] for row in ROWS if row[0] == "ann")
    assert json.loads(shown.stdout)["rows"] == [
        {"shop": "tea", "n": n, "town": dict(PEOPLE)["ann"]}
    ]
    alone = query(checkpoint, "SELECT shop FROM visits WHERE user = 'ann'", "--archive", place)
    assert alone.stdout.split() == ["shop", "tea"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT user FROM totls"], "did you mean totals?"),
        (["SELECT user FROM clicks"], "clicks is a stream, whose rows are not kept"),
        (["SELECT id FROM unread"], "the rows of unread are not in the checkpoint"),
        (["SELECT user FROM fresh"], "mayfly query --changes fresh"),
        (["SELEC user"], "line 1"),
        ([], "there is no query"),
        ([TOTALS, "--changes", "fresh"], "a query and --changes"),
        ([TOTALS, "--since", "1970-01-01"], "are for --changes"),
        (
            ["--changes", "fresh", "--explain"],
            "--explain, --as-of, --staleness, --lag and --wait are for",
        ),
        ([TOTALS, "--json", "--csv"], "choose one"),
        ([TOTALS, "--archive", "nothing"], "NAME=FOLDER"),
        ([TOTALS, "--limit", "-3"], "give a number of rows"),
        ([TOTALS, "--as-of", "soon"], "cannot read the instant"),
        ([TOTALS, "--as-of", "2030-01-01"], "not closed yet"),
        ([TOTALS, "--parquet", "/nowhere/x.parquet"], "cannot write /nowhere/x.parquet: No such"),
        (["SHOW QUERIES"], "SHOW is a statement of the shell"),
        ([f"explain {TOTALS}"], "or --explain"),
        ([TOTALS, "--lag", "1s"], "d "),
    ],
)
def test_refusals(checkpoint: Path, arguments: list[str], message: str) -> None:
    shown = query(checkpoint, *arguments)
    assert shown.exit_code == 2, shown.stdout
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr


def test_no_spark_is_loaded(checkpoint: Path) -> None:
    program = (
        "import sys\nfrom mayfly.cli.app import command_line\n"
        f"command_line(['query'])(['query', {str(checkpoint)!r}, {TOTALS!r}], "
        "standalone_mode=False)\n"
        "print([name for name in ('pyspark', 'py4j', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
