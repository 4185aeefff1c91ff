"""The closing check: what was delivered against an undisturbed computation over the same rows.

The other side is DuckDB, an engine that shares no code with Mayfly, or where it is not installed
the in-process runner, fed everything at once. Both get the connections that were not late; the
late ones are those in the dead-letter files.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mayfly.demo.demo_settings import KEY, LINKS, RESULT, SLACK, WINDOW, Places
from mayfly.demo.traffic import Traffic
from mayfly.testing.oracle import Windowed, WindowJoinOracle
from mayfly.testing.row_comparison import RowDifference, row_difference


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """Whether the delivered results are the right ones, and who says so."""

    judge: str
    results: int
    late: int
    wrongly_late: int
    """Rows set aside although they came within the slack."""
    difference: RowDifference

    @property
    def identical(self) -> bool:
        return not self.difference and not self.wrongly_late

    def complaint(self) -> str:
        """What is wrong, for the reader of a failed demo."""
        said = []
        if self.wrongly_late:
            said.append(f"{self.wrongly_late} rows were called late although they were not")
        if self.difference:
            said.append(str(self.difference))
        return "\n".join(said)


def judge(traffic: Traffic, origin: int, places: Places) -> DemoVerdict:
    """Compare every result ever delivered, with its lifetime, to what it should be."""
    accepted, late, wrongly_late = {}, 0, 0
    for link, rows in traffic.beginning_at(origin).items():
        refused = _stored(places.late(link))
        ids = pa.array([], pa.int64()) if refused is None else refused["id"].combine_chunks()
        late += len(ids)
        wrongly_late += len(_others(ids, traffic.stragglers(link)))
        accepted[link] = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=ids)))
    independent = importlib.util.find_spec("duckdb") is not None
    expected = by_duckdb(accepted) if independent else in_process(accepted)
    results = _stored(places.results)
    delivered = expected.slice(0, 0) if results is None else results
    return DemoVerdict(
        "DuckDB" if independent else "the in-process runner",
        delivered.num_rows,
        late,
        wrongly_late,
        row_difference(delivered, expected),
    )


def by_duckdb(rows: Mapping[str, pa.Table]) -> pa.Table:
    windows = {link: Windowed(rows[link], WINDOW) for link in LINKS}
    return WindowJoinOracle(windows, [KEY], select=RESULT).lifetimes()


def in_process(rows: Mapping[str, pa.Table]) -> pa.Table:
    from mayfly.plan.stream_joins import Stream
    from mayfly.runtime.local_session import LocalSession

    session = LocalSession()
    for link in LINKS:
        session.stream(link, rows[link].schema, slack=SLACK)
    first, second = (Stream(link, rows[link].schema).window(WINDOW) for link in LINKS)
    run = session.query(first.join(second, KEY, select=RESULT).text())
    run.feed(rows)
    run.finish()
    return run.lifetimes()


def _stored(folder: Path) -> pa.Table | None:
    files = sorted(folder.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


def _others(ids: pa.Array, exclusions: pa.Array) -> pa.Array:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=exclusions)))
