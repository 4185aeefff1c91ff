"""An archive in figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.status import ArchiveStatus
from mayfly.errors import InvalidSetting

DAY = 86_400_000_000


def rows(day: int, count: int) -> pa.Table:
    times = [(day - 1) * DAY + 1 + at for at in range(count)]
    return pa.table(
        {
            "k": [f"c{at % 5}" for at in range(count)],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def after(path: Path, updates: int, **declared: Any) -> ArchiveStatus:
    archive = mayfly.archive.create(
        path, "k STRING, ts TIMESTAMP", key="k", origin=0, **{"window": 4, **declared}
    )
    for day in range(1, updates + 1):
        archive.update(rows(day, 10 * day))
    return archive.inspect.status()


def test_a_soft_window_shows_its_expired_days_and_dead_rows(tmp_path: Path) -> None:
    status = after(tmp_path / "a", 6, scheme="WATA", constituents=2)
    # WATA (4, 2): {1,2,3} {4} … day 6: {1,2,3} {4,5,6}
    assert [(one.name, one.days, one.expired) for one in status.constituents] == [
        ("I1", (1, 2, 3), (1, 2)),
        ("I2", (4, 5, 6), ()),
    ]
    assert [(one.rows, one.dead_rows) for one in status.constituents] == [(60, 30), (150, 0)]
    assert (status.rows, status.dead_rows) == (180, 30)
    assert all(one.packed and one.runs == 1 for one in status.constituents)
    assert status.bytes == sum(one.bytes for one in status.constituents) > 0
    assert status.files == sum(one.files for one in status.constituents)
    assert (status.update, status.time, status.next_time) == (6, 6 * DAY, 7 * DAY)
    assert status.last["update"] == 6


def test_hidden_rows_of_in_place_deletions_are_dead(tmp_path: Path) -> None:
    status = after(tmp_path / "a", 6, scheme="RATA", constituents=3, technique="in-place", parts=2)
    assert status.rows == 180
    assert sum(one.rows - one.dead_rows for one in status.constituents) == 180
    assert status.dead_rows == sum(one.dead_rows for one in status.constituents)


def test_temporaries_are_told_apart(tmp_path: Path) -> None:
    status = after(tmp_path / "a", 5, scheme="REINDEX++", constituents=2)
    assert [one.name for one in status.constituents] == ["I1", "I2"]
    assert [(one.name, one.days) for one in status.temporaries] == [("T0", (5,))]
    assert status.dead_rows == 0


def test_a_status_is_plain_values(tmp_path: Path) -> None:
    status = after(tmp_path / "a", 2)
    told = json.loads(json.dumps(status.to_json()))
    assert told["constituents"][0]["days"] == [1, 2]
    assert told["path"] == str(tmp_path / "a")


def test_the_plan_continues_where_the_archive_stands(tmp_path: Path) -> None:
    after(tmp_path / "a", 5, scheme="WATA", constituents=2)
    archive = mayfly.archive.open(tmp_path / "a")
    title, header, *lines = archive.inspect.plan(2)
    assert title == "WATA, window of 4 days, 2 constituents"
    assert header.split() == ["Day", "Operation", "I1", "I2"]
    assert lines[0].split()[0] == "6"
    assert "{4,5,6}" in lines[0]
    with pytest.raises(InvalidSetting, match="a plan of 0 updates"):
        archive.inspect.plan(0)
