"""One batch, one commit: what happens when a batch is cut short, repeated, doubled or robbed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from mayfly.errors import CommitConflict, InvalidSetting, MayflyError, ProtocolError
from mayfly.faults import on_reach
from mayfly.spark.api.session import Session
from mayfly.spark.stream.dataflow import Dataflow
from mayfly.spark.stream.receipts import Receipt, accept
from mayfly.spark.stream.stage_tasks import StageStep
from mayfly.storage.segment import DATA
from mayfly.testing import ManualClock, assert_same_rows
from tests.faults.by_hand import DriverByHand, PowerCut
from tests.faults.recorded_links import Undisturbed, assert_ended_right, start_links

Tasks = Sequence[StageStep]
Due = Sequence[Sequence[int]]


@pytest.fixture
def driver(spark: SparkSession, short: Undisturbed, tmp_path: Path) -> DriverByHand:
    return DriverByHand(spark, short, tmp_path)


def cut_power() -> None:
    raise PowerCut


BEFORE_THE_COMMIT = (
    "batch.clock-recorded",
    "batch.receipts",
    "commit.checked",
    "link.before",
)
AT_THE_COMMIT = ("link.after", "commit.published", "batch.committed")
IN_DELIVERY = ("dead-letters.delivered", "sink.written", "sink.delivered", "batch.delivered")


def test_a_batch_cut_short_at_any_point_is_completed_by_the_next_driver(
    driver: DriverByHand,
) -> None:
    """A batch may be cut short many times before its commit, and again while it is delivered."""

    def cut(point: str, what: Callable[[], object]) -> DriverByHand:
        with on_reach(point, cut_power), pytest.raises(PowerCut):
            what()
        return driver.restarted()

    for batch, commit in enumerate(AT_THE_COMMIT):
        before = BEFORE_THE_COMMIT if batch == 1 else ()
        after = IN_DELIVERY if batch == 2 else ()
        for point in (*before, commit, *after):
            driver = cut(point, partial(driver.process, batch))
        driver.process(batch)
    for batch in range(len(AT_THE_COMMIT), driver.undisturbed.batches):
        driver.process(batch)
    for point in ("batch.receipts", "batch.committed", "sink.delivered"):
        driver = cut(point, driver.runner.close_input)
    driver.finish_right(driver.undisturbed.batches)


def test_a_batch_keeps_the_clock_it_was_given(
    spark: SparkSession, short: Undisturbed, tmp_path: Path
) -> None:
    """Written ahead: what falls into a batch must not depend on when it is run again."""
    wall = ManualClock(1_000_000)
    driver = DriverByHand(spark, short, tmp_path, wall)
    with on_reach("batch.receipts", cut_power), pytest.raises(PowerCut):
        driver.process(0)
    wall.advance("1 min")
    driver = driver.restarted()
    driver.process(0)
    assert driver.handle().status().clock == 1_000_000
    driver.process(1)
    assert driver.handle().status().clock == 61_000_000


def test_the_end_of_input_is_told_before_anything_that_comes_later(driver: DriverByHand) -> None:
    """Killed right after closing the input, and then there is more of it after all."""
    last = driver.undisturbed.batches - 1
    for batch in range(last):
        driver.process(batch)
    with on_reach("batch.committed", cut_power), pytest.raises(PowerCut):
        driver.runner.close_input()
    closing = driver.delivery()
    driver = driver.restarted()
    driver.process(last)
    told, rows = driver.sink.deliveries[0]
    assert (told, rows.num_rows) == (closing.batch_id, closing.rows)
    assert rows.num_rows > 0
    assert driver.version == told + 1


def test_a_committed_batch_is_delivered_again_but_not_computed_again(
    driver: DriverByHand,
) -> None:
    driver.process(0)
    driver.process(1)
    version, files = driver.version, driver.runner.repository.directory.all_names(DATA)
    next_driver = driver.restarted()
    next_driver.process(1)
    assert next_driver.version == version
    assert driver.runner.repository.directory.all_names(DATA) == files
    (first, rows), (again, rows_again) = driver.sink.deliveries[-1], next_driver.sink.deliveries[0]
    assert len(next_driver.sink.deliveries) == 1
    assert first == again
    assert rows.num_rows > 0
    assert_same_rows(rows_again, rows)


def test_spark_loses_the_record_of_its_last_batch(
    spark: SparkSession, tmp_path: Path, short: Undisturbed
) -> None:
    """The same through Structured Streaming: without its commit log entry the batch comes again."""
    shutil.copytree(short.world, tmp_path, dirs_exist_ok=True)
    commits, last = tmp_path / "checkpoint" / "spark" / "commits", str(short.batches - 1)
    (commits / last).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    run = start_links(Session(spark), short.input, tmp_path)
    run.await_done()
    assert (commits / last).exists(), "the batch came again"
    assert_ended_right(run, tmp_path, short)


class UsedTwice(Dataflow):
    """One action too many on the DataFrame of receipts."""

    def receipts(self, parcels: DataFrame, tasks: Tasks, due: Due) -> DataFrame:
        frame = Dataflow.receipts(self, parcels, tasks, due)
        frame.collect()
        return frame


class LostReceipt(Dataflow):
    def receipts(self, parcels: DataFrame, tasks: Tasks, due: Due) -> DataFrame:
        frame = Dataflow.receipts(self, parcels, tasks, due)
        return frame.where(f"get_json_object(string(_data), '$.bucket') != '{due[0][-1]}'")


class RobbedBucket(Dataflow):
    """A bucket steps, but its rows got lost on the way."""

    def receipts(self, parcels: DataFrame, tasks: Tasks, due: Due) -> DataFrame:
        left = parcels.where(f"_bucket != {due[0][-1]} OR _edge NOT LIKE 'feed/%'")
        return Dataflow.receipts(self, left, tasks, due)


class MixedUpBuckets(Dataflow):
    """What comes to a task belongs to another one."""

    def receipts(self, parcels: DataFrame, tasks: Tasks, due: Due) -> DataFrame:
        others = parcels.repartitionById(self.buckets, sql.expr("1 - _bucket"))
        return Dataflow.receipts(self, others, tasks, due)


@pytest.mark.slow
def test_a_frame_of_receipts_used_twice_leaves_files_but_changes_nothing(
    driver: DriverByHand,
) -> None:
    directory = driver.runner.repository.directory
    driver.process(0)
    once = len(directory.all_names(DATA))
    driver.rewire(UsedTwice)
    driver.process(1)
    named = len(driver.runner.repository.current().segments)
    assert len(directory.all_names(DATA)) > max(once, named), "the second action wrote files too"
    driver.restarted().finish_right(2)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (LostReceipt, r"receipts missing for .* \[\(0, 1\)\]"),
        pytest.param(
            RobbedBucket,
            r"tasks were sent 60 rows of stream a in this batch, and got \d+",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            MixedUpBuckets,
            r"rows of other buckets came to the task of bucket",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_batch_that_lost_something_is_stopped(
    driver: DriverByHand, fault: type[Dataflow], message: str
) -> None:
    driver.process(0)
    version, delivered = driver.version, len(driver.sink.deliveries)
    driver.rewire(fault)
    with pytest.raises((ProtocolError, PythonException), match=message):
        driver.process(1)
    assert driver.version == version
    assert len(driver.sink.deliveries) == delivered
    driver.restarted().finish_right(1)


def test_of_two_drivers_one_commits_and_the_other_is_told(driver: DriverByHand) -> None:
    driver.process(0)
    rival = driver.restarted()
    with (
        on_reach("batch.receipts", _once(lambda: rival.process(1))),
        pytest.raises(CommitConflict, match="another writer committed version 2"),
    ):
        driver.process(1)
    driver.process(1)
    ids = [batch for batch, _ in driver.sink.deliveries]
    assert ids == [1, 2], "the loser finds the batch committed and only delivers it"
    rival.finish_right(2)


def _once(action: Callable[[], object]) -> Callable[[], None]:
    """Run an action the first time only, also when it comes by here itself."""
    left = [action]

    def run() -> None:
        if left:
            left.pop()()

    return run


@dataclass(frozen=True)
class Handed:
    """Receipts a test makes up."""

    changes: int = 1
    state_rows: int = 1

    def at(self, stage: int, bucket: int) -> Receipt:
        return Receipt(stage, bucket, changes=self.changes, state_rows=self.state_rows)


def test_receipts_are_taken_once_per_stage_and_bucket() -> None:
    due = [(0, 0), (0, 1), (1, 0), (1, 1)]
    one = Handed()
    complete = [one.at(*place) for place in due]
    assert accept([*complete, one.at(0, 1)], due) == complete
    with pytest.raises(ProtocolError, match=r"missing for \(stage, bucket\) \[\(1, 1\)\]"):
        accept(complete[:-1], due)
    with pytest.raises(ProtocolError, match=r"unexpected for \[\(1, 2\)\]"):
        accept([*complete, one.at(1, 2)], due)
    with pytest.raises(ProtocolError, match="disagree"):
        accept([*complete, Handed(changes=2).at(0, 1)], due)
    with pytest.raises(InvalidSetting, match="no good"):
        accept([*complete, Receipt.failure(0, 0, InvalidSetting("no good"))], due)


def test_a_batch_that_spark_committed_and_the_checkpoint_does_not_hold_is_not_passed_over(
    driver: DriverByHand,
) -> None:
    driver.process(0)
    with pytest.raises(ProtocolError, match="batch 1 is missing"):
        driver.process(2)
    assert driver.version == 1


def test_a_checkpoint_that_lost_sparks_part_is_refused(
    spark: SparkSession, tmp_path: Path, short: Undisturbed
) -> None:
    shutil.copytree(short.world, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "checkpoint" / "spark")
    with pytest.raises(MayflyError, match="has lost its folder spark"):
        start_links(Session(spark), short.input, tmp_path)
