"""``mayfly run`` as an engineer uses it: the example as it is, stopped by Ctrl-C, continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mayfly.cli.init_command import FILES, PIPELINE, _write, example_rows
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.stream.start import StartSettings
from mayfly.storage import Repository
from tests.faults.processes import wait_for

MAYFLY = str(Path(sys.executable).with_name("mayfly"))
SETTINGS: StartSettings = {
    "buckets": 2, "sync": False, "history": "forever", "available_now": True,
}  # fmt: skip


def write_example(folder: Path) -> Path:
    for name, rows in example_rows().items():
        _write(folder / "in" / name, rows)
    (folder / "pipeline.cql").write_text(PIPELINE)
    return folder / "pipeline.cql"


def later(folder: Path, number: int) -> None:
    """One more order and payment, in files that appear whole."""
    at = f"2026-03-01T{10 + number // 60:02}:{number % 60:02}:00Z"
    rows = {
        "orders": {"ts": at, "customer": "ann", "article": "tea", "amount": 1},
        "payments": {"ts": at, "customer": "ann", "paid": 1},
    }
    for name, row in rows.items():
        file = folder / name / f".{number}"
        file.write_text(json.dumps(row) + "\n")
        file.rename(folder / name / f"{number}.json")


def batches_done(checkpoint: Path) -> int:
    if not Repository.exists(checkpoint):
        return 0
    done: int = Repository.open(checkpoint).current().properties["batch"] + 1
    return done


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_group_stops_cleanly_and_a_second_run_continues(
    spark: SparkSession, tmp_path: Path, sent: int, code: int
) -> None:
    file = write_example(tmp_path / "mine")
    command = [MAYFLY, "run", "pipeline.cql", "--quiet", "--history", "forever", "--speed", "20"]
    with subprocess.Popen(
        command, cwd=file.parent, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ.copy(),
    ) as started:  # fmt: skip
        wait_for(lambda: batches_done(file.parent / "pipeline.state") == 2, "two batches")
        os.killpg(started.pid, sent)  # as a terminal does, or systemd
        _, told = started.communicate(timeout=120)
    assert started.returncode == code, told
    assert "stopping: the running batch is finished first" in told
    assert "run the same command to go on" in told
    assert "Traceback" not in told
    assert "ERROR" not in told
    assert batches_done(file.parent / "pipeline.state") < FILES
    again = subprocess.run(
        [MAYFLY, "run", "pipeline.cql", "--once", "--quiet", "--history", "forever"],
        cwd=file.parent, capture_output=True, text=True, timeout=300, env=os.environ.copy(),
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    whole = load_pipeline(spark, write_example(tmp_path / "whole"))
    runs = whole.start(tmp_path / "whole" / "pipeline.state", **SETTINGS)
    assert all(run.await_done(240) for run in runs.values())
    assert_same_files(file.parent / "out", tmp_path / "whole" / "out")


def assert_same_files(ours: Path, theirs: Path) -> None:
    for name in ("by_town", "unpaid"):
        found, wanted = (
            sorted(map(repr, pq.read_table(folder / name).to_pylist())) for folder in (ours, theirs)
        )
        assert found == wanted
        assert found


@pytest.mark.slow
def test_a_watched_file_changes_while_it_runs(tmp_path: Path) -> None:
    file = write_example(tmp_path)
    checkpoint = tmp_path / "pipeline.state"

    numbers = count(FILES)

    def taken_over() -> bool:
        """A query is known to the checkpoint from the first batch that reads rows for it."""
        later(tmp_path / "in", next(numbers))
        time.sleep(1)
        known = set(Repository.open(checkpoint).current().properties["queries"])
        return known == {"by_town", "unpaid", "larger", "more"}

    command = [MAYFLY, "run", "pipeline.cql", "--quiet", "--watch"]
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ.copy(),
    ) as started:  # fmt: skip
        wait_for(lambda: batches_done(checkpoint) >= 1, "a batch")
        file.write_text(PIPELINE + "CREATE QUERY wrong AS SELECT nothing FROM orders [NOW];")
        time.sleep(2)
        more = "CREATE QUERY more AS SELECT customer FROM orders [RANGE 1 MIN];"
        file.write_text(PIPELINE.replace("QUERY large", "QUERY larger") + more)
        try:
            wait_for(taken_over, "the new queries")
            os.killpg(started.pid, signal.SIGINT)
            _, told = started.communicate(timeout=120)
        finally:
            started.kill()
    assert started.returncode == 130, told
    assert "goes on as it was" in told
    assert "the query more is new" in told
    assert "the query large is gone" in told


@pytest.mark.slow
def test_until_stops_where_it_says(tmp_path: Path) -> None:
    file = write_example(tmp_path)
    done = subprocess.run(
        [MAYFLY, "run", str(file), "--until", "2026-03-01 09:04", "--checkpoint", "elsewhere"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ.copy(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2026-03-01" in done.stderr
    assert batches_done(tmp_path / "elsewhere") >= 2
