"""One key with very many matches: results stream out, no process holds them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from mayfly.kernels.join_pairs import matching_pairs
from mayfly.spark.api.session import Session
from tests.faults.processes import descendants
from tests.integration.recorded import declare, record

ROOM = 50_000
MEGABYTE = 2**20


def test_pairs_of_one_key_come_in_bounded_pieces() -> None:
    """Left row i lives in [i, i + 400), right row j in [j, j + 700): they meet iff both overlap."""
    rows = 3_000
    starts = np.arange(rows, dtype=np.int64)
    code = np.zeros(rows, dtype=np.int64)
    left = code, starts, starts + 400
    right = code, starts, starts + 700
    met = np.zeros((rows, rows), dtype=np.int8)
    for i, j in matching_pairs(left, right, ROOM):
        assert 0 < len(i) == len(j) <= ROOM
        np.add.at(met, (i, j), 1)
    distance = starts[:, None] - starts[None, :]
    assert np.array_equal(met, (distance < 700) & (distance > -400))


def peak_megabytes(process: int) -> float:
    """The most memory a process has ever had, by its own account in /proc."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peaks[0]) / 1024 if peaks else 0.0


def python_workers(spark: SparkSession) -> list[int]:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    below = descendants(gateway.proc.pid)
    return [one for one in below if b"pyspark" in _command(one) and b"java" not in _command(one)]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def hot(rows: int, ts: int, then: int) -> pa.Table:
    """``rows`` rows of key 1 at one instant, and one of another key that moves the clock on."""
    return pa.table(
        {
            "ts": pa.array([ts] * rows + [then], pa.int64()),
            "k": pa.array([1] * rows + [2], pa.int64()),
            "v": pa.array([7] * rows + [0], pa.int8()),
        }
    )


@pytest.mark.slow
def test_25000_by_25000_matches_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    """625 million results: ten gigabytes if anyone held them, far less in any worker."""
    rows = 25_000
    batches = [
        {"a": hot(rows, 1_000, 2_000), "b": hot(0, 0, 2_000)},
        {"a": hot(0, 0, 5_000), "b": hot(rows, 3_000, 5_000)},
    ]
    record(tmp_path, batches)
    schemas = {name: table.schema for name, table in batches[0].items()}
    streams = declare(Session(spark), tmp_path, schemas)
    a, b = streams["a"].window("1 s"), streams["b"].window("1 s")
    query = a.join(b, "k", select=["a.v"])
    run = query.start(tmp_path / "ck", available_now=True, history="forever")
    peak, workers = 0.0, 0
    while not run.await_done(timeout=1):
        found = [peak_megabytes(one) for one in python_workers(spark)]
        peak, workers = max([peak, *found]), max(workers, len(found))
    matches = rows * rows
    held = matches * 17 / MEGABYTE
    assert run.status().changes == matches + 4, "and two by two of the other key"
    assert workers > 0
    assert peak < held / 8, f"a worker took {peak:.0f} MB"
    counted = total = 0
    for batch in run.change_batches():
        counted += batch.num_rows
        total += pc.sum(batch.column("a_v")).as_py()
    assert (counted, total) == (matches + 4, 7 * matches)
    assert run.status().log_bytes < held * MEGABYTE / 8
    print(f"peak of a worker {peak:.0f} MB, log {run.status().log_bytes / MEGABYTE:.0f} MB")
