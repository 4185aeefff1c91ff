"""Runs that nobody disturbs, which all disturbed ones must equal."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from mayfly.spark.api.session import Session
from tests.faults.recorded_links import (
    RecordedLinks,
    Undisturbed,
    assert_ended_right,
    start_links,
)


def run_undisturbed(
    spark: SparkSession, folders: pytest.TempPathFactory, batches: int, late: float = 0.04
) -> Undisturbed:
    links = RecordedLinks.record(folders.mktemp("links"), batches, late)
    assert all(rows.num_rows > 0 for rows in links.case.late.values()) == (late > 0)
    done = Undisturbed(links, folders.mktemp("undisturbed"))
    run = start_links(Session(spark), done.input, done.world)
    run.await_done()
    assert_ended_right(run, done.world, done)
    return done


@pytest.fixture(scope="session")
def short(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(spark, tmp_path_factory, batches=5)


@pytest.fixture(scope="session")
def long(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return run_undisturbed(spark, tmp_path_factory, batches=14)


@pytest.fixture(scope="session")
def punctual(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """Without late rows, so that its results do not depend on how the input is cut."""
    return run_undisturbed(spark, tmp_path_factory, batches=24, late=0.0)
