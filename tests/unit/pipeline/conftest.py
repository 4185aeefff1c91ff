from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.pipeline.control_log import DECLARED
from mayfly.pipeline.control_requests import Control
from mayfly.pipeline.declared_catalog import declarations
from mayfly.storage import Repository
from tests.unit.pipeline.controlled_pipeline import CATALOG, RUNNING


@pytest.fixture
def control(tmp_path: Path) -> Control:
    queries = {name: {"streams": list(read)} for name, read in RUNNING.items()}
    properties = {"queries": queries, DECLARED: declarations(CATALOG)}
    Repository.create(tmp_path / "ck", properties, sync=False)
    return Control.of(tmp_path / "ck")
