"""Streams into archives: staged, taken in when an interval is over, exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import mayfly
import mayfly.archive
from mayfly.archive.write.staged_rows import MERGED_AT, days_of
from mayfly.errors import BadInput, InvalidSetting, LimitExceeded, MayflyError
from mayfly.faults import on_reach
from mayfly.lifetime import NEVER
from mayfly.spark.api.session import Session
from mayfly.spark.archive.archives import SparkArchive
from tests.integration.archived_streams import (
    DDL,
    HOUR,
    assert_holds_results,
    results_archive,
    rows_at,
)
from tests.integration.recorded import drained, pair_case, pair_query, record


def rows(*hours: float, first: int = 0) -> pa.Table:
    return rows_at(hours, first)


def new_archive(spark: SparkSession, path: Path, **settings: Any) -> SparkArchive:
    chosen = {"key": "k", "window": 3, "refresh": "1 h", "origin": 0, "parts": 2, **settings}
    return mayfly.Session(spark).create_archive(path, DDL, **chosen)


@dataclass
class Feeder:
    """Sends batches as Spark would, numbered; the last one again after a crash."""

    archive: SparkArchive
    options: dict[str, Any]
    number: int = -1

    def send(self, batch: pa.Table | None, *, again: bool = False) -> list[int]:
        self.number += not again
        sink = self.archive.sink(**self.options)
        frame = None if batch is None else self.archive.spark.createDataFrame(batch)
        return [one.update for one in sink.accept(frame, self.number, source="query")]


def found(archive: SparkArchive) -> list[int]:
    values: list[int] = sorted(archive.scan()["v"].to_pylist())
    return values


def test_an_interval_becomes_an_update_when_the_clock_has_passed_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {"slack": "15 min"})
    assert feeder.send(rows(0.5, 0.9, 1.1)) == []
    assert found(archive) == []
    status = archive.inspect.status().sinks["stream"]
    assert (status["staged_rows"], status["staged_updates"]) == (3, [1, 2])
    assert feeder.send(rows(1.25, first=10)) == []  # the clock is at 1.0: 1.0 may still come
    assert feeder.send(rows(1.0, 1.3, first=20)) == [1]
    assert found(archive) == [0, 1, 20]
    assert feeder.send(rows(4.6, first=30)) == [2, 4]  # interval 3 was empty, and 4 is empty too
    assert found(archive) == [2, 10, 21]
    assert archive.version().state.update == 4
    late = feeder.send(rows(3.5, 4.7, first=40))
    assert late == []
    sink = archive.sink("stream", slack="15 min")
    assert (sink.status().rows, sink.status().late) == (9, 1)
    assert [one.update for one in sink.flush()] == [5]
    assert found(archive) == [30, 41]
    assert archive.inspect.status().sinks["stream"]["staged_rows"] == 0
    assert archive.maintain.verify().ok


def test_late_rows_find_their_day_where_the_archive_takes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = new_archive(spark, tmp_path / "a", late="own day")
    feeder = Feeder(archive, {})
    assert feeder.send(rows(0.5, 2.5)) == [1, 2]
    assert feeder.send(rows(0.7, 1.7, 2.8, first=10)) == []  # late: they wait for an update
    assert feeder.send(rows(3.5, first=20)) == [3]
    assert found(archive) == [0, 1, 10, 11, 12]
    assert archive.sink().status().late == 0


def test_late_rows_may_stop_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {"late": "error"})
    feeder.send(rows(0.5, 1.5))
    with pytest.raises(BadInput, match="belongs to an earlier update"):
        feeder.send(rows(0.6, 1.6))
    assert archive.sink(late="error").status().batch == 0
    with pytest.raises(InvalidSetting, match="cannot be treated as 'drop'"):
        archive.sink(late="drop")


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (pa.table({"k": [None], "ts": rows(0.1)["ts"], "v": [1]}), "the search key is NULL"),
        (pa.table({"k": ["a"], "ts": pa.nulls(1, rows(0.1)["ts"].type), "v": [1]}),
         "the generation time is NULL"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_archived_stop_the_stream_before_anything_is_staged(
    spark: SparkSession, tmp_path: Path, batch: pa.Table, said: str
) -> None:
    archive = new_archive(spark, tmp_path / "a")
    given = batch.cast(rows(0.5).schema)
    with pytest.raises(BadInput, match=said):
        Feeder(archive, {}).send(pa.concat_tables([given, rows(0.5)]))
    assert archive.sink().status().batch == -1
    assert list((tmp_path / "a" / "staged" / "stream").glob("data/*")) == []


def test_a_clock_that_jumps_too_far_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {"max_gap": "1 day"})
    feeder.send(rows(0.5))
    with pytest.raises(LimitExceeded, match="more than max_gap = 1 d"):
        feeder.send(rows(0.7, 30))
    assert days_of(archive.sink().staging.current()).keys() == {1}


def test_a_row_of_a_wrong_year_is_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {})
    feeder.send(rows(0.5, 500_000))
    feeder.send(rows(0.7))
    assert archive.sink().status().beyond == 1
    assert days_of(archive.sink().staging.current()).keys() == {1}
    far = rows(0.5, 500_000)
    with pytest.raises(BadInput, match="too far ahead to be true"):
        archive.load(far)
    assert archive.version().state.update == 0


def letters(folder: Path) -> list[tuple[int, str]]:
    return sorted((row["v"], row["reason"]) for row in pq.read_table(folder).to_pylist())


def test_rows_that_are_left_out_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {"dead_letter": tmp_path / "late"})
    assert feeder.send(rows(0.5, 500_000)) == []
    assert letters(tmp_path / "late") == [(1, "beyond MAX GAP")]
    assert feeder.send(rows(1.5, first=2)) == [1]

    def crash() -> None:
        raise Crash("staging.committed")

    with pytest.raises(Crash), on_reach("staging.committed", crash):
        feeder.send(rows(0.6, 1.7, 600_000, first=10))
    assert len(letters(tmp_path / "late")) == 1
    for _ in range(2):  # after the crash, and once more
        feeder.send(rows(0.6, 1.7, 600_000, first=10), again=True)
        assert letters(tmp_path / "late") == [
            (1, "beyond MAX GAP"), (10, "late"), (12, "beyond MAX GAP"),
        ]  # fmt: skip
    assert (archive.sink().status().late, archive.sink().status().beyond) == (1, 2)
    assert archive.inspect.status().sinks["stream"]["staged_rows"] == 2
    assert feeder.send(rows(2.5, first=20)) == [2]
    assert found(archive) == [0, 2, 11]
    assert len(letters(tmp_path / "late")) == 3


def test_a_promise_about_bytes_and_dead_letters_exclude_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = new_archive(
        spark, tmp_path / "a", window=None, max_lifetime="3 h", lifetime="3 h",
        contract="PHYSICAL WITHIN 1 h",
    )  # fmt: skip
    with pytest.raises(InvalidSetting, match="they would never go"):
        archive.sink(dead_letter=tmp_path / "late")


def test_the_gap_of_the_archive_counts_unless_another_is_given(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = new_archive(spark, tmp_path / "a", max_gap="none")
    far = rows(0.5, 900_000)  # more than a year ahead
    Feeder(archive, {"max_gap": "1 day"}).send(far)
    assert archive.sink().status().beyond == 1
    with pytest.raises(BadInput, match="too far ahead to be true"):
        archive.load(far, max_gap="1 day")
    Feeder(archive, {"name": "other"}).send(rows(0.7))
    assert archive.sink("other").status().beyond == 0
    assert mayfly.Session(spark).open_archive(tmp_path / "a").settings.max_gap == NEVER
    assert len(archive.load(far)) == 2


def test_a_first_row_of_a_wrong_year_settles_no_origin(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a", origin=None)
    feeder = Feeder(archive, {})
    feeder.send(rows(500_000))
    assert not archive.updates.are_counted
    feeder.send(rows(5.5))
    assert feeder.send(rows(7.5)) == [1, 2]
    with pytest.raises(BadInput, match="too far ahead to be true"):
        new_archive(spark, tmp_path / "b", origin=None).update(rows(500_000))


def test_staged_rows_of_an_update_that_somebody_else_ran_are_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = new_archive(spark, tmp_path / "a")
    feeder = Feeder(archive, {})
    feeder.send(rows(0.5, 0.6))
    mayfly.archive.open(tmp_path / "a").update(rows(0.2, first=9), update=1)
    assert feeder.send(rows(2.5)) == [2]
    assert found(archive) == [9]
    assert archive.sink().status().late == 2


def test_an_open_origin_leaves_room_for_the_slack(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a", origin=None)
    feeder = Feeder(archive, {"slack": "30 min"})
    assert feeder.send(None) == []
    assert feeder.send(rows(100.2)) == []
    assert feeder.send(rows(99.9, first=5)) == []
    assert feeder.send(rows(101.8, first=8)) == [1, 2]
    assert archive.version().time == 101 * HOUR
    assert found(archive) == [0, 5]


@pytest.mark.slow
def test_small_files_are_merged_on_the_way(spark: SparkSession, tmp_path: Path) -> None:
    archive = new_archive(spark, tmp_path / "a")
    sink = archive.sink()
    for at in range(MERGED_AT // 2 + 1):  # two tasks write two files per batch
        batch = archive.spark.createDataFrame(rows(0.1, 0.2, 0.3, 0.4, first=4 * at))
        sink.accept(batch.repartition(2), at)
    files = days_of(sink.staging.current())[1]
    assert max(one.level for one in files) == 1
    assert len(files) < MERGED_AT
    sink.flush()
    assert found(archive) == list(range(4 * (MERGED_AT // 2 + 1)))


class Crash(BaseException):
    """Ends a run where it stands; what is on disk is what a killed process would leave."""


@pytest.mark.parametrize(
    "point",
    [
        "staging.written",
        pytest.param("staging.committed", marks=pytest.mark.slow),
        "staging.before-update",
        pytest.param("archive.written", marks=pytest.mark.slow),
        "archive.committed",
        pytest.param("staging.taken", marks=pytest.mark.slow),
        "staging.dropped",
    ],
)
def test_a_crash_anywhere_is_made_up_for(spark: SparkSession, tmp_path: Path, point: str) -> None:
    def crash() -> None:
        raise Crash(point)

    given = [rows(0.5, 1.5), rows(0.9, 1.9, 3.2, first=10)]
    before = Feeder(new_archive(spark, tmp_path / "a", scheme="RATA"), {"slack": "1 h"})
    before.send(given[0])
    with pytest.raises(Crash), on_reach(point, crash):
        before.send(given[1])
    after = Feeder(mayfly.Session(spark).open_archive(tmp_path / "a"), {"slack": "1 h"}, 1)
    after.send(given[1], again=True)
    after.send(given[1], again=True)
    assert found(after.archive) == [0, 1, 10, 11]
    assert after.archive.version().state.update == 2
    assert after.archive.sink().status().rows == 5
    assert after.send(rows(4.5, first=20)) == [3]
    assert found(after.archive) == [0, 1, 10, 11]
    assert after.archive.maintain.verify().ok


def test_spark_streams_into_an_archive_and_goes_on_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    record(tmp_path, [{"in": rows(0.5, 1.5)}, {"in": rows(1.7, 2.2, first=10)}])
    archive = new_archive(spark, tmp_path / "a")
    stream = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/in")

    def run(checkpoint: str) -> None:
        writer = stream.writeStream.foreachBatch(archive.sink("files"))
        writer = writer.option("checkpointLocation", f"{tmp_path}/{checkpoint}")
        writer.trigger(availableNow=True).start().awaitTermination()

    run("ck")
    assert found(archive) == [0, 1, 10]
    record(tmp_path, [{"in": rows(2.5, 3.5, first=20)}], first=2)
    run("ck")
    assert found(archive) == [0, 1, 10, 11, 20]
    with pytest.raises(Exception, match="is fed by another streaming query"):
        run("other")


@pytest.mark.slow
def test_a_query_s_results_are_archived_by_their_time(spark: SparkSession, tmp_path: Path) -> None:
    case = pair_case(160, 40)
    record(tmp_path, case.batches)
    session = Session(spark)
    query = pair_query(session, tmp_path, case)
    other = session.create_archive(tmp_path / "other", DDL, key="k", window=3)
    with pytest.raises(InvalidSetting, match="lack columns of the archive: k string, v bigint"):
        query.start(tmp_path / "no", archive=other)
    archive = results_archive(session, tmp_path / "archive")
    run = drained(query, tmp_path / "ck", archive=archive)
    assert_holds_results(archive, case, run.status().clock)
    with pytest.raises(InvalidSetting, match="is fed by another streaming query"):
        drained(query, tmp_path / "ck 2", archive=archive)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("staging.written", marks=pytest.mark.slow),
        "staging.before-update",
        pytest.param("staging.taken", marks=pytest.mark.slow),
    ],
)
def test_results_delivered_again_after_a_crash_are_archived_once(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    case = pair_case(160, 40, seed=3)
    record(tmp_path, case.batches)
    query = pair_query(Session(spark), tmp_path, case)
    archive = results_archive(Session(spark), tmp_path / "archive", scheme="RATA")
    seen = 0

    def crash() -> None:
        nonlocal seen
        seen += 1
        if seen == 2:
            raise MayflyError(f"stopped at {point}", "start again")

    with on_reach(point, crash), pytest.raises(MayflyError, match="stopped at"):
        drained(query, tmp_path / "ck", archive=archive)
    run = drained(query, tmp_path / "ck", archive=archive)
    assert_holds_results(archive, case, run.status().clock)


@pytest.mark.slow
def test_a_stop_ends_a_catch_up_after_the_update_that_is_running(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = pair_case(160, 40, seed=3)
    record(tmp_path, case.batches)
    query = pair_query(Session(spark), tmp_path, case)
    archive = results_archive(Session(spark), tmp_path / "archive", refresh="5 ms")
    taken: list[int] = []

    def ask() -> None:
        taken.append(archive.version().state.update)
        run.runner.stopping = True  # as a signal does

    with on_reach("staging.taken", ask):
        run = query.start(tmp_path / "ck", archive=archive)
        assert run.await_done(120)
        run.stop()
        assert run.query is not None
        assert run.query.exception() is None, "Spark takes it for a stop, not for an error"
    assert len(taken) == 1
    behind = run.status().clock
    assert behind is not None
    assert taken[0] < archive.settings.calendar.update_of(behind) - 1, "there was more to do"
    run = drained(query, tmp_path / "ck", archive=archive)
    assert_holds_results(archive, case, run.status().clock)
