"""EXPLAIN of one-time queries. MAYFLY_UPDATE_GOLDEN=1 writes the file anew: read the difference."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import mayfly
from mayfly.errors import InvalidSetting
from mayfly.runtime.one_time_explanation import OneTimeExplanation
from mayfly.serving.sql_session import SqlSession
from tests.unit.serving.stored_pipelines import QUERIES, fed

GOLDEN = Path(__file__).parents[2] / "golden" / "one_time" / "explained.txt"
STORED = {
    **QUERIES,
    "kept": "SELECT * FROM clicks [RANGE 12 s]",
    "busy": "SELECT user, page, COUNT(*) AS c, SUM(n) AS s "
    "FROM clicks [RANGE 40 s SLIDE 5 s] GROUP BY user, page",
}
SQL = (
    "SELECT user, n FROM recent WHERE user = 'ann' ORDER BY n DESC LIMIT 3",
    "SELECT user FROM totals ORDER BY clicks",
    "SELECT p.town, COUNT(*) AS c FROM recent r JOIN people p ON r.user = p.user "
    "WHERE r.n > 2 GROUP BY p.town ORDER BY c",
    "SELECT user FROM totals WHERE n > (SELECT AVG(n) FROM totals) UNION SELECT user FROM people",
    "SELECT user, SUM(n) AS s FROM clicks [RANGE 20 s] GROUP BY user",
    "SELECT c.page, t.n FROM clicks [RANGE 4 s] c JOIN totals t ON c.user = t.user",
    "SELECT user FROM recent WHERE user NOT IN (SELECT user FROM people)",
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained") / "ck"
    fed(folder, queries=STORED)
    return folder


def test_golden_texts(checkpoint: Path) -> None:
    reader = mayfly.open(checkpoint)
    text = "\n".join(f"-- {sql}\n{reader.explain(sql).text()}" for sql in SQL)
    if os.environ.get("MAYFLY_UPDATE_GOLDEN") == "1":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("sql", SQL)
def test_what_is_read_comes_first_and_nothing_is_kept(checkpoint: Path, sql: str) -> None:
    text = mayfly.open(checkpoint).explain(sql).text()
    assert text.startswith("reads     ")
    for word in ("keeps answer", "/s", "alive", "growing", "assumed", "sink", "cost ", "state "):
        assert word not in text


def test_other_forms(checkpoint: Path) -> None:
    explained = mayfly.open(checkpoint).explain(SQL[0])
    assert isinstance(explained, OneTimeExplanation)
    assert str(explained) == explained.__rich__().plain == explained.text()
    assert explained.query[:50] in repr(explained)
    assert "recent.user = &#x27;ann&#x27;" in explained._repr_html_()
    values = json.loads(explained.json())
    assert values["reads"] == [{"name": "recent", "access": "view, by key (user)"}]
    assert (values["query"], values["row_by_row"]) == (SQL[0], True)
    steps = []
    step = values["plan"]
    while step:
        steps.append(step["name"])
        (step,) = step["inputs"] or [None]
    assert steps == ["Sort", "Project", "Select", "Read"]


def test_control_characters_do_not_reach_a_terminal(checkpoint: Path) -> None:
    text = mayfly.open(checkpoint).explain("SELECT user FROM recent WHERE user = '\x1b[2J'").text()
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_declared_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    declared = "CREATE STREAM s (ts TIMESTAMP, n BIGINT) FROM json('in') TIMESTAMP BY ts;"
    (tmp_path / "p.cql").write_text(declared)
    outcome = SqlSession.open(tmp_path / "p.cql").execute("EXPLAIN SELECT n FROM s [RANGE 1 HOUR]")
    assert isinstance(outcome, OneTimeExplanation)
    ((name, access),) = outcome.reads
    assert name == "s"
    assert "file" in access


def test_a_query_that_is_not_there(checkpoint: Path) -> None:
    reader = mayfly.open(checkpoint)
    with pytest.raises(InvalidSetting, match="has no query totls") as refusal:
        reader.explain("totls")
    assert "did you mean totals?" in refusal.value.hint
    assert repr(reader.explain("TOTALS")) == repr(reader.explain("totals"))
