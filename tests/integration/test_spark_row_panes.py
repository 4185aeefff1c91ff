"""Windows over the latest rows that move by rows, on Spark: one state, through a restart."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record, run_over
from tests.integration.test_spark_panes import lifetimes
from tests.property.test_panes import SLACK, admitted, random_batches
from tests.property.test_row_panes import NUMBERED, RowQuery, check, numbered, stores

QUERIES = {
    "short": RowQuery(("g",), ("SUM(k)", "COUNT(*)"), "v > 1", 7, 5, 0),
    "long": RowQuery(("g",), ("MAX(v)", "AVG(k)"), "v > 1", 60, 10, 0),
    "other": RowQuery(("g",), ("COUNT(DISTINCT v)",), "v > 1", 20, 4, 0),
    "whole": RowQuery((), ("COUNT(*)", "MIN(v)"), "", 40, 10, 0),
}


@pytest.mark.slow
def test_windows_over_rows_answer_from_one_state(spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(7)
    batches = numbered(rng, random_batches(rng, 4, (30, 60)))
    texts = {name: query.cql for name, query in QUERIES.items()}
    settings: dict[str, Any] = {"slack": f"{SLACK} us", "sequence": ["seq"]}
    for start in (0, 2):
        tables = [{"s": pa.Table.from_pylist(b, schema=NUMBERED)} for b in batches[start:][:2]]
        record(tmp_path, tables, start)
        session = Session(spark)
        declare(session, tmp_path, {"s": NUMBERED}, **settings)
        runs = run_over(session.queries(**texts), tmp_path / "ck", ends=start > 0)
    counts = sorted(len(store.windows) for store in stores(runs["short"].runner))
    assert counts == [1, 1, 2], "DISTINCT keeps values, one value has no groups, two share"
    for name, query in QUERIES.items():
        check(query, lifetimes(runs[name]), admitted(batches))
