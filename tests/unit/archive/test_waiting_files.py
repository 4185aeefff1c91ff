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


@pytest.mark.parametrize("own_lifetimes", [False, True])
def test_waiting_files_cost_an_update_nothing(
    tmp_path: Path, counted: Counter[str], own_lifetimes: bool
) -> None:
    costs = []
    for waiting in (0, 500):
        settings: dict[str, Any] = {"window": 3, "constituents": 2}
        if own_lifetimes:
            settings = {"max_lifetime": "3 days", "lifetime": "3 days"}
        archive = mayfly.archive.create(
            tmp_path / f"{waiting}", "customer STRING, ts TIMESTAMP", key="customer", origin=0,
            **settings,
        )  # fmt: skip
        for day in range(1, 9):
            take_in(archive, day)
        for number in range(waiting):
            (tmp_path / f"{waiting}/data/{number:032x}.parquet").touch()
        counted.clear()
        for day in range(9, 13):
            take_in(archive, day)
        costs.append(dict(counted))
        assert len(archive.repository.directory.names("data")) < waiting + 40
    assert costs[0] == costs[1]


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
        archive.vacuum(grace=number)
    (tmp_path / "a/data").mkdir(exist_ok=True)
    (tmp_path / "a/data/left.parquet").touch()
    assert archive.vacuum(grace="1 hour").files_too_young == 1
    assert archive.vacuum(grace=timedelta(0)).files_removed == 1
