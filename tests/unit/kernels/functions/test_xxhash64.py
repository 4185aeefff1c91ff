"""The hash that places keys, against values that Spark 4 printed for ``SELECT xxhash64(…)``."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.plan.types import DataType, arrow_type, parse_type

NAN, INFINITY = float("nan"), float("inf")
LONG = "a string longer than thirty-two bytes, to reach every loop"
PRINTED: list[tuple[str, Any, int]] = [
    ("boolean", True, -6698625589789238999),
    ("boolean", False, 3614696996920510707),
    ("tinyint", -128, 4160238337661960656),
    ("tinyint", 127, 8632298611707923906),
    ("smallint", -32768, -904511417458573795),
    ("smallint", 7, 2786828215451145335),
    ("int", -(2**31), 2073849959933241805),
    ("int", 0, 3614696996920510707),
    ("int", 2**31 - 1, 1508894993788531228),
    ("bigint", -(2**63), -8619748838626508300),
    ("bigint", 0, -5252525462095825812),
    ("bigint", 1234567890123, 1687537368341330389),
    ("bigint", 2**63 - 1, -3246596055638297850),
    ("float", 0.0, 3614696996920510707),
    ("float", -0.0, 3614696996920510707),
    ("float", 1.5, 6163473420726370430),
    ("float", -3.25, -7948929959706909237),
    ("float", NAN, 2692338816207849720),
    ("float", INFINITY, -5940311692336719973),
    ("double", 0.0, -5252525462095825812),
    ("double", -0.0, -5252525462095825812),
    ("double", 0.1, -4684694357984311926),
    ("double", -1e300, 3086024234770041280),
    ("double", NAN, -3127944061524951246),
    ("double", -INFINITY, 5326262080505358431),
    ("string", "", -7444071767201028348),
    ("string", "a", -8582455328737087284),
    ("string", "héllo", 501425390238239234),
    ("string", "🐞", 7317798875451935370),
    ("string", LONG, -4377935387743150885),
    ("binary", b"", -7444071767201028348),
    ("binary", b"\xff\x00", 7330825074997746532),
    ("binary", bytes(40), 6309492816662103024),
    ("date", date(1970, 1, 1), 3614696996920510707),
    ("date", date(1969, 12, 31), 2017008487422258757),
    ("date", date(1, 1, 1), 6773727150484150602),
    ("date", date(9999, 12, 31), 7061898801283288394),
    ("timestamp", datetime(1970, 1, 1, tzinfo=UTC), -5252525462095825812),
    ("timestamp", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), 3858142552250413010),
    ("timestamp", datetime(2026, 3, 29, 1, 30, 0, 1, UTC), -4066550558731281930),
    ("timestamp_ntz", datetime(1970, 1, 1), -5252525462095825812),
    ("timestamp_ntz", datetime(2026, 3, 29, 2, 30, 0, 500000), 3508453624537312161),
    ("interval day to second", timedelta(0), -5252525462095825812),
    ("interval day to second", -timedelta(3, 0, 1), -3027851852570923155),
    ("interval day to second", timedelta(5, 3723), -2133077414359614254),
    ("decimal(10,2)", Decimal("0.00"), -5252525462095825812),
    ("decimal(10,2)", Decimal("-1.50"), -3700955262752989823),
    ("decimal(10,2)", Decimal("99999999.99"), -3824918051710350671),
    ("decimal(18,0)", Decimal(-1), 3858142552250413010),
    ("decimal(18,0)", Decimal(10**18 - 1), 2162198894918931945),
    ("decimal(19,0)", Decimal(0), -8959994473701255385),
    ("decimal(19,0)", Decimal(127), -5998106174972408993),
    ("decimal(19,0)", Decimal(128), 6715097930120473301),
    ("decimal(19,0)", Decimal(-128), -7898411661632158123),
    ("decimal(19,0)", Decimal(-129), -6459515886037897956),
    ("decimal(19,0)", Decimal(10**19 - 1), -768917144950141986),
    ("decimal(38,3)", Decimal("0.001"), 6668291691252061002),
    ("decimal(38,3)", Decimal("-1e34"), 9011510156884749485),
    ("decimal(38,0)", Decimal("9" * 38), -47190729175993179),
    ("decimal(38,0)", Decimal("-" + "9" * 38), -2254039905620870768),
    ("decimal(38,3)", Decimal("12345678901234567890123456789012345.679"), -6017440829240287976),
    ("decimal(38,18)", Decimal("-12345678901234567890.123456789012345678"), -1094212970759588400),
]


def spark_hash(values: list[Any], types: list[DataType]) -> int:
    arrays = [pa.array([v], arrow_type(kind)) for v, kind in zip(values, types, strict=True)]
    return int(xxhash64(arrays, 1)[0])


@pytest.mark.parametrize(("kind", "value", "printed"), PRINTED)
def test_values_hash_as_in_spark(kind: str, value: Any, printed: int) -> None:
    assert spark_hash([value], [parse_type(kind)]) == printed


def test_several_columns_are_hashed_in_order() -> None:
    text, number = parse_type("string"), parse_type("bigint")
    assert spark_hash(["x", 1], [text, number]) == -7029016486253711561
    assert spark_hash([1, "x"], [number, text]) == 6158280145716684778


def test_an_instant_has_one_hash_in_every_zone() -> None:
    kind = [parse_type("timestamp")]
    there = datetime(2026, 3, 29, 3, 30, 0, 1, timezone(timedelta(hours=2)))
    assert spark_hash([there], kind) == spark_hash([there.astimezone(UTC)], kind)


def test_a_null_leaves_the_seed_or_has_a_number_of_its_own() -> None:
    text, number = pa.array(["x", None], pa.string()), pa.array([1, 1])
    plain, marked = xxhash64([text, number], 2), xxhash64([text, number], 2, null=7)
    assert plain[1] == spark_hash([1], [parse_type("bigint")])
    assert marked[1] == xxhash64([pa.array([7]), pa.array([1])], 1)[0]
    assert plain[0] == marked[0]
    assert xxhash64([pa.nulls(2)], 2).tolist() == [42, 42]


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=8), st.integers(0, 3))
def test_bytes_of_any_length_in_any_slice(values: list[bytes], skipped: int) -> None:
    seeds = [xxhash.xxh64_intdigest(b"first", seed=42)] * len(values)
    wanted = [
        xxhash.xxh64_intdigest(one, seed=seed) for one, seed in zip(values, seeds, strict=True)
    ]
    both = pa.array([b""] * skipped + values).slice(skipped)
    found = xxhash64([pa.array([b"first"] * len(values)), both], len(values))
    assert found.view(np.uint64).tolist() == wanted
    large = both.cast(pa.large_binary())
    assert (
        xxhash64([pa.array([b"first"] * len(values)), large], len(values)).tolist()
        == found.tolist()
    )


@given(st.lists(st.integers(1 - 10**38, 10**38 - 1), min_size=1), st.integers(0, 2))
def test_long_decimals_are_the_bytes_of_java(values: list[int], skipped: int) -> None:
    def data(unscaled: int) -> bytes:
        bits = unscaled.bit_length() if unscaled >= 0 else (unscaled + 1).bit_length()
        return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)

    decimals = [Decimal(0)] * skipped + [Decimal(f"{value}E-3") for value in values]
    array = pa.array(decimals, pa.decimal128(38, 3)).slice(skipped)
    wanted = [xxhash.xxh64_intdigest(data(value), seed=42) for value in values]
    assert xxhash64([array], len(values)).view(np.uint64).tolist() == wanted
