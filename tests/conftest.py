"""What all tests share: one Spark session, example counts, and the closing account."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Reproducible by default; `all` looks for new counterexamples. How long an example takes says
# more about the machine than about the code, so neither has a deadline.
settings.register_profile(
    "default",
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "all",
    max_examples=1_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
if "MAYFLY_EXAMPLES" in os.environ:
    settings.register_profile(
        "asked", settings(), max_examples=int(os.environ["MAYFLY_EXAMPLES"]), derandomize=False
    )
    settings.load_profile("asked")


if settings.get_current_profile_name() == "default":
    # What a killed process has written is not lost, only a power cut could take it; waiting for
    # the disk was half the time of many tests. The profile `all` waits.
    os.fsync = lambda fd: None

# Tests run little of anything twice: the second compiler of the JVM takes more time than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

SPARK_START = pytest.StashKey[float]()
SLOW_LEFT = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def spark(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """The one local Spark session of this test process, started by the first test that asks."""
    from mayfly.spark.cluster.local_spark import local_spark

    begin = time.monotonic()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = local_spark(2, settings={"spark.sql.warehouse.dir": str(warehouse)})
    pytestconfig.stash[SPARK_START] = time.monotonic() - begin
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def checked_histories(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Whatever a test serves in this process is recorded, and kept the isolation it promised."""
    from mayfly.periodic.server import PeriodicServer

    begin, servers = PeriodicServer.__init__, list[PeriodicServer]()

    def recorded(server: PeriodicServer, *values: Any, **options: Any) -> None:
        options["record"] = options.get("record") or True
        begin(server, *values, **options)
        servers.append(server)

    monkeypatch.setattr(PeriodicServer, "__init__", recorded)
    yield servers
    for server in servers:
        with server.changed:
            server.check()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever asks for the session is a Spark test, so that `-m "not spark"` leaves it out; of a
    test that is ``halved``, every second case that is not slow becomes so."""
    cases = Counter[str]()
    for item in items:
        if item.get_closest_marker("halved") and not item.get_closest_marker("slow"):
            name = item.nodeid.partition("[")[0]
            cases[name] += 1
            if cases[name] % 2 == 0:
                item.add_marker(pytest.mark.slow)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items:
        slow = sum(bool(item.get_closest_marker("slow")) for item in items)
        stash = items[0].config.stash
        stash[SLOW_LEFT] = stash.get(SLOW_LEFT, 0) + slow


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of several leaves what only it knows to the one that prints the account."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["account"] = [
            session.config.stash.get(SLOW_LEFT, 0),
            session.config.stash.get(SPARK_START, 0.0),
        ]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    slow, start = getattr(node, "workeroutput", {}).get("account", (0, 0.0))
    stash = node.config.stash
    stash[SLOW_LEFT] = slow  # every process collects all tests
    stash[SPARK_START] = stash.get(SPARK_START, 0.0) + start


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Seconds per part, then what did not run and why."""
    stats = terminalreporter.stats
    reports = [r for kind in stats.values() for r in kind if isinstance(r, pytest.TestReport)]
    tests, seconds = Counter[str](), Counter[str]()
    for report in reports:
        part = "/".join(report.nodeid.split("::")[0].split("/")[:-1][:2]) or "."
        tests[part] += report.when == "call" or (report.when == "setup" and not report.passed)
        seconds[part] += report.duration  # type: ignore[assignment]

    terminalreporter.section("time per part")
    for part in sorted(tests):
        terminalreporter.line(f"{part:<20} {tests[part]:>6} tests {seconds[part]:>8.1f} s")
    if config.stash.get(SPARK_START, 0.0):
        terminalreporter.line(f"starting Spark took {config.stash[SPARK_START]:.1f} s of it")

    slow = config.stash.get(SLOW_LEFT, 0)
    if slow:
        terminalreporter.line(f"{slow} slow tests were left to make test-all")
    skipped = stats.get("skipped", [])
    terminalreporter.line(f"skipped: {len(skipped) or 'none'}")
    for report in skipped:
        terminalreporter.line(f"  {report.nodeid}: {report.longrepr[2]}")
