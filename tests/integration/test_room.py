"""What a step would take is refused on Spark as in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from mayfly.errors import LimitExceeded
from mayfly.spark.api.session import Session
from tests.integration.recorded import declare, record


def test_one_large_group_is_refused_and_more_room_lets_it_go_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = pa.table({"ts": np.arange(300), "x": np.arange(300)})
    record(tmp_path, [{"s": rows}])
    session = Session(spark)
    declare(session, tmp_path, {"s": rows.schema})
    query = session.query("SELECT COLLECT_SET(x) AS m FROM s [RANGE 1 DAY]")
    limited: dict[str, Any] = {"available_now": True, "buckets": 1, "max_state_bytes": 1_000_000}
    with pytest.raises(LimitExceeded, match=r"COLLECT_SET over 300 versions.*max_state_bytes"):
        query.start(tmp_path / "ck", **limited).await_done()
    run = query.start(tmp_path / "ck", **{**limited, "max_state_bytes": 10_000_000})
    run.await_done()
    assert run.status().version > 0
