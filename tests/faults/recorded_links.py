"""The join that gets killed: two links with disorder, late rows, NULL keys and missing times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.session import Session
from mayfly.spark.api.streams import SparkQuery
from mayfly.testing import (
    ColumnSpec,
    JoinCase,
    StreamSpec,
    WindowJoinOracle,
    assert_same_rows,
    cut_by_rows,
    generate,
    multiset,
    together,
)
from tests.integration.recorded import assert_nothing_orphaned, assert_right, declare, record

WINDOWS = {"a": 300_000, "b": 500_000}
SLACK = 20_000
ROWS_PER_FILE = 60
TIMELESS = 2
"""Rows without a time in each file."""


@dataclass(frozen=True)
class RecordedLinks:
    """The input of a run, on disk in ``input``, and what must come of it.

    A *world* is a folder with everything a run makes: checkpoint, sink files and dead letters.
    """

    input: Path
    case: JoinCase

    @staticmethod
    def record(input: Path, batches: int, late: float = 0.04) -> RecordedLinks:
        streams = {
            name: cut_by_rows(_rows(batches, number, late), ROWS_PER_FILE)
            for number, name in enumerate(WINDOWS)
        }
        case = JoinCase(together(streams), WINDOWS, ("k",), SLACK)
        record(
            input,
            [{n: _with_timeless(rows) for n, rows in batch.items()} for batch in case.batches],
        )
        return RecordedLinks(input, case)

    def oracle(self) -> WindowJoinOracle:
        return self.case.oracle()


@dataclass(frozen=True)
class Undisturbed:
    """A run that nobody disturbed: all others over its input must come to the same."""

    links: RecordedLinks
    world: Path

    @property
    def input(self) -> Path:
        return self.links.input

    @property
    def batches(self) -> int:
        return len(self.links.case.batches)


def _rows(batches: int, seed: int, late: float) -> pa.Table:
    return generate(
        StreamSpec(
            rows=batches * ROWS_PER_FILE,
            rate=1_000,
            keys=(ColumnSpec("k", "string", distinct=40, zipf=0.7, nulls=0.05),),
            payload=(ColumnSpec("v", distinct=50),),
            ties=0.2,
            slack=f"{SLACK} us",
            disorder=0.5,
            late=late,
            late_by="400 ms",
            ts_type="int64",
            seed=seed,
        )
    )


def _with_timeless(rows: pa.Table) -> pa.Table:
    lost = rows.slice(0, TIMELESS)
    at = rows.schema.get_field_index("ts")
    return pa.concat_tables([rows, lost.set_column(at, "ts", pa.nulls(lost.num_rows, pa.int64()))])


def links_query(session: Session, input: Path, world: Path, idle: int | None = None) -> SparkQuery:
    """The query over the recorded input, with dead letters in the world."""
    schema = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.int64(), "seq": pa.int64()})
    links = declare(
        session,
        input,
        dict.fromkeys(WINDOWS, schema),
        slack=f"{SLACK} us",
        idle=idle,
        null_time="dead_letter",
        dead_letter=world / "dead",
    )
    a, b = (links[name].window(f"{length} us") for name, length in WINDOWS.items())
    return a.join(b, "k")


def start_links(session: Session, input: Path, world: Path) -> QueryRun:
    """Start or continue the run of this world."""
    return links_query(session, input, world).start(
        world / "checkpoint",
        available_now=True,
        parquet=world / "out",
        history="forever",
        sync=False,
    )


def contents(folder: Path) -> dict[str, object]:
    """What a directory of Parquet files holds: file name → multiset of its rows."""
    tables = {path.name: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    return {name: multiset(table, table.column_names) for name, table in tables.items()}


def assert_ended_right(run: QueryRun, world: Path, undisturbed: Undisturbed) -> None:
    """Log, snapshots, files and figures as defined, and as without any disturbance."""
    assert_results_right(run, world, undisturbed)
    for folder in ("out", "dead"):
        assert contents(world / folder) == contents(undisturbed.world / folder)
    files = len(undisturbed.links.case.batches)
    status = run.status()
    assert status.batch == files - 1
    assert status.version == files + 1, "one commit per batch and one for the end of input"


def assert_results_right(run: QueryRun, world: Path, undisturbed: Undisturbed) -> None:
    """The same, whatever micro-batches the input was cut into."""
    links = undisturbed.links
    assert_right(run, links.oracle())
    for folder in ("out", "dead"):
        found, expected = (pq.read_table(one / folder) for one in (world, undisturbed.world))
        assert_same_rows(found, expected, f"the files in {folder}")
    assert_same_rows(pq.read_table(world / "out"), links.oracle().lifetimes(), "sink files")
    _assert_dead_letters(links, world)
    _assert_totals(run, links)
    assert_nothing_orphaned(run)


def _assert_dead_letters(links: RecordedLinks, world: Path) -> None:
    for name in WINDOWS:
        files = sorted((world / "dead").glob(f"{name}-*.parquet"))
        found = pa.concat_tables(map(pq.read_table, files))
        late = links.case.late[name]
        timeless = [_with_timeless(b[name]).slice(b[name].num_rows) for b in links.case.batches]
        expected = pa.concat_tables(
            [
                late.append_column("reason", pa.array(["late"] * late.num_rows, pa.string())),
                *(t.append_column("reason", pa.array(["no time"] * len(t))) for t in timeless),
            ]
        )
        assert_same_rows(found, expected, f"dead letters of {name}")


def _assert_totals(run: QueryRun, links: RecordedLinks) -> None:
    status, case = run.status(), links.case
    files = len(case.batches)
    assert status.late == {name: rows.num_rows for name, rows in case.late.items()}
    assert status.timeless == dict.fromkeys(WINDOWS, files * TIMELESS)
    assert status.rows == dict.fromkeys(WINDOWS, files * (ROWS_PER_FILE + TIMELESS))
    assert status.null_keys == {name: rows["k"].null_count for name, rows in case.accepted.items()}
    assert status.changes == links.oracle().lifetimes().num_rows
