"""Building window join queries: what is refused, and the plans that come out."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from mayfly.cql import bind_query
from mayfly.errors import InvalidSetting
from mayfly.plan import expressions as ex
from mayfly.plan.catalog import Catalog, ColumnDefinition, StreamDefinition
from mayfly.plan.logical_operators import Join, StreamScan
from mayfly.plan.stream_joins import JoinQuery, Stream
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


def join_of(query: JoinQuery) -> Join:
    (found,) = (node for node in query.plan().walk() if isinstance(node, Join))
    return found


@pytest.mark.parametrize(
    ("pair", "kind"),
    [
        (("a.k", "b.k"), BIGINT),
        (("a.k", "b.small"), BIGINT),
        (("a.small", "b.small"), INT),
        (("a.text", "b.text"), STRING),
        (("a.small", "b.ratio"), DOUBLE),
        (("a.k", "b.price"), decimal(22, 2)),
        (("a.day", "b.local"), DataType("timestamp_ntz")),
        (("a.day", "b.day"), DataType("date")),
        (("a.ts", "b.ts"), DataType("timestamp")),
        (("a.local", "b.local"), DataType("timestamp_ntz")),
    ],
)
def test_key_types(pair: tuple[str, str], kind: DataType) -> None:
    (key,) = join_of(A.window(1).join(B.window(1), [pair])).equalities
    assert (key.left.type, key.right.type) == (kind, kind)


def test_every_column_is_reported_by_default() -> None:
    names = [f"{stream}_{name}" for stream in "ab" for name in SCHEMA.names]
    assert list(joined().select) == names
    assert [column.name for column in joined().plan().schema] == names


def test_the_plan_has_the_windows_the_keys_and_all_residuals() -> None:
    early, late = ex.IsNull(column("b.k")), ex.Literal(True, BOOLEAN)
    query = A.window(10).join(B.window(20), "k", early).join(C.window(30), ["k", "day"], late)
    join = join_of(query)
    scans = [one for one in join.inputs if isinstance(one, StreamScan)]
    assert [(one.stream, one.window.lifetime) for one in scans] == [("a", 10), ("b", 20), ("c", 30)]
    assert [(one.left.sql(), one.right.sql()) for one in join.equalities] == [
        ("`a`.`k`", "`b`.`k`"), ("`a`.`k`", "`c`.`k`"), ("`a`.`day`", "`c`.`day`"),
    ]  # fmt: skip
    assert join.residual == ex.And((early, late))


def test_the_text_means_the_same_as_the_plan() -> None:
    """It is what EXPLAIN shows and what a checkpoint knows the query by."""
    small = ex.Compare("<", column("b.small", INT), column("a.small", INT))
    query = A.window(10).join(B.window(30), ("a.k", "b.small"), small)
    query = query.join(C.window(20), [("a.text", "c.text")], None, {"r": "b.ratio", "d": "c.day"})
    catalog = Catalog()
    for one in (A, B, C):
        names = one.schema.names
        columns = tuple(ColumnDefinition(name, one.type_of(name)) for name in names)
        catalog = catalog.declare(StreamDefinition(one.name, columns, one.time))
    assert bind_query(query.text(), catalog) == query.plan()
