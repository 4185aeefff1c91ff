"""Served queries over HTTP: last answers, streams of them, questions, and what is not there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from mayfly.lifetime import instant
from mayfly.serving.periodic.answer_sinks import AnswerLines
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from tests.property.served_cases import ServedCase, ServedRun, random_rows
from tests.unit.serving.http.running_servers import serving


def case_of(seed: int) -> ServedCase:
    case = ServedCase(Random(seed))
    case.calls, case.where, case.keys, case.having = "SUM(x) AS total", "", "a", ""
    case.length, case.period = 4, 1
    case.scan, case.isolation, case.overload = "SYNOPSIS", "LATEST", "LATE"
    return case


def rows_expected(case: ServedCase, run: ServedRun, value: dict[str, Any]) -> None:
    """What was sent is the answer of DuckDB over the rows that it claims."""

    class Claimed:
        since, as_of = instant(value["since"]), instant(value["as_of"])
        partial = value["partial"]

    sent = sorted((tuple(row.values()) for row in value["rows"]), key=str)
    assert sent == case.expected(run.rows, Claimed)  # type: ignore[arg-type]


def test_answers_over_http(tmp_path: Path) -> None:
    rng, case = Random(1), case_of(1)
    run = ServedRun(tmp_path / "ck", {"q": case})
    run.feed(random_rows(rng, 0, 8))
    with serving(tmp_path / "ck") as server:
        for _ in range(100):
            reply = server.get("/served/q")
            if reply.status == 200:
                break
            time.sleep(0.1)
        rows_expected(case, run, reply.json)
        for _ in range(100):
            listed = server.get("/served").json
            if listed["levels"]:
                break
            time.sleep(0.1)
        assert set(listed["levels"]) == {"latest-window-serializable"}
        assert [row["query"] for row in listed["queries"]] == ["q"]
        assert server.get("/served/other").status == 404
        sql = urllib.parse.quote("SELECT a, SUM(x) AS total FROM s [RANGE 2 s] GROUP BY a")
        assert server.get(f"/ask?sql={sql}").status == 200
        strict = urllib.parse.quote("SELECT COUNT(*) AS n FROM s [RANGE 2 s] BOUNDED STALENESS 0 s")
        assert server.get(f"/ask?sql={strict}").status in (200, 409)
        assert server.get("/ask").status == 400
        assert "is served" in server.get("/views/q").json["error"]["message"]


def test_answers_come_as_events_until_the_server_ends(tmp_path: Path) -> None:
    rng, case = Random(3), case_of(3)
    run = ServedRun(tmp_path / "ck", {"q": case})
    run.feed(random_rows(rng, 0, 8))
    run.feed([{"ts": 8_000_000, "a": "u", "b": 1, "x": 8}])
    with serving(tmp_path / "ck") as server, server.connect() as channel:
        channel.sendall(b"GET /served/q/answers HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        stream = channel.makefile("rb")
        for second in range(8, 11):
            for value in events(stream, (second - 1) * 1_000_000):
                rows_expected(case, run, value)
                assert {"late_by", "behind", "isolation", "level", "attempts"} <= value.keys()
            run.feed([{"ts": (second + 1) * 1_000_000, "a": "u", "b": 1, "x": second}])
        assert server.stop() == 0
        assert stream.read().endswith(b"0\r\n\r\n")  # a whole stream, not a broken one


def events(stream: Any, until: int) -> list[dict[str, Any]]:
    """The answers of a stream up to one as of an instant."""
    values: list[dict[str, Any]] = []
    end = time.monotonic() + 60  # a stream without answers still says that it is there
    while not values or instant(values[-1]["as_of"]) < until:
        line = stream.readline()
        assert line, "the stream ended"
        assert time.monotonic() < end, "no answer came"
        if line.startswith(b"data: "):
            values.append(json.loads(line[6:]))
    return values


def test_answers_come_as_lines_of_text(tmp_path: Path) -> None:
    rng, case = Random(4), case_of(4)
    run = ServedRun(tmp_path / "ck", {"q": case})
    lines: list[str] = []
    run.feed([*random_rows(rng, 0, 2), {"ts": 2_000_000, "a": "ü", "b": 1, "x": 3}])
    run.feed([{"ts": 5_000_000, "a": "ü", "b": 1, "x": 4}])
    served = ServedPipeline(tmp_path / "ck")
    served.deliver_to("q", AnswerLines(lines.append))
    run.follow(served)
    served.catch_up()
    served.work_through()
    run.check(served)
    assert lines[0] == "q as of 1970-01-01 00:00:04 (ttu)"
    rows = sorted((tuple(json.loads(line).values()) for line in lines[1:]), key=str)
    assert rows == case.expected(run.rows, run.answers[0])


KILLED = """
import sys, time
from pathlib import Path
from mayfly.serving.periodic.answer_sinks import AnswerFiles
from mayfly.serving.periodic.served_pipeline import ServedPipeline

served = ServedPipeline(sys.argv[1])
served.deliver_to("q", AnswerFiles(Path(sys.argv[2])))
with served:
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_killed_server_leaves_whole_files_and_loses_no_answer(tmp_path: Path) -> None:
    """OVERLOAD EVERY: kills may repeat answers, and leave none out."""
    rng, case = Random(2), case_of(2)
    case.overload = "EVERY"
    run = ServedRun(tmp_path / "ck", {"q": case})
    second = 8
    run.feed([*random_rows(rng, 0, second), {"ts": 1, "a": "u", "b": 1, "x": 1}])
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "ck"), str(tmp_path / "out")],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        for _ in range(4):
            run.feed([{"ts": second * 1_000_000, "a": "u", "b": 1, "x": second}])
            second += 1
            time.sleep(rng.random())
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with_last = [sys.executable, "-c", KILLED.replace("time.sleep(600)", "time.sleep(3)")]
    subprocess.run([*with_last, str(tmp_path / "ck"), str(tmp_path / "out")], check=True)
    table = pq.read_table(tmp_path / "out")
    answered: dict[int, set[str]] = {}
    for row in table.to_pylist():
        as_of = int(row["_as_of"].timestamp())
        answered.setdefault(as_of, set()).add(json.dumps([row["a"], row["total"]]))
    assert sorted(answered) == list(range(min(answered), second - 1))
    for as_of, sent in answered.items():

        class Claimed:
            since, partial = (as_of - 4) * 1_000_000, False

        Claimed.as_of = as_of * 1_000_000  # type: ignore[attr-defined]
        rows = case.expected(run.rows, Claimed)  # type: ignore[arg-type]
        assert sent == {json.dumps([key, None if v is None else int(v)]) for key, v in rows}
