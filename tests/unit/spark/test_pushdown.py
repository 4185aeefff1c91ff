"""What Spark SQL selects before rows reach Python: never less than the queries want."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.cql import catalog_after, parse
from mayfly.pipeline.query import Stream
from mayfly.pipeline.sharing import shared
from mayfly.pipeline.staging import staged
from mayfly.spark.pushdown import wanted_rows
from tests.property.shared_runs import program_of

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("k", pa.int32()), ("g", pa.string()), ("v", pa.int64())]
)
CATALOG = catalog_after(
    parse(
        "CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;"
        "CREATE STREAM o (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;"
    )
)
SLOTS = {f"_{name}": name for name in SCHEMA.names}


def condition(*queries: str, dead_letter: str | None = None) -> str:
    programs = {f"q{at}": program_of(cql, CATALOG) for at, cql in enumerate(queries)}
    streams = [Stream("s", SCHEMA, dead_letter=dead_letter), Stream("o", SCHEMA)]
    return wanted_rows(streams, staged(shared(programs, {})).feeds, [SLOTS, SLOTS])


def only(test: str) -> str:
    return f"CASE _stream WHEN 0 THEN {test} WHEN 1 THEN TRUE ELSE FALSE END"


@pytest.mark.parametrize(
    ("where", "test"),
    [
        ("v > 2", "((_v > 2L))"),
        ("v > 2 AND g = 'a'", "((_v > 2L) AND (_g = 'a'))"),
        ("v > k", "((_v > CAST(_k AS bigint)))"),
        ("g IN ('a', 'b') OR k IS NULL", "(((_g IN ('a', 'b')) OR (_k IS NULL)))"),
        # What may fail, or is read in different ways, is left to the kernels.
        ("v > 2 AND 10 div v > 1", "((_v > 2L))"),
        ("v > 2 AND ts > '2026-01-01'", "((_v > 2L))"),
        ("v > 2 AND g <> 'a\\\\b'", "((_v > 2L))"),
    ],
)
def test_selections_are_made_by_spark(where: str, test: str) -> None:
    assert condition(f"SELECT k FROM s [RANGE 1 s] WHERE {where}") == only(test)


def test_all_that_read_a_stream_have_their_rows() -> None:
    small, large = (f"SELECT k FROM s [RANGE 1 s] WHERE v {test}" for test in ("< 1", "> 5"))
    assert condition(small, large) == only("((_v < 1L)) OR ((_v > 5L))")
    everything = "_stream >= 0"
    assert condition(small, "SELECT k FROM s [RANGE 1 s]") == everything
    assert condition(small, "SELECT k FROM s [RANGE 1 s] WHERE 1 div v > 0") == everything
    assert condition(small, "SELECT k FROM s [ROWS 5] WHERE v < 1") == everything, "others push out"
    assert condition(small, dead_letter="late") == everything, "they are wanted there"
    many = [f"SELECT k FROM s [RANGE 1 s] WHERE v = {at}" for at in range(4)]
    assert condition(*many) == everything, "an index finds them"
