"""Views whose results lie in one log with those of others, read from outside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mayfly.serving.pipeline_reader import PipelineReader
from mayfly.serving.pipeline_status import read_status
from tests.unit.serving.stored_pipelines import SECOND, clicks, pipeline, table_of

GROUPED = "SELECT user, COUNT(*) AS clicks, SUM(n) AS n FROM clicks"
TEXTS = {
    "short": f"{GROUPED} [RANGE 6 s SLIDE 2 s] GROUP BY user",
    "long": f"{GROUPED} [RANGE 15 s SLIDE 3 s] GROUP BY user",
    "turned": "SELECT n AS total, user AS who FROM (SELECT user, SUM(n) AS n, COUNT(*) AS c FROM"
    " clicks [RANGE 6 s SLIDE 2 s] GROUP BY user) x",
}
LENGTHS = {"short": (6, 2), "long": (15, 3)}


def stored(folder: Path) -> PipelineReader:
    runner = pipeline(folder, TEXTS)
    for first in range(0, 40, 8):
        runner.feed({"clicks": table_of(clicks(first, first + 8))}, {})
    logs = {answer.log for answer in runner.dataflow.stages.answers if answer.share is not None}
    assert len(logs) == 1
    return PipelineReader.open(folder)


def expected(name: str, second: int) -> Counter[tuple[object, ...]]:
    length, slide = LENGTHS[name]
    refresh = second // slide * slide
    rows = [row for row in clicks(0, 40) if refresh - length < row["ts"] // SECOND <= refresh]
    users = {row["user"] for row in rows}
    listed = {user: [row["n"] for row in rows if row["user"] == user] for user in users}
    return Counter((user, len(values), sum(values)) for user, values in listed.items())


def test_views_are_read_at_any_instant_and_by_key(tmp_path: Path) -> None:
    reader = stored(tmp_path / "ck")
    for name in LENGTHS:
        for second in (4, 17, 30, 38):
            rows = reader.view(name, as_of=second * SECOND).rows.to_pylist()
            assert Counter(tuple(row.values()) for row in rows) == expected(name, second)
            ann = reader.view(name, as_of=second * SECOND, where={"user": "ann"}).rows
            wanted = [row for row in expected(name, second) if row[0] == "ann"]
            assert [tuple(row.values()) for row in ann.to_pylist()] == wanted
    answer = reader.query("SELECT who, total FROM turned WHERE who = 'bob'", as_of=30 * SECOND)
    bob = [(row[0], row[2]) for row in expected("short", 30) if row[0] == "bob"]
    assert [tuple(row.values()) for row in answer.rows.to_pylist()] == bob


def test_changes_are_those_of_one_query(tmp_path: Path) -> None:
    reader = stored(tmp_path / "ck")
    for name, (_, slide) in LENGTHS.items():
        changes = reader.changes(name, since=10 * SECOND, until=20 * SECOND)
        begun = {value // SECOND for value in changes["ts"].cast("int64").to_pylist()}
        assert begun
        assert all(second % slide == 0 and 10 <= second < 20 for second in begun)


def test_the_log_that_is_shared_counts_for_each(tmp_path: Path) -> None:
    stored(tmp_path / "ck")
    figures = {query.name: query for query in read_status(tmp_path / "ck").queries}
    assert figures["short"].result_bytes == figures["long"].result_bytes > 0
    assert figures["short"].changes > figures["long"].changes > 0
