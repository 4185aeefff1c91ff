"""``mayfly init`` writes a pipeline that is right as it is, and overwrites nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.test_app import run


def test_what_init_writes_passes_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("init", str(tmp_path / "first")) == 0
    assert "mayfly run" in capsys.readouterr().out
    assert run("check", str(tmp_path / "first" / "pipeline.cql")) == 0
    assert "no errors" in capsys.readouterr().out
    files = sorted((tmp_path / "first" / "in" / "orders").iterdir())
    assert [file.stat().st_mtime for file in files] == sorted(
        {file.stat().st_mtime for file in files}
    )
    times = [json.loads(line)["ts"] for file in files for line in file.read_text().splitlines()]
    assert times == sorted(times)


def test_init_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pipeline.cql").write_text("mine")
    assert run("init", str(tmp_path)) == 2
    assert "is there already" in capsys.readouterr().err
    assert (tmp_path / "pipeline.cql").read_text() == "mine"
