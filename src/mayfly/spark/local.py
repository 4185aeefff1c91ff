"""A quiet local Spark session with the settings Mayfly wants."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def local_spark(
    cores: int | None = None,
    *,
    master: str | None = None,
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session in this process, bound to 127.0.0.1, without log lines or progress bars."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must be the interpreter that has Mayfly installed, whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    quiet = Path(tempfile.mkdtemp(prefix="mayfly-spark-"))
    (quiet / "log4j2.properties").write_text(_QUIET)
    builder = (
        SparkSession.builder.master(master or f"local[{cores or os.cpu_count() or 2}]")
        .appName("mayfly")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", memory)
        .config(
            "spark.driver.extraJavaOptions",
            f"-Dlog4j2.configurationFile=file:{quiet}/log4j2.properties -XX:+UseParallelGC",
        )
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(cores or os.cpu_count() or 2))
        .config("spark.sql.warehouse.dir", str(quiet / "warehouse"))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        .config("spark.sql.streaming.metricsEnabled", "false")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
