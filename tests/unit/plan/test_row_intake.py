"""Rows as people bring them, for streams, relations and archives alike."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import mayfly.archive
from mayfly import LocalSession
from mayfly.errors import BadInput, InvalidSetting
from mayfly.lifetime import in_zone, instant
from mayfly.plan.row_intake import as_table
from mayfly.plan.types import parse_type

KINDS = {
    name: parse_type(kind)
    for name, kind in {"k": "STRING", "d": "DECIMAL(10,2)", "x": "DOUBLE", "n": "INT"}.items()
}
ROW: dict[Any, Any] = {"k": "a", "d": Decimal("1.25"), "x": 1, "n": 7}
EXPECTED = [{"k": "a", "d": Decimal("1.25"), "x": 1.0, "n": 7}]


@pytest.mark.parametrize(
    "rows",
    [
        [ROW],
        {name: [value] for name, value in ROW.items()},
        pa.Table.from_pylist([ROW]),
        pa.Table.from_pylist([ROW]).to_batches()[0],
        pd.DataFrame([ROW]),
        [{name.upper(): value for name, value in ROW.items()}],
        pa.Table.from_pylist([ROW]).set_column(0, "K", pa.array(["a"]).dictionary_encode()),
        pd.DataFrame([ROW]).astype({"k": "category"}),
    ],
)
def test_every_form_gives_the_declared_table(rows: Any) -> None:
    assert as_table("r", rows, KINDS).to_pylist() == EXPECTED


def test_nothing_is_no_rows() -> None:
    assert as_table("r", [], KINDS).num_rows == 0
    assert as_table("r", [], KINDS).schema.names == list(KINDS)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{**ROW, "d": Decimal("1.255")}], "values of d do not fit"),
        ([{**ROW, "n": 2**40}], "values of n do not fit"),
        (pa.table({"k": ["a"], "d": [1], "x": [2**53 + 1], "n": [1]}), "values of x do not fit"),
        (pa.table({"k": [1], "d": [1], "x": [1], "n": [1]}), "k is BIGINT, not STRING"),
        ([{"k": "a"}], "missing: d; missing: x; missing: n"),
        (pa.table([pa.array(["a"])] * 2, names=["k", "K"]), "a name occurs twice"),
        (7, "are a int"),
        ("text", "are a str"),
        ([{**ROW, "n": 1.9}], "values of n do not fit INT: 1.9 would lose a part"),
        ([{**ROW, "n": Decimal("1.5")}], "values of n do not fit"),
        ([{**ROW, "n": np.float32(1.5)}], "values of n do not fit"),
        ([{**ROW, "n": float("inf")}], "values of n do not fit"),
        ({**{name: [value] for name, value in ROW.items()}, "n": [1.9]}, "values of n do not fit"),
        ([{**ROW, "N": 8}], "in row 0 for r a name occurs twice"),
        ([ROW | {5: 8}], "a column of the rows for r is called 5"),
        (pd.DataFrame(index=range(3)), "missing: k"),
        ({**ROW, "k": ["a"]}, "the column d for r is"),
        ({"k": "abc"}, "the column k for r is 'abc'"),
    ],
)
def test_what_does_not_fit_is_refused(rows: Any, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        as_table("r", rows, KINDS)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BIGINT", 1.9),
        ("TIMESTAMP", 1.9),
        ("DATE", datetime(2026, 1, 1, 5)),
        ("FLOAT", 1e300),
        ("ARRAY<BIGINT>", [1, 1.9]),
        ("MAP<STRING, INT>", {"a": 1.9}),
        ("MAP<STRING, INT>", [("a", 1.9)]),
        ("STRUCT<a: INT, b: ARRAY<INT>>", {"a": 1, "b": [2.5]}),
        ("STRUCT<a: INT>", (1.9,)),
    ],
)
def test_no_part_of_a_value_is_cut_off(kind: str, value: object) -> None:
    with pytest.raises(BadInput, match="would lose a part of its value"):
        as_table("r", [{"v": value}], {"v": parse_type(kind)})


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("BIGINT", 2.0, 2),
        ("BIGINT", Decimal(2), 2),
        ("DATE", datetime(2026, 1, 1), date(2026, 1, 1)),
        ("FLOAT", float("inf"), float("inf")),
        ("ARRAY<BIGINT>", [1, None], [1, None]),
        ("TIMESTAMP", date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP", np.datetime64("2026-01-01"), datetime(2026, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", date(2026, 1, 1), datetime(2026, 1, 1)),
    ],
)
def test_what_a_type_holds_exactly_is_taken(kind: str, value: object, stored: object) -> None:
    assert as_table("r", [{"v": value}], {"v": parse_type(kind)})["v"].to_pylist() == [stored]


def test_rows_may_write_a_name_in_several_ways() -> None:
    rows = [ROW, {name.upper(): value for name, value in ROW.items()}, {**ROW, "k": "c"}]
    assert as_table("r", rows, KINDS)["k"].to_pylist() == ["a", "a", "c"]


@pytest.mark.parametrize(
    "rows", [[], {}, pa.table({}), pd.DataFrame(), pd.DataFrame(columns=["k", "a"])]
)
def test_nothing_is_no_rows_in_every_form(rows: Any) -> None:
    kinds = {"k": parse_type("STRING"), "a": parse_type("ARRAY<STRING>")}
    assert as_table("r", rows, kinds).num_rows == 0


def test_lists_without_values_fit_every_array() -> None:
    rows = pd.DataFrame({"a": [[], []], "s": [{"x": None}, {"x": None}]})
    kinds = {"a": parse_type("ARRAY<STRING>"), "s": parse_type("STRUCT<x: INT>")}
    assert as_table("r", rows, kinds).to_pylist() == [{"a": [], "s": {"x": None}}] * 2


def test_a_relation_has_the_columns_of_all_its_rows() -> None:
    session = LocalSession()
    session.relation("names", [{"x": 1}, {"X": 2, "name": "two"}])
    assert session.table("names").to_pylist() == [
        {"x": 1, "name": None},
        {"x": 2, "name": "two"},
    ]
    with pytest.raises(BadInput, match="have no common types"):
        session.relation("others", [{"x": 1}, {"x": "a"}])


def test_undeclared_columns_are_refused_where_all_are_kept() -> None:
    for name, shown in (("z", "z"), ("", "''")):
        with pytest.raises(BadInput, match=f"not in r: {shown}"):
            as_table("r", [{**ROW, name: 1}], KINDS, strict=True)


def test_streams_and_relations_take_them() -> None:
    session = LocalSession()
    session.stream("Trades", {"ts": "TIMESTAMP", "d": "DECIMAL(10,2)", "x": "DOUBLE"})
    session.relation("names", [{"x": 1.0, "name": "one"}])
    run = session.query("SELECT d, name FROM trades [RANGE 1 DAY] t, names n WHERE t.x = n.x")
    run.feed({"TRADES": []})
    run.feed({"trades": [{"TS": datetime(2026, 1, 1), "D": Decimal("1.25"), "X": 1}]})
    run.feed(heartbeats={"trades": date(2026, 1, 2)})
    assert run.snapshot("2026-01-01T12:00:00").to_pylist() == [
        {"d": Decimal("1.25"), "name": "one"}
    ]
    with pytest.raises(InvalidSetting, match="no stream nothing"):
        run.feed({"nothing": []})
    with pytest.raises(InvalidSetting, match="there is no relation nothing"):
        session.table("nothing")


def test_archives_take_them_and_refuse_unknown_settings(tmp_path: Path) -> None:
    columns = "k STRING, ts TIMESTAMP, d DECIMAL(10, 2)"
    archive = mayfly.archive.create(tmp_path / "a", columns, key="k", window="7 days")
    archive.update([{"K": "a", "ts": datetime(2026, 1, 1), "d": Decimal("1.25")}])
    archive.update(pd.DataFrame({"k": ["b"], "ts": [datetime(2026, 1, 2)], "d": [1]}))
    assert archive.scan().num_rows == 2
    create: Any = mayfly.archive.create
    for settings in ({"window": "7 days"}, {"max_lifetime": "7 days", "lifetime": "1 day"}):
        with pytest.raises(InvalidSetting, match="there is no setting windwo"):
            create(tmp_path / "b", columns, key="k", windwo=3, **settings)
    with pytest.raises(InvalidSetting, match="key"):
        create(tmp_path / "b", columns, window="7 days")


def in_berlin(rows: Any) -> list[Any]:
    local = LocalSession(zone="Europe/Berlin")
    local.stream("s", {"ts": "TIMESTAMP", "h": "INT"})
    run = local.query("SELECT ts, hour(ts) AS h FROM s")
    run.feed({"s": rows})
    run.finish()
    found = run.snapshot()
    return list(zip(found["ts"].cast("int64").to_pylist(), found["h"].to_pylist(), strict=True))


NOON = datetime(2026, 7, 1, 12)


@pytest.mark.parametrize(
    "times",
    [
        [NOON],
        [pd.Timestamp(NOON)],
        np.array([NOON], "datetime64[us]"),
        pd.Series([NOON]),
        pa.array([NOON]),
        pa.array([NOON]).dictionary_encode(),
        [datetime(2026, 7, 1, 10, tzinfo=UTC)],
        pd.Series([pd.Timestamp(NOON, tz="Europe/Berlin")]),
    ],
)
def test_times_without_a_zone_are_of_the_sessions(times: Any) -> None:
    rows = pa.table({"ts": times, "h": [0]}) if isinstance(times, pa.Array) else None
    given = rows or {"ts": times, "h": [0]}
    assert in_berlin(given) == [(instant("2026-07-01T10:00:00"), 12)]


def test_times_with_and_without_a_zone_side_by_side() -> None:
    times = [NOON, datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 1, 1), None]
    with in_zone("Europe/Berlin"):
        found = as_table("r", {"t": times}, {"t": parse_type("TIMESTAMP")})["t"]
        days = as_table("r", pa.table({"t": [date(2026, 7, 1)]}), {"t": parse_type("TIMESTAMP")})
        listed = as_table("r", [{"t": date(2026, 7, 1)}], {"t": parse_type("TIMESTAMP")})
    wanted = ["2026-07-01T10:00:00", "2026-07-01T12:00:00", "2025-12-31T23:00:00"]
    assert found.cast("int64").to_pylist() == [*map(instant, wanted), None]
    assert days["t"].cast("int64").to_pylist() == [instant("2026-06-30T22:00:00")]
    assert listed["t"] == days["t"]


TEN = datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("ARRAY<TIMESTAMP>", [NOON, None, TEN], [TEN, None, TEN]),
        ("ARRAY<TIMESTAMP>", [date(2026, 7, 1)], [datetime(2026, 6, 30, 22, tzinfo=UTC)]),
        ("ARRAY<TIMESTAMP>", None, None),
        ("STRUCT<a: TIMESTAMP, b: INT>", {"a": NOON, "b": 1}, {"a": TEN, "b": 1}),
        ("STRUCT<a: TIMESTAMP, b: INT>", (NOON, 1), {"a": TEN, "b": 1}),
        ("MAP<STRING, TIMESTAMP>", {"x": NOON}, [("x", TEN)]),
        ("MAP<TIMESTAMP, STRING>", [(NOON, "x")], [(TEN, "x")]),
        ("ARRAY<STRUCT<a: TIMESTAMP>>", [{"a": np.datetime64(NOON)}], [{"a": TEN}]),
        ("ARRAY<TIMESTAMP_NTZ>", [NOON], [NOON]),
    ],
)
def test_times_within_values_are_of_the_sessions_zone(kind: str, value: Any, stored: Any) -> None:
    with in_zone("Europe/Berlin"):
        found = as_table("r", [{"v": value}, {"v": None}], {"v": parse_type(kind)})
    assert found["v"].to_pylist() == [stored, None]


def test_times_within_arrow_values_are_of_the_sessions_zone() -> None:
    kinds = {"v": parse_type("ARRAY<STRUCT<t: TIMESTAMP>>")}
    for rows in (
        pa.table({"v": [[{"t": NOON}], None]}),
        pa.table({"v": [[{"t": TEN}], None]}),
        pd.DataFrame({"v": [[{"t": NOON}], None]}),
    ):
        with in_zone("Europe/Berlin"):
            assert as_table("r", rows, kinds)["v"].to_pylist() == [[{"t": TEN}], None]
    with pytest.raises(BadInput, match="v is array<string>, not array"):
        as_table("r", pa.table({"v": [["a"]]}), kinds)


def test_heartbeats_without_a_zone_are_of_the_sessions() -> None:
    local = LocalSession(zone="Europe/Berlin")
    local.stream("s", {"ts": "TIMESTAMP"})
    run = local.query("SELECT ts FROM s [RANGE 1 HOUR]")
    run.feed({"s": [{"ts": NOON}]}, heartbeats={"s": datetime(2026, 7, 1, 12, 30)})
    assert run.clocks.query == instant("2026-07-01T10:30:00")
