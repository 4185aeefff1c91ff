"""Small programs stand in for the driver; what matters here is how the demo hears and kills it."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mayfly.demo.demo_settings import Places
from mayfly.demo.driver import in_short
from mayfly.demo.driver_process import DriverProcess
from mayfly.errors import MayflyError

LOCKING_GRANDCHILD = """
import fcntl, time
lock = open("LOCK", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print('{"kind": "locked"}', flush=True)
time.sleep(600)
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path / "demo")
    places.create()
    return places


@pytest.fixture
def started(places: Places) -> Iterator[list[DriverProcess]]:
    """Processes put into this list are killed at the end."""
    processes: list[DriverProcess] = []
    yield processes
    for process in processes:
        process.kill()


def heard(process: DriverProcess, kind: str) -> dict[str, Any]:
    """The first report of this kind."""
    while True:
        for report in process.reports():
            if report["kind"] == kind:
                return report
        time.sleep(0.01)


def test_reports_are_heard_in_order(places: Places, started: list[DriverProcess]) -> None:
    program = """print('{"kind": "running"}'); print('{"kind": "done"}')"""
    process = DriverProcess(places, 1, ("-c", program))
    started.append(process)
    kinds: list[str] = []
    while len(kinds) < 2:
        kinds += [report["kind"] for report in process.reports()]
    assert kinds == ["running", "done"]


def test_the_end_of_input_reaches_it(places: Places, started: list[DriverProcess]) -> None:
    program = """import json; print(json.dumps({"kind": "told", "line": input()}))"""
    process = DriverProcess(places, 1, ("-c", program))
    started.append(process)
    process.end_input()
    assert heard(process, "told")["line"] == "end"


def test_a_failure_it_reports_is_raised_with_its_hint(
    places: Places, started: list[DriverProcess]
) -> None:
    program = """print('{"kind": "failed", "message": "no Java", "hint": "install it"}'); exit(1)"""
    process = DriverProcess(places, 1, ("-c", program))
    started.append(process)
    with pytest.raises(MayflyError) as caught:
        heard(process, "never")
    assert (caught.value.message, caught.value.hint) == ("no Java", "install it")


def test_a_silent_death_is_raised_with_its_last_words(
    places: Places, started: list[DriverProcess]
) -> None:
    program = "import sys; print('out of everything', file=sys.stderr); sys.exit(3)"
    process = DriverProcess(places, 2, ("-c", program))
    started.append(process)
    with pytest.raises(MayflyError) as caught:
        heard(process, "never")
    assert "code 3" in caught.value.message
    assert "out of everything" in caught.value.message
    assert str(places.log(2)) in caught.value.hint


def is_locked(path: Path) -> bool:
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_a_kill_takes_its_children_along(
    places: Places, started: list[DriverProcess], tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    grandchild = LOCKING_GRANDCHILD.replace("LOCK", str(lock), 1)
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    process = DriverProcess(places, 1, ("-c", program))
    started.append(process)
    heard(process, "locked")
    assert is_locked(lock)
    process.kill()
    deadline = time.monotonic() + 60
    while is_locked(lock) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_locked(lock)


def test_killing_twice_does_no_harm(places: Places) -> None:
    process = DriverProcess(places, 1, ("-c", "import time; time.sleep(600)"))
    process.kill()
    process.kill()
    with pytest.raises(MayflyError, match=f"code -{signal.SIGKILL.value}"):
        list(process.reports())


def test_its_temporary_files_go_below_the_demo(
    places: Places, started: list[DriverProcess]
) -> None:
    program = """
import json, os
named = {name: os.environ[name] for name in ("TMPDIR", "SPARK_LOCAL_DIRS", "JDK_JAVA_OPTIONS")}
print(json.dumps({"kind": "places", **named}))
"""
    process = DriverProcess(places, 1, ("-c", program))
    started.append(process)
    report = heard(process, "places")
    scratch = os.fspath(places.scratch)
    assert report["TMPDIR"] == report["SPARK_LOCAL_DIRS"] == scratch
    assert f'"-Djava.io.tmpdir={scratch}"' in report["JDK_JAVA_OPTIONS"]


def test_spark_errors_are_cut_to_the_line_that_matters() -> None:
    spark = (
        "[STREAM_FAILED] terminated\n  File x.py, line 3\nImportError: no such name\n\nPlan:\n+-"
    )
    assert in_short(RuntimeError(spark)) == "the driver failed: ImportError: no such name"
    assert in_short(RuntimeError("Java is gone\n at x")) == "the driver failed: Java is gone"
    assert in_short(RuntimeError()) == "the driver failed: RuntimeError()"
