"""Array keys: rows are stored once per part, and found under each of their values."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mayfly.archive
from mayfly.archive import Archive
from mayfly.archive.model.settings import NTH, REFERENCE

DAY = 86_400_000_000


def documents(words: list[list[str]], day: int = 1) -> pa.Table:
    return pa.table(
        {
            "k": words,
            "ts": pa.array([day * DAY] * len(words)),
            "body": [f"document {at}" * 20 for at in range(len(words))],
        }
    )


def stored(archive: Archive) -> pa.Table:
    root = archive.repository.directory.root
    files = [one for one in archive.version().manifest.segments if one.endswith(".parquet")]
    return pa.concat_tables(pq.read_table(root / one) for one in files)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_row_is_stored_once_per_part_and_found_under_each_value(
    tmp_path: Path, parts: int
) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k ARRAY<STRING>, ts BIGINT, body STRING", key="k", window=3, origin=0,
        parts=parts,
    )  # fmt: skip
    chance = Random(parts)
    words = [[f"w{chance.randint(0, 60)}" for _ in range(200)] for _ in range(5)]
    archive.update(documents(words))
    rows = stored(archive)
    whole = rows.filter(pa.array([nth != REFERENCE for nth in rows[NTH].to_pylist()]))
    assert whole.num_rows <= 5 * parts
    assert rows.num_rows == sum(len(set(one)) for one in words)
    assert rows["k"].null_count == rows["body"].null_count == rows.num_rows - whole.num_rows
    for word in {word for one in words for word in one} | {"absent"}:
        expected = [f"document {at}" * 20 for at, one in enumerate(words) if word in one]
        assert sorted(archive.probe(word)["body"].to_pylist()) == expected
    assert archive.probe("w1", "w2", "w3").num_rows == sum(
        bool({"w1", "w2", "w3"} & set(one)) for one in words
    )
    assert archive.scan().num_rows == archive.probe_range().num_rows == 5


def test_what_is_written_grows_with_the_values_not_with_their_square(tmp_path: Path) -> None:
    sizes = []
    for values in (500, 5_000):
        archive = mayfly.archive.create(
            tmp_path / str(values), "k ARRAY<STRING>, ts BIGINT, body STRING", key="k", window=3,
            origin=0,
        )  # fmt: skip
        archive.update(documents([[f"word {at}" for at in range(values)]]))
        sizes.append(stored(archive).nbytes)
    assert sizes[1] < 15 * sizes[0]


def test_nothing_of_an_erased_row_stays_behind(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k ARRAY<STRING>, ts BIGINT, body STRING", key="k", max_lifetime="3 days",
        lifetime="3 days", origin=0, contract="HARD PHYSICAL WITHIN 1 day", layout="Rebuild 1x1",
    )  # fmt: skip
    archive.update(documents([["a", "secret"], ["a", "b"]]))
    assert archive.invalidate(["secret"]).rows == 1
    assert archive.probe("a").num_rows == 1
    left = stored(archive)
    assert sorted(left["_key"].to_pylist()) == ["a", "b"]


def test_rows_get_lifetimes_of_their_own_with_all_their_values(tmp_path: Path) -> None:
    archive = mayfly.archive.create(
        tmp_path / "a", "k ARRAY<STRING>, ts BIGINT, body STRING", key="k", window=3, origin=0,
        parts=2,
    )  # fmt: skip
    words = [[f"w{at % 7}", f"w{at % 5}", f"v{at}"] for at in range(12)]
    archive.update(documents(words))
    archive.migrate(max_lifetime="4 days", lifetime="4 days")
    for word in {word for one in words for word in one}:
        assert archive.probe(word).num_rows == sum(word in one for one in words)
    assert archive.scan().num_rows == 12
    assert archive.maintain.verify().ok


def test_copies_of_before_are_read_beside_references(tmp_path: Path) -> None:
    """An archive whose files hold a whole copy of a row under each value goes on."""
    old = Path(__file__).parents[3] / "golden" / "formats" / "archive-version-1" / "array"
    shutil.copytree(old, tmp_path / "array")
    archive = mayfly.archive.open(tmp_path / "array")
    name, before = archive.settings.key[0], archive.scan()
    archive.update(None)
    kept = archive.scan()
    assert 0 < kept.num_rows <= before.num_rows
    value = kept[name].to_pylist()[0][0]
    rows = kept.slice(0, 1)
    time = archive.settings.time
    now = pa.array([archive.version().time + 1], pa.int64()).cast(kept.schema.field(time).type)
    arriving = rows.set_column(rows.schema.get_field_index(time), time, now)
    under = sum(value in own for own in kept[name].to_pylist())
    archive.update(arriving)
    alive = archive.scan()
    expected = sum(value in own for own in alive[name].to_pylist())
    assert archive.probe(value).num_rows == expected
    assert expected >= 1
    assert under >= 1
    assert archive.maintain.verify().ok
