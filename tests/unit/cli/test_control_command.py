"""``mayfly control``: what it says while nobody has applied a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.cli.app import main
from mayfly.cql import catalog_after, parse
from mayfly.pipeline.control_log import DECLARED
from mayfly.pipeline.declared_catalog import declarations
from mayfly.storage import Repository

STREAM = "CREATE STREAM s (ts TIMESTAMP, k INT) FROM json('in') TIMESTAMP BY ts"
QUERY = "SELECT k FROM s [RANGE 1 s]"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    declared = declarations(catalog_after(parse(STREAM)))
    properties = {"queries": {"q": {"streams": ["s"]}}, DECLARED: declared}
    Repository.create(tmp_path / "ck", properties, sync=False)
    return str(tmp_path / "ck")


def ended_with(code: int, *arguments: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["control", *arguments])
    assert end.value.code == code


def test_a_stop_does_not_promise_to_stop_a_later_start(
    checkpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_with(0, "stop", checkpoint)
    told = capsys.readouterr().out
    ended_with(0, "log", checkpoint)
    for said in (told, capsys.readouterr().out):
        assert "stops the pipeline if it is running; a later start is not stopped" in said
        assert "waits" not in said


@pytest.mark.parametrize(
    ("command", "advice"),
    [(["stop"], "nothing to stop"), (["add", "more", QUERY], "stays in the log")],
)
def test_a_wait_that_is_over_is_told_and_is_no_success(
    checkpoint: str, capsys: pytest.CaptureFixture[str], command: list[str], advice: str
) -> None:
    ended_with(1, command[0], checkpoint, *command[1:], "--wait", "0.1")
    told = capsys.readouterr().err
    assert told.startswith("mayfly: command 1 was not carried out within 0.1 s\n  → ")
    assert advice in told


def test_without_a_wait_it_is_enough_that_the_command_is_written(
    checkpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_with(0, "add", checkpoint, "more", QUERY)
    assert capsys.readouterr().out == f"1: add more {QUERY}: waits for the pipeline\n"


def test_a_name_that_is_none_is_refused(
    checkpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended_with(2, "add", checkpoint, "bad name", QUERY)
    assert "'bad name' cannot name a query\n  → " in capsys.readouterr().err
