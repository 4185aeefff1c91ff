"""What a prompt and a notebook show: a line, or a table, never the insides."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa

import mayfly
from mayfly import LocalSession
from mayfly.archive.read.selection import ReadReport
from mayfly.display import LONGEST_LINE, html_table, one_line, shortened
from mayfly.periodic import QueryWorkload
from mayfly.pipeline.control_log import ControlLog
from mayfly.spark.api.query_run import QueryRun
from mayfly.spark.api.run_status import Status
from mayfly.spark.api.streams import SparkStream
from mayfly.storage import Repository, VacuumReport, VerifyReport
from mayfly.storage.verify import Problem
from mayfly.synopses import BasicInterval
from mayfly.synopses.number_algebra import SUM

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


def test_synopses_and_workloads_show_a_line() -> None:
    schema = pa.schema([("ts", pa.int64()), ("x", pa.int64())])
    assert repr(QueryWorkload(schema)) == "<QueryWorkload no queries, no rows yet>"
    assert repr(BasicInterval(SUM, 8)) == "<BasicInterval of 8 panes, after update 0>"


def test_a_stream_shows_its_columns() -> None:
    declared: Any = Mock()
    declared.name, declared.schema.names = "s", ["ts", "a"]
    assert repr(SparkStream(Mock(), declared)) == "<SparkStream s, ts, a>"


def test_however_much_there_is_a_prompt_shows_a_line() -> None:
    text = one_line(3, *(f"stream s{number}" for number in range(500)))
    assert text.endswith("…>")
    assert len(text) == LONGEST_LINE


def test_whatever_is_looked_at_is_shown_on_a_line(tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "ck", {"queries": {f"q{n}": {} for n in range(99)}})
    session = LocalSession()
    for number in range(50):
        session.stream(f"a_stream_with_a_long_name_{number}", {"ts": "TIMESTAMP"})
    problems = tuple(Problem(f"data/{number}", "lost " * 99) for number in range(9))
    report = VerifyReport(3, 7, 100, problems)
    status = replace(STATUS, rows={f"s{number}": number for number in range(99)})
    for value in (
        session, report, VerifyReport(3, 7, 100, ()), VacuumReport(1, 2, 3, 4), ReadReport(1, 2),
        repository.current(), ControlLog(repository), status,
    ):  # fmt: skip
        assert len(repr(value)) <= LONGEST_LINE, value
        assert "\n" not in repr(value)
        assert " object at 0x" not in repr(value)
    assert "problems 9, the first in data/0: lost" in repr(report)
    assert "<th style='text-align:left'>problems</th>" in report._repr_html_()
    assert repr(VacuumReport(1, 2, 3, 0)) == (
        "<VacuumReport versions_removed 1, files_removed 2, bytes_removed 3, files_too_young 0>"
    )
    assert repr(repository.current()) == "<Manifest version 0, of 0 segments>"


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


def test_what_the_docs_use_of_the_package_is_listed() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = {*re.findall(r"\bmayfly\.(\w+)\(", text), *re.findall(r"\bimport mayfly\.(\w+)", text)}
    assert {"Session", "LocalSession", "open", "register", "archive"} <= used <= {*dir(mayfly)}
