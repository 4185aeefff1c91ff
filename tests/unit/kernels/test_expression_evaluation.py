"""Evaluation without Spark: what is covered, which rows an operand sees, and how it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mayfly.cql.functions import FUNCTIONS
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.expression import evaluate, holds
from mayfly.kernels.functions import operands
from mayfly.plan import expressions as ex
from mayfly.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    arrow_type,
    parse_type,
)
from tests.integration.expression_cases import bound, cases

NODES = [bound(text) for texts in cases().values() for text in texts]
COLUMNS: dict[str, pa.Array] = {
    "i": pa.array([1, 0, None, 4], pa.int32()),
    "i2": pa.array([2, 0, 0, None], pa.int32()),
    "l": pa.array([1, 2**62, None, -5], pa.int64()),
    "s": pa.array(["a", "", None, "éa"]),
    "o": pa.array([True, False, None, False]),
}


def value(text: str, **columns: pa.Array) -> list[Any]:
    found = evaluate(bound(text), lambda column: {**COLUMNS, **columns}[column.name])
    return list(found.to_pylist()) if isinstance(found, pa.Array) else [found.as_py()]


def test_every_function_is_compared_with_spark() -> None:
    compared = {node.name for one in NODES for node in one.walk() if isinstance(node, ex.Function)}
    in_zones = {"to_timestamp", "try_to_timestamp"}  # compared in test_zones.py
    assert compared | in_zones == set(FUNCTIONS)


def test_every_kind_of_expression_is_compared_with_spark() -> None:
    compared = {type(node) for one in NODES for node in one.walk()}
    assert compared == set(ex.Expression.__subclasses__())
    operators = {node.op for one in NODES for node in one.walk() if isinstance(node, ex.Arithmetic)}
    assert operators == {"+", "-", "*", "/", "%", "div"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN i2 <> 0 THEN i / i2 ELSE -1 END", [0.5, -1.0, -1.0, -1.0]),
        ("i2 <> 0 AND i / i2 > 0", [True, False, False, None]),
        ("i2 = 0 OR i / i2 > 0", [True, True, True, None]),
        ("if(i2 = 0, i, i div i2)", [0, 0, None, None]),
        ("coalesce(i, 1 div i)", [1, 0, None, 4]),
        ("CASE WHEN NULL THEN 1 div 0 ELSE i END", [1, 0, None, 4]),
        ("CASE WHEN true THEN i ELSE 1 div 0 END", [1, 0, None, 4]),
        ("i IN (1, 4, NULL)", [True, None, None, True]),
        ("nullif(i, 4)", [1, 0, None, None]),
        ("s || CAST(i AS STRING)", ["a1", "0", None, "éa4"]),
        ("substring(s, -1)", ["a", "", None, "a"]),
        ("greatest(i, i2)", [2, 0, 0, 4]),
    ],
)
def test_operands_are_evaluated_on_their_rows(text: str, expected: list[Any]) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i / i2",
        "i % i2",
        "i div i2",
        "pmod(i, i2)",
        "l * l",
        "CAST(s AS INT)",
        "element_at(arr, 0)",
    ],
)
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(BadInput) as raised:
        value(text, arr=pa.array([[1]] * 4, pa.list_(pa.int32())))
    assert bound(text).sql(lambda column: column.name) in raised.value.message
    assert raised.value.hint


def test_a_scalar_only_where_no_column_is_read() -> None:
    assert isinstance(evaluate(bound("1 + 2"), _nothing), pa.Scalar)
    for text in ("i + NULL", "coalesce(1, i)", "CASE WHEN false THEN i END", "concat(s, NULL)"):
        found = evaluate(bound(text), lambda column: COLUMNS[column.name])
        assert isinstance(found, pa.Array)
        assert len(found) == 4


def _nothing(column: ex.Column) -> pa.Array:
    raise AssertionError(f"{column} is not needed")


def test_chunked_and_large_columns() -> None:
    chunked = pa.chunked_array([["a"], [], ["b", None]], pa.large_string())
    assert value("upper(s)", s=chunked) == ["A", "B", None]
    assert value("upper(s)", s=pa.chunked_array([], pa.string())) == []
    assert value("s = 'b'", s=chunked) == [False, True, None]


def test_columns_that_are_slices() -> None:
    lists = pa.array([[9], None, [1, 2], [], [None, 3]], pa.list_(pa.int32())).slice(1, 4)
    maps = pa.array(
        [[("z", 0)], None, [("a", 1), ("b", 2)], [], [("b", None)]],
        pa.map_(pa.string(), pa.int32()),
    ).slice(1, 4)
    assert value("size(arr)", arr=lists) == [None, 2, 0, 2]
    assert value("array_contains(arr, 3)", arr=lists) == [None, False, False, True]
    assert value("element_at(lookup, 'b')", lookup=maps) == [None, 2, None, None]
    assert value("size(lookup)", lookup=maps) == [None, 2, 0, 1]


def test_no_rows() -> None:
    empty = {name: column.slice(0, 0) for name, column in COLUMNS.items()}
    for text in ("CASE WHEN i = 1 THEN s ELSE 'x' END", "i / i2", "i IN (1, i2)", "s LIKE 'a%'"):
        assert value(text, **empty) == []
    assert holds(bound("i2 > 0 AND 1 / i2 > 0"), lambda c: empty[c.name], 0).to_pylist() == []


def test_conditions_that_read_no_column() -> None:
    assert holds(bound("1 = 1"), _nothing, 2).to_pylist() == [True, True]
    assert holds(bound("NULL = 1"), _nothing, 2).to_pylist() == [False, False]


def test_what_spark_cannot_cast_is_refused() -> None:
    day = ex.Column("t", "day", DATE)
    with pytest.raises(InvalidSetting, match="cannot be cast"):
        evaluate(ex.Cast(day, INT), lambda column: pa.array([1], pa.date32()))


def test_texts_of_thousands_of_digits_are_no_whole_numbers() -> None:
    text = ex.Column("t", "s", STRING)
    texts = pa.array(["9" * 5000, "-" + "0" * 6000 + "7", "+12"])
    tried = evaluate(ex.Cast(text, BIGINT, safe=True), lambda column: texts)
    assert tried.to_pylist() == [None, -7, 12]
    with pytest.raises(BadInput, match="overflow: a number of 5,000 digits does not fit INT"):
        evaluate(ex.Cast(text, INT), lambda column: texts)


def test_months_have_no_column_type() -> None:
    with pytest.raises(InvalidSetting, match="cannot be stored"):
        evaluate(ex.Literal(14, parse_type("interval year to month")), _nothing)


def test_instants_outside_of_pythons_years() -> None:
    instant = ex.Column("t", "at", TIMESTAMP)
    far = pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC"))
    found = evaluate(ex.Cast(instant, STRING), lambda column: far)
    assert found.to_pylist() == ["+148108-07-06 14:00:27.387904"]
    year = evaluate(ex.Function("year", (instant,), INT), lambda column: far)
    assert year.to_pylist() == [148108]


@pytest.mark.parametrize(
    "text",
    [
        *("i + i2", "l * 2 - i", "d / 3.5D", "l % 7", "l div 7", "d + f > 10", "m + m2", "m * m2"),
        *("i2 <> 0 AND i / i2 > 1", "CASE WHEN i > 5 THEN i ELSE l END", "CAST(l AS DOUBLE)"),
        *("CAST(d AS BIGINT)", "year(ts)", "date_trunc('hour', ts)", "ts + INTERVAL 1 s", "-d"),
        *(
            "CAST(i AS STRING)",
            "hash(i, l)",
            "xxhash64(l)",
            "least(d, 2)",
            "o AND i > 3",
            "sqrt(d)",
        ),
        *("length(s)", "trim(s)", "concat(s, s2)", "lower(s)", "coalesce(i, i2)", "i IN (1, 2, 3)"),
    ],
)
def test_common_expressions_run_on_whole_columns(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No value passes through Python, whatever the number of rows."""

    def refused(column: pa.Array) -> list[Any]:
        raise AssertionError("values are looked at one by one")

    monkeypatch.setattr(operands, "plain", refused)
    node = bound(text)
    random = np.random.default_rng(7)
    columns = {one.name: _many(one, random) for one in node.columns()}
    assert len(evaluate(node, lambda column: columns[column.name])) == 1000


