"""Bound expressions mean what Spark SQL says: it accepts their text and gives the same types."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from mayfly.cql import bind_query
from mayfly.cql.functions import FUNCTIONS
from mayfly.plan.expressions import Expression
from mayfly.plan.logical_operators import GroupAggregate, Project
from mayfly.plan.types import parse_type
from tests.golden.cql.cases import catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = catalog()
OPERATORS = """
sensor + 1
sensor + 1L
sensor * value
sensor - 1.5
sensor / 2
sensor div 2
sensor % 3
exact + 1
exact * 2
exact * exact
exact / 3
exact / exact
exact % 2
exact - sensor
exact + value
CAST(sensor AS FLOAT) + sensor
CAST(sensor AS SMALLINT) + 1S
-sensor
-exact
ts - INTERVAL '1 h 30 min'
ts + INTERVAL 5 s
ts - ts
sensor = 1.5
exact > 3
value >= sensor
day < ts
day >= '2026-01-01'
sensor BETWEEN 1 AND 2.5
sensor IN (1, 2L, 3.5)
place LIKE 'a!%' ESCAPE '!'
place NOT LIKE 'x' OR ok
NOT ok AND place IS NOT NULL
ok IS TRUE
sensor <=> NULL
sensor IS DISTINCT FROM 5
CASE WHEN ok THEN 1 ELSE 2.5 END
CASE sensor WHEN 1 THEN 'x' ELSE place END
CAST(value AS DECIMAL(12, 3))
TRY_CAST(place AS INT)
place || '-' || place
position.x
counts
'it''s \\\\ here'
1.50
12345678901
1e3
DATE '2026-01-31'
TIMESTAMP '2026-01-31 12:00:00'
TIMESTAMP_NTZ '2026-01-31 12:00:00'
unix_micros(CAST(ts AS TIMESTAMP_NTZ))
hour(CAST(ts AS TIMESTAMP_NTZ))
CAST(ts AS TIMESTAMP_NTZ) + INTERVAL 1 s
CAST(ts AS TIMESTAMP_NTZ) - CAST(ts AS TIMESTAMP_NTZ)
CAST(ts AS TIMESTAMP_NTZ) > ts
day - day
INTERVAL 1 s + ts
INTERVAL 1 s - INTERVAL 2 s
date_trunc('hour', CAST(ts AS TIMESTAMP_NTZ))
"""
ARGUMENTS = {
    "n": ("value", "sensor", "exact"),
    "i": ("sensor",),
    "s": ("place",),
    "b": ("ok",),
    "t": ("ts",),
    "d": ("day", "ts"),
    "c": ("sensor", "place"),
    "a": ("tags",),
    "m": ("tags",),
    "x": ("sensor",),
}
SPECIAL = {
    "date_trunc": "date_trunc('hour', ts)",
    "date_format": "date_format(ts, 'yyyy')",
    "array_contains": "array_contains(tags, 'a')",
    "if": "if(ok, sensor, exact)",
    "encode": "encode(place, 'utf-8')",
    "sha2": "sha2(place, 256)",
    "round": "round(exact, 1)",
    "get_json_object": "get_json_object(place, '$.a')",
    "nullif": "nullif(sensor, exact)",
    "coalesce": "coalesce(sensor, value)",
    "greatest": "greatest(sensor, exact, 5)",
    "pmod": "pmod(sensor, 3L)",
    "regexp_extract": "regexp_extract(place, '(a)', 1)",
    "regexp_replace": "regexp_replace(place, 'a', 'b')",
}


def calls() -> list[str]:
    """Every function of the language, called once per type its first argument may have."""
    found = list(SPECIAL.values())
    for name, signature in FUNCTIONS.items():
        letters = [letter[0] for letter in signature.arguments.split()]
        same = name in ("greatest", "least", "hash", "xxhash64", "nullif")
        for first in ARGUMENTS[letters[0]]:
            rest = [first if same else ARGUMENTS[letter][0] for letter in letters[1:]]
            if name not in SPECIAL:
                found.append(f"{name}({', '.join([first, *rest])})")
    return found


def bound(text: str) -> Expression:
    plan = bind_query(f"SELECT {text} AS c FROM readings [NOW]", CATALOG).child
    assert isinstance(plan, Project)
    return plan.outputs[0].expression


@pytest.fixture(scope="module")
def readings(spark: SparkSession) -> DataFrame:
    columns = CATALOG.lookup("readings").columns  # type: ignore[union-attr]
    schema = ", ".join(f"{column.name} {column.type.sql()}" for column in columns)
    return spark.createDataFrame([], schema).alias("readings")


def spark_type(readings: DataFrame, text: str) -> str:
    (found,) = readings.selectExpr(f"{text} AS c").schema.fields
    return parse_type(found.dataType.simpleString()).sql()


def test_expressions_have_the_types_spark_gives_them(readings: DataFrame) -> None:
    differing = {}
    for text in [*OPERATORS.strip().splitlines(), *calls()]:
        expression = bound(text)
        theirs = spark_type(readings, expression.sql())
        if theirs != expression.type.sql():
            differing[text] = (expression.type.sql(), theirs)
    assert differing == {}


@pytest.mark.parametrize(
    ("call", "in_spark"),
    [
        ("SUM(sensor)", "sum(sensor)"),
        ("SUM(exact)", "sum(exact)"),
        ("SUM(value)", "sum(value)"),
        ("AVG(sensor)", "avg(sensor)"),
        ("AVG(exact)", "avg(exact)"),
        ("MIN(place)", "min(place)"),
        ("MAX(ts)", "max(ts)"),
        ("COUNT(DISTINCT place)", "count(DISTINCT place)"),
        ("VAR(exact)", "var_samp(exact)"),
        ("STDDEV(sensor)", "stddev_samp(sensor)"),
        ("MEDIAN(sensor)", "median(sensor)"),
        ("MODE(place)", "mode(place)"),
        ("COLLECT_SET(exact)", "collect_set(exact)"),
    ],
)
def test_aggregates_have_the_types_spark_gives_them(
    readings: DataFrame, call: str, in_spark: str
) -> None:
    project = bind_query(f"SELECT {call} FROM readings [NOW]", CATALOG).child
    assert isinstance(project, Project)
    assert isinstance(project.child, GroupAggregate)
    (aggregate,) = project.child.aggregates
    assert aggregate.data_type.sql() == spark_type(readings, in_spark)


def test_constants_keep_their_values(spark: SparkSession) -> None:
    expected: dict[str, Any] = {
        "'it''s'": "it's",
        "'a\\\\b'": "a\\b",
        "'two\nlines'": "two\nlines",
        "-5": -5,
        "-5L": -5,
        "300S": 300,
        "1.50": Decimal("1.50"),
        "-0.25": Decimal("-0.25"),
        "1e3": 1000.0,
        "2D": 2.0,
        "true": True,
        "DATE '2026-01-31'": date(2026, 1, 31),
        "TIMESTAMP '2026-01-31 12:00:00.000001'": datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
        "TIMESTAMP_NTZ '2026-01-31 12:00:00'": datetime(2026, 1, 31, 12),
        "INTERVAL '1 day 2 h 3 s'": timedelta(days=1, hours=2, seconds=3),
        "CAST(NULL AS INT)": None,
    }
    texts = [f"{bound(text).sql()} AS c{n}" for n, text in enumerate(expected)]
    row = spark.sql(f"SELECT {', '.join(texts)}").toArrow().to_pylist()[0]
    assert list(row.values()) == list(expected.values())
