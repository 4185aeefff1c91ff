"""Every function, operator and cast gives, row by row, the value or the error that Spark gives.

All expressions of a part go through one Spark job over a table of awkward values. Spark's own
``TryEval`` around each of them turns an error into NULL for that row alone; a struct around the
value keeps errors apart from NULLs. It has no name in SQL, so it is reached through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly.errors import BadInput
from mayfly.kernels.expression import evaluate
from mayfly.plan.expressions import Column, Expression, quoted
from mayfly.plan.types import arrow_type
from tests.integration.expression_cases import bound, cases
from tests.integration.expression_values import table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = cases()
ROUNDED = ("exp", "ln", "log2", "log10", "power", "sin", "cos", "tan", "atan2")
"""Functions in which Java and C may differ in the last binary digit."""


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Iterator[DataFrame]:
    # Shared parts would be computed outside of TryEval.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    # Without the exchange Spark would compute everything while it plans.
    yield spark.createDataFrame(table()).repartition(1)
    spark.conf.unset("spark.sql.subexpressionElimination.enabled")


def asked_of_spark(frame: DataFrame, expressions: list[Expression]) -> list[pa.Array]:
    """For each expression a struct with its value per row; NULL where it is an error."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    spark: Any = frame.sparkSession
    jvm, parser = spark._jvm, spark._jsparkSession.sessionState().sqlParser()
    to_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval
    columns = [frame._jdf.col("k")]
    for number, expression in enumerate(expressions):
        # The condition is always true; without it the member might be declared to be never NULL.
        value = f"CASE WHEN k >= 0 THEN {expression.sql(lambda column: quoted(column.name))} END"
        tried = attempt(parser.parseExpression(f"named_struct('value', {value})"))
        columns.append(to_column(tried).alias(f"e{number}"))
    array = spark.sparkContext._gateway.new_array(jvm.org.apache.spark.sql.Column, len(columns))
    for at, column in enumerate(columns):
        array[at] = column
    answers = ClassicFrame(frame._jdf.select(array), spark).toArrow().sort_by("k")
    return [answers[f"e{number}"].combine_chunks() for number in range(len(expressions))]


def comparable(values: pa.Array) -> list[object]:
    """Values in a form in which NaN equals itself, -0.0 differs from 0.0, and times have no end."""
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        return list(values.cast(pa.int64()).to_pylist())
    if pa.types.is_date(values.type):
        return list(values.cast(pa.int32()).to_pylist())
    if pa.types.is_nested(values.type) or pa.types.is_floating(values.type):
        return [repr(value) for value in values.to_pylist()]
    return list(values.to_pylist())


def evaluated(expression: Expression, rows: pa.Table) -> pa.Array:
    def resolve(column: Column) -> pa.ChunkedArray:
        return rows[column.name]

    value = evaluate(expression, resolve)
    return value if isinstance(value, pa.Array) else pa.repeat(value, rows.num_rows)


def near(found: pa.Array, expected: pa.Array) -> bool:
    """Whether all values are the same up to one unit in the last place."""
    left, right = (column.fill_null(0).to_numpy() for column in (found, expected))
    with np.errstate(invalid="ignore"):
        close = np.abs(left - right) <= np.spacing(np.abs(right))
    same = (left == right) | (np.isnan(left) & np.isnan(right)) | close
    return bool(same.all()) and found.is_null().equals(expected.is_null())


def differences(text: str, expression: Expression, answer: pa.Array, rows: pa.Table) -> list[str]:
    fine = answer.is_valid()
    expected = pc.struct_field(answer.filter(fine), "value")
    found = evaluated(expression, rows.filter(fine))
    wrong = [] if found.type == arrow_type(expression.type) else [f"{text} has type {found.type}"]
    if text.startswith(ROUNDED) and near(found, expected):
        return wrong
    theirs = comparable(expected)
    for at, (ours, spark_says) in enumerate(zip(comparable(found), theirs, strict=True)):
        if ours != spark_says:
            row = rows.filter(fine).select(_names(expression)).slice(at, 1)
            wrong.append(f"{text} = {ours!r}, Spark: {spark_says!r} for {row.columns}")
    return wrong


def _names(expression: Expression) -> list[str]:
    return [column.name for column in expression.columns()]


def unrefused(text: str, expression: Expression, answer: pa.Array, rows: pa.Table) -> list[str]:
    """The rows for which Spark has an error and we have a value."""
    refused = rows.filter(answer.is_null()).select(_names(expression))
    wrong = []
    inputs = zip(*(comparable(column.combine_chunks()) for column in refused.columns), strict=True)
    for at in {key: at for at, key in enumerate(inputs)}.values():
        row = refused.slice(at, 1)
        try:
            value = evaluated(expression, row)
        except BadInput:
            continue
        wrong.append(f"{text} = {comparable(value)}, Spark: an error for {row.columns}")
    return wrong


@pytest.mark.parametrize("part", CASES)
def test_same_as_spark(part: str, frame: DataFrame) -> None:
    rows = table()
    expressions = [bound(text) for text in CASES[part]]
    answers = asked_of_spark(frame, expressions)
    wrong: list[str] = []
    for text, expression, answer in zip(CASES[part], expressions, answers, strict=True):
        wrong += differences(text, expression, answer, rows)
        wrong += unrefused(text, expression, answer, rows)
    assert wrong == []


def test_spark_refuses_and_accepts(frame: DataFrame) -> None:
    """The comparison sees values, NULLs and errors apart."""
    (answer,) = asked_of_spark(frame, [bound("i / i2")])
    inputs = table()
    zero = pc.and_(pc.equal(inputs["i2"], 0), pc.is_valid(inputs["i"])).fill_null(False)
    assert answer.is_null().to_pylist() == zero.to_pylist()
    values = pc.struct_field(answer, "value")
    assert pc.all(pc.is_null(values.filter(pc.is_null(inputs["i"]).combine_chunks()))).as_py()
