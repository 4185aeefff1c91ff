"""Whatever is given to a local session and its runs is taken or refused with an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import mayfly
from mayfly import MayflyError
from mayfly.errors import BadInput, InvalidSetting
from mayfly.runtime.in_process import ContinuousRun

# Not as their types are: a type checker would refuse these arguments before we do.
LocalSession: Any = mayfly.LocalSession
QUERY = "SELECT a FROM s [RANGE 1 MIN]"
ODD: tuple[Any, ...] = (
    5, -1, 0, 1.5, None, True, "x", "", [], [1], {}, {"s": 1}, {"s": [1]}, object(), b"x",
    date(2026, 1, 1), "\ud800", pd.DataFrame(), pd.DataFrame({"a": [1]}), pa.table({"a": [1]}),
    "9" * 30, 10**30, float("nan"), ["a"], ("s",), {"s": [{"a": 1}]}, {"s": {"a": [1]}},
)  # fmt: skip


def declared() -> Any:
    session = LocalSession()
    session.stream("s", {"ts": "TIMESTAMP", "a": "BIGINT"})
    session.relation("r", {"id": [1]}, key="id")
    return session


def running() -> Any:
    run = declared().query(QUERY)
    run.feed({"s": [{"ts": datetime(2026, 1, 1), "a": 1}]})
    return run


DOORS: dict[str, Callable[[Any], object]] = {
    "zone": lambda odd: LocalSession(zone=odd),
    "execute": lambda odd: declared().execute(odd),
    "stream": lambda odd: declared().stream(odd, {"ts": "BIGINT"}),
    "columns": lambda odd: declared().stream("q", odd, time="a"),
    "a type": lambda odd: declared().stream("q", {"ts": odd}),
    "time": lambda odd: declared().stream("q", {"ts": "BIGINT"}, time=odd),
    "sequence": lambda odd: declared().stream("q", {"ts": "BIGINT"}, sequence=odd),
    "slack": lambda odd: declared().stream("q", {"ts": "BIGINT"}, slack=odd),
    "max_gap": lambda odd: declared().stream("q", {"ts": "BIGINT"}, max_gap=odd),
    "relation": lambda odd: declared().relation(odd, {"a": [1]}),
    "key": lambda odd: declared().relation("q", {"a": [1]}, key=odd),
    "retroactive": lambda odd: declared().relation("q", {"a": [1]}, retroactive=odd),
    "query": lambda odd: declared().query(odd),
    "strategy": lambda odd: declared().query(QUERY, strategy=odd),
    "without": lambda odd: declared().query(QUERY, without=odd),
    "buckets": lambda odd: declared().query(QUERY, buckets=odd),
    "joins": lambda odd: declared().query(QUERY, joins=odd),
    "max_state_bytes": lambda odd: declared().query(QUERY, max_state_bytes=odd),
    "explain": lambda odd: declared().explain(odd),
    "compare": lambda odd: declared().explain(QUERY, compare=odd),
    "table": lambda odd: declared().table(odd),
    "feed": lambda odd: running().feed(odd),
    "heartbeats": lambda odd: running().feed({}, heartbeats=odd),
    "a heartbeat": lambda odd: running().feed({}, heartbeats={"s": odd}),
    "a column": lambda odd: running().feed({"s": {"ts": [datetime(2026, 1, 2)], "a": odd}}),
    "rows": lambda odd: declared().relation("q", odd),
    "values": lambda odd: declared().relation("q", {"a": odd}),
    "since": lambda odd: running().changes(odd),
    "until": lambda odd: running().changes(None, odd),
    "snapshot": lambda odd: running().snapshot(odd),
    "reads": lambda odd: running().reads(odd),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_argument_is_taken_or_refused_by_us(door: str) -> None:
    refused = 0
    for odd in ODD:
        try:
            DOORS[door](odd)
        except MayflyError as error:
            refused += 1
            str(error).encode()
    assert refused > len(ODD) // 2


@pytest.mark.parametrize("size", ["x", -1, 0, 1.5, True])
def test_the_room_of_a_step_is_a_whole_number(size: Any) -> None:
    with pytest.raises(InvalidSetting, match="max_state_bytes"):
        declared().query(QUERY, max_state_bytes=size)


@pytest.mark.parametrize("zone", ["Mars/X", "", 5])
def test_a_zone_that_nobody_knows_is_refused_at_once(zone: Any) -> None:
    with pytest.raises(InvalidSetting, match="zone"):
        LocalSession(zone=zone)
    LocalSession(zone="Europe/Berlin")
    LocalSession(zone="+02:00")


def test_a_stream_has_one_place_in_a_batch() -> None:
    rows = [{"ts": datetime(2026, 1, 1), "a": 1}]
    for given in ({"batch": {"s": rows, "S": rows}}, {"heartbeats": {"s": 1, "S": 2}}):
        with pytest.raises(BadInput, match="names one stream twice: s, S"):
            declared().query(QUERY).feed(**given)


@pytest.mark.parametrize("values", ["x", b"x", {1: 2}, {3}, 5, None, pd.DataFrame({"a": [1]})])
def test_a_column_is_a_list_of_values(values: Any) -> None:
    with pytest.raises(BadInput):
        declared().relation("q", {"a": values})
    with pytest.raises(BadInput):
        running().feed({"s": {"ts": [datetime(2026, 1, 2)], "a": values}})
    for fine in ((1,), range(1), pd.Series([1]), pa.array([1]), pd.Series([1]).to_numpy()):
        running().feed({"s": {"ts": [datetime(2026, 1, 2)], "a": fine}})


def test_an_empty_list_does_not_say_what_the_columns_are() -> None:
    with pytest.raises(BadInput, match="does not say what the columns are"):
        declared().relation("q", [])
    declared().relation("q", pa.table({"a": pa.array([], pa.int64())}))


def test_an_empty_relation_says_its_columns() -> None:
    session = LocalSession(zone="Europe/Berlin")
    for columns in ({"a": "DECIMAL(10,2)", "t": "TIMESTAMP"}, pa.schema({"a": pa.int64()})):
        name = f"r{len(columns)}"
        session.relation(name, [], columns=columns)
        assert session.table(name).num_rows == 0
    rows = [{"A": Decimal("1.25"), "t": datetime(2026, 7, 1, 12)}]
    session.relation("some", rows, columns={"a": "DECIMAL(10,2)", "t": "TIMESTAMP"})
    noon = datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert session.table("some").to_pylist() == [{"a": Decimal("1.25"), "t": noon}]
    with pytest.raises(BadInput, match="values of a do not fit"):
        session.relation("other", [{"a": 2**40}], columns={"a": "INT"})
    session.relation("other", [], columns={"a": "INT"})


def test_names_are_compared_without_regard_to_case() -> None:
    session = LocalSession()
    session.stream("s", {"Ts": "BIGINT", "No": "INT"}, time="tS", sequence="nO")
    session.relation("r", {"Id": [1, 2]}, key="iD", retroactive=False)
    assert session.catalog.lookup("s").time == "Ts"
    assert session.catalog.lookup("s").sequence == ("No",)
    assert session.catalog.lookup("r").key == ("Id",)
    run = session.query("SELECT no FROM s [RANGE 1 MIN], r WHERE no = id")
    run.feed({"S": [{"TS": 1, "no": 2}]})
    run.finish()
    assert run.lifetimes()["No"].to_pylist() == [2]


def test_rows_say_which_columns_a_stream_or_relation_has() -> None:
    session = LocalSession()
    frame = pd.DataFrame({"ts": [1], "name": pd.Categorical(["a"])})
    session.stream("s", frame)
    session.relation("r", pa.table({"name": pa.array(["a", "b"]).dictionary_encode()}))
    assert str(session.catalog.lookup("r").columns[0].type) == "STRING"
    run = session.query("SELECT s.name FROM s [RANGE 1 MIN], r WHERE s.name = r.name")
    run.feed({"s": frame})
    run.finish()
    assert run.lifetimes()["name"].to_pylist() == ["a"]


@pytest.mark.parametrize("buckets", [1, 3, 8])
def test_rows_that_come_late_are_counted_in_every_bucket(buckets: int) -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "INT"})
    text = "SELECT k, COUNT(*) AS n FROM s [PARTITION BY k ROWS 2] GROUP BY k"
    run: ContinuousRun = session.query(text, buckets=buckets)
    run.feed({"s": [{"ts": 100, "k": k} for k in range(20)]})
    run.feed({"s": [{"ts": 1, "k": k} for k in range(20)]})
    assert run.late == {"s": 20}
