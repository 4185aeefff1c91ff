"""A machine on which nothing can be written: Mayfly is imported, and archives are read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import mayfly.archive

DAY = 86_400_000_000
PROGRAM = Path(__file__).with_name("read_only_program.py")


def test_an_archive_is_read_in_every_way_where_nothing_can_be_written(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "customer STRING, ts TIMESTAMP", key="customer", window=3, constituents=2,
        origin=0,
    )  # fmt: skip
    for day in (1, 2, 3):
        times = pa.array([day * DAY] * 2, pa.timestamp("us", "UTC"))
        archive.update(pa.table({"customer": ["ann", "bob"], "ts": times}))
    files = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "a"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        "6 3 3",
        "6",
        "True 6",
        "6",
        "False 2 6",
        "4",
        "True True",
    ]
    assert sorted(tmp_path.rglob("*")) == files
