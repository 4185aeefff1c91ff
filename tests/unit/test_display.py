"""What a prompt and a notebook show: a line, or a table, never the insides."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import mayfly
from mayfly import LocalSession
from mayfly.display import html_table, one_line, shortened
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.run_status import Status
from mayfly.spark.api.streams import SparkStream

STATUS = Status(
    version=4, batch=3, clock=1_772_355_600_000_000, gap=5_000_000, rows={"s": 7}, late={"s": 0},
    timeless={}, null_keys={}, shed={}, beyond={}, changes=0, last_changes=0, state_rows=2,
    state_bytes=99, waiting_rows=0, segments=1, log_rows=0, log_bytes=0, bucket_rows=[1, 1], io={},
)  # fmt: skip


def test_texts_are_cut_to_a_line() -> None:
    assert shortened("SELECT a\n  FROM s") == "SELECT a FROM s"
    assert shortened("x" * 1000) == "x" * 59 + "…"
    assert html_table("<a>", {"b": "<c>"}).count("&lt;") == 2
    assert one_line(3, "a", "b") == "<int a, b>"


def test_sessions_runs_and_plans_show_a_line() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "TIMESTAMP", "a": "BIGINT"})
    session.relation("r", {"a": [1]}, key="a")
    assert repr(session) == "<LocalSession stream s, relation r>"
    query = "SELECT s.a FROM s [RANGE 1 MIN], r WHERE s.a = r.a"
    run = session.query(query)
    assert repr(run) == "<ContinuousRun over s, nothing closed>"
    run.feed({"s": [{"ts": 1_772_355_600_000_000, "a": 1}]})
    assert repr(run) == "<ContinuousRun over s, clock 2026-03-01 09:00:00>"
    assert repr(session.explain(query)) == f"<Explanation {query}>"


def test_a_status_is_told_in_words() -> None:
    assert repr(STATUS) == (
        "Status(version=4, batch=3, clock=2026-03-01 09:00:00, gap=5 s, rows={'s': 7}, "
        "late={'s': 0}, state_rows=2, state_bytes=99, segments=1, bucket_rows=[1, 1])"
    )
    assert "<td style='text-align:left'>2026-03-01 09:00:00</td>" in STATUS._repr_html_()


def test_a_run_shows_where_it_is_and_whether_it_runs() -> None:
    runner: Any = Mock()
    runner.repository.directory.address = "/ck"
    assert repr(QueryRun(runner, None, name="q")) == "<QueryRun q, on /ck, open for reading>"
    assert repr(QueryRun(runner, Mock(isActive=True))) == "<QueryRun query, on /ck, running>"
    assert repr(QueryRun(runner, Mock(isActive=False))) == "<QueryRun query, on /ck, stopped>"


def test_sessions_and_runs_show_a_table_in_notebooks() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "TIMESTAMP", "a": "BIGINT"})
    assert "<th style='text-align:left'>s</th>" in session._repr_html_()
    run = session.query("SELECT a FROM s [RANGE 1 MIN]")
    assert "–" in run._repr_html_()
    run.feed({"s": [{"ts": 1_772_355_600_000_000, "a": 1}]})
    assert "2026-03-01 09:00:00" in run._repr_html_()


def test_a_stream_shows_its_columns() -> None:
    declared: Any = Mock()
    declared.name, declared.schema.names = "s", ["ts", "a"]
    assert repr(SparkStream(Mock(), declared)) == "<SparkStream s, ts, a>"


def test_the_package_lists_all_it_has() -> None:
    names = dir(mayfly)
    assert {
        "LocalSession",
        "Session",
        "register",
        "archive",
        "windows",
        "MayflyError",
        "periodic",
        "synopses",
    } <= {*names}
    assert all(getattr(mayfly, name) is not None for name in names)
    assert set(mayfly.__all__) <= {*names}
