"""Which small files a probe opens: those that hold its key, and no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.read.key_places import MANY, _hashes, key_hashes
from mayfly.archive.read.selection import ReadReport

UPDATES, KEYS, LIFE = 40, 60, 30


def value_of(kind: str, number: int) -> Any:
    match kind:
        case "STRING":
            return f"key {number}"
        case "DATE":
            return date(2026, 1, 1) + timedelta(days=number)
        case "BINARY":
            return bytes([number, 0])
        case "DOUBLE":
            return [0.0, float("nan"), float("-inf")][number] if number < 3 else number / 7
        case _:
            return number


Rows = list[dict[str, Any]]
Filled = Callable[..., tuple[Archive, Rows]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Copies of archives that are each written once."""
    written: dict[tuple[object, ...], tuple[Path, Rows]] = {}

    def copy(path: Path, kind: str = "BIGINT", **more: Any) -> tuple[Archive, Rows]:
        settings = (kind, *sorted(more.items()))
        if settings not in written:
            original = tmp_path_factory.mktemp("written") / "a"
            written[settings] = original, fill(original, kind, **more)
        original, alive = written[settings]
        shutil.copytree(original, path)
        return mayfly.archive.open(path), alive

    return copy


def fill(path: Path, kind: str, **more: Any) -> Rows:
    """Write an archive of many small runs; the rows that are alive in the end."""
    archive = mayfly.archive.create(
        path, f"k {kind}, ts BIGINT, exp BIGINT, id BIGINT", key="k", max_lifetime=f"{LIFE} us",
        refresh="1 us", origin=0, layout="NoRebuild 2x2", **more,
    )  # fmt: skip
    chance, rows = Random(kind), Rows()
    for update in range(1, UPDATES + 1):
        fresh = [
            {
                "k": value_of(kind, chance.randrange(KEYS)),
                "ts": update,
                "exp": update + chance.randint(1, LIFE),
                "id": 100 * update + number,
            }
            for number in range(8)
        ]
        rows += fresh
        names = list(archive.settings.all_columns)
        given = pa.schema([archive.settings.stored.field(name) for name in names])
        archive.update(pa.Table.from_pylist(fresh, schema=given))
    return [row for row in rows if row["exp"] > UPDATES]


@pytest.mark.parametrize(
    "kind",
    [
        *("BIGINT", "STRING", "DOUBLE"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("INT", "BINARY", "DATE")),
    ],
)
def test_every_row_is_found_under_its_key(tmp_path: Path, filled: Filled, kind: str) -> None:
    archive, alive = filled(tmp_path / "a", kind)
    for number in range(KEYS):
        key = value_of(kind, number)
        wanted = [r["id"] for r in alive if r["k"] == key or (r["k"] != r["k"] and key != key)]
        assert sorted(archive.probe(key)["id"].to_pylist()) == sorted(wanted)
    assert archive.probe(value_of(kind, KEYS + 1)).num_rows == 0
    assert archive.scan().num_rows == len(alive)


@pytest.mark.parametrize("parts", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_only_files_with_the_key_are_opened(tmp_path: Path, filled: Filled, parts: int) -> None:
    archive, _ = filled(tmp_path / "a", parts=parts)
    assert len(archive.version().manifest.segments) > parts * MANY
    for _ in range(2):
        archive.probe(*range(KEYS))
    for key in range(KEYS):
        report = ReadReport()
        found = archive.probe(key, key + 1, report=report)
        assert report.files <= found.num_rows
    report = ReadReport()
    assert archive.probe(KEYS + 5, report=report).num_rows == report.files == 0


@pytest.mark.parametrize("young", [0, 9])
@pytest.mark.parametrize("small", [0, pytest.param(2, marks=pytest.mark.slow), 50_000])
def test_large_files_are_looked_at_one_by_one(
    tmp_path: Path, filled: Filled, monkeypatch: pytest.MonkeyPatch, young: int, small: int
) -> None:
    monkeypatch.setattr("mayfly.archive.read.key_places.SMALL", small)
    archive, alive = filled(tmp_path / "a", young=young)
    for key in range(0, KEYS, 7):
        wanted = [row["id"] for row in alive if row["k"] == key]
        assert sorted(archive.probe(key)["id"].to_pylist()) == sorted(wanted)


def test_a_new_version_is_asked_anew(tmp_path: Path, filled: Filled) -> None:
    archive, _ = filled(tmp_path / "a")
    assert archive.probe(1000).num_rows == 0
    row = pa.table({"k": [1000], "ts": [UPDATES + 1], "exp": [UPDATES + 9], "id": [7]})
    archive.update(row)
    assert archive.probe(1000)["id"].to_pylist() == [7]
    assert archive.invalidate([1000]).rows == 1
    assert archive.probe(1000).num_rows == 0


def test_files_are_hashed_when_they_are_met_again(tmp_path: Path, filled: Filled) -> None:
    archive, alive = filled(tmp_path / "a")
    wanted = sorted(row["id"] for row in alive if row["k"] == 7)

    def hashed() -> dict[str, bool]:
        root = f"{tmp_path / 'a'}/"
        known = {path.removeprefix(root): h for path, h in _hashes.items() if path.startswith(root)}
        return {path: hashes is not None for path, hashes in known.items()}

    for expected in (False, True, True):
        assert sorted(archive.probe(7)["id"].to_pylist()) == wanted
        assert set(hashed().values()) == {expected}
    before = set(hashed())
    archive.update(pa.table({"k": [7], "ts": [UPDATES + 1], "exp": [UPDATES + 9], "id": [7]}))
    assert 7 in archive.probe(7)["id"].to_pylist()
    new = {path for path, known in hashed().items() if not known}
    assert new
    assert not new & before


def test_hashes_of_files_that_are_gone_are_forgotten(tmp_path: Path, filled: Filled) -> None:
    archive, _ = filled(tmp_path / "a")
    archive.probe(1)
    root = str(tmp_path / "a")
    assert sum(path.startswith(root) for path in _hashes) > MANY
    for _ in range(LIFE + 1):
        archive.update(None)
    assert archive.probe(1).num_rows == 0
    assert not [path for path in _hashes if path.startswith(root)]


def test_equal_values_have_equal_hashes() -> None:
    floats = pa.chunked_array([[0.0, -0.0, float("nan"), 1.5], [1.5, -float("nan")]])
    zero, minus, nan, one, again, other = key_hashes(floats).tolist()
    assert (zero, nan, one) == (minus, other, again)
    assert len({zero, nan, one}) == 3
    texts = key_hashes(pa.chunked_array([["a", "b", "a"]])).tolist()
    assert texts[0] == texts[2] != texts[1]
