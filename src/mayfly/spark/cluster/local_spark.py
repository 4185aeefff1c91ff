"""A quiet local Spark session with the settings Mayfly needs."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from mayfly.spark.cluster import class_archive
from mayfly.spark.cluster.failed_start import check_master, failed_start

LOOPBACK = "127.0.0.1"
_ON_THIS_MACHINE = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # A cluster whose workers lack Mayfly says so better without it.
    "spark.python.daemon.module": "mayfly.spark.daemon",
}
_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = off
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


def here(master: str | None) -> bool:
    """Whether a master and its workers are on this machine.

    >>> here(None), here("local[2]"), here("spark://127.0.0.1:7077"), here("spark://far:7077")
    (True, True, True, False)
    """
    own = ("local", f"spark://{LOOPBACK}:", "spark://localhost:")
    return master is None or master.startswith(own)


def local_spark(
    cores: int | None = None,
    *,
    master: str | None = None,
    memory: str = "2g",
    java: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session in this process, without log lines or progress bars.

    It is bound to 127.0.0.1, unless ``master`` is on another machine, whose workers must reach it.
    ``java`` are options of the JVM in place of those that let it start fast.
    """
    asked = dict(settings or {})
    master = asked.pop("spark.master", master)
    check_master(master)
    if here(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    # Workers must be the interpreter that has Mayfly installed, whatever python3 is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    # What it logs is raised as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix="mayfly-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log4j2.properties").write_text(_QUIET)
    width = cores or os.cpu_count() or 2
    builder = SparkSession.builder.master(master or f"local[{width}]").appName("mayfly")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(_ON_THIS_MACHINE if here(master) else {}),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties -XX:+UseParallelGC "
            f"{class_archive.java_options() if java is None else java}"
        ),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(width),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        **asked,
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    log = folder / "startup.log"
    try:
        with _stderr_to(log), _spare_from_sigterm(folder):
            return _checked(builder.getOrCreate())
    except Exception as error:
        raise failed_start(error, log.read_text(errors="replace"), master, asked) from error


def _checked(session: SparkSession) -> SparkSession:
    """The session, whose settings Spark would otherwise look at with the first query only."""
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:
        session.stop()
        raise
    return session


@contextlib.contextmanager
def _spare_from_sigterm(folder: Path) -> Iterator[None]:
    """Start the JVM deaf to SIGTERM, which systemd and timeout send to the whole process group.

    It must live until this process has finished its batch, and ends when this process does. Spark's
    scripts are bash, which reads the file BASH_ENV names, and what it ignores the JVM ignores.
    """
    before = os.environ.get("BASH_ENV")
    deaf = folder / "deaf.sh"
    deaf.write_text("trap '' TERM\n" + (f". {shlex.quote(before)}\n" if before else ""))
    os.environ["BASH_ENV"] = str(deaf)
    try:
        yield
    finally:
        if before is None:
            del os.environ["BASH_ENV"]
        else:
            os.environ["BASH_ENV"] = before


@contextlib.contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """Keep what the JVM prints off the terminal: the two lines it always prints, and stack traces.

    It inherits our stderr when it starts. Spark's own errors go on to be raised as exceptions.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
