"""Updates beside files that wait for their grace: such files are not looked at."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.archive import Archive
from mayfly.errors import InvalidSetting
from mayfly.faults import on_reach
from mayfly.storage import Directory

DAY = 86_400_000_000


def take_in(archive: Archive, day: int) -> None:
    times = pa.array([day * DAY] * 2, pa.timestamp("us", "UTC"))
    archive.update(pa.table({"customer": ["ann", "bob"], "ts": times}))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often files were looked at, and how many names came back from listings."""
    counts: Counter[str] = Counter()
    stat, all_names = Directory._info, Directory.all_names

    def count_stat(self: Directory, name: str) -> Any:
        counts["looks"] += 1
        return stat(self, name)

    def count_names(self: Directory, folder: str) -> list[str]:
        names = all_names(self, folder)
        counts["names"] += len(names)
        return names

    monkeypatch.setattr(Directory, "_info", count_stat)
    monkeypatch.setattr(Directory, "all_names", count_names)
    return counts


LIFETIMES = {"max_lifetime": "3 days", "lifetime": "3 days"}
KINDS: dict[str, dict[str, Any]] = {
    "window": {"window": 3, "constituents": 2},
    "lifetimes": LIFETIMES,
    "erasing": {**LIFETIMES, "contract": "PHYSICAL WITHIN 1 day"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_files_cost_an_update_nothing(
    tmp_path: Path, counted: Counter[str], kind: str
) -> None:
    """Where bytes must be gone in time none waits: what is left behind goes with an update."""
    costs, settings = [], KINDS[kind]
    for waiting in (0, 500):
        archive = mayfly.archive.create(
            tmp_path / f"{waiting}", "customer STRING, ts TIMESTAMP", key="customer", origin=0,
            **settings,
        )  # fmt: skip
        for day in range(1, 9):
            take_in(archive, day)
        for number in range(waiting):
            (tmp_path / f"{waiting}/data/{number:032x}.parquet").touch()
        take_in(archive, 9)
        counted.clear()
        for day in range(10, 14):
            take_in(archive, day)
        costs.append(dict(counted))
        left = 0 if kind == "erasing" else waiting
        assert left <= len(archive.repository.directory.names("data")) < left + 40
    assert costs[0] == costs[1]


def test_many_files_that_were_left_behind_go_at_once(tmp_path: Path, counted: Counter[str]) -> None:
    """With one notice, and after few looks at each of them."""
    archive = mayfly.archive.create(
        tmp_path / "a", "customer STRING, ts TIMESTAMP", key="customer", origin=0,
        **KINDS["erasing"],
    )  # fmt: skip
    take_in(archive, 1)
    for number in range(500):
        (tmp_path / f"a/data/{number:032x}.parquet").touch()
    noticed: list[int] = []
    counted.clear()
    with on_reach("vacuum.noticed", lambda: noticed.append(1)):
        take_in(archive, 2)
    assert len(noticed) == 1
    assert counted["names"] < 2 * 500
    assert counted["looks"] < 3 * 500
    assert archive.maintain.verify().ok


def test_files_of_versions_that_go_are_removed_with_them(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "customer STRING, ts TIMESTAMP", key="customer", window=3, constituents=2,
        origin=0, keep_versions=1,
    )  # fmt: skip
    for day in range(1, 10):
        take_in(archive, day)
        assert archive.repository.directory.names("data") == sorted(
            archive.version().manifest.segments
        )


def test_the_grace_of_a_vacuum_has_a_unit(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "customer STRING, ts TIMESTAMP", key="customer", window=3, origin=0
    )
    number: Any = 3600
    with pytest.raises(InvalidSetting, match="3600 has no unit"):
        archive.maintain.vacuum(grace=number)
    (tmp_path / "a/data").mkdir(exist_ok=True)
    (tmp_path / "a/data/left.parquet").touch()
    assert archive.maintain.vacuum(grace="1 hour").files_too_young == 1
    assert archive.maintain.vacuum(grace=timedelta(0)).files_removed == 1
