"""The recorded input, and the run nobody disturbs, which all disturbed ones must equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.session import Session
from tests.faults.recorded_links import RecordedLinks, assert_ended_right, start_links


@pytest.fixture(scope="session")
def links(tmp_path_factory: pytest.TempPathFactory) -> RecordedLinks:
    return RecordedLinks.record(tmp_path_factory.mktemp("links"))


@pytest.fixture(scope="session")
def undisturbed(
    spark: SparkSession, links: RecordedLinks, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    world = tmp_path_factory.mktemp("undisturbed")
    run = start_links(Session(spark), links.input, world)
    run.await_done()
    assert_ended_right(run, links, world, world)
    return world
