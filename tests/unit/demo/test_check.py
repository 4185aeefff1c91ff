from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mayfly.demo.check import by_duckdb, in_process, judge
from mayfly.demo.demo_settings import LINKS, Places, Settings
from mayfly.demo.traffic import Traffic, make_traffic
from mayfly.testing.row_comparison import assert_same_rows

ORIGIN = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return make_traffic(Settings(seconds=15.0, rate=200))


@pytest.fixture(scope="module")
def right(traffic: Traffic) -> pa.Table:
    return in_process(traffic.beginning_at(ORIGIN))


def places_with(folder: Path, results: list[pa.Table]) -> Places:
    places = Places(folder / "demo")
    places.create()
    for number, table in enumerate(results):
        pq.write_table(table, places.results / f"changes-{number}.parquet")
    return places


def refuse(places: Places, link: str, rows: pa.Table) -> None:
    places.late(link).mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, places.late(link) / f"{link}-1.parquet")


def test_both_judges_agree(traffic: Traffic, right: pa.Table) -> None:
    assert right.num_rows > 1_000
    assert_same_rows(right, by_duckdb(traffic.beginning_at(ORIGIN)))


@pytest.mark.parametrize("engine", ["DuckDB", "the in-process runner"])
def test_right_results_are_identical_whatever_files_they_are_in(
    engine: str,
    traffic: Traffic,
    right: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if engine != "DuckDB":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    verdict = judge(traffic, ORIGIN, places_with(tmp_path, [right.slice(500), right.slice(0, 500)]))
    assert verdict.judge == engine
    assert verdict.identical
    assert verdict.complaint() == ""
    assert verdict.results == right.num_rows
    assert verdict.late == 0


def test_one_lost_result_is_found(traffic: Traffic, right: pa.Table, tmp_path: Path) -> None:
    verdict = judge(traffic, ORIGIN, places_with(tmp_path, [right.slice(1)]))
    assert not verdict.identical
    assert "1 missing, 0 unexpected" in verdict.complaint()


def test_one_result_delivered_twice_is_found(
    traffic: Traffic, right: pa.Table, tmp_path: Path
) -> None:
    verdict = judge(traffic, ORIGIN, places_with(tmp_path, [right, right.slice(7, 1)]))
    assert not verdict.identical
    assert "0 missing, 1 unexpected" in verdict.complaint()


def test_a_lifetime_that_is_off_by_one_is_found(
    traffic: Traffic, right: pa.Table, tmp_path: Path
) -> None:
    longer = pc.add(right["exp"].cast(pa.int64()), 1).cast(right["exp"].type)
    wrong = right.set_column(right.schema.get_field_index("exp"), "exp", longer)
    assert not judge(traffic, ORIGIN, places_with(tmp_path, [wrong])).identical


def test_no_results_at_all_are_different(traffic: Traffic, tmp_path: Path) -> None:
    verdict = judge(traffic, ORIGIN, places_with(tmp_path, []))
    assert verdict.results == 0
    assert not verdict.identical


def test_a_row_set_aside_as_late_takes_no_part(traffic: Traffic, tmp_path: Path) -> None:
    rows = traffic.beginning_at(ORIGIN)
    straggler = pc.is_in(rows["link1"]["id"], value_set=traffic.stragglers("link1")[:1])
    without = {**rows, "link1": rows["link1"].filter(pc.invert(straggler))}
    places = places_with(tmp_path, [in_process(without)])
    refuse(places, "link1", rows["link1"].filter(straggler))
    verdict = judge(traffic, ORIGIN, places)
    assert verdict.identical
    assert verdict.late == 1


def test_calling_a_punctual_row_late_is_a_mistake(traffic: Traffic, tmp_path: Path) -> None:
    rows = traffic.beginning_at(ORIGIN)
    everything = {link: rows[link].slice(0, 0) for link in LINKS}
    places = places_with(tmp_path, [in_process(everything)])
    for link in LINKS:
        refuse(places, link, rows[link])
    verdict = judge(traffic, ORIGIN, places)
    assert not verdict.difference
    assert not verdict.identical
    assert "late although they were not" in verdict.complaint()
