"""Clients that follow the changes of a pipeline whose driver is killed again and again."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mayfly
from mayfly.client import Client
from mayfly.display import plain
from tests.faults.test_pipeline_kills import KILLED, live, world
from tests.unit.serving.http.running_servers import serving

POINTS = ("batch.receipts:2", "batch.committed:2", "batch.delivered:3", "batch.committed:1")
NAMES = ("named", "groups")


def follow(url: str, name: str, received: list[Any], ending: threading.Event) -> None:
    """A new connection for every event, so that every one is a resumption."""
    client = Client(url)
    while not ending.is_set():
        since = received[-1].until if received else "beginning"
        for event in client.changes(name, since=since, patience=60):
            received.append(event)
            break


@pytest.mark.slow
def test_nothing_is_missed_or_told_twice(tmp_path: Path) -> None:
    file = world(tmp_path)
    assert live(file, POINTS[0]) == KILLED
    followed: dict[str, list[Any]] = {name: [] for name in NAMES}
    ending = threading.Event()
    with serving(file) as server:
        followers = [
            threading.Thread(target=follow, args=(server.url, *entry, ending), daemon=True)
            for entry in followed.items()
        ]
        for follower in followers:
            follower.start()
        assert sum(live(file, point) == KILLED for point in POINTS[1:]) >= 2
        assert live(file) == 0, (file.parent / "log").read_text()
        reader = mayfly.open(file)
        last = {name: reader.views[name].clock for name in NAMES}
        for name, received in followed.items():
            for _ in range(1200):
                if received and received[-1].until >= last[name]:
                    break
                followers[0].join(0.05)
        ending.set()
    for name, received in followed.items():
        assert [event.since for event in received[1:]] == [e.until for e in received[:-1]]
        assert received[-1].until == last[name]
        changes = [change for event in received for change in event.changes]
        begun = Counter(repr(c["row"]) for c in changes if c["op"] == "+")
        ended = Counter(repr(c["row"]) for c in changes if c["op"] == "-")
        columns = [column.name for column in reader.views[name].columns]
        logged = plain(reader.changes(name).select(columns).to_pylist())
        assert begun == Counter(map(repr, logged))
        assert begun - ended == Counter(map(repr, plain(reader.view(name).rows.to_pylist())))
