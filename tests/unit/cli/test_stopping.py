"""Signals that ask a pipeline to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from textwrap import dedent

import pytest

from mayfly.cli.run import _signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_answered_at_once(
    number: int, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with _signals() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.wait(10)
        assert capfd.readouterr().err.count("stopping: the running batch is finished first") == 1
    assert asked.exit_code == code
    assert signal.getsignal(number) == before


def test_a_second_signal_ends_without_waiting() -> None:
    program = """
        import os, signal, time
        from mayfly.cli.run import _signals
        with _signals() as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], timeout=120, check=False)
    assert done.returncode == -signal.SIGTERM
