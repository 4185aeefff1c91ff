"""MAX GAP in a running pipeline: set aside, counted, told, and decided once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.checkpoint.clock_record import clock_record
from mayfly.cql import catalog_after, parse
from mayfly.errors import BadInput
from mayfly.faults import on_reach
from mayfly.spark.api.run_status import status_of
from mayfly.storage.sealed_files import read_json
from tests.property.shared_runs import HereRunner, results_of, runner_of

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
DECLARED = "CREATE STREAM s (ts TIMESTAMP, v BIGINT) TIMESTAMP BY ts MAX GAP 1 HOUR"
QUERY = {"q": "SELECT v FROM s [RANGE 1 DAY]"}


class Killed(Exception):
    pass


def started(folder: Path, wall_clock: int, *, replay: bool = False) -> HereRunner:
    runner = runner_of(folder, catalog_after(parse(DECLARED)), QUERY)
    runner.settings = replace(runner.settings, wall_clock=lambda: wall_clock, replay=replay)
    return runner


def rows(*seconds: int) -> dict[str, pa.Table]:
    times = pa.array([NOW + at * SECOND for at in seconds], pa.timestamp("us", "UTC"))
    return {"s": pa.table({"ts": times, "v": pa.array(seconds, pa.int64())})}


def test_a_row_of_a_wrong_year_is_set_aside_and_counted(tmp_path: Path) -> None:
    runner = started(tmp_path / "ck", NOW)
    runner.feed(rows(1, 2, 180 * 365 * 86_400), {})
    manifest = runner.feed(rows(3, 3600, 3601), {})
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + 3600 * SECOND}
    assert status_of(manifest).beyond == {"s": 2}
    assert sorted(results_of(runner, "q")["v"].to_pylist()) == [1, 2, 3]


def test_what_was_decided_is_decided_again(tmp_path: Path) -> None:
    """The driver dies behind the record of the clock; the next one starts a day later."""

    def die() -> None:
        raise Killed

    first = started(tmp_path / "ck", NOW)
    with on_reach("batch.clock-recorded", die), pytest.raises(Killed):
        first.feed(rows(1, 7200), {})
    record = read_json(first.repository.directory, clock_record(0), "")
    assert record["limits"]["s"][1] == NOW + 3600 * SECOND
    second = started(tmp_path / "ck", NOW + 86_400 * SECOND)
    manifest = second.feed(rows(1, 7200), {})
    assert second.told["s"].beyond == NOW + 3600 * SECOND
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + SECOND}
    assert status_of(manifest).beyond == {"s": 1}


def test_a_replay_waits_for_the_next_batch_to_confirm_a_jump(tmp_path: Path) -> None:
    runner = started(tmp_path / "ck", 0, replay=True)
    century = 100 * 365 * 86_400
    manifest = runner.feed(rows(1, 2, century), {})
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + 2 * SECOND}
    manifest = runner.feed(rows(century + 1, century + 2), {})
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + (century + 2) * SECOND}
    assert sorted(results_of(runner, "q")["v"].to_pylist()) == [1, 2, century, century + 1]


def test_a_replay_measures_punctuations_too(tmp_path: Path) -> None:
    runner = started(tmp_path / "ck", 0, replay=True)
    century = 100 * 365 * 86_400
    said = [NOW + at * SECOND for at in (5, 10, century)]
    manifest = runner.feed(rows(1, 2), {}, {"s": said})
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + 10 * SECOND}
    manifest = runner.feed(rows(20), {}, {"s": [NOW + 30 * SECOND]})
    assert manifest.properties["clocks"]["streams"] == {"s": NOW + 30 * SECOND}
    assert sorted(results_of(runner, "q")["v"].to_pylist()) == [1, 2, 20]


# ── the unit of the first times ──────────────────────────────────────────────────────────────


def numbered(folder: Path, *times: int, unit: str = "", wall_clock: int = NOW) -> HereRunner:
    declared = f"CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts {unit}"
    runner = runner_of(folder, catalog_after(parse(declared)), QUERY)
    runner.settings = replace(runner.settings, wall_clock=lambda: wall_clock)
    for at in times:
        runner.feed({"s": pa.table({"ts": pa.array([at]), "v": pa.array([1])})}, {})
    return runner


@pytest.mark.parametrize("number", [NOW // 1_000_000, NOW // 1000, NOW * 1000])
def test_first_times_of_another_unit_are_refused_with_a_hint(tmp_path: Path, number: int) -> None:
    with pytest.raises(BadInput, match="first times of stream s"):
        numbered(tmp_path / "ck", number)


def test_first_times_are_taken_as_they_are_where_the_unit_is_given(tmp_path: Path) -> None:
    numbered(tmp_path / "a", 5, unit="MICROSECONDS")
    numbered(tmp_path / "b", NOW)
    runner = numbered(tmp_path / "c", NOW, NOW + SECOND)
    assert runner.repository.current().properties["batch"] == 1
