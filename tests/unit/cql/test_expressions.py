"""Bound expressions as values: walking, rebuilding, and what kernels may evaluate."""

from __future__ import annotations

import pytest

from mayfly.cql import bind_query
from mayfly.plan.expressions import (
    Column,
    Compare,
    Expression,
    Literal,
    as_type,
    conjunction,
    conjuncts,
    is_kernel_expression,
)
from mayfly.plan.logical_operators import Project
from mayfly.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VOID, decimal
from tests.golden.cql.cases import catalog

CATALOG = catalog()


def bound(text: str) -> Expression:
    plan = bind_query(f"SELECT {text} AS c FROM readings [NOW]", CATALOG).child
    assert isinstance(plan, Project)
    return plan.outputs[0].expression


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("sensor", True),
        ("sensor + 1 > value", True),
        ("sensor * sensor - 2", True),
        ("NOT (ok AND place IS NULL OR place = 'a')", True),
        ("place IN ('a', 'b')", True),
        ("coalesce(abs(-sensor), 0) BETWEEN 1 AND 5", True),
        ("least(sensor, 3) <=> greatest(sensor, 5)", True),
        ("ts > TIMESTAMP '2026-01-01'", True),
        ("exact > exact", True),
        ("exact + 1", False),
        ("sensor / 2", False),
        ("sensor % 2", False),
        ("CAST(value AS INT)", False),
        ("TRY_CAST(sensor AS BIGINT)", False),
        ("place LIKE 'a%'", False),
        ("upper(place)", False),
        ("coalesce(place, 'x')", False),
        ("CASE WHEN ok THEN 1 ELSE 2 END", False),
        ("position.x", False),
        ("tags", False),
        ("ts + INTERVAL 1 s", False),
    ],
)
def test_the_kernel_set(text: str, admitted: bool) -> None:
    assert is_kernel_expression(bound(text)) is admitted


@pytest.mark.parametrize(
    "text",
    [
        "sensor + 1 > value AND place IN ('a', upper(place)) OR NOT ok",
        "CASE WHEN ok THEN 1 WHEN sensor > 1 THEN 2 ELSE 3 END",
        "CASE WHEN ok THEN 1 END",
        "CAST(coalesce(position.x, 1.5e0) AS STRING) LIKE '1%'",
        "place IS NULL",
    ],
)
def test_rebuilding_from_the_children_changes_nothing(text: str) -> None:
    expression = bound(text)
    for node in expression.walk():
        assert node.with_children(node.children()) == node
    assert expression.transform(lambda node: node) == expression


def test_transform_replaces_everywhere() -> None:
    renamed = bound("sensor + 1 > value AND sensor < 5").transform(
        lambda node: Column("r", node.name, node.type) if isinstance(node, Column) else node
    )
    assert renamed.relations() == {"r"}
    assert [column.name for column in renamed.columns()] == ["sensor", "value"]


def test_names_are_written_as_asked() -> None:
    assert bound("sensor + 1").sql(lambda column: f"_{column.name}") == "(_sensor + 1)"


@pytest.mark.parametrize(
    ("text", "nullable"),
    [
        ("1", False),
        ("ts", False),
        ("sensor", True),
        ("ts = ts", False),
        ("sensor <=> 1", False),
        ("sensor IS NULL", False),
        ("coalesce(sensor, 1)", False),
        ("coalesce(sensor, sensor)", True),
        ("CASE WHEN sensor > 1 THEN 1 ELSE 2 END", False),
        ("CASE WHEN sensor > 1 THEN 1 END", True),
        ("TRY_CAST('1' AS INT)", True),
        ("nullif(1, 1)", True),
    ],
)
def test_what_may_be_null(text: str, nullable: bool) -> None:
    assert bound(text).nullable is nullable


def test_conjunctions_are_taken_apart_and_put_together() -> None:
    terms = conjuncts(bound("(ok AND sensor > 1) AND (place = 'a' AND ok)"))
    assert len(terms) == 4
    assert conjuncts(conjunction(terms)) == terms
    assert (conjunction(()), conjuncts(None)) == (None, ())


def test_constants_change_their_type_without_a_cast() -> None:
    assert as_type(Literal(5, INT), BIGINT) == Literal(5, BIGINT)
    assert as_type(Literal(5, INT), DOUBLE).sql() == "CAST('5.0' AS double)"
    assert as_type(Literal(None, VOID), STRING) == Literal(None, STRING)
    assert as_type(Literal(5, INT), decimal(5, 2)).sql() == "CAST('5' AS decimal(5,2))"
    assert as_type(Literal(5000, INT), decimal(5, 2)).sql() == "CAST(5000 AS decimal(5,2))"
    assert as_type(Literal(5, INT), STRING).sql() == "CAST(5 AS string)"
    assert Compare("=", Literal(1, INT), Literal(1, INT)).type == BOOLEAN
