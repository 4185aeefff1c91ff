"""The oracle against results worked out by hand, and its two routes against each other."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.lifetime import MIN_TIME, NEVER, Lifetime, expires
from mayfly.testing import JoinCase, Windowed, WindowJoinOracle, assert_same_rows, micros_of, oracle
from mayfly.testing.strategies import join_cases

IDS = {"a": "l.id", "b": "r.id"}


def rows(*tuples: tuple[int, Any, str], key: pa.DataType | None = None) -> pa.Table:
    ts, keys, ids = zip(*tuples, strict=True) if tuples else ((), (), ())
    return pa.table(
        {
            "ts": pa.array(ts, pa.int64()),
            "key": pa.array(keys, key or pa.int64()),
            "id": pa.array(ids, pa.string()),
        }
    )


def join(left: Windowed, right: Windowed, residual: str = "") -> WindowJoinOracle:
    return WindowJoinOracle({"l": left, "r": right}, ["key"], residual, IDS)


def pairs(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_result_lives_from_the_later_arrival_to_the_earlier_expiration() -> None:
    query = join(Windowed(rows((0, 1, "a")), "10 us"), Windowed(rows((4, 1, "b")), "3 us"))
    assert pairs(query.lifetimes()) == [("a", "b", 4, 7)]
    assert pairs(query.answer_at([3, 4, 6, 7])) == [(4, "a", "b"), (6, "a", "b")]


def test_a_tuple_is_gone_at_the_instant_of_its_expiration() -> None:
    left = Windowed(rows((0, 1, "a")), "10 us")
    touching = join(left, Windowed(rows((10, 1, "b")), "10 us"))
    assert pairs(touching.lifetimes()) == []
    assert pairs(touching.answer_at([9, 10, 11])) == []
    overlapping = join(left, Windowed(rows((9, 1, "b")), "10 us"))
    assert pairs(overlapping.lifetimes()) == [("a", "b", 9, 10)]
    assert pairs(overlapping.answer_at([8, 9, 10])) == [(9, "a", "b")]


def test_equal_timestamps_meet() -> None:
    query = join(Windowed(rows((5, 1, "a")), "1 us"), Windowed(rows((5, 1, "b")), "1 us"))
    assert pairs(query.lifetimes()) == [("a", "b", 5, 6)]
    assert pairs(query.answer_at([4, 5, 6])) == [(5, "a", "b")]


def test_answers_are_multisets() -> None:
    query = join(
        Windowed(rows((0, 1, "a"), (0, 1, "a")), "5 us"),
        Windowed(rows((1, 1, "b"), (1, 1, "b")), "5 us"),
    )
    assert pairs(query.lifetimes()) == [("a", "b", 1, 5)] * 4
    assert pairs(query.answer_at([2])) == [(2, "a", "b")] * 4


def test_each_instant_is_answered_once_however_often_it_is_asked() -> None:
    query = join(Windowed(rows((0, 1, "a")), "5 us"), Windowed(rows((0, 1, "b")), "5 us"))
    assert pairs(query.answer_at([1, 1, 0])) == [(0, "a", "b"), (1, "a", "b")]
    assert pairs(query.answer_at([])) == []


def test_null_keys_match_nothing() -> None:
    query = join(Windowed(rows((0, None, "a")), "5 us"), Windowed(rows((0, None, "b")), "5 us"))
    assert pairs(query.lifetimes()) == pairs(query.answer_at([0])) == []


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_zeros_are_equal_and_nans_are_equal(kind: pa.DataType) -> None:
    left = rows((0, 0.0, "zero"), (0, float("nan"), "nan"), key=kind)
    right = rows((0, -0.0, "minus zero"), (0, -float("nan"), "minus nan"), key=kind)
    query = join(Windowed(left, "5 us"), Windowed(right, "5 us"))
    expected = [("nan", "minus nan"), ("zero", "minus zero")]
    assert [row[:2] for row in pairs(query.lifetimes())] == expected
    assert [row[1:] for row in pairs(query.answer_at([0]))] == expected


def test_the_residual_is_a_condition_on_each_pair() -> None:
    left = rows((0, 1, "a"), (0, 1, "c"))
    query = join(
        Windowed(left, "5 us"), Windowed(rows((0, 1, "b")), "5 us"), "l.id < r.id OR false"
    )
    assert pairs(query.lifetimes()) == [("a", "b", 0, 5)]
    assert pairs(query.answer_at([0])) == [(0, "a", "b")]


def test_unbounded_streams_and_times_near_the_end_never_expire() -> None:
    query = join(Windowed(rows((0, 1, "a")), None), Windowed(rows((NEVER - 5, 1, "b")), "10 us"))
    assert pairs(query.lifetimes()) == [("a", "b", NEVER - 5, NEVER)]
    assert pairs(query.answer_at([NEVER - 1])) == [(NEVER - 1, "a", "b")]
    early = join(
        Windowed(rows((MIN_TIME, 1, "a")), "10 us"), Windowed(rows((MIN_TIME, 1, "b")), None)
    )
    assert pairs(early.lifetimes()) == [("a", "b", MIN_TIME, MIN_TIME + 10)]


def test_three_chained_streams_with_their_own_keys() -> None:
    first = pa.table({"ts": [0, 1], "x": [1, 2]})
    second = pa.table({"ts": [2, 3], "x": [1, 2], "y": ["p", "q"]})
    third = pa.table({"ts": [4, 11], "y": ["p", "q"]})
    query = WindowJoinOracle(
        {
            "a": Windowed(first, "10 us"),
            "b": Windowed(second, "5 us"),
            "c": Windowed(third, "20 us"),
        },
        [("a.x", "b.x"), ("b.y", "c.y")],
        select={"x": "a.x", "y": "c.y"},
    )
    assert pairs(query.lifetimes()) == [(1, "p", 4, 7)]
    assert pairs(query.answer_at([3, 4, 6, 7, 11])) == [(4, 1, "p"), (6, 1, "p")]


def test_a_plain_key_is_equal_in_all_three_streams() -> None:
    left, right = rows((0, 1, "a"), (0, 2, "a2")), rows((0, 1, "b"), (0, 2, "b2"))
    query = WindowJoinOracle(
        {
            "l": Windowed(left, "5 us"),
            "r": Windowed(right, "5 us"),
            "m": Windowed(rows((1, 2, "c")), "5 us"),
        },
        ["key"],
        select=IDS | {"c": "m.id"},
    )
    assert pairs(query.lifetimes()) == [("a2", "b2", "c", 1, 5)]


def test_by_default_every_column_is_selected_under_its_streams_name() -> None:
    query = WindowJoinOracle(
        {"l": Windowed(rows((0, 1, "a")), "5 us"), "r": Windowed(rows((0, 1, "b")), "5 us")},
        ["key"],
    )
    names = ["l_ts", "l_key", "l_id", "r_ts", "r_key", "r_id"]
    assert query.lifetimes().column_names == [*names, "ts", "exp"]
    assert query.answer_at([0]).column_names == ["at", *names]


def test_arrow_timestamps_and_other_time_columns_are_understood() -> None:
    stamped = pa.table({"t": pa.array([3], pa.timestamp("us", "UTC")), "key": [1], "id": ["a"]})
    query = join(Windowed(stamped, "1 ms", ts="t"), Windowed(rows((4, 1, "b")), "10 us"))
    assert pairs(query.lifetimes()) == [("a", "b", 4, 14)]


def test_boundaries_are_all_changes_and_the_instants_before() -> None:
    query = join(Windowed(rows((0, 1, "a")), "10 us"), Windowed(rows((4, 1, "b")), None))
    assert query.boundaries() == [-1, 0, 3, 4, 9, 10]


@given(join_cases(names=("l", "r"), most_keys=2, mixed_widths=True))
def test_lifetimes_and_answers_agree_at_every_boundary(case: JoinCase) -> None:
    query = case.oracle("coalesce(l.value <> 2 OR r.value > 0, true)", {"a": "l.seq", "b": "r.seq"})
    lifetimes, instants = query.lifetimes(), [MIN_TIME, *query.boundaries()]
    alive = pa.concat_tables([_alive(lifetimes, at) for at in instants])
    assert_same_rows(query.answer_at(instants), alive)


def _alive(lifetimes: pa.Table, at: int) -> pa.Table:
    alive = lifetimes.filter((pc.field("ts") <= at) & (pc.field("exp") > at)).select(["a", "b"])
    return alive.append_column("at", pa.array([at] * alive.num_rows, pa.int64()))


@given(join_cases(types=["int64", "string"], late=True))
def test_lifetimes_equal_those_of_a_nested_loop(case: JoinCase) -> None:
    accepted = case.accepted
    members = {
        name: [
            (Lifetime(t, expires(t, case.windows[name])), row["key"], row["seq"])
            for t, row in zip(micros_of(table).tolist(), table.to_pylist(), strict=True)
        ]
        for name, table in accepted.items()
    }
    expected = [
        {"a": a, "b": b, "ts": both.ts, "exp": both.exp}
        for left, left_key, a in members["l"]
        for right, right_key, b in members["r"]
        if left_key is not None and left_key == right_key and (both := left.meet(right))
    ]
    assert_same_rows(case.oracle(select={"a": "l.seq", "b": "r.seq"}).lifetimes(), expected)


def test_a_wrong_residual_is_reported_with_the_query() -> None:
    query = join(Windowed(rows(), "5 us"), Windowed(rows(), "5 us"), "l.nothing = 1")
    with pytest.raises(MayflyError, match=r"(?s)nothing.*SELECT.*DuckDB SQL"):
        query.lifetimes()


def test_impossible_joins_are_refused() -> None:
    one = Windowed(rows(), "5 us")
    with pytest.raises(InvalidSetting, match="fewer than two"):
        WindowJoinOracle({"l": one}, ["key"])
    with pytest.raises(InvalidSetting, match="names no stream"):
        WindowJoinOracle({"l": one, "r": one}, [("key", "r.key")])
    with pytest.raises(InvalidSetting, match="'ts'"):
        WindowJoinOracle({"l": one, "r": one}, ["key"], select={"ts": "l.ts"})


def test_without_duckdb_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle._database.cache_clear()
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MayflyError, match=r"pip install \"mayfly\[test\]\""):
        join(Windowed(rows(), "5 us"), Windowed(rows(), "5 us"))
