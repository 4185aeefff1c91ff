"""Archives over windows of a number of rows, against a list of the rows and their positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mayfly.archive
from mayfly.archive import Archive
from mayfly.errors import BadInput, InvalidSetting

SIZES = {"left": 40, "right": 15}
DDL = "k BIGINT, ts BIGINT, left BIGINT, right BIGINT, id BIGINT"
LAYOUTS = [
    None, "CountRebuild2x2", "CountNoRebuild2x3", "round-robin 2x2", "Rebuild3x2", "lazy 2x2",
    "chronological 2x2", "R-exp3", "D-ins2", "WATA3",
]  # fmt: skip


def counted(path: Path, layout: str | None = "CountNoRebuild2x3", **more: Any) -> Archive:
    chosen: dict[str, Any] = {
        "key": "k",
        "max_lifetime": "60 us",
        "refresh": "10 us",
        "origin": 0,
        "counts": SIZES,
    } | more
    return mayfly.archive.create(path, DDL, layout=layout, **chosen)


@dataclass
class Windows:
    """Two streams whose rates jump, and results that join a row of each."""

    chance: Random
    now: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 0))
    rate: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 5))
    rows: list[dict[str, int]] = field(default_factory=list)
    given: int = 0

    def batch(self, update: int) -> list[dict[str, int]]:
        chance, found = self.chance, []
        for name in SIZES:
            if chance.random() < 0.3:
                self.rate[name] = chance.choice([0, 1, 5, 50])
            self.now[name] += self.rate[name]
        for _ in range(chance.choice([0, 1, 4, 9])):
            row = {"k": chance.randint(0, 3), "ts": chance.randint(10 * update - 9, 10 * update)}
            for name, size in SIZES.items():
                row[name] = max(0, self.now[name] - chance.randint(0, size + 1))
            self.given += 1
            found.append(row | {"id": self.given})
        self.rows += found
        return found

    def alive(self, **sizes: int) -> list[dict[str, int]]:
        return [
            row
            for row in self.rows
            if all(row[n] > self.now[n] - size for n, size in (SIZES | sizes).items())
        ]


def table(rows: list[dict[str, int]]) -> pa.Table:
    names = ("k", "ts", *SIZES, "id")
    return pa.table({name: pa.array([row[name] for row in rows], pa.int64()) for name in names})


def ids(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def check(archive: Archive, windows: Windows, update: int) -> None:
    alive = windows.alive()
    assert ids(archive.scan()) == [row["id"] for row in alive]
    # Time alone does not move windows of a number of rows.
    assert ids(archive.scan(as_of=10 * update + 1000)) == [row["id"] for row in alive]
    for key in range(4):
        assert ids(archive.probe(key)) == [row["id"] for row in alive if row["k"] == key]
    assert ids(archive.probe(1, 2, columns=["id"])) == [
        row["id"] for row in alive if row["k"] in (1, 2)
    ]
    for window in ({"left": 7}, {"right": 4}, {"left": 1, "right": 15}):
        fewer = windows.alive(**window)
        assert ids(archive.scan(window=window)) == [row["id"] for row in fewer]
        assert ids(archive.probe(1, window=window)) == [r["id"] for r in fewer if r["k"] == 1]
        assert ids(archive.probe_range(0, 2, window=window)) == [
            row["id"] for row in fewer if row["k"] <= 2
        ]
    same = windows.alive(left=15, right=15)
    assert ids(archive.scan(window=15)) == [row["id"] for row in same]
    assert set(ids(archive.scan())) <= set(ids(archive.scan(soft=True)))
    assert archive.maintain.verify().ok


def play(path: Path, layout: str | None, chance: Random, updates: int) -> None:
    archive, windows = counted(path, layout, parts=chance.randint(1, 2)), Windows(chance)
    update, stored = 0, 0
    for _ in range(updates):
        update += chance.choice([1, 1, 1, 1, 3])
        before = ids(archive.scan()), archive.version().time
        batch = windows.batch(update)
        reached = {name: at for name, at in windows.now.items() if at or chance.random() < 0.5}
        report = archive.update(table(batch) if batch else None, update=update, positions=reached)
        assert report.rows_in == len(batch)
        stored += report.stored - report.removed
        assert stored == archive.scan(soft=True).num_rows
        check(archive, windows, update)
        assert ids(archive.scan(as_of=before[1])) == before[0]
        if chance.random() < 0.1 and windows.alive():
            void = chance.choice(windows.alive())["k"]
            archive.invalidate([void])
            windows.rows = [row for row in windows.rows if row["k"] != void]
            check(archive, windows, update)
            stored = archive.scan(soft=True).num_rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_archive_shows_what_is_in_the_windows(tmp_path: Path, layout: str | None) -> None:
    play(tmp_path / "a", layout, Random(str(layout)), 15)


@settings(max_examples=settings().max_examples // 4)
@given(st.sampled_from(LAYOUTS), st.integers(1, 12), st.randoms(use_true_random=False))
def test_any_history(layout: str | None, updates: int, chance: Random) -> None:
    with TemporaryDirectory() as folder:
        play(Path(folder) / "a", layout, chance, updates)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("factor", [10, 0.1])
def test_rates_may_jump(tmp_path: Path, layout: str | None, factor: float) -> None:
    """Rows die ten times sooner or later than was expected of them."""
    archive, windows = counted(tmp_path / "a", layout), Windows(Random(3))
    for update in range(1, 16):
        step = 10 if update < 8 else int(10 * factor)
        rows = []
        for _ in range(10 if update < 8 else 3):
            positions = {name: windows.now[name] + 1 for name in SIZES}
            rows.append({"k": 1, "ts": 10 * update, **positions, "id": len(windows.rows)})
            windows.rows.append(rows[-1])
        windows.now = {name: at + step for name, at in windows.now.items()}
        archive.update(table(rows), positions=windows.now)
        check(archive, windows, update)
    after = {name: at + 1000 for name, at in windows.now.items()}
    archive.update(None, positions=after)
    assert archive.scan().num_rows == archive.scan(soft=True).num_rows == 0


def test_a_dead_run_is_dropped_unread(tmp_path: Path) -> None:
    archive = counted(tmp_path / "a", "CountNoRebuild2x3")
    archive.update(table([{"k": 1, "ts": 10, "left": at, "right": at, "id": at} for at in (1, 2)]))
    report = archive.update(None, positions={"left": 1000})
    assert (report.bytes_read, report.removed) == (0, 2)


def test_a_row_leaves_when_its_window_has_moved_on_by_its_size(tmp_path: Path) -> None:
    archive = counted(tmp_path / "a", "CountNoRebuild1x1")
    rows = [{"k": 1, "ts": 10, "left": at, "right": 9, "id": at} for at in (1, 2, 30)]
    archive.update(table(rows))
    for reached, expected in ((40, [1, 2, 30]), (41, [2, 30]), (42, [30])):
        archive.update(None, positions={"left": reached})
        assert ids(archive.scan()) == ids(archive.probe(1)) == expected
    assert ids(archive.scan(soft=True)) == [1, 2, 30]  # hidden, not yet removed


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for wrong, message in (
        ({"counts": {"left": 0}}, "1 or more"),
        ({"counts": {"nowhere": 5}}, "not a column of positions"),
        ({"exp": "ts"}, "only one of them"),
        ({"lifetime": "5 us"}, "only one of them"),
        ({"contract": "SOFT(1)"}, "cannot promise"),
    ):
        with pytest.raises(InvalidSetting, match=message):
            counted(tmp_path / "a", **wrong)
    archive = counted(tmp_path / "a")
    with pytest.raises(InvalidSetting, match="no window with positions 'up'"):
        archive.update(None, positions={"up": 1})
    for window, message in (
        ({"up": 1}, "no window with positions 'up'"),
        (16, "asked of the last 15 by right"),
        (0, "a window of 0 rows"),
        ("2 hours", "not a number of rows"),
        ({"left": True}, "not a number of rows"),
    ):
        with pytest.raises(InvalidSetting, match=message):
            archive.scan(window=window)
    assert archive.scan(window="10 rows").num_rows == 0
    row = pa.table({"k": [1], "ts": [1], "left": [1], "right": pa.array([None], pa.int64()),
                    "id": [1]})  # fmt: skip
    with pytest.raises(BadInput, match="expiration time is NULL"):
        archive.update(row)
