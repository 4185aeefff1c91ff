"""The demo as a user starts it: a process of its own, killed driver and all."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest


def demo(tmp_path: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """The demo with its files below ``tmp_path`` and no terminal."""
    (tmp_path / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "mayfly.demo", *arguments],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests started in the background ignore it, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def said(process: subprocess.Popen[str]) -> tuple[str, str]:
    """All output; if the test is interrupted, the demo is too."""
    try:
        return process.communicate()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.communicate()
        raise


@pytest.mark.slow
def test_a_killed_driver_leaves_no_trace_in_the_results(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "12", "--rate", "300")
    out, err = said(process)
    assert process.returncode == 0, out + err
    assert err == ""
    assert "\x1b" not in out
    assert len(re.findall(r"SIGKILL to the driver", out)) == 1
    killed = re.search(r"version (\d+) was committed last", out)
    continued = re.search(r"continued from version (\d+), .* after the kill", out)
    assert killed
    assert continued
    assert killed[1] == continued[1]
    assert "closing" in out
    assert re.search(r"check +identical to .*'s [\d,]+ results: nothing lost, nothing twice", out)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_interrupting_it_leaves_nothing_behind(tmp_path: Path) -> None:
    process = demo(tmp_path, "--seconds", "60", "--rate", "10")
    assert process.stdout is not None
    while "runs the query" not in (line := process.stdout.readline()):
        assert line, "the demo ended by itself"
    process.send_signal(signal.SIGINT)
    out, err = said(process)
    assert process.returncode == 130, out + err
    assert "stopped" in out
    assert "Traceback" not in out + err
    assert list((tmp_path / "tmp").iterdir()) == []


def test_without_java_it_says_what_is_missing(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    process = demo(tmp_path, "--seconds", "5", JAVA_HOME=nowhere)
    out, err = said(process)
    assert process.returncode == 1
    assert err.startswith("mayfly: Spark did not start")
    assert "Java" in err
    assert "Traceback" not in out + err
    assert not (tmp_path / "demo-run").exists()
