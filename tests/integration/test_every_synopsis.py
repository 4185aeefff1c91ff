"""``mayfly run`` of one file with 240 periodic queries of every kind over two streams, restarted in
the middle: answers against DuckDB, what EXPLAIN SHARING says, and how much is kept."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from mayfly.cli.app import command_line
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.runtime.local_session import LocalSession
from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.serving.pipeline_status import read_status, state_and_results
from mayfly.storage import Segment
from tests.integration.periodic_questions import (
    DECLARED,
    LAST,
    SCHEMA,
    SLACK,
    Batch,
    Question,
    admitted,
    database,
    ordered,
    questions,
    random_batches,
)
from tests.integration.recorded import record
from tests.integration.test_run_command import MAYFLY

FILE_BYTES, ROW_BYTES, SKETCH_BYTES = 3_000, 64, 16_500
"""What a file of state takes without rows, a row of it, and one with two of Count-Min."""
EXPLAINED = (
    "First and last row of each", "Last row of each", "from an exponential histogram",
    "from one decayed sum a group", "from HLL of", "from KLL of", "from Count-Min of",
    "from frequent items", "values of", "MOMENTS(", "joined once for 24 queries",
    "panes of rows 2", "cut every 50 rows",
)  # fmt: skip
KEPT = {"panes", "groups", "held", "kept", "members", "alive", "waiting", "left", "right"}
"""What states are of: panes and totals, values with their times (kept, members), finished windows
until they are over (alive), panes of rows (held), rows that are not closed yet, and those of joins.
"""


def tables(batch: Batch) -> dict[str, pa.Table]:
    return {name: pa.Table.from_pylist(rows, schema=SCHEMA) for name, rows in batch.items()}


def disagreeing(
    asked: dict[str, Question], changes: dict[str, pa.Table], rows: Batch, instants: list[int]
) -> list[str]:
    """Queries whose answers differ from those of DuckDB, with the first instant."""
    theirs, names = database(rows), list[str]()
    for name, question in asked.items():
        for at in instants:
            ours = ordered(shown(changes[name], at))
            if not question.agrees(ours, theirs.execute(question.sql(at)).fetchall()):
                names.append(f"{name} at {at}: {question.cql}")
                break
    return names


def shown(table: pa.Table, at: int) -> list[tuple[object, ...]]:
    ts, exp = (
        pc.fill_null(table[name].cast(pa.int64()), endless)
        for name, endless in (("ts", MIN_TIME), ("exp", NEVER))
    )
    alive = table.filter(pc.and_(pc.less_equal(ts, at), pc.greater(exp, at)))
    columns = [name for name in table.schema.names if name not in ("ts", "exp")]
    return [tuple(row.values()) for row in alive.select(columns).to_pylist()]


def run(folder: Path, *more: str) -> None:
    done = subprocess.run(
        [MAYFLY, "run", "pipeline.cql", "--quiet", "--history", "forever", "--buckets", "2",
         "--master", "local[2]", *more],
        cwd=folder, capture_output=True, text=True, timeout=1_800, env=os.environ.copy(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def explained(folder: Path, *more: str) -> str:
    file = str(folder / "pipeline.cql")
    done = CliRunner().invoke(command_line(["explain"]), ["explain", file, *more])
    assert done.exit_code == 0, done.output
    return done.output


def rows_in_windows(asked: dict[str, Question], rows: Batch, at: int) -> int:
    """What the queries would keep if each had the rows in its window that it selects."""
    theirs = database(rows)
    counts = (question.kept(at) for question in asked.values() if question.kept)
    return sum(theirs.execute(sql).fetchall()[0][0] for sql in counts)


def check_state(reader: PipelineReader, asked: dict[str, Question], rows: Batch) -> None:
    """Panes, totals and values instead of rows."""
    state = state_and_results(reader.manifest)[0]
    kept, states = Counter[str](), Counter[str]()
    for segment in state:
        kind = segment.group.rsplit("/", 1)[1]
        kept[kind] += segment.rows
        states[kind] += 1
    assert set(kept) <= KEPT, kept
    assert states["left"] <= reader.manifest.properties["buckets"], "one join for all"
    came = {name: sorted(row["ts"] for row in some) for name, some in rows.items()}
    at = reader.last_instant()
    longest = [sum(at - 40 - SLACK < ts for ts in came[name]) for name in "st"]
    assert kept["left"] <= longest[0]
    assert kept["right"] <= longest[1]
    status, sketched = read_status(reader.checkpoint), sum(map(_sketched, state))
    assert 0 < status.state_rows == sum(kept.values())
    assert status.state_rows * 5 < rows_in_windows(asked, rows, at), "panes have many rows each"
    assert 0 < sketched < 300, "one a group and pane"
    files = len(state) * FILE_BYTES
    assert status.state_bytes < files + status.state_rows * ROW_BYTES + sketched * SKETCH_BYTES
    not_closed = {name: sum(ts > at for ts in times) for name, times in came.items()}
    waiting = [segment.rows for segment in state if segment.group.endswith("/waiting")]
    assert max(waiting) <= max(not_closed.values())


def _sketched(segment: Segment) -> int:
    """Its rows, where these have Count-Min."""
    return segment.rows if segment.bytes > 8_000 * segment.rows else 0


def check_sharing(folder: Path, asked: dict[str, Question]) -> None:
    """Every rule by its name, and that nothing but values that age and DISTINCT has no panes."""
    sharing, plans = explained(folder, "--sharing"), explained(folder)
    rules = dict[str, set[str]]()
    for name, listed in re.findall(
        r"^    (q\d+)  ((?:first|[SC]S\d)(?:, [SC]S\d)*)", sharing, re.M
    ):
        rules.setdefault(name, set()).update(listed.split(", "))
    used = {rule for some in rules.values() for rule in some}
    assert used >= {"SS1", "SS3", "SS4", "CS1", "CS2", "CS4", "CS5", "CS6", "CS7", "CS8"}
    apart = dict(re.findall(r"^    (q\d+): (.*)", sharing, re.M))
    assert {asked[name].kind for name in apart} == {"decay", "histograms", "distinct"}
    assert "rows and no panes" not in plans
    assert {asked[n].kind for n, some in rules.items() if "SS4" in some} == {"covers"}
    assert sharing.count("panes of rows ") >= 8
    for words in EXPLAINED:
        assert words in plans + sharing, words


def write_pipeline(folder: Path, asked: dict[str, Question], batches: list[Batch]) -> Path:
    text = "".join(f"CREATE QUERY {name} AS\n  {one.cql};\n" for name, one in asked.items())
    file = folder / "pipeline.cql"
    file.write_text(DECLARED + text)
    record(folder, [tables(batch) for batch in batches])
    return file


def test_a_few_queries_of_every_kind_in_this_process() -> None:
    rng = Random(3)
    asked, batches = questions(rng, 16), random_batches(rng, 2, 800)
    assert len({one.kind for one in asked.values()}) > 10
    session = LocalSession()
    for statement in DECLARED.split(";\n")[:-1]:
        session.execute(statement)
    changes = {}
    for name, question in asked.items():
        query = session.query(question.cql, buckets=2)
        for batch in batches:
            read = query.clocks.streams
            query.feed({stream: rows for stream, rows in tables(batch).items() if stream in read})
        query.finish()
        changes[name] = query.lifetimes()
    rows, instants = admitted(batches), [60, 210, LAST - 12]
    assert not disagreeing(asked, changes, rows, instants)
    fewer = {name: some[::2] for name, some in rows.items()}
    assert len(disagreeing(asked, changes, fewer, instants)) > 0.9 * len(asked)


@pytest.mark.slow
def test_240_queries_of_every_kind_in_one_file(tmp_path: Path) -> None:
    rng = Random(20)
    asked, batches = questions(rng), random_batches(rng, 4, 3_000)
    assert len(asked) == 240
    write_pipeline(tmp_path, asked, batches)
    run(tmp_path, "--until", f"1970-01-01 00:00:00.{LAST * 2 // 5:06d}")
    middle = PipelineReader.open(tmp_path / "pipeline.state")
    assert middle.last_instant() < LAST - 20, "there is nothing left to do"
    rows = admitted(batches)
    assert len(rows["s"]) < sum(len(batch["s"]) for batch in batches), "none is late"
    check_state(middle, asked, rows)
    check_sharing(tmp_path, asked)
    run(tmp_path, "--once")
    reader = PipelineReader.open(tmp_path / "pipeline.state")
    changes = {name: reader.changes(name) for name in asked}
    instants = [*range(40, LAST - 1, 71), reader.last_instant()]
    assert not disagreeing(asked, changes, rows, instants)
    assert all(table.num_rows for table in changes.values())
