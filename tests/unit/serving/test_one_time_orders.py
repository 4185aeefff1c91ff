"""ORDER BY of one-time queries over what the SELECT list leaves out, beside DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import mayfly
from mayfly.cql import CqlError
from tests.unit.serving.stored_pipelines import fed


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders") / "ck"
    fed(folder)
    return folder


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT user FROM totals ORDER BY clicks DESC, n",
        "SELECT clicks FROM totals ORDER BY n + clicks, 1 LIMIT 2 OFFSET 1",
        "SELECT user FROM recent GROUP BY user ORDER BY COUNT(*) DESC, MAX(n) - MIN(n), SUM(n)",
        "SELECT COUNT(*) AS c FROM recent GROUP BY user ORDER BY user",
        "SELECT user FROM recent GROUP BY user HAVING COUNT(*) > 1 ORDER BY SUM(n) LIMIT 1",
        "SELECT r.n FROM recent r JOIN totals t ON r.user = t.user ORDER BY t.n, r.page, r.n",
        "SELECT n AS user FROM totals ORDER BY totals.user, 1",
    ],
)
def test_order_by_what_is_not_selected(checkpoint: Path, sql: str) -> None:
    reader = mayfly.open(checkpoint)
    with duckdb.connect() as connection:
        connection.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        for name in ("recent", "totals"):
            connection.register(name, reader.view(name).rows)
        expected = connection.execute(sql).fetchall()
    answer = reader.query(sql)
    assert [tuple(row.values()) for row in answer.rows.to_pylist()] == expected
    assert answer.rows.num_columns == 1


@pytest.mark.parametrize(
    ("sql", "problem", "hint"),
    [
        ("SELECT DISTINCT user FROM totals ORDER BY n", "only use output columns", "user"),
        ("SELECT user FROM totals ORDER BY COUNT(*)", "COUNT is not allowed", "sub-query"),
        ("SELECT user FROM recent GROUP BY user ORDER BY n", "neither in GROUP BY", "MIN"),
        ("SELECT 1", "no FROM", "name a view, relation or archive: FROM v"),
    ],
)
def test_orders_and_sources_that_do_not_exist(
    checkpoint: Path, sql: str, problem: str, hint: str
) -> None:
    with pytest.raises(CqlError, match=problem) as refusal:
        mayfly.open(checkpoint).query(sql)
    assert hint in refusal.value.hint
