"""Every expression that kernels evaluate gives what Spark gives for its own SQL text.

All expressions go through one Spark job, over a table in which each type meets its awkward values
pair by pair. Integer arithmetic is compared where Spark's ``try_`` form has a value; where it has
none, the kernel must refuse as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mayfly.errors import BadInput
from mayfly.kernels.expression import evaluate, holds
from mayfly.plan import expressions as ex
from mayfly.plan.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    DataType,
    arrow_type,
    decimal,
    is_widening,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONEY = decimal(12, 3)
FLOATS = (0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf)


def _integers(bits: int) -> tuple[int, ...]:
    top = 2 ** (bits - 1) - 1
    return (0, 1, -1, 2, 100, top, -top - 1)


VALUES: dict[DataType, tuple[ex.Value, ...]] = {
    BOOLEAN: (True, False),
    TINYINT: _integers(8),
    SMALLINT: _integers(16),
    INT: _integers(32),
    BIGINT: _integers(64),
    FLOAT: FLOATS,
    DOUBLE: (*FLOATS, 5e-324, 1.7976931348623157e308),
    MONEY: (Decimal(0), Decimal("-0.001"), Decimal("999999999.999"), Decimal("12.5")),
    STRING: ("", " ", "a", "A", "ab", "é", "𝄞", "\uffee", "it's \\ 'so'"),
    BINARY: (b"", b"\x00", b"\x00\x00", b"\x7f", b"\xff"),
    DATE: (date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)),
    TIMESTAMP: (0, -1, 1_700_000_000_123_456, -62_135_596_800_000_000),
    TIMESTAMP_NTZ: (0, -1, 1_700_000_000_123_456, 253_402_300_799_999_999),
    DAY_TIME_INTERVAL: (0, -1, 86_400_000_000, -90_061_000_001),
}
NUMBERS = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)
WHOLE = NUMBERS[:4]
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def column(kind: DataType, which: str) -> ex.Column:
    return ex.Column("", f"{which}_{kind.sql().split('(')[0].replace(' ', '_')}", kind)


def awkward_table() -> pa.Table:
    """Each type's values and NULL pair by pair in columns a and b; c holds the same as a, moved."""
    rows = max((len(values) + 1) ** 2 for values in VALUES.values())
    columns: dict[str, Any] = {"i": pa.array(range(rows), pa.int32())}
    for kind, values in VALUES.items():
        pairs = list(
            itertools.islice(itertools.cycle(itertools.product((None, *values), repeat=2)), rows)
        )
        left, right = (list(side) for side in zip(*pairs, strict=True))
        for which, side in (("a", left), ("b", right), ("c", left[7:] + left[:7])):
            columns[column(kind, which).name] = pa.array(side, arrow_type(kind))
    return pa.table(columns)


@dataclass(frozen=True)
class Check:
    """An expression; ``guard`` is SQL that is NULL where the expression may not be evaluated."""

    expression: ex.Expression
    guard: str = ""
    operands: tuple[ex.Expression, ...] = ()

    def sql(self) -> str:
        text = self.expression.sql()
        return f"CASE WHEN {self.guard} IS NOT NULL THEN {text} END" if self.guard else text


def _comparisons() -> Iterator[Check]:
    for kind, values in VALUES.items():
        a, b = column(kind, "a"), column(kind, "b")
        literals = tuple(ex.Literal(value, kind) for value in (*values, None))
        for op in COMPARISONS:
            yield Check(ex.Compare(op, a, b))
            yield Check(ex.Compare(op, literals[-2], b))
        for literal in literals:
            yield Check(ex.Compare("=", a, literal))
            yield Check(ex.Compare("<", a, literal))
            yield Check(ex.Compare("<=>", literal, literals[0]))
        yield Check(ex.InList(a, literals[:2]))
        yield Check(ex.InList(a, (*literals[1:3], literals[-1])))
        yield Check(ex.InList(a, (b, literals[0])))
        yield Check(ex.Not(ex.InList(a, (b, literals[-1]))))
        yield Check(ex.IsNull(a))
        yield Check(ex.IsNull(literals[-1]))


def _logic() -> Iterator[Check]:
    a, b, c = (column(BOOLEAN, which) for which in "abc")
    none = ex.Literal(None, BOOLEAN)
    yield Check(ex.And((a, b)))
    yield Check(ex.Or((a, b)))
    yield Check(ex.Not(a))
    yield Check(a)
    yield Check(ex.And((a, ex.Or((ex.Not(b), c)), none)))
    yield Check(ex.Or((a, none, ex.And((b, c)))))
    yield Check(ex.And((none, ex.Literal(False, BOOLEAN))))
    yield Check(ex.IsNull(ex.Literal(None, VOID)))


