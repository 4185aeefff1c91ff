"""Signals that ask a pipeline to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import pytest
import typer

from mayfly.cli import archive_updates
from mayfly.cli.signals import stop_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_answered_at_once(
    number: int, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_signals("batch") as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), number)
        assert asked.wait(10)
        assert capfd.readouterr().err.count("stopping: the running batch is finished first") == 1
    assert asked.exit_code == code
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_where_nothing_is_to_be_finished_a_signal_ends_at_once(number: int, code: int) -> None:
    """As while Spark starts."""
    program = dedent(
        """
        import sys, time, types
        from mayfly.cli import app
        def wait() -> None:
            print("begun", flush=True)
            time.sleep(60)
        sys.modules["waiting"] = types.SimpleNamespace(wait=wait)
        app.COMMANDS["wait"] = ("waiting:wait", "Wait.")
        app.main(["wait"])
        """
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert said == f"mayfly: ended by {signal.Signals(number).name}\n"


def test_a_signal_may_come_at_every_step_of_a_wait() -> None:
    """Its handler must not wait for what the thread that it interrupts holds."""
    program = """
        import os, signal, sys
        from mayfly.cli.signals import stop_signals
        def wait_with_a_signal_at(step):
            left = step
            def trace(frame, event, argument):
                nonlocal left
                left -= event == "line"
                if left == 0:
                    sys.settrace(None)
                    os.kill(os.getpid(), signal.SIGTERM)
                return trace
            with stop_signals("batch") as asked:
                sys.settrace(trace)
                asked.wait(0.01)
                sys.settrace(None)
                return asked.is_set()
        assert wait_with_a_signal_at(1)
        steps = [wait_with_a_signal_at(step) for step in range(1, 80)]
        assert not steps[-1]
    """
    subprocess.run([sys.executable, "-c", dedent(program)], timeout=120, check=True)


def test_a_second_signal_ends_without_waiting() -> None:
    program = """
        import os, signal, time
        from mayfly.cli import signals
        signals.ONE_REQUEST = 0.0
        with signals.stop_signals("batch") as asked:
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], timeout=120, check=False)
    assert done.returncode == -signal.SIGTERM


def test_a_signal_to_the_command_and_to_its_group_is_one() -> None:
    """As ``timeout`` sends it."""
    program = """
        import os, signal
        from mayfly.cli import signals
        signals.ONE_REQUEST = 3600.0
        with signals.stop_signals("batch") as asked:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGTERM)
            assert asked.wait(10)
        raise SystemExit(asked.exit_code)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr.count(b"stopping: ") == 1


def test_a_signal_is_passed_on_to_those_who_work() -> None:
    heard: list[int] = []
    with stop_signals("update") as asked:
        asked.pass_on = lambda: heard.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(10)
    assert heard == [1]


def test_ctrl_c_ends_a_catch_up_of_an_archive_after_the_running_update(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    archive, updates = Mock(), list[int]()
    archive.settings.calendar.time_of = lambda update: update * 3_600_000_000

    def load(rows: object, *, done: Callable[[object], None], max_gap: object) -> None:
        for number in range(1, 6):
            if number == 2:
                os.kill(os.getpid(), signal.SIGINT)
            updates.append(number)
            done(Mock(update=number))

    archive.load = load
    monkeypatch.setattr(archive_updates, "_opened_on_spark", lambda path: archive)
    monkeypatch.setattr(archive_updates, "rows_of", Mock())
    with pytest.raises(typer.Exit) as ended:
        archive_updates._load(Path("a"), [], "parquet", True, quiet=True)
    assert (updates, ended.value.exit_code) == ([1, 2], 130)
    told = capfd.readouterr().err
    assert "stopping: the running update is finished first" in told
    assert "stopped after update 2: rows later than 1970-01-01 02:00:00" in told
