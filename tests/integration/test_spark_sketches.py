"""Sketches that Spark SQL makes, merged with those of the kernel."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from mayfly.kernels.count_min_sketch import CONFIDENCE, SEED, SHARE
from mayfly.kernels.pane_sketches import SKETCHES
from mayfly.kernels.value_sketches import TEXT
from mayfly.plan.pane_functions import COUNT_MIN, HLL, KLL


def test_sketches_of_spark_and_of_the_kernel_are_one_format(spark: SparkSession) -> None:
    spark.range(3000).selectExpr("id", "concat('v', id) AS t").createOrReplaceTempView("many")
    row = spark.sql(
        f"SELECT hll_sketch_agg(id, {SKETCHES[HLL].size}) AS numbers, "
        f"hll_sketch_agg(concat('{TEXT}', t), {SKETCHES[HLL].size}) AS texts, "
        f"kll_sketch_agg_double(CAST(id AS DOUBLE), {SKETCHES[KLL].size}) AS shares FROM many"
    ).collect()[0]
    ids = np.arange(3000)
    once = np.ones(3000, np.int64)
    for part, values in (
        (row.numbers, pa.array(ids)),
        (row.texts, pa.array([f"v{number}" for number in ids])),
    ):
        kind = SKETCHES[HLL]
        both = kind.read(kind.union([bytes(part), kind.made(values, once)]))
        _, low, high = kind.bounded(both, None)
        assert low <= 3000 <= high, "both have hashed the same values"
    kind = SKETCHES[KLL]
    later = kind.made(pa.array(ids + 3000), once)
    value, low, high = kind.bounded(kind.read(kind.union([bytes(row.shares), later])), 0.5)
    assert low <= 2999 <= high
    assert abs(value - 2999) < 200


def test_matrices_of_counts_are_equal_cell_by_cell(spark: SparkSession) -> None:
    spark.range(-1000, 2000).selectExpr("id", "concat('v', id % 50) AS t").createOrReplaceTempView(
        "some"
    )
    drawn = f"{SHARE}D, {CONFIDENCE}D, {SEED}"
    row = spark.sql(
        f"SELECT count_min_sketch(xxhash64(id), {drawn}) AS numbers, "
        f"count_min_sketch(xxhash64(t), {drawn}) AS texts FROM some"
    ).collect()[0]
    ids = np.arange(-1000, 2000)
    once, kind = np.ones(3000, np.int64), SKETCHES[COUNT_MIN]
    texts = pa.array([f"v{number - 50 * int(number / 50)}" for number in ids.tolist()])
    for part, values, asked, most in (
        (row.numbers, pa.array(ids), -7, 2 + 60),
        (row.texts, texts, "v7", 2 * 40 + 60),
    ):
        theirs, ours = kind.read(bytes(part)), kind.read(kind.made(values, once))
        assert theirs.rows == ours.rows == 3000
        assert (theirs.cells == ours.cells).all()
        both = kind.read(kind.union([bytes(part), kind.made(values, once)]))
        value, low, high = kind.bounded(both, asked)
        assert low <= 2 * values.to_pylist().count(asked) <= value == high <= most
