"""Whether workers see what they must."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from mayfly.spark.cluster.shared_storage import unseen_on


def test_paths_that_workers_do_not_see_are_told_with_the_host(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "seen").touch()
    found = unseen_on(spark, [f"{tmp_path}/seen", f"{tmp_path}/unseen"])
    assert list(found) == [str(tmp_path / "unseen")]
    assert len(found[str(tmp_path / "unseen")]) == 1, "this machine"
