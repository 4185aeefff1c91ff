"""One batch, one commit: what happens when a batch is cut short, repeated, doubled or robbed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from mayfly.errors import CommitConflict, InvalidSetting, MayflyError, ProtocolError
from mayfly.faults import on_reach
from mayfly.session import Session
from mayfly.spark.exchange import Wiring
from mayfly.spark.receipts import Receipt, accept
from mayfly.spark.run import Run
from mayfly.spark.tasks import RECEIPT, StageTask
from mayfly.storage.segment import DATA
from mayfly.testing import assert_same_rows
from tests.faults.by_hand import DriverByHand, PowerCut
from tests.faults.recorded_links import (
    BATCHES,
    RecordedLinks,
    assert_ended_right,
    start_links,
)
from tests.faults.test_streaming_kills import DRIVER_POINTS


@pytest.fixture
def driver(spark: SparkSession, links: RecordedLinks, tmp_path: Path) -> DriverByHand:
    return DriverByHand(spark, links, tmp_path)


def assert_all_right(run: Run, driver: DriverByHand, undisturbed: Path) -> None:
    assert_ended_right(run, driver.links, driver.world, undisturbed)


def cut_power(times: int = 1) -> Callable[[], None]:
    left = times

    def cut() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCut

    return cut


def test_a_batch_cut_short_at_any_point_is_completed_by_the_next_driver(
    driver: DriverByHand, undisturbed: Path
) -> None:
    for batch, setting in enumerate(DRIVER_POINTS):
        point, _, times = setting.partition(":")
        with on_reach(point, cut_power(int(times or 1))), pytest.raises(PowerCut):
            driver.process(batch)
        driver = driver.restarted()
        driver.process(batch)
    for batch in range(len(DRIVER_POINTS), BATCHES):
        driver.process(batch)
    for point in ("batch.receipts", "batch.committed", "sink.delivered"):
        with on_reach(point, cut_power()), pytest.raises(PowerCut):
            driver.runner.close_input()
        driver = driver.restarted()
    run = driver.finish(BATCHES)
    assert_all_right(run, driver, undisturbed)


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
    spark: SparkSession, tmp_path: Path, links: RecordedLinks, undisturbed: Path
) -> None:
    """The same through Structured Streaming: without its commit log entry the batch comes again."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    commits = tmp_path / "checkpoint" / "spark" / "commits"
    (commits / str(BATCHES - 1)).unlink()
    (commits / f".{BATCHES - 1}.crc").unlink(missing_ok=True)
    run = start_links(Session(spark), links.input, tmp_path)
    run.await_done()
    assert (commits / str(BATCHES - 1)).exists(), "the batch came again"
    assert_ended_right(run, links, tmp_path, undisturbed)


class UsedTwice(Wiring):
    """One action too many on the DataFrame of receipts."""

    def receipts(
        self, rows: DataFrame, tasks: Sequence[StageTask], due: Sequence[int], buckets: int
    ) -> DataFrame:
        frame = Wiring.receipts(self, rows, tasks, due, buckets)
        frame.collect()
        return frame


class LostReceipt(Wiring):
    def receipts(
        self, rows: DataFrame, tasks: Sequence[StageTask], due: Sequence[int], buckets: int
    ) -> DataFrame:
        frame = Wiring.receipts(self, rows, tasks, due, buckets)
        return frame.where(f"get_json_object({RECEIPT}, '$.bucket') != '{due[-1]}'")


class SkippedBucket(Wiring):
    def _markers(self, spark: SparkSession, due: Sequence[int]) -> DataFrame:
        return Wiring._markers(self, spark, due[:-1])


def test_a_frame_of_receipts_used_twice_leaves_files_but_changes_nothing(
    driver: DriverByHand, undisturbed: Path
) -> None:
    directory = driver.runner.repository.directory
    driver.process(0)
    once = len(directory.all_names(DATA))
    driver.rewire(UsedTwice)
    driver.process(1)
    named = len(driver.runner.repository.current().segments)
    assert len(directory.all_names(DATA)) > max(once, named), "the second action wrote files too"
    assert_all_right(driver.restarted().finish(2), driver, undisturbed)


@pytest.mark.parametrize("fault", [LostReceipt, SkippedBucket])
def test_a_missing_receipt_stops_the_batch(
    driver: DriverByHand, undisturbed: Path, fault: type[Wiring]
) -> None:
    driver.process(0)
    version, delivered = driver.version, len(driver.sink.deliveries)
    driver.rewire(fault)
    with pytest.raises(ProtocolError, match=r"receipts missing for .* \[\(0, 1\)\]"):
        driver.process(1)
    assert driver.version == version
    assert len(driver.sink.deliveries) == delivered
    assert_all_right(driver.restarted().finish(1), driver, undisturbed)


def test_of_two_drivers_one_commits_and_the_other_is_told(
    driver: DriverByHand, undisturbed: Path
) -> None:
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
    assert_all_right(rival.finish(2), driver, undisturbed)


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
    spark: SparkSession, tmp_path: Path, links: RecordedLinks, undisturbed: Path
) -> None:
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "checkpoint" / "spark")
    with pytest.raises(MayflyError, match="has lost its folder spark"):
        start_links(Session(spark), links.input, tmp_path)
