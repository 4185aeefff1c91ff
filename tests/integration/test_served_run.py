"""``mayfly run --serve`` on Spark: console, Parquet and HTTP streams of one pipeline, kills of the
server and of the pipeline; every answer is DuckDB's over the rows that it claims."""

from __future__ import annotations

import json
import os
import re
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
from mayfly.storage import Repository
from mayfly.storage.vacuum import vacuum
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="kills groups of processes")
def test_a_server_and_a_pipeline_apart_come_and_go_in_any_order(tmp_path: Path) -> None:
    """The server is first, and waits; each is killed while the other goes on; versions are vacuumed
    beside both; a query comes and goes by ``mayfly control``."""
    (tmp_path / "shop.cql").write_text(PIPELINE)
    orders, port = Orders(tmp_path / "in"), free_port()
    followers = {name: Follower(port, name) for name in ORACLE}
    mayfly = str(Path(sys.executable).with_name("mayfly"))
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "shown").open("a") as shown:
            process = subprocess.Popen(
                [mayfly, *words], cwd=tmp_path, stdout=shown, stderr=subprocess.STDOUT,
                start_new_session=True, env=os.environ.copy(),
            )  # fmt: skip
        processes.append(process)
        return process

    def serve() -> subprocess.Popen[bytes]:
        return start("serve", "shop.cql", "--port", str(port))

    def run(*more: str) -> subprocess.Popen[bytes]:
        return start("run", "shop.cql", "--quiet", "--master", "local[2]", *more)

    def kill(process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def await_answers(second: int, what: str) -> None:
        due = BEGIN + second * SECOND
        wait_for(lambda: all(f.last >= due for f in followers.values()), what, 180)

    def vacuum_all() -> None:
        vacuum(Repository.open(tmp_path / "shop.state"), keep_versions=1, grace=0)

    try:
        server = serve()
        orders.write(12)
        pipeline = run()
        await_answers(10, "answers of a server that was there first")
        kill(pipeline)
        orders.write(10)
        vacuum_all()
        pipeline = run()
        await_answers(20, "answers after the pipeline came again")
        kill(server)
        orders.write(10)
        wait_for(lambda: closed(tmp_path) >= BEGIN + 30 * SECOND, "the pipeline alone", 120)
        vacuum_all()
        server = serve()
        await_answers(30, "answers of a server that came again")
        kill(server)
        kill(pipeline)
        vacuum_all()
        orders.write(10)
        pipeline = run()
        server = serve()
        added = "SERVE ISOLATION LATEST UNDO AS SELECT MAX(amount) AS high FROM orders "
        control = [mayfly, "control", "add", "shop.state", "added", "--wait", "120"]
        refusal = subprocess.run(
            [*control, f"{added}[RANGE 10 SECONDS SLIDE 5 SECONDS]"], cwd=tmp_path,
            capture_output=True, text=True,
        )  # fmt: skip
        assert refusal.returncode != 0
        assert "leave UNDO out" in refusal.stdout + refusal.stderr
        query = f"{added}[RANGE 10 SECONDS SLIDE 5 SECONDS]".replace("MAX", "SUM")
        subprocess.run([*control, query], cwd=tmp_path, check=True)
        orders.write(10)
        await_answers(50, "answers beside a query that was added")
        wait_for(lambda: "added" in listed(port), "the query that was added", 60)
        drop = [mayfly, "control", "drop", "shop.state", "added", "--wait", "120"]
        subprocess.run(drop, cwd=tmp_path, check=True)
        wait_for(lambda: "added" not in listed(port), "the end of the query that was added", 60)
        status = served_status(port)
        assert set(status["levels"]) <= {"latest-window-serializable", "window-serializable"}
        assert sum(status["levels"].values()) > 0
        assert not [note for note in status["notes"] if "isolation it claims" in note]
    finally:
        for process in processes:
            if process.poll() is None:
                kill(process)
        for follower in followers.values():
            follower.ended = True
            follower.thread.join()
    text = (tmp_path / "shown").read_text()
    assert "Traceback" not in text, text
    assert "waiting for the pipeline" in text
    check_streams(orders, followers, whole=False)
    check_files(orders, tmp_path / "out" / "grouped", last=50)
    check_console(orders, text)


def closed(folder: Path) -> int:
    """The instants before it are closed in the newest version of a pipeline."""
    status = subprocess.run(
        [str(Path(sys.executable).with_name("mayfly")), "status", "shop.state", "--json"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    text = json.dumps(json.loads(status.stdout)) if status.returncode == 0 else ""
    clocks = re.findall(r'"clock": "([^"]+)"', text)
    return max(map(instant, clocks), default=0)


def served_status(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/served", timeout=20) as response:
        status: dict[str, Any] = json.loads(response.read())
        return status


def listed(port: int) -> set[str]:
    try:
        return {row["query"] for row in served_status(port)["queries"] if row["answers"]}
    except OSError:
        return set()


def check_streams(orders: Orders, followers: dict[str, Follower], *, whole: bool = True) -> None:
    last = BEGIN + orders.second * SECOND
    for name, follower in followers.items():
        for answer in follower.answers:
            since, as_of = instant(answer["since"]), instant(answer["as_of"])
            assert answer["partial"] == (since > as_of - SPANS[name] * SECOND)
            assert {"late_by", "behind", "isolation", "level"} <= answer.keys()
            rows = in_order([list(row.values()) for row in answer["rows"]])
            assert rows == orders.expected(name, since, as_of), (name, answer)
        assert follower.last >= last or not whole, name


def check_files(orders: Orders, folder: Path, last: int | None = None) -> None:
    """OVERLOAD EVERY: no refresh is left out, whatever was killed."""
    answers: dict[tuple[int, int], set[tuple[Any, ...]]] = defaultdict(set)
    for row in pq.read_table(folder).to_pylist():
        place = int(row["_since"].timestamp()) * SECOND, int(row["_as_of"].timestamp()) * SECOND
        answers[place].add((row["customer"], row["n"], row["total"]))
    for (since, as_of), rows in answers.items():
        assert in_order(list(rows)) == orders.expected("grouped", since, as_of)
    instants = sorted({as_of for _, as_of in answers})
    assert instants == list(range(instants[0], instants[-1] + 1, 5 * SECOND))
    assert instants[-1] >= BEGIN + (last or orders.second) * SECOND


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
