"""One-time queries put windows on the rows that a view keeps of a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import mayfly
from mayfly.cql import CqlError, Create, catalog_after, parse
from mayfly.errors import InvalidSetting, StaleAnswer
from mayfly.pipeline.control_requests import stream_of
from mayfly.plan.catalog import QueryDefinition, StreamDefinition
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.serving.sql_session import SqlSession
from mayfly.storage import SetProperties
from tests.unit.serving.stored_pipelines import QUERIES, SECOND, clicks, fed, table_of

KEPT = {
    **QUERIES,
    "few": "SELECT * FROM clicks [RANGE 2 s]",
    "last": "SELECT * FROM clicks [RANGE 12 s]",
    "chosen": "SELECT * FROM clicks [RANGE 90 s] WHERE n > 3",
    "narrow": "SELECT ts, user FROM clicks [RANGE 90 s]",
    "sliding": "SELECT * FROM clicks [RANGE 90 s SLIDE 5 s]",
}
"""Of these, the one that keeps the rows of clicks longest is last."""
SQL = (
    "SELECT user, page, n FROM clicks WHERE n > 2",
    "SELECT user, COUNT(*) AS c, SUM(n) AS s, MAX(page) AS top FROM clicks GROUP BY user",
    "SELECT COUNT(DISTINCT page) AS pages, AVG(n) AS mean FROM clicks",
    "SELECT a.n, b.n AS m FROM clicks a, clicks b WHERE a.user = b.user AND a.n < b.n",
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept") / "ck"
    fed(folder, queries=KEPT)
    return folder


def oracle(sql: str, second: int, length: int) -> list[tuple[Any, ...]]:
    rows = [row for row in clicks(0, second + 1) if row["ts"] > (second - length) * SECOND]
    connection = duckdb.connect()
    connection.register("clicks", table_of(rows))
    return sorted(connection.execute(sql).fetchall(), key=str)


def test_conditions_between_kept_rows_and_relations(checkpoint: Path) -> None:
    sql = (
        "SELECT c.n, p.town FROM clicks {window} c, people p "
        "WHERE c.user = p.user AND c.n < LENGTH(p.town)"
    )
    rows = [row for row in clicks(0, 29) if row["ts"] > 16 * SECOND]
    connection = duckdb.connect()
    connection.register("clicks", table_of(rows))
    connection.execute("CREATE TABLE people AS VALUES ('ann', 'Kiel'), ('bob', 'Bonn')")
    expected = connection.execute(sql.format(window="").replace("people p", "people p(user, town)"))
    answer = mayfly.open(checkpoint).query(sql.format(window="[RANGE 12 s]"), as_of=28 * SECOND)
    assert 0 < answer.rows.num_rows < 6
    assert sorted(tuple(row.values()) for row in answer.rows.to_pylist()) == sorted(
        expected.fetchall()
    )


@pytest.mark.parametrize("sql", SQL)
@pytest.mark.parametrize("length", [1, 5, 12])
def test_windows_up_to_what_is_kept_equal_duckdb(checkpoint: Path, sql: str, length: int) -> None:
    reader = mayfly.open(checkpoint)
    windowed = sql.replace("clicks", f"clicks [RANGE {length} s]")
    for second in (3, 14, 28):
        answer = reader.query(windowed, as_of=second * SECOND)
        rows = sorted((tuple(row.values()) for row in answer.rows.to_pylist()), key=str)
        assert rows == oracle(sql, second, length), second
        assert (answer.as_of, answer.partial) == (second * SECOND, ())


def test_the_instant_is_the_last_closed_one(checkpoint: Path) -> None:
    reader = mayfly.open(checkpoint)
    answer = reader.query("SELECT COUNT(*) AS n FROM clicks [RANGE 2 s]")
    assert (answer.as_of, answer.rows["n"][0].as_py()) == (29 * SECOND - 1, 2)
    now = reader.query("SELECT n FROM clicks [NOW]", as_of=7 * SECOND)
    assert now.rows.to_pylist() == [{"n": clicks(7, 8)[0]["n"]}]


def test_windows_join_views_and_relations_of_the_same_instant(checkpoint: Path) -> None:
    sql = (
        "SELECT p.town, t.clicks, COUNT(*) AS few FROM clicks [RANGE 4 s] c, totals t, people p "
        "WHERE c.user = t.user AND p.user = c.user GROUP BY p.town, t.clicks"
    )
    answer = mayfly.open(checkpoint).query(sql, as_of=20 * SECOND)
    few = [row["user"] for row in clicks(17, 21)]
    many = [row["user"] for row in clicks(1, 21)]
    towns = {"ann": "Kiel", "bob": "Bonn"}
    assert sorted(tuple(row.values()) for row in answer.rows.to_pylist()) == sorted(
        (town, many.count(user), few.count(user)) for user, town in towns.items() if user in few
    )


def test_explain_names_what_is_scanned(checkpoint: Path) -> None:
    explained = mayfly.open(checkpoint).explain("SELECT n FROM clicks [RANGE 3 s]")
    assert isinstance(explained, OneTimeExplanation)
    assert explained.reads == (("clicks", "scan of the rows that last keeps (12 s)"),)


@pytest.mark.parametrize(
    ("window", "problem", "hint"),
    [
        ("[RANGE 13 s]", "last keeps the rows of clicks for 12 s, not [RANGE 13", "KEEP"),
        ("[ROWS 3]", "not [ROWS 3]", "write clicks [RANGE 12 s] or shorter"),
        ("", "last keeps the rows of clicks for 12 s", "[RANGE 12 s]"),
        ("[RANGE 4 s SLIDE 2 s]", "answered at one instant", "[RANGE 12 s] or shorter"),
    ],
)
def test_what_is_not_kept_is_refused(
    checkpoint: Path, window: str, problem: str, hint: str
) -> None:
    with pytest.raises(CqlError) as refusal:
        mayfly.open(checkpoint).query(f"SELECT n FROM clicks {window}")
    assert problem in refusal.value.message
    assert hint in refusal.value.hint


def test_streams_without_kept_rows_say_what_to_write(tmp_path: Path) -> None:
    fed(tmp_path, 10, queries={"narrow": KEPT["narrow"], "chosen": KEPT["chosen"]})
    with pytest.raises(CqlError, match="is a stream, whose rows are not kept") as refusal:
        mayfly.open(tmp_path).query("SELECT n FROM clicks [RANGE 3 s]")
    assert "ask chosen or narrow, which the checkpoint keeps of it" in refusal.value.hint
    assert "KEEP 1 HOUR" in refusal.value.hint
    assert "'SELECT * FROM clicks [RANGE 1 HOUR]'" in refusal.value.hint


def test_what_is_missing_and_how_old_it_is(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20, queries=KEPT)
    reader = mayfly.open(tmp_path)
    runner.feed({"clicks": table_of(clicks(20, 30))}, {})
    sql = "SELECT n FROM clicks [RANGE 3 s]"
    with pytest.raises(StaleAnswer, match="10 s behind"):
        reader.query(sql, staleness="9 s")
    base = runner.repository.current()
    totals = {**base.properties["totals"], "shed": {"clicks": 3}}
    runner.repository.commit(base, [SetProperties({"totals": totals})])
    assert reader.latest().query(sql).partial == ("3 rows of clicks were left out on purpose",)


DECLARED = "CREATE STREAM s (ts TIMESTAMP, k STRING) FROM json('in') TIMESTAMP BY ts KEEP 2 HOURS"


def test_keep_stands_for_a_query() -> None:
    stream, query = (statement.definition for statement in parse(DECLARED)
                     if isinstance(statement, Create))  # fmt: skip
    assert isinstance(stream, StreamDefinition)
    assert isinstance(query, QueryDefinition)
    assert (stream.keep, query.name, query.sink) == (7200 * SECOND, "kept_s", None)
    assert query.text == "SELECT * FROM `s` [RANGE 2 h]"
    catalog = catalog_after(parse(DECLARED))
    assert catalog.lookup("kept_s") == query
    for text, problem in (
        (DECLARED.replace("2 HOURS", "FOREVER"), "the time that rows are kept"),
        (f"{DECLARED} KEEP 1 s", "KEEP is given twice"),
        (f"{DECLARED}; CREATE QUERY kept_s AS SELECT k FROM s [NOW]", "kept_s"),
    ):
        with pytest.raises(CqlError, match=problem):
            parse(text)


def test_a_command_cannot_keep() -> None:
    with pytest.raises(InvalidSetting, match="KEEP, which a command cannot carry out") as refusal:
        stream_of(DECLARED)
    assert "mayfly control add CHECKPOINT kept_s" in refusal.value.hint


def test_the_shell_reads_what_the_checkpoint_keeps(checkpoint: Path) -> None:
    answer: Any = SqlSession.open(checkpoint).execute(
        "SELECT COUNT(*) AS n FROM clicks [RANGE 3 s];"
    )
    assert (answer.version > 0, answer.rows["n"][0].as_py()) == (True, 3)
