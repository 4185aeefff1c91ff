"""Keys that PUNCTUATION closes, in the stages that run on Spark: the answers are those of DuckDB.

However rows are cut into batches, in any number of buckets, moved to another one in between, and
with drivers that die at any point of a batch.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly import LocalSession
from mayfly.faults import on_reach
from mayfly.spark.stream.dead_letters import deliver_dead_letters
from mayfly.storage import verify
from tests.property.shared_runs import HereRunner, results_of, runner_of
from tests.property.test_closed_keys import (
    DECLARATIONS,
    END,
    QUERIES,
    ROWS_QUERY,
    expected,
    late_rows,
    rows_of,
    schema_of,
    stream_rows,
    streams_of,
)
from tests.property.test_crashes import Crash, Fate
from tests.property.test_migration import moved

FEW = (0, 1, 4, 6, 9, 13)


def catalog_of() -> LocalSession:
    session = LocalSession()
    session.execute(DECLARATIONS)
    return session


@pytest.mark.halved
@pytest.mark.parametrize("query", QUERIES)
def test_stages_answer_as_duckdb_does(query: str) -> None:
    check(query, Random(query))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("query", [*QUERIES, ROWS_QUERY])
def test_more_stages_answer_as_duckdb_does(query: str, seed: int) -> None:
    check(query, Random(f"{query} {seed}"), moves=0.2, deaths=seed % 2 == 0)


@pytest.mark.parametrize("query", [QUERIES[number] for number in FEW])
def test_deaths_and_moves_lose_no_closed_key(query: str) -> None:
    check(query, Random(f"{query} deaths"), moves=0.3, deaths=True)


@pytest.mark.parametrize("seed", [5, 14])
def test_results_that_rows_may_cut_stay_with_these(seed: int) -> None:
    """The join has every row from which the results are found that a cut concerns."""
    check(ROWS_QUERY, Random(f"{ROWS_QUERY} {seed}"), moves=0.2)


def check(query: str, rng: Random, moves: float = 0, *, deaths: bool = False) -> None:
    catalog = catalog_of().catalog
    names = streams_of(query)
    rows = {n: stream_rows(rng, "v" if n == "o" else "w") for n in names}
    if query == ROWS_QUERY:
        once = {n: {row["ts"]: row for row in mine} for n, mine in rows.items()}
        rows = {n: sorted(mine.values(), key=lambda row: row["ts"]) for n, mine in once.items()}
    tables = {name: pa.Table.from_pylist(mine, schema_of(name)) for name, mine in rows.items()}
    fates = Fate.random(rng)
    with tempfile.TemporaryDirectory() as folder:
        place, queries = Path(folder) / "ck", {"q": query}

        def begun(buckets: int) -> HereRunner:
            return with_letters(runner_of(place, catalog, queries, buckets), Path(folder))

        here = begun(rng.choice([1, 2, 3]))
        for batch in [*batches(rng, tables), {}]:
            beats = {} if batch else dict.fromkeys(names, END + 1)
            target = here.repository.current().properties["batch"] + 1
            while here.repository.current().properties["batch"] < target:
                fate = next(fates)
                try:
                    with on_reach(fate.point, fate if deaths else lambda: None):
                        here.feed(batch, beats)
                        deliver(here)
                        if rng.random() < moves:
                            moved(here, catalog, queries, rng.choice((1, 2, 3)))
                except Crash:
                    pass
                here = begun(here.repository.current().properties["buckets"])
                deliver(here)  # as Spark gives a batch again that it does not know to be done
        answer = results_of(here, "q")
        for instant in (9, 27, 44, END):
            assert alive(answer, instant) == expected(tables, query, instant), instant
        late = here.repository.current().properties["totals"]["late"]
        for name, table in tables.items():
            lost = late_rows(name, table)
            assert late.get(name, 0) == len(lost)
            assert letters(Path(folder) / name) == lost
        assert verify(here.repository).ok


def batches(rng: Random, tables: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    """The rows of each stream in their order, some batches with few of them or none."""
    count = rng.choice([2, 5, 12])
    parts: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    for name, table in tables.items():
        cuts = [0, *sorted(rng.choices(range(table.num_rows + 1), k=count - 1)), table.num_rows]
        for part, low, high in zip(parts, cuts[:-1], cuts[1:], strict=True):
            part[name] = table.slice(low, high - low)
    return parts


def with_letters(here: HereRunner, folder: Path) -> HereRunner:
    streams = tuple(
        replace(stream, dead_letter=str(folder / stream.name)) for stream in here.dataflow.streams
    )
    here.dataflow = replace(here.dataflow, streams=streams)
    here._streams = streams
    return here


def deliver(here: HereRunner) -> None:
    manifest = here.repository.current()
    streams, number = here.dataflow.streams, manifest.properties.get("delivery", 0)
    deliver_dead_letters(here.repository, streams, manifest, number)


def letters(folder: Path) -> list[tuple[object, ...]]:
    if not folder.exists():
        return []
    table = pq.read_table(folder)
    assert set(table["reason"].to_pylist()) <= {"its key was closed"}
    columns = table.drop_columns(["reason"]).columns
    return rows_of(list(zip(*(column.to_pylist() for column in columns), strict=True)))


def alive(answer: pa.Table, instant: int) -> list[tuple[object, ...]]:
    ts, exp = answer["ts"].to_pylist(), answer["exp"].to_pylist()
    columns = answer.drop_columns(["ts", "exp"]).columns
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return rows_of([row for row, t, e in zip(rows, ts, exp, strict=True) if t <= instant < e])
