"""Changes over HTTP: put together they are the views, however often a reader comes back."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mayfly
from mayfly.client import Client, ReceivedChanges
from mayfly.errors import InvalidSetting, VersionExpired
from mayfly.lifetime import MIN_TIME
from mayfly.serving.http.change_events import next_event
from mayfly.storage import SetProperties
from tests.unit.serving.http.running_servers import serving
from tests.unit.serving.stored_pipelines import (
    SECOND,
    clicks,
    expected,
    fed,
    pipeline,
    table_of,
)

VIEWS = ("recent", "totals", "towns")


def folded(state: Counter[tuple[Any, ...]], changes: Any) -> None:
    """Apply changes to a bag of rows: nothing ends that has not begun."""
    for change in changes:
        row = tuple(change["row"].values())
        state[row] += 1 if change["op"] == "+" else -1
        assert state[row] >= 0, (row, change)


def bag(name: str, second: int) -> Counter[tuple[Any, ...]]:
    return Counter(expected(name, second))


@pytest.mark.parametrize("name", VIEWS)
def test_events_put_together_are_the_view(tmp_path: Path, name: str) -> None:
    runner = pipeline(tmp_path)
    state: Counter[tuple[Any, ...]] = Counter()
    position = MIN_TIME
    for first in range(0, 40, 4):
        runner.feed({"clicks": table_of(clicks(first, first + 4))}, {})
        view = mayfly.open(tmp_path).views[name]
        event = next_event(view, position, 10_000)
        assert event is not None
        assert (event.since, event.until) == (position, (first + 3) * SECOND)
        folded(state, event.changes)
        position = event.until
        assert +state == bag(name, first + 2)
        assert next_event(view, position, 10_000) is None


@settings(max_examples=settings().max_examples // 5)
@given(st.sampled_from(VIEWS), st.integers(1, 12), st.integers(0, 8), st.data())
def test_events_from_any_version_and_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, name: str, most: int, skipped: int, data: Any
) -> None:
    """Readers that see only some versions, in pieces, get every change once."""
    folder = tmp_path_factory.mktemp("ck")
    runner = pipeline(folder)
    state: Counter[tuple[Any, ...]] = Counter()
    position, second = MIN_TIME, 0
    while second < 30:
        step = data.draw(st.integers(1, 9), "step")
        runner.feed({"clicks": table_of(clicks(second, second + step))}, {})
        second += step
        if data.draw(st.integers(0, 9), "look") < skipped:
            continue
        view = mayfly.open(folder).views[name]
        instants = []
        while (event := next_event(view, position, most)) is not None:
            assert event.since == position < event.until
            folded(state, event.changes)
            position = event.until
            instants.append(len({change["ts"] for change in event.changes}))
        assert position == (second - 1) * SECOND
        assert +state == (bag(name, second - 2) if second > 1 else Counter())


def test_what_is_sent_has_beginnings_only(tmp_path: Path) -> None:
    fed(tmp_path)
    view = mayfly.open(tmp_path).views["fresh"]
    event = next_event(view, 5 * SECOND, 10_000)
    assert event is not None
    assert [change["op"] for change in event.changes] == ["+"] * 24
    assert set(event.changes[0]) == {"op", "ts", "row"}


def test_a_log_that_is_gone_is_refused(tmp_path: Path) -> None:
    runner = fed(tmp_path)
    base = runner.repository.current()
    kept = SetProperties({"kept_from": {"totals": 20 * SECOND}})
    runner.repository.commit(base, [kept])
    with serving(tmp_path) as server:
        with pytest.raises(VersionExpired, match="kept from"):
            next(server.client.changes("totals", since=20 * SECOND - 1))
        reply = server.get("/changes/totals", last_event_id=str(20 * SECOND - 1))
        assert (reply.status, reply.json["error"]["kind"]) == (410, "VersionExpired")
        assert next(server.client.changes("totals", since=20 * SECOND)).since == 20 * SECOND
        with pytest.raises(InvalidSetting, match="has no query"):
            next(server.client.changes("nothing"))
        assert server.get("/changes/totals", last_event_id="x" * 65).status == 400
        assert server.get("/changes/totals", last_event_id="12; DROP").status == 400


def collected(events: Iterator[ReceivedChanges], until: int) -> list[ReceivedChanges]:
    received = []
    for event in events:
        received.append(event)
        if event.until >= until:
            return received
    raise AssertionError("the stream has no end")


def test_readers_beside_a_running_pipeline_and_a_server_that_is_started_anew(
    tmp_path: Path,
) -> None:
    """Readers that come back again and again, with their last id or without end, miss nothing and
    get nothing twice, though the server is another one in between."""
    runner = pipeline(tmp_path)
    runner.feed({"clicks": table_of(clicks(0, 4))}, {})
    end, results = 59 * SECOND, {}

    def read(name: str, port: int, hops: bool) -> None:
        client = Client(f"http://127.0.0.1:{port}")
        received: list[ReceivedChanges] = []
        since: int | str = "beginning"
        while not received or received[-1].until < end:
            events = client.changes(name, since=since, patience=60)
            received += [next(events)] if hops else collected(events, end)
            events.close()  # type: ignore[attr-defined]
            since = received[-1].until
        results[name, hops] = received

    with serving(tmp_path) as server:
        port = server.port
        readers = [
            threading.Thread(target=read, args=(name, port, hops), daemon=True)
            for name in VIEWS for hops in (False, True)
        ]  # fmt: skip
        for reader in readers:
            reader.start()
        for first in range(4, 30, 2):
            runner.feed({"clicks": table_of(clicks(first, first + 2))}, {})
        assert server.stop() == 0
    runner = fed_on(tmp_path, runner, 30, 44)
    with serving(tmp_path, port=port):
        fed_on(tmp_path, runner, 44, 60)
        patience = time.monotonic() + 60
        for reader in readers:
            reader.join(max(0, patience - time.monotonic()))
    for (name, _), received in results.items():
        state: Counter[tuple[Any, ...]] = Counter()
        for before, event in zip([None, *received], received, strict=False):
            assert before is None or before.until == event.since
            folded(state, event.changes)
        assert +state == bag(name, 58)
    assert len(results) == 6


def fed_on(folder: Path, runner: Any, first: int, last: int) -> Any:
    for second in range(first, last, 2):
        runner.feed({"clicks": table_of(clicks(second, second + 2))}, {})
    return runner


def test_where_a_client_begins_is_told(tmp_path: Path) -> None:
    """As ``since`` of an event does: null is the beginning."""
    fed(tmp_path)
    with serving(tmp_path) as server:
        for place, said in (("beginning", None), (str(20 * SECOND), "1970-01-01 00:00:20")):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", f"/changes/totals?since={place}")
            response = connection.getresponse()
            lines = [response.readline().decode().strip() for _ in range(5)]
            connection.close()
            assert lines[3] == "event: start"
            assert json.loads(lines[4].removeprefix("data: ")) == {"since": said}