def _arithmetic() -> Iterator[Check]:
    for kind in NUMBERS:
        a, b = column(kind, "a"), column(kind, "b")
        one = ex.Literal(2, kind)
        for op in "+-*":
            for left, right in ((a, b), (a, one), (one, b)):
                guard = f"{TRY[op]}({left.sql()}, {right.sql()})" if kind in WHOLE else ""
                yield Check(ex.Arithmetic(op, left, right, kind), guard, (left, right))
        for name in ("abs", "negative"):
            smallest = ex.literal_sql(VALUES[kind][-1], kind)
            guard = f"nullif({a.sql()}, {smallest})" if kind in WHOLE else ""
            yield Check(ex.Function(name, (a,), kind), guard, (a,))


def _functions() -> Iterator[Check]:
    for kind in NUMBERS:
        a, b, c = (column(kind, which) for which in "abc")
        none, one = ex.Literal(None, kind), ex.Literal(1, kind)
        for name in ("coalesce", "least", "greatest"):
            for arguments in ((a, b), (a, b, c), (a, none), (none, a, one), (one, none)):
                yield Check(ex.Function(name, arguments, kind))


def _casts() -> Iterator[Check]:
    for source, target in itertools.product(NUMBERS, repeat=2):
        if is_widening(source, target):
            yield Check(ex.Cast(column(source, "a"), target))
            yield Check(ex.Compare("<", ex.Cast(column(source, "a"), target), column(target, "b")))
    yield Check(ex.Cast(ex.Literal(None, VOID), INT))


PARTS: dict[str, Callable[[], Iterator[Check]]] = {
    "comparisons": _comparisons,
    "logic": _logic,
    "arithmetic": _arithmetic,
    "functions": _functions,
    "casts": _casts,
}
CHECKS = {part: list(checks()) for part, checks in PARTS.items()}


@pytest.fixture(scope="module")
def from_spark(spark: SparkSession) -> tuple[pa.Table, dict[str, pa.ChunkedArray]]:
    """The awkward table, and what Spark says about each expression, by its SQL text."""
    table = awkward_table()
    texts = {check.sql() for checks in CHECKS.values() for check in checks}
    guards = {check.guard for checks in CHECKS.values() for check in checks if check.guard}
    wanted = sorted(texts | guards)
    # Without the exchange Spark would compute everything while it plans.
    frame = spark.createDataFrame(table).repartition(1)
    answers = frame.selectExpr("i", *(f"{text} AS e{n}" for n, text in enumerate(wanted))).toArrow()
    answers = answers.sort_by("i")
    return table, {text: answers[f"e{n}"] for n, text in enumerate(wanted)}


def comparable(values: Any) -> list[object]:
    """Values in a form in which NaN equals itself and -0.0 differs from 0.0."""
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    return [repr(v) if isinstance(v, float) else v for v in values.to_pylist()]


def evaluated(expression: ex.Expression, rows: pa.Table) -> pa.Array:
    value = evaluate(expression, lambda one: rows[one.name].combine_chunks())
    if isinstance(value, pa.Scalar):
        return pa.array([value.as_py()] * rows.num_rows, value.type)
    return value


@pytest.mark.parametrize("part", PARTS)
def test_same_as_spark(part: str, from_spark: tuple[pa.Table, dict[str, pa.ChunkedArray]]) -> None:
    table, answers = from_spark
    for check in CHECKS[part]:
        allowed = pc.is_valid(answers[check.guard]) if check.guard else None
        rows = table.filter(allowed) if check.guard else table
        expected = answers[check.sql()]
        expected = expected.filter(allowed) if check.guard else expected
        assert ex.is_kernel_expression(check.expression)
        found = evaluated(check.expression, rows)
        assert comparable(found) == comparable(expected), check.sql()
        assert found.type == arrow_type(check.expression.type), check.sql()


def test_conditions_hold_where_they_are_true(
    from_spark: tuple[pa.Table, dict[str, pa.ChunkedArray]],
) -> None:
    table, answers = from_spark
    for check in (*CHECKS["comparisons"], *CHECKS["logic"]):
        found = holds(check.expression, lambda one: table[one.name].combine_chunks(), len(table))
        assert found.to_pylist() == [v is True for v in answers[check.sql()].to_pylist()]


def test_overflow_is_refused_where_spark_refuses(
    from_spark: tuple[pa.Table, dict[str, pa.ChunkedArray]],
) -> None:
    table, answers = from_spark
    refused = 0
    for check in CHECKS["arithmetic"]:
        if not check.guard:
            continue
        known = [evaluated(operand, table).is_valid() for operand in check.operands]
        overflows = pc.and_(pc.is_null(answers[check.guard]), pc.and_(known[0], known[-1]))
        for row in table.filter(overflows).to_batches(max_chunksize=1):
            with pytest.raises(BadInput, match="overflow") as raised:
                evaluated(check.expression, pa.Table.from_batches([row]))
            assert check.expression.sql(lambda column: column.name) in raised.value.message
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_spark_itself_refuses_overflow(kind: DataType, spark: SparkSession) -> None:
    """Its ``try_`` forms stand for what its plain forms do."""
    from pyspark.errors import ArithmeticException

    top = ex.Literal(VALUES[kind][-2], kind)
    total = ex.Arithmetic("+", top, ex.Literal(1, kind), kind)
    with pytest.raises(ArithmeticException):
        spark.sql(f"SELECT {total.sql()}").collect()
