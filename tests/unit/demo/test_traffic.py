from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly.demo.demo_settings import LINKS, SLACK, Places, Settings
from mayfly.demo.traffic import DELAY, FILE_EVERY, Traffic, TrafficFeeder, make_traffic
from mayfly.lifetime import micros
from mayfly.testing.seeded_streams import micros_of

SETTINGS = Settings(seconds=20.0, rate=500)


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return make_traffic(SETTINGS)


def test_the_same_settings_give_the_same_connections(traffic: Traffic) -> None:
    again = make_traffic(SETTINGS)
    assert all(again.rows[link].equals(traffic.rows[link]) for link in LINKS)
    assert not traffic.rows["link1"].equals(traffic.rows["link2"])


def test_the_rate_is_kept_on_average(traffic: Traffic) -> None:
    for link in LINKS:
        assert traffic.rows[link].num_rows == pytest.approx(10_000, rel=0.01)


def test_connections_come_in_waves(traffic: Traffic) -> None:
    per_second = np.histogram(micros_of(traffic.rows["link1"]), 20, (0, 20_000_000))[0]
    assert per_second.max() > 5 * per_second.min()
    assert per_second[[0, 1, -2, -1]].max() < per_second.mean()


def test_a_row_is_seen_after_it_happened_and_within_the_slack_but_for_stragglers(
    traffic: Traffic,
) -> None:
    assert micros(SLACK) >= DELAY + 2 * FILE_EVERY
    for link in LINKS:
        delays = traffic.arrivals[link] - micros_of(traffic.rows[link])
        late = delays > micros(SLACK)
        assert delays.min() >= 0
        assert delays[~late].max() < DELAY
        assert 0 < late.sum() < 0.01 * len(late)
        assert traffic.stragglers(link).to_pylist() == (
            traffic.rows[link]["id"].filter(pa.array(late)).to_pylist()
        )
        assert (np.diff(micros_of(traffic.rows[link])) < 0).any()


def test_files_hold_every_row_once_and_come_when_complete(traffic: Traffic) -> None:
    sent: dict[str, list[int]] = {link: [] for link in LINKS}
    for due, link, rows in traffic.files():
        begin = len(sent[link])
        sent[link] += rows["id"].to_pylist()
        arrived = traffic.arrivals[link][begin : len(sent[link])]
        assert due - FILE_EVERY <= arrived.min()
        assert arrived.max() < due
    assert all(sent[link] == traffic.rows[link]["id"].to_pylist() for link in LINKS)


def stored(places: Places, link: str) -> pa.Table:
    files = sorted(places.arrivals(link).iterdir())
    assert not [file for file in files if file.name.startswith(".")], "Spark skips these"
    return pa.concat_tables([pq.read_table(file) for file in files])


def test_the_feeder_writes_all_rows_with_real_times(tmp_path: Path) -> None:
    traffic = make_traffic(Settings(seconds=0.6, rate=200))
    places = Places(tmp_path / "demo")
    places.create()
    feeder = TrafficFeeder(traffic, places)
    assert not feeder.done
    begin = time.time_ns() // 1000
    feeder.start()
    feeder.join()
    assert feeder.done
    assert feeder.origin is not None
    assert begin <= feeder.origin <= time.time_ns() // 1000 - traffic.arrivals["link1"][-1]
    expected = traffic.beginning_at(feeder.origin)
    assert all(stored(places, link).equals(expected[link]) for link in LINKS)


def test_a_feeder_that_cannot_write_says_so(tmp_path: Path) -> None:
    feeder = TrafficFeeder(
        make_traffic(Settings(seconds=0.6, rate=200)), Places(tmp_path / "nowhere")
    )
    feeder.start()
    feeder.join()
    assert isinstance(feeder.error, OSError)
    assert not feeder.done


def test_a_stopped_feeder_stops(tmp_path: Path) -> None:
    places = Places(tmp_path / "demo")
    places.create()
    feeder = TrafficFeeder(make_traffic(Settings(seconds=600, rate=10)), places)
    feeder.start()
    feeder.stop()
    feeder.join()
    assert not feeder.done
    assert feeder.error is None