def _many(column: ex.Column, random: np.random.Generator) -> pa.Array:
    numbers = pa.array(random.integers(1, 1000, 1000), mask=random.random(1000) < 0.1)
    if column.type == BOOLEAN:
        return numbers.cast(pa.bool_())
    if column.type == TIMESTAMP:
        return numbers.view(pa.timestamp("us", "UTC"))
    whole = numbers.cast(pa.int16()) if column.type.name == "decimal" else numbers
    return whole.cast(arrow_type(column.type))


def test_doubles_keep_their_order() -> None:
    d = ex.Column("t", "d", DOUBLE)
    numbers = pa.array([float("nan"), -0.0, 1.0, None])
    less = ex.Compare("<", d, ex.Literal(float("nan"), DOUBLE))
    assert evaluate(less, lambda column: numbers).to_pylist() == [False, True, True, None]
    total = ex.Arithmetic("+", d, ex.Literal(0.0, DOUBLE), DOUBLE)
    assert str(evaluate(total, lambda column: numbers)[1]) == "0.0"


def test_whole_numbers_overflow() -> None:
    number = ex.Column("t", "l", BIGINT)
    top = pa.array([2**63 - 1])
    for op, other in (("+", 1), ("*", 2)):
        with pytest.raises(BadInput, match="overflow"):
            evaluate(
                ex.Arithmetic(op, number, ex.Literal(other, BIGINT), BIGINT), lambda column: top
            )


@pytest.mark.parametrize("values", [[None], [None, 1.0], [None, 2.0]])
def test_null_in_a_list_is_null_where_choices_are_asked_for_some_rows_only(
    values: list[float | None],
) -> None:
    """A choice that may fail is not evaluated for NULL: the answer is still not known."""
    columns = {"r": pa.array(values, pa.float64()), "h": pa.array([1.0] * len(values))}
    column = {name: ex.Column("s", name, DOUBLE, True) for name in columns}
    choice = ex.Cast(ex.Cast(column["h"], STRING, False), DOUBLE, False)
    among = evaluate(ex.InList(column["r"], (choice,)), lambda node: columns[node.name])
    assert among.to_pylist() == [None if value is None else value == 1.0 for value in values]
