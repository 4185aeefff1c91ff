"""Spark's classes, laid out once and kept in a file, so that Spark starts in half the time.

Most of the seconds before Spark's first job go into reading and checking thousands of classes.
Java can keep the outcome (dynamic class data sharing, JEP 350) and map it into the next JVM. The
file lies in the Python environment and belongs to one Java and one PySpark installation: another
Java gets another file, and a JVM that finds that the file does not fit starts without it.

    python -m mayfly.spark.cluster.class_archive   # called once by `make`
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

PATIENCE = 180
"""Seconds that the JVM may take to write the file when it ends."""


def path() -> Path | None:
    """Where the file for this Java and this PySpark is, or would be; None without a Java."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        return None
    program = Path(java).resolve()
    identity = f"{program} {program.stat().st_mtime_ns} {pyspark.__version__} {pyspark.__file__}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return Path(sys.prefix, "share", "mayfly", f"spark-classes-{name}.jsa")


def java_options() -> str:
    """What makes a JVM use the file, if there is one."""
    file = path()
    if file is None or not file.exists():
        return ""
    return f' "-XX:SharedArchiveFile={file}" -Xlog:cds*=off -Xlog:class+path*=off'


def make(file: Path) -> None:
    """Run a little of everything in a JVM that writes the file when it ends."""
    from mayfly.spark.cluster.local_spark import local_spark

    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        written = Path(folder, "classes.jsa")
        spark = local_spark(
            2, memory="1g", java=f'"-XX:ArchiveClassesAtExit={written}" -Xlog:disable'
        )
        _use(spark, Path(folder))
        gateway = spark.sparkContext._gateway
        spark.stop()
        assert gateway is not None
        gateway.shutdown()
        process = gateway.proc
        process.stdin.close()
        process.wait(PATIENCE)
        written.rename(file)


def _use(spark: SparkSession, folder: Path) -> None:
    """The kinds of jobs that Mayfly runs: Parquet files, exchanges, Python workers, streams."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def step(frame: DataFrame, _: int) -> None:
        frame.repartition(2, "k").mapInArrow(same, frame.schema).collect()

    rows = spark.range(1000).selectExpr("id % 7 AS k", "id", "CAST(id AS TIMESTAMP) AS t")
    rows.write.parquet(f"{folder}/rows")
    stored = spark.read.parquet(f"{folder}/rows")
    stored.filter("id > 10").groupBy("k").count().orderBy("k").collect()
    stored.join(spark.range(9).toDF("k"), "k").toArrow()
    stream = spark.readStream.schema(stored.schema).parquet(f"{folder}/rows")
    query = stream.writeStream.foreachBatch(step).option("checkpointLocation", f"{folder}/log")
    query.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    file = path()
    if file is None or file.exists():
        return
    print(
        "Laying out Spark's classes, so that it starts faster: about a minute, once ...",
        file=sys.stderr,
    )
    try:
        make(file)
    except Exception as error:
        print(
            f"That failed ({error}); everything works, only Spark starts slower.", file=sys.stderr
        )


if __name__ == "__main__":
    main()
