"""A pipeline without Spark that grows, is vacuumed, killed and migrated, and readers beside it.

``python -m tests.faults.reader_clients pipeline FOLDER SEED`` runs until it is killed, and goes on
where a former one stopped; ``… reader FOLDER SEED SECONDS`` asks so long and prints what it saw.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import mayfly
from mayfly.errors import NotClosed, VersionExpired
from mayfly.faults import on_reach
from mayfly.physical.shared_program import shared
from mayfly.runtime.answer import QueryAnswer
from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.spark.stream.query_migration import QueryMigration
from mayfly.storage import Repository, vacuum
from tests.faults.processes import exit_code
from tests.property.shared_runs import HereRunner, program_of, runner_of
from tests.unit.serving.stored_pipelines import (
    CATALOG,
    QUERIES,
    SECOND,
    clicks,
    expected,
    people,
    pipeline,
    table_of,
    tuples,
)

STEP = 5
"""Seconds of event time in a batch."""
PAUSE = 0.05
"""Seconds between two questions of a client, so that the pipeline gets its share of the machine."""
POINTS = ("segment.closed", "task.done", "commit.published")


class Killed(Exception):
    """Stands for the end of the process."""


def resume(folder: Path) -> HereRunner:
    """The runner of a checkpoint, which may be new, with a short history."""
    if Repository.exists(folder):
        buckets = Repository.open(folder, sync=False).current().properties["buckets"]
        runner = runner_of(folder, CATALOG, QUERIES, buckets)
        runner.relations = {"people": people()}
    else:
        runner = pipeline(folder)
    runner.settings = replace(runner.settings, history=40 * SECOND)
    return runner


def next_second(runner: HereRunner) -> int:
    largest = runner.repository.current().properties["clocks"]["largest"].get("clicks")
    return 0 if largest is None else largest // SECOND + 1


def migrate(runner: HereRunner, buckets: int) -> None:
    program = shared({name: program_of(cql, CATALOG) for name, cql in QUERIES.items()}, {})
    described = runner.repository.current().properties["queries"]
    QueryMigration(runner.repository, program, program, buckets, described).carry_out()


def steps(folder: Path, rng: Random) -> Iterator[str]:
    """What happens to a pipeline, one thing after the other, for ever."""
    runner = resume(folder)
    while True:
        what = rng.choices(("batch", "vacuum", "kill", "migrate"), (12, 3, 2, 1))[0]
        first = next_second(runner)
        batch = {"clicks": table_of(clicks(first, first + STEP))}
        if what == "batch":
            runner.feed(batch, {})
        elif what == "vacuum":
            vacuum(runner.repository, keep_versions=1, grace=0)
        elif what == "kill":
            try:
                with on_reach(rng.choice(POINTS), _die):
                    runner.feed(batch, {})
            except Killed:
                runner = resume(folder)
        else:
            migrate(runner, rng.choice((1, 2, 3)))
            runner = resume(folder)
        yield what


def _die() -> None:
    raise Killed


def ask(reader: PipelineReader, rng: Random) -> tuple[QueryAnswer, list[tuple[Any, ...]]]:
    """An answer, and what it must be."""
    name = rng.choice(("recent", "totals", "towns"))
    way = rng.randrange(4)
    user = rng.choice(("ann", "bob", "eve"))
    columns = ", ".join(column.name for column in reader.views[name].columns)
    if way == 0:
        answer = reader.view(name)
    elif way == 1:
        answer = reader.view(name, where={"user": user})
    elif way == 2:
        answer = reader.query(f"SELECT {columns} FROM {name} WHERE user = '{user}'")
    else:
        answer = reader.query(
            f"SELECT a.n, b.n AS m FROM (SELECT COUNT(*) AS n FROM {name}) a, "
            f"(SELECT COUNT(*) AS n FROM {name}) b"
        )
    whole = expected(name, answer.as_of // SECOND)
    if way == 3:
        return answer, [(len(whole), len(whole))]
    return answer, whole if way == 0 else [row for row in whole if row[0] == user]


def observe(reader: PipelineReader, rng: Random, seen: Counter[str]) -> PipelineReader:
    """Ask the newest version something and compare; the reader that was asked."""
    before = reader.version
    try:
        reader = reader.latest()
        answer, rows = ask(reader, rng)
    except VersionExpired:  # it was vacuumed away while it was read
        seen["expired"] += 1
        return reader
    except NotClosed:
        seen["nothing yet"] += 1
        return reader
    assert answer.version >= before, (answer.version, before)
    assert tuples(answer.rows) == sorted(rows, key=str), (answer, rows)
    assert not answer.partial
    seen["answers"] += 1
    seen["versions"] += answer.version > before
    return reader


def run_pipeline(folder: str, seed: str) -> None:
    for _ in steps(Path(folder), Random(seed)):
        time.sleep(0.01)


def run_reader(folder: str, seed: str, seconds: str) -> None:
    rng, seen = Random(seed), Counter[str]()
    end = time.monotonic() + float(seconds)
    reader = mayfly.open(folder)
    while time.monotonic() < end:
        reader = observe(reader, rng, seen)
        time.sleep(PAUSE)
    print(json.dumps(seen))


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    roles: dict[str, Callable[..., None]] = {"pipeline": run_pipeline, "reader": run_reader}
    sys.exit(exit_code(roles[role], *arguments))
