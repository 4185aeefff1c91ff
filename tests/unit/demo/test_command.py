"""How the demo ends: exit codes, and what happens to its files. Nothing is run here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly.cli import main
from mayfly.demo import command
from mayfly.demo.demo_settings import Places
from mayfly.errors import MayflyError


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


def ended(monkeypatch: pytest.MonkeyPatch, outcome: Callable[[], bool], *options: str) -> object:
    """What the process would end with if the demo came out like this."""

    def perform(settings: object, places: Places, console: object) -> bool:
        assert places.results.is_dir()
        return outcome()

    monkeypatch.setattr(command, "_perform", perform)
    with pytest.raises(SystemExit) as end:
        main(["demo", *options])
    return end.value.code


def failing(error: BaseException) -> Callable[[], bool]:
    def fail() -> bool:
        raise error

    return fail


def left(tmp_path: Path) -> list[Path]:
    return [*(tmp_path / "tmp").iterdir(), *tmp_path.glob("demo-run")]


def test_right_results_end_with_0_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(monkeypatch, lambda: True) == 0
    assert left(tmp_path) == []


def test_wrong_results_end_with_1_and_leave_the_files_and_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, lambda: False) == 1
    (kept,) = left(tmp_path)
    assert str(kept) in capsys.readouterr().out


def test_a_failure_is_one_message_and_leaves_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ended(monkeypatch, failing(MayflyError("no Java", "install it")))
    assert code == "mayfly: no Java\n  → install it"
    assert len(left(tmp_path)) == 1


def test_an_interruption_ends_with_130_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(monkeypatch, failing(KeyboardInterrupt())) == 130
    assert left(tmp_path) == []


def test_a_lost_terminal_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, failing(OSError(5, "Input/output error"))) != 0
    assert left(tmp_path) == []


def test_kept_files_are_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(monkeypatch, lambda: True, "--keep") == 0
    assert left(tmp_path) == [tmp_path / "demo-run"]
