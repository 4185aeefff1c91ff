from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.storage import Directory, Repository


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory.at(tmp_path / "store", sync=False)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "store", {"made": "here"}, sync=False)
