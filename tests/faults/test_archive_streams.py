"""SIGKILL between staging and update: every row of a stream is archived once, every result too."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.faults.processes import ROOT, Program
from tests.faults.stream_driver import WINDOW, join_case, new_archive
from tests.integration.archived_streams import assert_holds_results, rows_at
from tests.integration.recorded import pair_query, record

KILLED = -signal.SIGKILL
HOURS = [(0.5, 1.5), (1.7, 2.2), (0.1, 2.5, 3.5), (4.5, 4.6), (5.2, 6.1)]
LATE = 1
POINTS = (
    "staging.written",
    "staging.committed",
    "staging.before-update",
    "archive.written",
    "archive.committed",
    "staging.taken",
    "staging.dropped",
)


def live(kind: str, folder: Path, kill_at: str | None = None) -> int:
    """One life of the driver: how it ended."""
    program = Program.start(
        "tests.faults.stream_driver", kind, str(folder), log=folder / "log", kill_at=kill_at
    )
    return program.wait()


def survive(kind: str, folder: Path, points: tuple[str, ...]) -> None:
    for point in points:
        assert live(kind, folder, kill_at=point) == KILLED, point
    assert live(kind, folder) == 0, (folder / "log").read_text()


def begin_rows(session: Session, folder: Path) -> None:
    firsts = [sum(map(len, HOURS[:at])) for at in range(len(HOURS))]
    record(folder, [{"in": rows_at(h, first)} for h, first in zip(HOURS, firsts, strict=True)])
    new_archive(session, "rows", folder / "archive")


def check_rows(session: Session, folder: Path) -> None:
    archive = session.open_archive(folder / "archive")
    assert archive.version().state.update == 6
    hours = [hour for batch in HOURS for hour in batch]
    kept = [at for at, hour in enumerate(hours) if 6 - WINDOW < hour <= 6]
    assert sorted(archive.scan()["v"].to_pylist()) == kept
    brought = archive.sink("rows").status()
    assert (brought.rows, brought.late, brought.batch) == (len(hours), LATE, len(HOURS) - 1)
    assert (
        archive.inspect.status().sinks["rows"]["staged_rows"] == 1
    )  # of the interval that is not over
    assert archive.maintain.verify().ok


def begin_results(session: Session, folder: Path) -> None:
    record(folder, join_case().batches)
    new_archive(session, "results", folder / "archive")


def check_results(session: Session, folder: Path) -> None:
    case = join_case()
    run = pair_query(session, folder, case).open(folder / "checkpoint")
    archive = session.open_archive(folder / "archive")
    assert_holds_results(archive, case, run.status().clock)


def test_every_point_is_in_a_campaign() -> None:
    named = {
        point
        for file in (
            "archive/write/staged_rows.py",
            "archive/write/staged_row_writer.py",
            "spark/archive/stream_sink.py",
        )
        for point in re.findall(
            r'reach\("([^"]+)"\)', (ROOT / "src/mayfly" / file).read_text(encoding="utf-8")
        )
    }
    assert named <= set(POINTS)


@pytest.mark.slow
def test_a_stream_killed_between_staging_and_update(spark: SparkSession, tmp_path: Path) -> None:
    begin_rows(Session(spark), tmp_path)
    survive("rows", tmp_path, ("staging.before-update",))
    check_rows(Session(spark), tmp_path)


@pytest.mark.slow
def test_a_query_killed_while_its_results_are_archived(spark: SparkSession, tmp_path: Path) -> None:
    begin_results(Session(spark), tmp_path)
    survive("results", tmp_path, ("staging.before-update:2", "archive.committed"))
    check_results(Session(spark), tmp_path)


@pytest.mark.slow
def test_a_stream_killed_at_every_point(spark: SparkSession, tmp_path: Path) -> None:
    begin_rows(Session(spark), tmp_path)
    survive("rows", tmp_path, POINTS)
    check_rows(Session(spark), tmp_path)


@pytest.mark.slow
def test_a_query_killed_at_every_point(spark: SparkSession, tmp_path: Path) -> None:
    begin_results(Session(spark), tmp_path)
    survive("results", tmp_path, POINTS)
    check_results(Session(spark), tmp_path)
