"""Building window join queries: what is refused, and the stages that come out."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.pipeline import JoinQuery, Stream
from mayfly.plan import expressions as ex
from mayfly.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, DataType, decimal

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("k", pa.int64()),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
A, B, C = (Stream(name, SCHEMA) for name in "abc")


def column(qualified: str, kind: DataType = BIGINT) -> ex.Column:
    relation, name = qualified.split(".")
    return ex.Column(relation, name, kind)


def joined() -> JoinQuery:
    return A.window(10).join(B.window(20), "k")


def wide(name: str, precision: int, scale: int) -> Stream:
    return Stream(name, pa.schema([("ts", pa.int64()), ("d", pa.decimal128(precision, scale))]))


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "a name with a dot": (
        lambda: Stream("a.b", SCHEMA),
        "'a.b' cannot name a stream",
        "has no dot",
    ),
    "a reserved name": (lambda: Stream("_a", SCHEMA), "'_a' cannot name", "begin with _"),
    "no name": (lambda: Stream("", SCHEMA), "'' cannot name a stream", "no dot"),
    "negative slack": (
        lambda: Stream("a", SCHEMA, slack=-1),
        "stream a has a slack of -1 µs",
        "0 or more",
    ),
    "no time column": (
        lambda: Stream("a", SCHEMA, time="at"),
        "stream a has no column 'at' to take its time from",
        "name one of its columns: ts, k, small",
    ),
    "a time of another type": (
        lambda: Stream("a", SCHEMA, time="small"),
        "the time column a.small is of type int32",
        "BIGINT of microseconds",
    ),
    "dead letters without a place": (
        lambda: Stream("a", SCHEMA, null_time="dead_letter"),
        "stream a sends rows without a time to a dead letter it does not have",
        "give dead_letter=<directory>",
    ),
    "an empty window": (
        lambda: A.window(0),
        "the window over a has length 0",
        "1 microsecond or more",
    ),
    "a negative window": (lambda: A.window(-1), "is negative", "0 or more"),
    "a stream with itself": (
        lambda: A.window(1).join(A.window(2), "k"),
        "stream a is joined with itself under one name",
        "under another name",
    ),
    "a stream twice in a chain": (
        lambda: joined().join(A.window(2), "k"),
        "stream a is joined with itself under one name",
        "under another name",
    ),
    "no key": (
        lambda: A.window(1).join(B.window(1), []),
        "a window join without a key",
        "at least one key column",
    ),
    "an unknown key": (
        lambda: A.window(1).join(B.window(1), "key"),
        "there is no column key",
        "columns are: a.ts, a.k",
    ),
    "an unknown column of a pair": (
        lambda: A.window(1).join(B.window(1), [("a.k", "b.key")]),
        "there is no column b.key",
        "b.ts, b.k",
    ),
    "a stream not yet joined": (
        lambda: A.window(1).join(B.window(1), [("a.k", "c.k")]),
        "there is no column c.k",
        "columns are: a.ts",
    ),
    "a key within what was joined before": (
        lambda: joined().join(C.window(1), [("a.k", "b.k")]),
        "the key ('a.k', 'b.k') does not connect c with what is before it",
        "pair a column of an earlier stream with one of c",
    ),
    "a key of one stream": (
        lambda: A.window(1).join(B.window(1), [("b.k", "b.small")]),
        "does not connect b",
        "pair a column",
    ),
    "keys of unlike types": (
        lambda: A.window(1).join(B.window(1), [("a.k", "b.text")]),
        "a.k (BIGINT) and b.text (STRING) cannot be compared",
        "cast one of them",
    ),
    "nested keys": (
        lambda: A.window(1).join(B.window(1), "tags"),
        "a.tags (array<string>) and b.tags (array<string>) cannot be compared",
        "one atomic type",
    ),
    "keys that depend on the time zone": (
        lambda: A.window(1).join(B.window(1), [("a.ts", "b.local")]),
        "a.ts (TIMESTAMP) and b.local (TIMESTAMP_NTZ) would be compared as TIMESTAMP",
        "cast one of them",
    ),
    "a day and an instant": (
        lambda: A.window(1).join(B.window(1), [("a.day", "b.ts")]),
        "a.day (DATE) and b.ts (TIMESTAMP) would be compared as TIMESTAMP",
        "cast one of them",
    ),
    "keys that depend on rounding": (
        lambda: A.window(1).join(B.window(1), [("a.price", "b.ratio")]),
        "a.price (DECIMAL(10,2)) and b.ratio (DOUBLE) would be compared as DOUBLE",
        "cast one of them",
    ),
    "decimals that have no common type": (
        lambda: wide("a", 38, 10).window(1).join(wide("b", 38, 30).window(1), "d"),
        "would be compared as DECIMAL(38,10), which depends on rounding",
        "cast one of them",
    ),
    "result columns of one name": (
        lambda: A.window(1).join(B.window(1), "k", select=["a.k", "b.k", "a.k"]),
        "several result columns would be called a_k",
        "name them yourself: select={'name': 'stream.column', …}",
    ),
    "default names that collide": (
        lambda: (
            Stream("s", pa.schema([("ts", pa.int64()), ("t_k", pa.int64()), ("k", pa.int64())]))
            .window(1)
            .join(Stream("s_t", pa.schema([("ts", pa.int64()), ("k", pa.int64())])).window(1), "k")
        ),
        "several result columns would be called s_t_k",
        "name them yourself",
    ),
    "a result column that is not there": (
        lambda: A.window(1).join(B.window(1), "k", select=["a.q"]),
        "there is no column a.q",
        "columns are:",
    ),
    "a result column called ts": (
        lambda: A.window(1).join(B.window(1), "k", select={"ts": "a.ts"}),
        "a result column cannot be called 'ts'",
        "ts and exp are the result's own lifetime",
    ),
    "a reserved result column": (
        lambda: A.window(1).join(B.window(1), "k", select={"_x": "a.k"}),
        "a result column cannot be called '_x'",
        "a leading _ is reserved",
    ),
    "a residual over an unknown column": (
        lambda: A.window(1).join(B.window(1), "k", ex.IsNull(column("c.k"))),
        "there is no column c.k",
        "columns are: a.ts",
    ),
    "a residual that reads another type": (
        lambda: A.window(1).join(B.window(1), "k", ex.IsNull(column("a.small"))),
        "(`a`.`small` IS NULL) reads a.small as BIGINT, but it is INT",
        "cast it where another one is needed",
    ),
    "a residual over different types": (
        lambda: A.window(1).join(
            B.window(1), "k", ex.Compare("<", column("a.k"), column("b.small", INT))
        ),
        "(`a`.`k` < `b`.`small`) combines BIGINT with INT",
        "cast its operands to one type",
    ),
    "a residual that is no condition": (
        lambda: A.window(1).join(B.window(1), "k", column("a.k")),
        "`a`.`k` is of type BIGINT",
        "a condition is TRUE or FALSE",
    ),
    "a residual for Spark": (
        lambda: A.window(1).join(
            B.window(1), "k", ex.Like("LIKE", column("a.text", STRING), ex.Literal("%", STRING))
        ),
        "(`a`.`text` LIKE '%') cannot be evaluated inside a join",
        "compute the rest on one stream",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_reason_and_a_way_out(case: str) -> None:
    attempt, message, hint = REFUSED[case]
    with pytest.raises(InvalidSetting) as raised:
        attempt()
    assert message in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("k", [("a.k", "b.k")]),
        (["k"], [("a.k", "b.k")]),
        (["k", "text"], [("a.k", "b.k"), ("a.text", "b.text")]),
        (("k", "text"), [("a.k", "b.k"), ("a.text", "b.text")]),
        (("a.k", "b.small"), [("a.k", "b.small")]),
        (("b.small", "a.k"), [("a.k", "b.small")]),
        ([("a.k", "b.small"), "text"], [("a.k", "b.small"), ("a.text", "b.text")]),
    ],
)
def test_ways_to_name_keys(on: object, pairs: list[tuple[str, str]]) -> None:
    query = A.window(1).join(B.window(1), on)  # type: ignore[arg-type]
    assert list(query.clauses[0].pairs) == pairs


def test_a_common_key_of_a_chain_is_taken_from_the_first_stream_that_has_it() -> None:
    assert joined().join(C.window(1), "k").clauses[1].pairs == (("a.k", "c.k"),)


@pytest.mark.parametrize(
    ("pair", "kind", "exact"),
    [
        (("a.k", "b.k"), BIGINT, True),
        (("a.k", "b.small"), BIGINT, True),
        (("a.small", "b.small"), INT, True),
        (("a.text", "b.text"), STRING, False),
        (("a.small", "b.ratio"), DOUBLE, False),
        (("a.k", "b.price"), decimal(22, 2), False),
        (("a.day", "b.local"), DataType("timestamp_ntz"), False),
        (("a.day", "b.day"), DataType("date"), True),
        (("a.ts", "b.ts"), DataType("timestamp"), True),
        (("a.local", "b.local"), DataType("timestamp_ntz"), False),
    ],
)
def test_key_types(pair: tuple[str, str], kind: DataType, exact: bool) -> None:
    (stage,) = A.window(1).join(B.window(1), [pair]).stages()
    assert stage.key_types == (kind,)
    assert stage.join.exact == exact


def test_two_keys_are_never_exact() -> None:
    (stage,) = A.window(1).join(B.window(1), ["k", "small"]).stages()
    assert not stage.join.exact
    assert stage.key_types == (BIGINT, INT)


def test_every_column_is_reported_by_default() -> None:
    names = [f"{stream}_{name}" for stream in "ab" for name in SCHEMA.names]
    assert list(joined().select) == names
    (stage,) = joined().stages()
    assert stage.join.schema.names == [*names, "_ts", "_exp"]


def test_only_needed_columns_travel() -> None:
    query = A.window(10).join(B.window(30), "k", ex.IsNull(column("b.small", INT)))
    query = query.join(C.window(20), [("a.text", "c.text")], None, {"r": "b.ratio", "d": "c.day"})
    assert query.needed("a") == ("k", "text")
    assert query.needed("b") == ("ratio", "k", "small")
    assert query.needed("c") == ("day", "text")

    first, second = query.stages()
    assert [one.schema.names for one in first.join.inputs] == [
        ["a.k", "a.text"],
        ["b.ratio", "b.k", "b.small"],
    ]
    assert [one.keys for one in first.join.inputs] == [("a.k",), ("b.k",)]
    assert first.join.schema.names == ["b.ratio", "a.text", "_ts", "_exp"]
    assert [source.stream for source in first.sources] == ["a", "b"]

    assert [one.schema.names for one in second.join.inputs] == [
        ["b.ratio", "a.text"],
        ["c.day", "c.text"],
    ]
    assert [one.keys for one in second.join.inputs] == [("a.text",), ("c.text",)]
    assert second.join.schema.names == ["r", "d", "_ts", "_exp"]
    assert [source.stream for source in second.sources] == [None, "c"]


def test_results_live_no_longer_than_the_shortest_window_before_them() -> None:
    first, second, third = (
        A.window(10)
        .join(B.window(30), "k")
        .join(C.window(7), "k")
        .join(Stream("d", SCHEMA).window(50), "k")
        .stages()
    )
    assert [(one.window, one.longest) for one in first.join.inputs] == [(10, 10), (30, 30)]
    assert [(one.window, one.longest) for one in second.join.inputs] == [(None, 10), (7, 7)]
    assert [(one.window, one.longest) for one in third.join.inputs] == [(None, 7), (50, 50)]


def test_a_residual_belongs_to_the_stage_at_which_all_its_streams_are_there() -> None:
    early, late = ex.IsNull(column("b.k")), ex.Literal(True, BOOLEAN)
    query = A.window(1).join(B.window(1), "k", early).join(C.window(1), "k", late)
    assert [stage.join.residual for stage in query.stages()] == [early, late]


def test_large_arrow_types_become_the_types_of_spark() -> None:
    large = Stream("l", pa.schema([("ts", pa.int64()), ("text", pa.large_string())]))
    (stage,) = A.window(1).join(large.window(1), "text").stages()
    assert stage.join.inputs[1].schema.field("l.text").type == pa.string()
