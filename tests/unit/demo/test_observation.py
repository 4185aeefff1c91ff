"""Commits are made by hand here, so that every figure is known."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.checkpoint.clock_record import CLOCKS
from mayfly.demo.demo_settings import LINKS
from mayfly.demo.observation import Observer
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.clock import Clocks
from mayfly.spark.stream.checkpoint_properties import empty_properties
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    DropSegments,
    Repository,
    Segment,
    SetProperties,
    write_segment,
)

Lifetimes = list[tuple[int, int]]


class Checkpoint:
    """A checkpoint as a driver would leave it, one commit at a time."""

    def __init__(self, root: Path) -> None:
        schema = pa.schema([("ts", pa.int64()), ("src", pa.string())])
        first, second = (Stream(link, schema).window(5) for link in LINKS)
        self.properties = empty_properties(first.join(second, "src").streams(), {}, 1)
        self.repository = Repository.create(root, self.properties)

    def commit(
        self, batch: int, clock: int, rows: int, results: Lifetimes, state_rows: int = 1
    ) -> None:
        base, totals = self.repository.current(), self.properties["totals"]
        totals["changes"] += len(results)
        totals["rows"] = dict.fromkeys(LINKS, rows)
        totals["late"] = {"link1": batch}
        clocks = Clocks(dict.fromkeys(LINKS, clock), dict.fromkeys(LINKS, clock))
        state = [(clock, clock + 5)] * state_rows
        self.repository.commit(
            base,
            [
                DropSegments(tuple(segment.path for segment in base.in_group("state/task"))),
                AddSegments((self._segment("state/task/join/0/left", state),)),
                AddSegments((self._segment("state/log/query/0/kept", results),) if results else ()),
                SetProperties({"batch": batch, "clocks": clocks.to_json(), "totals": totals}),
            ],
        )

    def _segment(self, group: str, lifetimes: Lifetimes) -> Segment:
        ts, exp = zip(*lifetimes, strict=True)
        table = pa.table({TS: pa.array(ts, pa.int64()), EXP: pa.array(exp, pa.int64())})
        segment = write_segment(self.repository.directory, group, table)
        assert segment is not None
        return segment


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def test_nothing_is_known_before_there_is_a_checkpoint(tmp_path: Path) -> None:
    observer = Observer(tmp_path / "none")
    assert observer.look() is None
    assert observer.running_batch() is None


def test_only_new_versions_are_reported(tmp_path: Path, checkpoint: Checkpoint) -> None:
    observer = Observer(tmp_path / "checkpoint")
    assert observer.look() is None
    checkpoint.commit(0, 10, 5, [])
    assert observer.look() is not None
    assert observer.look() is None
    assert observer.version == 1


def test_expired_is_what_was_there_or_came_and_is_no_more(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    checkpoint.commit(0, 10, 5, [(1, 6), (7, 12), (9, 11)])
    first = observer.look()
    assert first is not None
    assert (first.alive, first.new, first.expired) == (2, 3, 1)
    checkpoint.commit(1, 13, 8, [(10, 14), (11, 12)])
    second = observer.look()
    assert second is not None
    assert (second.alive, second.new, second.expired) == (1, 2, 3)
    assert (second.results, second.rows, second.late) == (5, 16, 1)


def test_a_result_is_gone_at_the_instant_of_its_expiration(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    # The last closed instant is 9: [1, 9) is over, [1, 10) is not.
    checkpoint.commit(0, 10, 5, [(1, 9), (1, 10), (9, 11)])
    figures = observer.look()
    assert figures is not None
    assert figures.alive == 2


def test_state_is_counted_without_the_change_log(tmp_path: Path, checkpoint: Checkpoint) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    checkpoint.commit(0, 10, 5, [(1, 6), (7, 12)], state_rows=3)
    figures = observer.look()
    assert figures is not None
    assert (figures.state_rows, figures.segments) == (3, 1)
    assert figures.state_bytes > 0


def test_the_commit_that_closes_the_input_is_no_batch(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    checkpoint.commit(0, 10, 5, [])
    batch = observer.look()
    checkpoint.commit(0, 11, 5, [])
    closing = observer.look()
    assert batch is not None
    assert closing is not None
    assert not batch.closing
    assert closing.closing


def test_a_batch_runs_from_its_recorded_clock_to_its_commit(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    assert observer.running_batch() is None
    directory = checkpoint.repository.directory
    directory.put_if_absent(f"{CLOCKS}/{0:020d}.json", b"{}")
    assert observer.running_batch() == 0
    checkpoint.commit(0, 10, 5, [])
    assert observer.running_batch() is None


def test_rates_are_averages_over_the_last_seconds(tmp_path: Path, checkpoint: Checkpoint) -> None:
    observer = Observer(tmp_path / "checkpoint")
    observer.look()
    for batch in range(3):
        checkpoint.commit(batch, 10 + batch, 50 * (batch + 1), [(1, 20)] * 7)
        figures = observer.look()
    assert figures is not None
    span = (observer.seen[-1].committed_at - observer.seen[0].committed_at) / 1e6
    assert figures.rows_per_second == pytest.approx(300 / span)
    assert figures.results_per_second == pytest.approx(21 / span)


def test_no_pin_is_left_behind(tmp_path: Path, checkpoint: Checkpoint) -> None:
    observer = Observer(tmp_path / "checkpoint")
    checkpoint.commit(0, 10, 5, [(1, 20)])
    observer.look()
    assert checkpoint.repository.pins() == {}
