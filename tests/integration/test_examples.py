"""The example pipelines: every query gives on Spark what it gives in this process."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from examples.generate import EXAMPLES, FILES, HERE, write
from mayfly.cql import Create, Insert, parse
from mayfly.cql.statements import apply
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.types import arrow_type
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.local_session import LocalSession
from mayfly.spark.api.pipelines import load_pipeline
from tests.integration.test_spark_queries import of_local, of_spark


def in_process(file: Path) -> dict[str, ContinuousRun]:
    """Every query of a pipeline file, fed file by file."""
    session, catalog, queries = LocalSession(), Catalog(), {}
    text = file.read_text()
    for statement in parse(text):
        if isinstance(statement, Create):
            catalog = apply(catalog, statement)
            definition = statement.definition
            if isinstance(definition, QueryDefinition | ArchiveDefinition):
                queries[definition.name] = definition.text
            elif isinstance(definition, RelationDefinition):
                rows = pa.schema([(c.name, arrow_type(c.type)) for c in definition.columns])
                session.relation(
                    definition.name, rows.empty_table(), key=definition.key,
                    retroactive=definition.retroactive,
                )  # fmt: skip
            else:
                session.catalog = session.catalog.declare(definition)
        elif isinstance(statement, Insert):
            session._relations[statement.relation.casefold()].carry_out(statement, -(2**63))
    runs = {name: session.query(cql) for name, cql in queries.items()}
    streams = catalog.of_kind(StreamDefinition)
    for number in range(FILES):
        batch = {one.name: rows_of(file.parent / "in" / one.name, number, one) for one in streams}
        for run in runs.values():
            run.feed({name: rows for name, rows in batch.items() if name in run.clocks.streams})
    return runs


def rows_of(folder: Path, number: int, stream: StreamDefinition) -> pa.Table:
    rows: list[dict[str, Any]] = []
    for line in (folder / f"{number}.json").read_text().splitlines():
        row = json.loads(line)
        rows.append({**row, stream.time: datetime.fromisoformat(row[stream.time])})
    schema = pa.schema([(c.name, arrow_type(c.type)) for c in stream.columns])
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(spark: SparkSession, tmp_path: Path, name: str) -> None:
    write(name, tmp_path)
    file = tmp_path / "pipeline.cql"
    copy(HERE / name / "pipeline.cql", file)
    runs = load_pipeline(spark, file).start(
        tmp_path / "state", available_now=True, buckets=2, sync=False, history="forever"
    )
    assert all(run.await_done(400) for run in runs.values())
    local = in_process(file)
    for query, run in runs.items():
        alone = local[query]
        end = run.status().clock
        assert end is not None
        alone.feed({}, dict.fromkeys(alone.clocks.streams, end))
        assert of_spark(run) == of_local(alone), query
        assert of_spark(run), f"{query} gives nothing"
        if (tmp_path / "out" / query).exists():
            assert run.status().changes
    late = sum(sum(alone.late.values()) for alone in local.values())
    assert bool(late) == (tmp_path / "late").exists()
