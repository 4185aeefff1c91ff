"""Streams of a pipeline file from other sources than files."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.errors import InvalidSetting
from mayfly.spark.api.pipelines import load_pipeline
from mayfly.spark.api.query_run import QueryRun
from tests.faults.processes import wait_for

TICKS = """
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

class Part(InputPartition):
    def __init__(self, low, high):
        self.low, self.high = low, high

class Ticks(DataSource):
    @classmethod
    def name(cls):
        return "ticks"

    def streamReader(self, schema):
        return Reader(int(self.options.get("first", 0)), int(self.options["rows"]))

class Reader(DataSourceStreamReader):
    def __init__(self, first, rows):
        self.first, self.rows = first, rows

    def initialOffset(self):
        return {"at": self.first}

    def latestOffset(self, *told):
        return {"at": self.first + self.rows}

    def partitions(self, start, end):
        return [Part(start["at"], end["at"])]

    def read(self, part):
        for at in range(part.low, part.high):
            yield at * 1_000_000, f"k{at % 2}"
"""
DECLARED = """
CREATE STREAM gone (timestamp TIMESTAMP) FROM rate() TIMESTAMP BY timestamp;
DROP STREAM gone;
CREATE STREAM gone (timestamp TIMESTAMP, value BIGINT) FROM rate(rowsPerSecond => '20')
  TIMESTAMP BY timestamp;
CREATE STREAM ticks (ts BIGINT, k STRING) FROM python('own_ticks:Ticks', rows => '5')
  TIMESTAMP BY ts MICROSECONDS;
CREATE STREAM lines (ts TIMESTAMP, k STRING, n BIGINT)
  FROM socket(host => '127.0.0.1', port => '{port}', payload => 'json') TIMESTAMP BY ts;
CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM ticks [RANGE 10 SEC] GROUP BY k;
CREATE QUERY read AS SELECT k, n FROM lines [RANGE 10 SEC];
CREATE QUERY generated AS SELECT value FROM gone [RANGE 10 SEC];
"""


class Lines(socketserver.StreamRequestHandler):
    """Two rows in JSON; the connection stays open."""

    over = threading.Event()

    def handle(self) -> None:
        for second, key in enumerate("ab"):
            row = {"ts": f"2026-03-01T09:00:0{second}Z", "k": key, "n": second}
            self.wfile.write(json.dumps(row).encode() + b"\n")
        self.over.wait(120)


@pytest.fixture
def port() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lines) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        Lines.over.set()
        server.shutdown()


def came(run: QueryRun, rows: int) -> bool:
    run.await_done(0.01)  # raises what went wrong
    return sum(run.status().rows.values()) >= rows


@pytest.mark.slow
def test_rate_socket_and_a_data_source_in_python(
    spark: SparkSession, tmp_path: Path, port: int
) -> None:
    (tmp_path / "own_ticks.py").write_text(TICKS)
    file = tmp_path / "pipeline.cql"
    file.write_text(DECLARED.format(port=port))
    runs = load_pipeline(spark, file, allow_python=True).start(
        tmp_path / "state", buckets=2, sync=False
    )
    try:
        for name, rows in {"counts": 5, "read": 2, "generated": 1}.items():
            wait_for(partial(came, runs[name], rows), f"rows of {name}")
    finally:
        runs["read"].stop()
    assert sorted(runs["counts"].snapshot().to_pylist(), key=str) == [
        {"k": "k0", "n": 2},
        {"k": "k1", "n": 2},
    ]
    assert runs["read"].snapshot().to_pylist() == [{"k": "a", "n": 0}]
    assert runs["generated"].status().clock is not None


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("rate()", "which rate does not give"),
        ("socket(host => 'x', port => '1', payload => 'xml')", "the payload of stream s is 'xml'"),
        ("python('nowhere:Source')", "no nowhere:Source for the stream"),
        (
            "kafka(subscribe => 't', `kafka.bootstrap.servers` => 'b:1', payload => 'json')",
            "cannot be read: .*Kafka",
        ),
        ("kafka(subscribe => 't')", "cannot be read without kafka.bootstrap.servers"),
        ("memory()", "is memory, which cannot be read"),
        ("delta('.')", "cannot be read: .*delta"),
        ("json('.', maxFilesPerTriger => '1')", "json of stream s has no option maxFilesPerTriger"),
        ("rate(rowPerSecond => '9')", "has no option rowPerSecond"),
    ],
)
def test_a_source_that_is_not_there_is_told(
    spark: SparkSession, tmp_path: Path, source: str, problem: str
) -> None:
    file = tmp_path / "pipeline.cql"
    file.write_text(
        f"CREATE STREAM s (ts TIMESTAMP, k STRING) FROM {source} TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT k FROM s [RANGE 1 SEC];"
    )
    with pytest.raises(InvalidSetting, match=problem):
        load_pipeline(spark, file, allow_python=True)


@pytest.mark.slow
def test_recorded_rows_first_and_then_another_source(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "own_ticks.py").write_text(TICKS)
    (tmp_path / "recorded").mkdir()
    rows = [{"ts": at * 1_000_000, "k": f"k{at % 2}"} for at in range(3)]
    (tmp_path / "recorded" / "0.json").write_text("\n".join(map(json.dumps, rows)))
    text = """
    CREATE STREAM s (ts BIGINT, k STRING) FROM {} TIMESTAMP BY ts MICROSECONDS;
    CREATE QUERY counts AS SELECT k, COUNT(*) AS n FROM s [RANGE 100 SEC] GROUP BY k;
    """
    file = tmp_path / "pipeline.cql"
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "0.json").write_text(json.dumps({"ts": 3_000_000, "k": "k1"}))
    for source, in_all in (
        ("json('recorded')", 3),
        ("json('live')", 4),
        ("json('./recorded/../live')", 4),
        ("python('own_ticks:Ticks', first => '4', rows => '3')", 7),
    ):
        file.write_text(text.format(source))
        run = load_pipeline(spark, file, allow_python=True).start(
            tmp_path / "ck", buckets=1, sync=False
        )["counts"]
        try:
            wait_for(partial(came, run, in_all), f"{in_all} rows")
        finally:
            run.stop()
    assert run.status().late == {"s": 0}
    assert run.since is None, "the query goes on"
    found = sorted(run.snapshot().to_pylist(), key=str)
    assert found == [{"k": "k0", "n": 3}, {"k": "k1", "n": 3}], "the last instant is open"


def test_a_command_brings_no_code_to_a_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text(json.dumps({"ts": 1, "k": "a"}))
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "own.py").write_text("raise SystemExit('this must never run')")
    file, place = tmp_path / "p.cql", tmp_path / "ck"
    file.write_text(
        "CREATE STREAM s (ts BIGINT, k STRING) FROM json('in') TIMESTAMP BY ts MICROSECONDS;"
        "CREATE QUERY q AS SELECT k FROM s [RANGE 1 SEC];"
    )
    for allowed, problem in ((False, "would run Python code"), (True, "has no file own.py")):
        pipeline = load_pipeline(spark, file, allow_python=allowed)
        run = pipeline.start(place, available_now=True, buckets=1, sync=False)["q"]
        assert run.await_done(120)
        text = "CREATE STREAM t (ts BIGINT) FROM python('own:Source') TIMESTAMP BY ts"
        asked = {"kind": "stream", "name": "t", "text": text, "folder": str(tmp_path / "brought")}
        number = max([0, *(one.number for one in run.control.commands())]) + 1
        name = f"control/{number:012d}.json"
        run.control.repository.directory.put_if_absent(name, json.dumps(asked).encode())
        pipeline.start(place, available_now=True, sync=False)["q"].await_done(120)
        assert problem in str(run.control.outcome(number))
