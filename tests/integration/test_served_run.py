"""``mayfly run --serve`` on Spark: console, Parquet and HTTP streams of one pipeline, kills of the
server and of the pipeline; every answer is DuckDB's over the rows that it claims."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mayfly.lifetime import instant, instant_text
from tests.faults.processes import wait_for

SECOND = 1_000_000
BEGIN = instant("2026-01-01T00:00:00Z")
PIPELINE = """
CREATE STREAM orders (ts TIMESTAMP, customer STRING, amount BIGINT)
  FROM json('in') TIMESTAMP BY ts SLACK 1 SECOND KEEP 30 SECONDS;
CREATE QUERY grouped TO parquet('out/grouped') SERVE OVERLOAD EVERY AS
  SELECT customer, COUNT(*) AS n, SUM(amount) AS total
  FROM orders [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY customer;
CREATE QUERY largest TO console() SERVE PRIORITY 2 ISOLATION SNAPSHOT AS
  SELECT MAX(amount) AS high FROM orders [RANGE 15 SECONDS SLIDE 5 SECONDS];
CREATE QUERY summed SERVE ISOLATION WINDOW SCAN INCREMENTAL SYNOPSIS AS
  SELECT customer, SUM(amount) AS total
  FROM orders [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY customer;
CREATE QUERY scanned SERVE OVERLOAD SKIP SCAN WINDOW AS
  SELECT COUNT(*) AS n FROM orders [RANGE 10 SECONDS SLIDE 5 SECONDS];
"""
ORACLE = {
    "grouped": "SELECT customer, count(*) AS n, sum(amount) AS total FROM w GROUP BY customer",
    "largest": "SELECT max(amount) AS high FROM w",
    "summed": "SELECT customer, sum(amount) AS total FROM w GROUP BY customer",
    "scanned": "SELECT count(*) AS n FROM w",
}
SCHEMA = pa.schema({"ts": pa.int64(), "customer": pa.string(), "amount": pa.int64()})
SPANS = {"grouped": 20, "largest": 15, "summed": 10, "scanned": 10}


class Orders:
    """Files that appear whole, and all rows in them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rows, self.second = folder, list[tuple[Any, ...]](), 0
        self.rng = Random(22)
        folder.mkdir()

    def write(self, seconds: int) -> None:
        lines = []
        for second in range(self.second, self.second + seconds):
            for _ in range(self.rng.choice((0, 1, 3))):
                ts = BEGIN + second * SECOND + self.rng.choice((0, 1, SECOND // 2))
                row = (ts, self.rng.choice((None, "ann", "bob")), self.rng.randint(-9, 99))
                self.rows.append(row)
                lines.append(dict(zip(SCHEMA.names, row, strict=True)))
        ts = BEGIN + (self.second + seconds) * SECOND  # closes what is before it
        lines.append({"ts": ts, "customer": "end", "amount": 1})
        self.rows.append((ts, "end", 1))
        self.second += seconds
        file = self.folder / f".{self.second}"
        file.write_text(
            "".join(json.dumps({**line, "ts": instant_text(line["ts"])}) + "\n" for line in lines)
        )
        file.rename(self.folder / f"{self.second}.json")

    def expected(self, query: str, since: int, as_of: int) -> list[tuple[Any, ...]]:
        table = pa.Table.from_pylist(
            [dict(zip(SCHEMA.names, r, strict=True)) for r in self.rows if since < r[0] <= as_of],
            schema=SCHEMA,
        )
        with duckdb.connect() as connection:
            connection.register("w", table)
            return in_order(connection.execute(ORACLE[query]).fetchall())


def in_order(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=str)


class Follower:
    """Reads the answers of a query as server-sent events, from servers that come and go."""

    def __init__(self, port: int, query: str) -> None:
        self.port, self.query = port, query
        self.answers: list[dict[str, Any]] = []
        self.ended = False
        self.thread = Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        while not self.ended:
            try:
                self._read()
            except (OSError, HTTPException):
                time.sleep(0.1)

    def _read(self) -> None:
        url = f"http://127.0.0.1:{self.port}/served/{self.query}/answers"
        with urllib.request.urlopen(url, timeout=20) as response:
            while not self.ended and (line := response.readline()):
                if line.startswith(b"data: "):
                    self.answers.append(json.loads(line[6:]))

    @property
    def last(self) -> int:
        return max((instant(a["as_of"]) for a in self.answers), default=0)


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed]


def server_of(process: int) -> int:
    """The server that runs beside a pipeline."""
    (server,) = (
        child
        for child in children(process)
        if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    )
    return server


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def listening(port: int) -> bool:
    with socket.socket() as channel:
        return channel.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds children by /proc")
def test_one_pipeline_serves_console_files_and_streams_through_kills(tmp_path: Path) -> None:
    (tmp_path / "shop.cql").write_text(PIPELINE)
    orders, port = Orders(tmp_path / "in"), free_port()
    followers = {name: Follower(port, name) for name in ORACLE}
    mayfly = str(Path(sys.executable).with_name("mayfly"))
    command = [mayfly, "run", "shop.cql", "--serve", "--serve-port", str(port), "--quiet"]
    command += ["--master", "local[2]"]

    def run(*more: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "shown").open("a") as shown:
            return subprocess.Popen(
                [*command, *more], cwd=tmp_path, stdout=shown, stderr=subprocess.STDOUT,
                start_new_session=True, env=os.environ.copy(),
            )  # fmt: skip

    def answered(second: int) -> bool:
        return all(f.last >= BEGIN + second * SECOND for f in followers.values())

    orders.write(22)
    started = run()
    try:
        wait_for(lambda: answered(15), "the first answers", 120)
        os.kill(server_of(started.pid), signal.SIGKILL)
        orders.write(8)
        wait_for(lambda: answered(25), "answers of another server", 120)
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        wait_for(lambda: not listening(port), "the end of the server", 60)
        orders.write(30)
        started = run("--once")
        assert started.wait(300) == 0, (tmp_path / "shown").read_text()
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        for follower in followers.values():
            follower.ended = True
            follower.thread.join()
    text = (tmp_path / "shown").read_text()
    assert "Traceback" not in text, text
    assert "the server was killed: another one takes over" in text
    assert ", late by " in text
    check_streams(orders, followers)
    check_files(orders, tmp_path / "out" / "grouped")
    check_console(orders, text)


def check_streams(orders: Orders, followers: dict[str, Follower]) -> None:
    last = BEGIN + orders.second * SECOND
    for name, follower in followers.items():
        for answer in follower.answers:
            since, as_of = instant(answer["since"]), instant(answer["as_of"])
            assert answer["partial"] == (since > as_of - SPANS[name] * SECOND)
            assert {"late_by", "behind", "isolation", "level"} <= answer.keys()
            rows = in_order([list(row.values()) for row in answer["rows"]])
            assert rows == orders.expected(name, since, as_of), (name, answer)
        assert follower.last >= last, name


def check_files(orders: Orders, folder: Path) -> None:
    """OVERLOAD EVERY: no refresh is left out, whatever was killed."""
    answers: dict[tuple[int, int], set[tuple[Any, ...]]] = defaultdict(set)
    for row in pq.read_table(folder).to_pylist():
        place = int(row["_since"].timestamp()) * SECOND, int(row["_as_of"].timestamp()) * SECOND
        answers[place].add((row["customer"], row["n"], row["total"]))
    for (since, as_of), rows in answers.items():
        assert in_order(list(rows)) == orders.expected("grouped", since, as_of)
    instants = sorted({as_of for _, as_of in answers})
    assert instants == list(range(instants[0], instants[-1] + 1, 5 * SECOND))
    assert instants[-1] == BEGIN + orders.second * SECOND


def check_console(orders: Orders, text: str) -> None:
    lines = text.splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith("largest as of ")]
    assert heads
    for place in heads:
        head = lines[place]
        as_of = instant(head.removeprefix("largest as of ").split(" (")[0].split(", ")[0])
        since = as_of - SPANS["largest"] * SECOND
        if "partial, since " in head:
            since = instant(head.split("partial, since ")[1].split(" (")[0])
        assert "(snapshot)" in head
        row = json.loads(lines[place + 1])
        assert [(row["high"],)] == orders.expected("largest", since, as_of)
