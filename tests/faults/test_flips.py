"""No flipped bit in any stored file is answered from, copied, or the end of a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.flips import GOOD, SUBJECTS

ROOT = Path(__file__).parents[2]
SAMPLE, ALL = 3, 45
"""Flips per subject, use and kind of file."""


def ended(folder: Path, flips: int) -> list[dict[str, Any]]:
    """The campaign in a process that forks and has not read a file before."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.flips", str(folder), str(flips), "1"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(lines: list[dict[str, Any]], flips: int) -> None:
    assert [bad for line in lines for bad in line["bad"]] == []
    ends = sum((Counter(line["ends"]) for line in lines), Counter[str]())
    assert set(ends) <= set(GOOD)
    assert ends.total() >= flips
    assert {line["subject"] for line in lines} == set(SUBJECTS)
    kinds = {line["kind"] for line in lines}
    assert kinds == {
        "manifest", "notices", "data parquet", "data arrow", "staged manifest",
        "staged data parquet", "staged data arrow", "void", "clock", "control", "pins",
    }  # fmt: skip


def test_a_sample_of_flips(tmp_path: Path) -> None:
    check(ended(tmp_path, SAMPLE), 100)


@pytest.mark.slow
def test_two_thousand_flips(tmp_path: Path) -> None:
    check(ended(tmp_path, ALL), 2_000)
