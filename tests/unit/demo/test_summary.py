from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from mayfly.demo.check import DemoVerdict
from mayfly.demo.demo_settings import Settings
from mayfly.demo.figures import Figures
from mayfly.demo.summary import DemoSummary, DiskUse, Kill, disk_use
from mayfly.testing.row_comparison import RowDifference

SAME = RowDifference(("src",), (2, 2), Counter(), Counter())
OTHER = RowDifference(("src",), (1, 2), Counter({("10.0.0.1",): 1}), Counter())
FINAL = Figures(
    version=42,
    batch=40,
    closing=True,
    clock=1,
    rows=79_914,
    late=12,
    results=344_435,
    rows_per_second=0,
    results_per_second=0,
    alive=10_751,
    new=0,
    expired=0,
    state_rows=0,
    state_bytes=0,
    segments=0,
)
SUMMARY = DemoSummary(
    settings=Settings(),
    final=FINAL,
    peak=replace(FINAL, state_rows=10_944, state_bytes=694_100, segments=8),
    batch_seconds=(0.4, 0.6, 2.0),
    kill=Kill(19, 19, 9.44),
    disk=DiskUse(53, 7_900_000),
    verdict=DemoVerdict("DuckDB", 344_435, 12, 0, SAME),
)


def printed(summary: DemoSummary) -> str:
    file = io.StringIO()
    summary.print(Console(file=file, width=40))
    return file.getvalue()


def test_the_summary_names_every_figure_once_in_whole_lines() -> None:
    lines = printed(SUMMARY).splitlines()
    assert [line.split()[0] for line in lines if line.strip()] == [
        "input", "results", "batches", "kills", "state", "on", "check",
    ]  # fmt: skip
    text = "\n".join(lines)
    for wanted in (
        "79,914 rows on two links in 40.0 s; 12 came late",
        "344,435, each with its own lifetime; 333,684 have expired",
        "41; half of them within 0.6 s, the slowest in 2.0 s",
        "1, in batch 19; continued after 9.4 s, from version 19",
        "at most 10,944 rows and 694 kB in 8 segments",
        "53 files, 7.9 MB",
        "identical to DuckDB's 344,435 results: nothing lost, nothing twice",
    ):
        assert wanted in text


def test_it_fits_eighty_columns() -> None:
    assert max(map(len, printed(SUMMARY).splitlines())) <= 80


def test_a_difference_is_told_with_examples_and_never_called_identical() -> None:
    text = printed(replace(SUMMARY, verdict=replace(SUMMARY.verdict, difference=OTHER)))
    assert "DIFFERENT from what DuckDB computes" in text
    assert "1 missing, 0 unexpected" in text
    assert "10.0.0.1" in text
    assert "identical" not in text


def test_without_a_kill_it_says_so() -> None:
    assert "none (--no-kill)" in printed(replace(SUMMARY, kill=None))


def test_a_kill_between_batches_and_no_batch_after_it() -> None:
    text = printed(replace(SUMMARY, kill=Kill(None, 7)))
    assert "1, between two batches; nothing was left to do, from version 7" in text


def test_disk_use_counts_files_in_all_folders(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/one").write_bytes(b"123")
    (tmp_path / "a/two").write_bytes(b"4567")
    assert disk_use([tmp_path / "a", tmp_path / "none"]) == DiskUse(2, 7)
