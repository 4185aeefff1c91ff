"""Groupings over streams whose rows are not kept, answered from panes of periodic queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import mayfly
from mayfly.cql import CqlError
from mayfly.errors import InvalidSetting, StaleAnswer
from mayfly.runtime.answer import QueryAnswer
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.serving.sql_session import SqlSession
from tests.unit.serving.stored_pipelines import QUERIES, SECOND, clicks, fed, table_of

PERIODIC = {
    "recent": QUERIES["recent"],
    "busy": "SELECT user, page, COUNT(*) AS c, SUM(n) AS s, COUNT(DISTINCT n) AS d "
    "FROM clicks [RANGE 20 s SLIDE 5 s] GROUP BY user, page",
    "most": "SELECT MAX(n) AS m FROM clicks [RANGE 6 s SLIDE 3 s]",
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("panes") / "ck"
    fed(folder, queries=PERIODIC)
    return folder


def oracle(sql: str, second: int, length: int) -> list[tuple[Any, ...]]:
    rows = [row for row in clicks(0, second + 1) if row["ts"] > (second - length) * SECOND]
    connection = duckdb.connect()
    connection.register("clicks", table_of(rows))
    return sorted(connection.execute(sql).fetchall(), key=str)


def shown(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)


@pytest.mark.parametrize(
    ("sql", "length", "edge"),
    [
        ("SELECT user, page, SUM(n) AS s FROM clicks GROUP BY user, page", 20, 25),
        ("SELECT user, COUNT(*) AS c FROM clicks GROUP BY user", 10, 25),
        ("SELECT page, SUM(n) AS s FROM clicks WHERE user = 'ann' GROUP BY page", 15, 25),
        ("SELECT COUNT(*) AS c, SUM(n) AS s FROM clicks", 5, 25),
        ("SELECT COUNT(DISTINCT page) AS p, COUNT(DISTINCT n) AS n FROM clicks", 20, 25),
        ("SELECT MAX(n) AS m FROM clicks", 3, 27),
        ("SELECT user, MEDIAN(n) AS m FROM clicks GROUP BY user", 15, 25),
        ("SELECT user, SUM(n) + 1 AS s FROM clicks GROUP BY user HAVING COUNT(*) > 1", 20, 25),
    ],
)
def test_answers_are_those_of_rows_at_an_edge(
    checkpoint: Path, sql: str, length: int, edge: int
) -> None:
    reader = mayfly.open(checkpoint)
    windowed = sql.replace("clicks", f"clicks [RANGE {length} s]")
    answer = reader.query(windowed)
    assert (answer.as_of, answer.partial) == (edge * SECOND, ())
    assert shown(answer.rows) == oracle(sql, edge, length)
    explained = reader.explain(windowed)
    assert isinstance(explained, OneTimeExplanation)
    ((_, access),) = explained.reads
    query = "most" if edge == 27 else "busy"
    assert access.startswith(f"panes that {query} keeps ([RANGE ")
    text = explained.text()
    assert ("panes that" in text, "warning" in text) == (True, False)
    typed = SqlSession.open(checkpoint).execute(windowed)
    assert isinstance(typed, QueryAnswer)
    assert shown(typed.rows) == oracle(sql, edge, length)


def test_an_earlier_edge_and_instants_between(checkpoint: Path) -> None:
    reader = mayfly.open(checkpoint)
    sql = "SELECT user, SUM(n) AS s FROM clicks [RANGE 5 s] GROUP BY user"
    plain = sql.replace(" [RANGE 5 s]", "")
    assert shown(reader.query(sql, as_of=20 * SECOND).rows) == oracle(plain, 20, 5)
    with pytest.raises(InvalidSetting, match="not cut at 1970-01-01 00:00:22") as refusal:
        reader.query(sql, as_of=22 * SECOND)
    assert "ask as of 1970-01-01 00:00:20" in refusal.value.hint


def test_with_a_view_the_instant_is_an_edge_of_both(checkpoint: Path) -> None:
    sql = (
        "SELECT r.page, COUNT(*) AS n, t.s FROM recent r, "
        "(SELECT page, SUM(n) AS s FROM clicks [RANGE 10 s] GROUP BY page) t "
        "WHERE r.page = t.page GROUP BY r.page, t.s"
    )
    answer = mayfly.open(checkpoint).query(sql)
    assert answer.as_of == 25 * SECOND
    sums = dict(oracle("SELECT page, SUM(n) FROM clicks GROUP BY page", 25, 10))
    counts = dict(oracle("SELECT page, COUNT(*) FROM clicks GROUP BY page", 25, 10))
    assert shown(answer.rows) == sorted((page, counts[page], sums[page]) for page in counts)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT user, SUM(n) AS s FROM clicks [RANGE 1 min] GROUP BY user", "no window of 1 min"),
        ("SELECT user, SUM(n) AS s FROM clicks [RANGE 7 s] GROUP BY user", "no window of 7 s"),
        ("SELECT user, MIN(n) AS s FROM clicks [RANGE 5 s] GROUP BY user", "they have no MIN"),
        ("SELECT ts, SUM(n) AS s FROM clicks [RANGE 5 s] GROUP BY ts", "grouped otherwise"),
        (
            "SELECT SUM(n) AS s FROM clicks [RANGE 5 s] WHERE ts > TIMESTAMP '1970-01-01'",
            "do not tell apart",
        ),
        ("SELECT SUM(DISTINCT n) AS s FROM clicks [RANGE 5 s]", "needs every value"),
        ("SELECT user FROM clicks [RANGE 5 s]", "rows are not kept"),
    ],
)
def test_what_panes_do_not_answer_is_refused_with_the_reason(
    checkpoint: Path, sql: str, why: str
) -> None:
    with pytest.raises(CqlError, match=why) as refusal:
        mayfly.open(checkpoint).query(sql)
    assert "KEEP" in refusal.value.hint


def test_panes_of_some_rows_do_not_answer_for_all(tmp_path: Path) -> None:
    query = (
        "SELECT user, COUNT(*) AS c FROM clicks [RANGE 20 s SLIDE 5 s] WHERE n > 3 GROUP BY user"
    )
    fed(tmp_path, queries={"busy": query})
    reader = mayfly.open(tmp_path)
    sql = "SELECT user, COUNT(*) AS c FROM clicks [RANGE 10 s] {} GROUP BY user"
    for condition in ("", "WHERE user IS NOT NULL"):
        with pytest.raises(CqlError, match="they leave out rows that are asked for"):
            reader.query(sql.format(condition))
    plain = sql.replace(" [RANGE 10 s]", "").format("WHERE n > 3 AND user IS NOT NULL")
    answer = reader.query(sql.format("WHERE user IS NOT NULL AND n > 3"))
    assert shown(answer.rows) == oracle(plain, 25, 10)


@pytest.mark.parametrize("step", [3, 10, 60])
def test_panes_are_cut_no_longer_where_a_short_window_has_moved_on(
    tmp_path: Path, step: int
) -> None:
    """Behind the short window its edges every second are given up, and panes merged."""
    by = "GROUP BY user"
    queries = {
        "short": f"SELECT user, SUM(n) AS s FROM clicks [RANGE 4 s SLIDE 1 s] {by}",
        "long": f"SELECT user, SUM(n) AS s FROM clicks [RANGE 40 s SLIDE 10 s] {by}",
    }
    fed(tmp_path, 60, step, queries=queries)
    reader = mayfly.open(tmp_path)
    edges = {}
    for length in (1, 4, 10, 20, 28):
        answer = reader.query(f"SELECT user, SUM(n) AS s FROM clicks [RANGE {length} s] {by}")
        edges[length] = answer.as_of // SECOND
        plain = f"SELECT user, SUM(n) AS s FROM clicks {by}"
        assert shown(answer.rows) == oracle(plain, edges[length], length), length
    assert edges == {1: 58, 4: 58, 10: 50, 20: 50, 28: 58}
    # 13 s would end at 10 s, where no row comes before them; but the first rows are gone.
    for length in (13, 31):
        with pytest.raises(CqlError, match=f"no window of {length} s ends at their edges"):
            reader.query(f"SELECT user, SUM(n) AS s FROM clicks [RANGE {length} s] {by}")


def test_rows_that_are_kept_answer_where_panes_do_not(tmp_path: Path) -> None:
    fed(tmp_path, queries={**PERIODIC, "kept": "SELECT * FROM clicks [RANGE 12 s]"})
    reader = mayfly.open(tmp_path)
    sql = "SELECT user, SUM(n) AS s FROM clicks [RANGE 5 s] GROUP BY user"
    plain = sql.replace(" [RANGE 5 s]", "")
    assert reader.query(sql).as_of == 25 * SECOND
    scanned = reader.query(sql, as_of=22 * SECOND)
    assert shown(scanned.rows) == oracle(plain, 22, 5)
    fresh = reader.query(f"{sql} BOUNDED STALENESS 1 s")
    assert fresh.as_of == 29 * SECOND - 1
    longer = "SELECT MEDIAN(n) AS m FROM clicks [RANGE 12 s]"
    explained = reader.explain(longer)
    assert isinstance(explained, OneTimeExplanation)
    assert explained.reads == (("clicks", "scan of the rows that kept keeps (12 s)"),)


def test_panes_that_are_too_old_are_refused(checkpoint: Path) -> None:
    sql = "SELECT user, SUM(n) AS s FROM clicks [RANGE 5 s] GROUP BY user"
    with pytest.raises(StaleAnswer, match="behind the pipeline"):
        mayfly.open(checkpoint).query(sql, staleness="1 s")


def test_an_instant_that_is_gone_is_not_waited_for(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the pipeline does, an older answer than it allows stays too old."""
    reader = mayfly.open(checkpoint)

    def sleep(seconds: float) -> None:
        raise AssertionError(f"waits for {seconds} s")

    monkeypatch.setattr("mayfly.serving.answer_age.time.sleep", sleep)
    with pytest.raises(StaleAnswer):
        reader.view("recent", as_of=10 * SECOND, staleness="1 s", wait="1 min")
    with pytest.raises(StaleAnswer):
        reader.query("SELECT * FROM recent", as_of=10 * SECOND, lag="1 s", wait="1 min")
