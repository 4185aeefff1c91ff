"""A pipeline's figures, read from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from mayfly.cli.app import command_line
from mayfly.errors import InvalidSetting, StorageError
from mayfly.plan.catalog import Catalog, ColumnDefinition, StreamDefinition
from mayfly.plan.types import BIGINT, TIMESTAMP
from mayfly.serving.pipeline_status import read_status
from tests.property.shared_runs import results_of, runner_of

SECOND = 1_000_000
GOLDEN = Path(__file__).parents[2] / "golden" / "formats"


def fed(folder: Path) -> None:
    columns = (ColumnDefinition("ts", TIMESTAMP), ColumnDefinition("k", BIGINT))
    catalog = Catalog().declare(StreamDefinition("a", columns, "ts"))
    catalog = catalog.declare(StreamDefinition("b", columns, "ts"))
    queries = {
        "pairs": "SELECT a.k FROM a [RANGE 9 s], b [RANGE 9 s] WHERE a.k = b.k",
        "alone": "SELECT k FROM a [RANGE 5 s]",
    }
    runner = runner_of(folder, catalog, queries)
    for instants in ([1, 2, 3], [2, 8]):  # the second batch begins with a row that is late
        times = pa.array([at * SECOND for at in instants], pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "k": pa.array(instants, pa.int64())})
        runner.feed({"a": rows, "b": rows}, {})
    assert results_of(runner, "pairs").num_rows == 3, "instant 8 is open"


def test_figures_are_those_of_the_last_commit(tmp_path: Path) -> None:
    fed(tmp_path)
    status = read_status(tmp_path)
    assert (status.version, status.batch, status.buckets, status.ended) == (2, 1, 2, False)
    a, b = status.streams
    assert (a.name, a.clock, a.rows, a.late, a.timeless) == ("a", 8 * SECOND, 5, 1, 0)
    assert b.rows == 5
    pairs, alone = sorted(status.queries, key=lambda one: one.name, reverse=True)
    assert (pairs.name, pairs.clock, pairs.result_rows) == ("pairs", 8 * SECOND, 3)
    assert alone.result_rows == 3
    assert status.result_rows == 6
    assert status.state_rows > 0
    assert status.state_bytes > 0


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    fed(tmp_path)

    def files() -> dict[Path, int]:
        return {one: one.stat().st_mtime_ns for one in tmp_path.rglob("*")}

    before = files()
    read_status(tmp_path)
    shown = CliRunner().invoke(command_line(["status"]), ["status", str(tmp_path)])
    assert shown.exit_code == 0
    assert files() == before


def test_tables_and_json(tmp_path: Path) -> None:
    fed(tmp_path)
    run = CliRunner()
    shown = run.invoke(command_line(["status"]), ["status", str(tmp_path)]).stdout
    assert "version 2, batch 1 committed" in shown
    assert "1970-01-01 00:00:08" in shown
    told = run.invoke(command_line(["status"]), ["status", str(tmp_path), "--json"])
    assert json.loads(told.stdout)["streams"][0] == {
        "name": "a", "clock": "1970-01-01 00:00:08", "rows": 5, "late": 1, "timeless": 0,
        "beyond": 0, "shed": 0,
    }  # fmt: skip
    refused = run.invoke(command_line(["status"]), ["status", str(tmp_path), "--watch", "0"])
    assert refused.exit_code == 2
    assert "larger than 0" in refused.stderr


@pytest.mark.parametrize("version", range(1, 6))
def test_checkpoints_of_every_format(version: int) -> None:
    status = read_status(GOLDEN / f"checkpoint-version-{version}")
    assert sum(one.rows for one in status.streams) == 32
    assert sum(one.result_rows for one in status.queries) == status.result_rows > 0


def test_what_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="mayfly archive status"):
        read_status(GOLDEN / "archive-version-1" / "soft")
    with pytest.raises(StorageError, match="no Mayfly directory"):
        read_status(tmp_path / "nowhere")


def test_neither_spark_nor_kernels_are_loaded() -> None:
    program = (
        "import sys, mayfly.cli.status_command\n"
        "print([one for one in ('pyspark', 'numba', 'pandas') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_pipeline_file_stands_for_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "p.cql").write_text(
        "CREATE STREAM s (ts TIMESTAMP) FROM json('in') TIMESTAMP BY ts"
    )

    def shown() -> str:
        app = command_line(["status"])
        return CliRunner().invoke(app, ["status", str(tmp_path / "p.cql")]).output

    assert "has no checkpoint yet" in shown()
    fed(tmp_path / "p.state")
    assert "pairs" in shown()
    (tmp_path / "plain").write_bytes(b"\0garbage")
    with pytest.raises(StorageError, match=r"plain.*: Not a directory\n.*name a directory"):
        read_status(tmp_path / "plain")
