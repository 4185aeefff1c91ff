"""What a user is told when Spark does not start; the texts are from real failures, shortened."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.spark.cluster.failed_start import check_master, failed_start
from mayfly.spark.cluster.local_spark import local_spark

EXITED = Exception(
    "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
)
THROWN = """\
WARNING: Using incubator modules: jdk.incubator.vector
:: loading settings :: url = jar:file:/x/jars/ivy-2.5.3.jar!/org/apache/ivy/ivysettings.xml
Exception in thread "main" {}
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
"""
NO_MASTER = THROWN.format(
    "org.apache.spark.SparkException: Master must either be yarn or start with spark, k8s, or local"
)
PACKAGES = THROWN.format(
    "java.lang.IllegalArgumentException: requirement failed: Provided Maven Coordinates must be in "
    "the form 'groupId:artifactId:version'. The coordinate provided is: nonsense"
)
HEAP = """\
Invalid maximum heap size: -Xmxnonsense
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
NO_JAVA = """\
/x/pyspark/bin/spark-class: line 71: /nonexistent/bin/java: No such file or directory
/x/pyspark/bin/spark-class: line 97: CMD: bad array subscript
"""
BYTES = Exception(
    "Size must be specified as bytes (b), kibibytes (k). E.g. 50b, 100k, or 250m.\n"
    "Failed to parse byte string: junk"
)
CORES = Exception(
    "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
    ": org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n\tat a.B.c(D:1)\n"
)
PARTITIONS = Exception(
    "[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'x' in the config "
    '"spark.sql.shuffle.partitions" is invalid.'
    "\n\nJVM stacktrace:\norg.apache.spark.SparkIllegalArgumentException: no"
)


def told(found: MayflyError) -> MayflyError:
    assert "\tat " not in str(found)
    assert "JVM stacktrace" not in str(found)
    assert len(str(found).splitlines()) == 2, "a message and a hint"
    return found


@pytest.mark.parametrize(
    ("error", "stderr", "master", "why"),
    [
        (EXITED, NO_MASTER, "foo", "Master must either be yarn"),
        (CORES, "", "local[x]", "Could not parse Master URL"),
    ],
)
def test_a_master_is_named(error: Exception, stderr: str, master: str, why: str) -> None:
    for settings in ({}, {"spark.ui.enabled": "true"}):
        found = told(failed_start(error, stderr, master, settings))
        assert isinstance(found, InvalidSetting)
        assert found.message.startswith(f"Spark did not start with the master {master}: {why}")
        assert found.hint.startswith("start it, or check the address")


@pytest.mark.parametrize(
    ("error", "stderr", "name", "value", "why"),
    [
        (EXITED, PACKAGES, "spark.jars.packages", "nonsense", "Provided Maven Coordinates"),
        (
            EXITED,
            HEAP,
            "spark.driver.memory",
            "nonsense",
            "Invalid maximum heap size: -Xmxnonsense",
        ),
        (BYTES, "", "spark.executor.memory", "junk", "Size must be specified"),
        (PARTITIONS, "", "spark.sql.shuffle.partitions", "x", "[INVALID_CONF_VALUE.TYPE_MISMATCH]"),
    ],
)
@pytest.mark.parametrize("others", [{}, {"spark.executor.cores": "1"}])
@pytest.mark.parametrize("master", [None, "local[2]"])
def test_a_setting_is_named(
    error: Exception,
    stderr: str,
    name: str,
    value: str,
    why: str,
    others: dict[str, str],
    master: str | None,
) -> None:
    found = told(failed_start(error, stderr, master, {**others, name: value}))
    assert isinstance(found, InvalidSetting)
    assert found.message.startswith(f"Spark did not start with the setting {name}: {why}")
    assert found.hint == f"fix or leave out --conf {name}"


def test_a_name_tells_more_than_a_value() -> None:
    settings = {"spark.app.name": "value", "spark.sql.shuffle.partitions": "x"}
    found = told(failed_start(PARTITIONS, "", None, settings))
    assert found.hint == "fix or leave out --conf spark.sql.shuffle.partitions"


def test_if_no_setting_is_known_to_blame_all_are_named() -> None:
    found = told(failed_start(EXITED, "", None, {"a.b": "10", "c.d": "20"}))
    assert "the settings a.b, c.d: its Java process ended without a message" in found.message
    assert found.hint == "fix or leave out --conf a.b --conf c.d"


def test_java_is_blamed_only_if_it_is_the_problem() -> None:
    for master, settings in ((None, {}), ("local[2]", {"spark.ui.enabled": "true"})):
        found = told(failed_start(EXITED, NO_JAVA, master, settings))
        assert "/nonexistent/bin/java" in found.message
        assert "Java 17" in found.hint
    found = told(failed_start(EXITED, HEAP, None, {}))
    assert found.hint.startswith("mayfly doctor")


def test_a_master_that_does_not_answer_is_found_before_spark_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for other in (None, "local[2]", "yarn", "k8s://https://far:443"):
        check_master(other)
    gone = f"spark://127.0.0.1:{port}"
    for start in (
        lambda: check_master(gone),
        lambda: local_spark(master=gone),
        lambda: local_spark(settings={"spark.master": gone}),
    ):
        with pytest.raises(InvalidSetting, match=f"{gone} does not answer") as caught:
            start()
        assert caught.value.hint.startswith("start it, or check the address")


@pytest.mark.parametrize(
    "master", ["spark://", "spark://far", "spark://far:x", "spark://far:99999"]
)
def test_a_master_without_a_port_is_refused(master: str) -> None:
    with pytest.raises(InvalidSetting, match="is not a host and a port"):
        check_master(master)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "blamed"),
    [
        (["--master", "foo"], "the master foo"),
        (["--master", "local[x]"], "the master local[x]"),
        (["--conf", "spark.jars.packages=nonsense"], "the setting spark.jars.packages"),
        (["--conf", "spark.driver.memory=nonsense"], "the setting spark.driver.memory"),
        (["--conf", "spark.sql.shuffle.partitions=x"], "the setting spark.sql.shuffle.partitions"),
    ],
)
def test_a_start_that_fails_is_told_without_a_stack_trace(
    tmp_path: Path, option: list[str], blamed: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.cql").write_text(
        "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM json('in') TIMESTAMP BY ts;\n"
        "CREATE QUERY q AS SELECT k FROM s [RANGE 1 MINUTE];\n"
    )
    command = "import sys; from mayfly.cli import main; main(sys.argv[1:])"
    ended = subprocess.run(
        [sys.executable, "-c", command, "run", "p.cql", *option],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ.copy(),
    )  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    shown = [line for line in ended.stderr.splitlines() if line != "starting Spark"]
    assert len(shown) == 2, shown
    assert shown[0].startswith(f"mayfly: Spark did not start with {blamed}: ")
    assert shown[1].startswith("  → ")
    assert "Java" not in shown[1]
