"""Rows of a view by key: those of a scan, found without looking at others."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import mayfly
from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.serving import key_index
from mayfly.serving.key_index import DecodedSegment, KeyIndex, KeyOrder, key_values
from mayfly.storage import AddSegments, Repository, write_segment
from tests.unit.serving.stored_pipelines import SECOND, clicks, expected, fed, table_of, tuples


@pytest.mark.parametrize("name", ["recent", "totals", "towns"])
def test_the_rows_of_a_key_are_those_of_a_scan(tmp_path: Path, name: str) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    for second in range(0, 29, 4):
        for user in ("ann", "bob", "eve", None, "nobody"):
            answer = reader.view(name, as_of=second * SECOND, where={"user": user})
            rows = [row for row in expected(name, second) if row[0] == user]
            assert tuples(answer.rows) == rows, (second, user)
            assert answer.as_of == second * SECOND


def test_several_columns_and_sql(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    for row in expected("recent", 28):
        user, page, n = row
        asked = {"user": user, "page": page, "n": n}
        assert tuples(reader.view("recent", where=asked).rows) == [row]
    for user in ("ann", "bob", "eve", "nobody"):
        sql = f"SELECT user, page, n FROM recent WHERE '{user}' = user AND n < 9"
        rows = [row for row in expected("recent", 28) if row[0] == user and row[2] < 9]
        assert tuples(reader.query(sql).rows) == rows


def test_what_a_lookup_reads(tmp_path: Path) -> None:
    runner = fed(tmp_path, 40, step=5)
    reader = mayfly.open(tmp_path)
    io = reader.repository.directory.io
    segments = len(list(reader.manifest.in_group("state/log/recent")))
    reader.view("recent", where={"user": "ann"})
    files, everything = io.files_read, reader.index.rows_read
    assert 0 < files <= segments
    reader.view("recent", where={"user": "bob"})  # the keys are sorted
    before = reader.index.rows_read
    rows = reader.view("recent", where={"user": "eve"}).rows.num_rows
    assert rows
    assert io.files_read == files
    assert rows <= reader.index.rows_read - before < everything / 2, "some may be dead"
    assert not reader.view("recent", where={"user": "nobody"}).rows.num_rows
    assert io.files_read == files
    runner.feed({"clicks": table_of(clicks(40, 45))}, {})
    newest = reader.latest()
    files = io.files_read
    newest.view("recent", where={"user": "ann"})
    added = {*newest.manifest.segments} - {*reader.manifest.segments}
    log = [s for s in newest.manifest.in_group("state/log/recent") if s.path in added]
    assert files < io.files_read <= files + len(log) < files + segments


def test_explain_tells_lookups_from_scans(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    sql = "SELECT r.n, t.n AS m FROM recent r, totals t, people p WHERE r.user = 'ann' AND t.n > 3"
    explained = reader.explain(sql)
    assert isinstance(explained, OneTimeExplanation)
    assert explained.reads == (
        ("recent", "view, by key (user)"),
        ("totals", "view, scan"),
        ("people", "relation, scan"),
    )


@pytest.mark.parametrize(
    ("where", "problem", "hint"),
    [
        ({"usr": "ann"}, "recent has no column usr", "did you mean user?"),
        ({"n": "many"}, "n of recent is bigint; 'many' is not", "give a value of that type"),
        ({"n": 2**70}, "n of recent is bigint", "give a value of that type"),
    ],
)
def test_values_that_no_row_can_have(
    tmp_path: Path, where: dict[str, Any], problem: str, hint: str
) -> None:
    fed(tmp_path, 10)
    with pytest.raises(InvalidSetting) as refusal:
        mayfly.open(tmp_path).view("recent", where=where)
    assert problem in refusal.value.message
    assert hint in refusal.value.hint


def test_a_damaged_segment_is_named_and_not_decoded(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    (*_, path) = (segment.path for segment in reader.manifest.in_group("state/log/recent"))
    content = bytearray((tmp_path / path).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / path).write_bytes(content)
    for _ in range(2):
        with pytest.raises(CorruptFile, match="differs from its checksum"):
            reader.view("recent", where={"user": "ann"})
        with pytest.raises(CorruptFile, match="differs from its checksum"):
            reader.view("recent")


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "s": (pa.string(), ["a", "", None, "ä", "a"]),
    "d": (pa.float64(), [0.0, -0.0, None, float("nan"), 1.5]),
    "c": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-3.00"), None, Decimal(0), Decimal(0)]),
    "t": (pa.date32(), [date(2026, 1, 1), None, date(1969, 1, 1), None, date(2026, 1, 1)]),
    "b": (pa.bool_(), [True, False, None, True, False]),
}


@pytest.mark.parametrize("limit", [1 << 20, 1])
@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type(tmp_path: Path, name: str, limit: int) -> None:
    """However large a segment is, and however often it is asked."""
    kind, values = VALUES[name]
    repository = Repository.create(tmp_path / "r", {}, sync=False)
    numbers = pa.array(range(len(values)), pa.int64())
    rows = pa.table({"v": pa.array(values, kind), "n": numbers, "_ts": numbers, "_exp": numbers})
    segment = write_segment(repository.directory, "g", rows)
    assert segment is not None
    repository.commit(repository.current(), [AddSegments((segment,))])
    index = KeyIndex(limit)
    for value in values:
        for _ in range(3):
            asked = key_values({"v": (value,)}, {"v": kind})
            parts = list(index.select(repository.directory, segment, asked))
            same = [n for n, other in enumerate(values) if _equal(value, other)]
            assert [n for part in parts for n in part["n"].to_pylist()] == same, value


def _equal(value: Any, other: Any) -> bool:
    return value == other or (value != value and other is not None and other != other)


def test_keys_that_share_a_code_are_told_apart() -> None:
    rows = pa.RecordBatch.from_pydict({"k": ["a", "b", "a", "c"]})
    order = KeyOrder.of(rows, ("k",))
    shared = KeyOrder(order.codes * 0, order.positions)
    decoded = DecodedSegment(rows, {("k",): shared})
    asked = key_values({"k": ("a", "c")}, {"k": pa.string()})
    asked.__dict__["codes"] = order.codes[:1] * 0
    selected, looked_at = decoded.select(asked)
    assert sorted(selected["k"].to_pylist()) == ["a", "a", "c"]
    assert looked_at == 4


def test_memory_is_bounded_and_what_is_gone_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    segments = list(reader.manifest.in_group("state/log/recent"))
    asked = key_values({".user": ("ann",)}, {".user": pa.string()})
    index, directory = KeyIndex(), reader.repository.directory
    sizes = []
    for segment in segments:
        list(index.select(directory, segment, asked))
        sizes.append(sum(entry.bytes for entry in index._kept.values()))
    assert sizes == sorted(sizes)
    monkeypatch.setattr(key_index, "LARGEST_SHARE", 1e-9)  # no segment is too large
    small = KeyIndex(limit=2 * sizes[0])
    for _ in range(2):
        for segment in segments:
            list(small.select(directory, segment, asked))
            assert len(small._kept) == 1 or (
                sum(entry.bytes for entry in small._kept.values()) <= small.limit
            )
    assert 0 < len(small._kept) < len(segments)
    index.retain({segments[0].path})
    assert list(index._kept) == [segments[0].path]
