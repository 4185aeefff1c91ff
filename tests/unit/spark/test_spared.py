"""What is started together with Spark outlives a signal to the process group."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from mayfly.spark.local import _spared


def test_a_child_does_not_hear_the_signal_and_the_parent_does() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with _spared():
            child = subprocess.Popen(["sleep", "60"])
            os.kill(os.getpid(), signal.SIGTERM)
            assert not heard, "not before the child is there"
        assert heard == [signal.SIGTERM], "the signal was not lost"
        child.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
    finally:
        signal.signal(signal.SIGTERM, before)
        child.kill()
        child.wait()
