"""What is started together with Spark outlives a signal to the process group."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mayfly.spark.cluster.local_spark import _spare_from_sigterm


def test_a_script_and_what_it_becomes_do_not_hear_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own settings.sh"
    own.write_text("export OWN=kept\n")
    monkeypatch.setenv("BASH_ENV", str(own))
    with _spare_from_sigterm(tmp_path):
        script = ["bash", "-c", "echo $OWN; exec sleep 60"]
        child = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    assert os.environ["BASH_ENV"] == str(own)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "kept\n"
        child.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
    finally:
        child.kill()
        child.communicate()


def test_nothing_is_left_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASH_ENV", raising=False)
    with _spare_from_sigterm(tmp_path):
        assert "BASH_ENV" in os.environ
    assert "BASH_ENV" not in os.environ
