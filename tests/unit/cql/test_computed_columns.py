"""Computed columns, and times that are numbers of a unit or expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from mayfly import LocalSession
from mayfly.cql import parse
from mayfly.errors import MayflyError
from mayfly.plan.catalog import StreamDefinition

INSTANT = 1_700_000_000_000_000


def declared(text: str) -> StreamDefinition:
    (create,) = parse(text)
    definition = create.definition  # type: ignore[attr-defined]
    assert isinstance(definition, StreamDefinition)
    return definition


def answer(declaration: str, query: str, **columns: list[Any]) -> list[dict[str, Any]]:
    session = LocalSession()
    session.execute(declaration)
    run = session.query(query)
    run.feed({"s": pa.table(columns)})
    run.finish()
    rows: list[dict[str, Any]] = run.lifetimes().to_pylist()
    return rows


@pytest.mark.parametrize(
    ("unit", "number"),
    [
        ("SECONDS", INSTANT // 1_000_000),
        ("MILLISECONDS", INSTANT // 1000),
        ("MICROSECONDS", INSTANT),
        ("NANOSECONDS", INSTANT * 1000 + 999),
    ],
)
def test_a_number_counts_what_it_is_said_to(unit: str, number: int) -> None:
    text = f"CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts {unit} SLACK 1 s"
    assert declared(text).unit_given
    (row,) = answer(text, "SELECT v FROM s", ts=[number], v=[1])
    assert row["ts"] == INSTANT


def test_without_a_unit_a_number_counts_microseconds() -> None:
    text = "CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts"
    assert not declared(text).unit_given
    (row,) = answer(text, "SELECT v FROM s", ts=[17], v=[1])
    assert row["ts"] == 17


def test_the_time_is_an_expression_of_the_row() -> None:
    text = "CREATE STREAM s (day INT, ms BIGINT) TIMESTAMP BY timestamp_millis(ms + 1000 * day)"
    (row,) = answer(text, "SELECT event_time, day FROM s", day=[2], ms=[5])
    assert (row["ts"], row["day"]) == (2_005_000, 2)
    assert row["event_time"].timestamp() == 2.005


def test_columns_follow_from_others() -> None:
    text = """CREATE STREAM s (ms BIGINT, a INT, twice AS (2 * a), ts AS (timestamp_millis(ms)),
              label AS (CASE WHEN a > 1 THEN upper('big') ELSE 'small' END))
              TIMESTAMP BY ts"""
    stream = declared(text)
    assert [one.name for one in stream.supplied_columns] == ["ms", "a"]
    rows = answer(text, "SELECT twice, label FROM s [RANGE 1 s]", ms=[3, 4], a=[1, 2])
    assert [(r["twice"], r["label"], r["ts"]) for r in rows] == [
        (2, "small", 3000),
        (4, "BIG", 4000),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE STREAM s (a INT, ts TIMESTAMP) TIMESTAMP BY nothing", "no column nothing"),
        ("CREATE STREAM s (a INT) TIMESTAMP BY a + 1", "cannot be of type INT"),
        ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts MILLISECONDS", "counts nothing"),
        ("CREATE STREAM s (ts TIMESTAMP, b AS (c + 1)) TIMESTAMP BY ts", "no column c"),
        ("CREATE STREAM s (ts TIMESTAMP, b AS (ts", "no end"),
        ("CREATE RELATION r (a INT, b AS (a + 1)) KEY a", "stored, not computed"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(MayflyError, match=message):
        parse(text)


def test_texts_without_a_zone_are_of_the_zone_of_their_stream() -> None:
    text = """CREATE STREAM s (t STRING, v INT) TIMESTAMP BY to_timestamp(t, 'yyyy-MM-dd HH:mm')
              TIME ZONE 'Europe/Berlin'"""
    assert declared(text).zone == "Europe/Berlin"
    (row,) = answer(text, "SELECT v FROM s", t=["2026-07-01 12:00"], v=[1])
    assert row["ts"] == 1_782_900_000_000_000
    with pytest.raises(MayflyError, match="no time zone"):
        declared("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts TIME ZONE 'Europe/Nowhere'")
