"""Types: reading, writing, common types, and their Arrow counterparts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.plan.types import (
    VOID,
    arrow_type,
    bounded_decimal,
    common_type,
    from_arrow,
    is_widening,
    parse_type,
)

ALL = [
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz", "decimal(10,2)", "interval day to second"),
    *("array<int>", "map<string,array<double>>", "struct<a:int,b:struct<c:string>>"),
]


@pytest.mark.parametrize("text", ALL)
def test_a_type_is_written_as_it_is_read(text: str) -> None:
    assert parse_type(text).sql() == text
    assert parse_type(text.upper().replace(",", " , ")) == parse_type(text) or "struct" in text


@pytest.mark.parametrize("text", ALL)
def test_arrow_and_back(text: str) -> None:
    assert from_arrow(arrow_type(parse_type(text))) == parse_type(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("varchar(20)", "string"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("struct<`odd name` : int>", "struct<`odd name`:int>"),
        ("struct<a int, b string>", "struct<a:int,b:string>"),
        ("interval hour to minute", "interval day to second"),
        ("interval year", "interval year to month"),
    ],
)
def test_other_spellings(text: str, meant: str) -> None:
    assert parse_type(text).sql() == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "money", "array<int", "array<>", "array<int,int>", "map<int>", "decimal(40,2)"),
        *("decimal(2,5)", "int>", "decimal(a)", "struct<a>", "int int", "!", "decimal(1,2"),
    ],
)
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a type"):
        parse_type(text)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("int", "bigint", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("bigint", "double", "double"),
        ("smallint", "float", "float"),
        ("int", "float", "double"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("bigint", "decimal(38,2)", "decimal(38,2)"),
        ("decimal(5,2)", "decimal(10,4)", "decimal(10,4)"),
        ("decimal(38,30)", "decimal(38,0)", "decimal(38,6)"),
        ("decimal(5,2)", "float", "double"),
        ("date", "timestamp", "timestamp"),
        ("timestamp_ntz", "date", "timestamp_ntz"),
        ("timestamp", "timestamp_ntz", "timestamp"),
        ("string", "string", "string"),
        ("string", "int", None),
        ("string", "date", None),
        ("boolean", "int", None),
        ("array<int>", "array<bigint>", None),
    ],
)
def test_common_types_go_both_ways(left: str, right: str, common: str | None) -> None:
    expected = parse_type(common) if common else None
    assert common_type(parse_type(left), parse_type(right)) == expected
    assert common_type(parse_type(right), parse_type(left)) == expected


def test_a_bare_null_fits_every_type() -> None:
    assert all(common_type(VOID, parse_type(text)) == parse_type(text) for text in ALL)


def test_decimals_give_up_fractions_before_whole_digits() -> None:
    assert bounded_decimal(40, 10).params == (38, 8)
    assert bounded_decimal(60, 6).params == (38, 6)


@pytest.mark.parametrize(
    ("source", "target", "exact"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "double", True),
        ("bigint", "double", False),
        ("int", "float", False),
        ("float", "double", True),
        ("string", "int", False),
        ("date", "timestamp", False),
    ],
)
def test_casts_that_keep_every_value(source: str, target: str, exact: bool) -> None:
    assert is_widening(parse_type(source), parse_type(target)) is exact


def test_types_without_a_counterpart_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="cannot be stored"):
        arrow_type(parse_type("interval year to month"))
    with pytest.raises(InvalidSetting, match="has no Spark type"):
        from_arrow(pa.uint64())
    assert from_arrow(pa.large_string()).sql() == "string"
    assert from_arrow(pa.large_list(pa.large_binary())).sql() == "array<binary>"
