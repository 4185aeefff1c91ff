"""``mayfly doctor`` notices what would stop a pipeline."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mayfly.cli import doctor_command as doctor
from tests.unit.cli.test_app import run


def test_a_machine_that_can_run_pipelines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("doctor", str(tmp_path / "later"), "--no-spark", "--json") == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert {"Python", "packages", "Java", "memory", "permissions", "disk"} <= set(found)
    assert all(one["verdict"] != "failed" for one in found.values())


def test_an_old_or_missing_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor.check_java().verdict == "failed"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n")
    java.chmod(0o755)
    assert doctor.check_java().observation.endswith("is Java 8")
    assert run("doctor", str(tmp_path), "--no-spark") == 1
    told = capsys.readouterr().out
    assert "✗ Java" in told
    assert "install Java 17" in told
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023-10-17' >&2\n")
    assert doctor.check_java().verdict == "fine"


def test_packages_outside_their_bounds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=2", "pandas>=2.2,<2.2.1", "no-such-package>=1", 'x>=9; extra == "dev"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    found = doctor.check_packages()
    assert found.verdict == "failed"
    assert "no-such-package is missing" in found.observation
    assert "not >=2.2,<2.2.1" in found.observation
    assert "numpy" not in found.observation


def test_a_folder_that_takes_no_commits_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("not allowed")

    monkeypatch.setattr(os, "link", refused)
    found = doctor.check_folder(tmp_path)
    assert found.verdict == "failed"
    assert found.advice


def test_little_space_is_doubtful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE_DISK", 1 << 60)
    assert doctor.check_space("disk", tmp_path).verdict == "doubtful"
