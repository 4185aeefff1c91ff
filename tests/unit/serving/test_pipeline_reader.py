"""A pipeline read from outside: views, logs, relations and plans of one committed version."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import mayfly
from mayfly.archive import create
from mayfly.errors import (
    InvalidSetting,
    NotClosed,
    StorageError,
    UnsupportedFormat,
    VersionExpired,
)
from mayfly.serving.pipeline_reader import read_newest
from mayfly.storage import SetProperties, vacuum
from tests.unit.serving.stored_pipelines import (
    PEOPLE,
    SECOND,
    clicks,
    expected,
    fed,
    people,
    pipeline,
    table_of,
    tuples,
)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", ["recent", "totals", "towns"])
def test_views_at_every_closed_instant(tmp_path: Path, name: str) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    for second in range(29):
        answer = reader.view(name, as_of=second * SECOND)
        assert tuples(answer.rows) == expected(name, second), second
        assert (answer.as_of, answer.partial) == (second * SECOND, ())
    latest = reader.view(name.upper())
    assert latest.as_of == 29 * SECOND - 1
    assert tuples(latest.rows) == expected(name, 28)


def test_the_newest_state_is_shown_only_when_it_is_asked_for(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    reader = mayfly.open(tmp_path)
    runner.feed({"clicks": table_of(clicks(20, 30))}, {})
    assert tuples(reader.view("recent").rows) == expected("recent", 18)
    assert reader.status().version == reader.version
    latest = reader.latest()
    assert latest.version == reader.version + 1
    assert tuples(latest.view("recent").rows) == expected("recent", 28)


def test_logs_of_views_and_of_what_is_sent(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    log = reader.changes("recent", since=5 * SECOND, until=8 * SECOND)
    assert log.column_names == ["user", "page", "n", "ts", "exp"]
    assert sorted(log["n"].to_pylist()) == sorted(row["n"] for row in clicks(5, 8))
    ts, exp = (log[name].cast(pa.int64()).to_pylist() for name in ("ts", "exp"))
    assert [end - 10 * SECOND for end in exp] == ts
    sent = reader.changes("fresh", until=8 * SECOND)
    assert sent.column_names == ["user", "page", "ts"]
    assert sent.num_rows == 8
    with pytest.raises(InvalidSetting, match="sends Istream"):
        reader.view("fresh")


def test_relations_as_the_queries_have_read_them(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    reader = mayfly.open(tmp_path)
    assert tuples(reader.query("SELECT user, town FROM people").rows) == sorted(PEOPLE)
    runner.relations = {
        "people": people(
            "UPDATE people SET town = 'Ulm' WHERE user = 'ann' AT TIMESTAMP '1970-01-01 00:00:22'",
            "DELETE FROM people WHERE user = 'bob' AT TIMESTAMP '1970-01-01 00:00:25'",
        )
    }
    runner.feed({"clicks": table_of(clicks(20, 30))}, {})
    assert tuples(reader.query("SELECT user, town FROM people").rows) == sorted(PEOPLE)
    latest = reader.latest()
    for second, rows in (
        (21, [("ann", "Kiel"), ("bob", "Bonn")]), (22, [("ann", "Ulm"), ("bob", "Bonn")]),
        (24, [("ann", "Ulm"), ("bob", "Bonn")]), (25, [("ann", "Ulm")]),
    ):  # fmt: skip
        answer = latest.query("SELECT user, town FROM people", as_of=second * SECOND)
        assert tuples(answer.rows) == rows, second
    assert len(list(latest.manifest.in_group("relation"))) == 1


def test_a_relation_is_written_when_it_changes_and_not_otherwise(tmp_path: Path) -> None:
    runner = fed(tmp_path, 20)
    (before,) = runner.repository.current().in_group("relation")
    runner.feed({"clicks": table_of(clicks(20, 30))}, {})
    (after,) = runner.repository.current().in_group("relation")
    assert before == after


def test_plans_are_shown_without_running_anything(tmp_path: Path) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    assert "RANGE 20" in reader.explain("totals").text()
    assert "totals" in reader.explain("SELECT COUNT(*) AS n FROM totals").text()


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    fed(tmp_path)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(tmp_path)
    reader = mayfly.open(tmp_path)
    reader.status()
    reader.view("recent")
    reader.changes("totals")
    reader.explain("recent")
    reader.query("SELECT r.user, p.town FROM recent r, people p WHERE r.user = p.user")
    reader.latest().view("totals", as_of=20 * SECOND)
    assert listing(tmp_path) == before
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_version_that_is_vacuumed_away_is_named_and_the_newest_read(tmp_path: Path) -> None:
    runner = fed(tmp_path, 40, step=5)
    reader = mayfly.open(tmp_path)
    for first in range(40, 140, 5):
        runner.feed({"clicks": table_of(clicks(first, first + 5))}, {})
    vacuum(runner.repository, keep_versions=1, grace=0)
    with pytest.raises(VersionExpired, match="is gone"):
        reader.view("totals")
    answer = read_newest(reader, lambda newest: newest.query("SELECT user FROM recent"))
    assert answer.version > reader.version
    assert answer.rows.num_rows == 10


def test_instants_that_nobody_can_show(tmp_path: Path) -> None:
    runner = fed(tmp_path)
    reader = mayfly.open(tmp_path)
    with pytest.raises(NotClosed, match="not closed yet"):
        reader.view("recent", as_of=29 * SECOND)
    base = runner.repository.current()
    queries = {n: {**q, "since": 9 * SECOND} for n, q in base.properties["queries"].items()}
    edit = SetProperties({"kept_from": {"totals": 20 * SECOND}, "queries": queries})
    runner.repository.commit(base, [edit])
    reader = reader.latest()
    with pytest.raises(VersionExpired, match="older than the kept history of totals"):
        reader.view("totals", as_of=20 * SECOND - 1)
    assert reader.view("totals", as_of=20 * SECOND).rows.num_rows
    with pytest.raises(VersionExpired, match="was added at"):
        reader.view("recent", as_of=8 * SECOND)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    runner = fed(tmp_path)
    base = runner.repository.current()
    queries = dict(base.properties["queries"])
    queries["recent"] = {**queries["recent"], "since": 5 * SECOND, "whole_from": 15 * SECOND}
    totals = {**base.properties["totals"], "shed": {"clicks": 3}}
    runner.repository.commit(base, [SetProperties({"queries": queries, "totals": totals})])
    reader = mayfly.open(tmp_path)
    shed = "3 rows of clicks were left out on purpose"
    early = reader.view("recent", as_of=14 * SECOND).partial
    assert early[0].startswith("recent was added later")
    assert early[1:] == (shed,)
    assert reader.view("recent", as_of=15 * SECOND).partial == (shed,)
    assert reader.query("SELECT user FROM recent").partial == (shed,)


def test_what_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    pipeline(tmp_path / "ck")
    reader = mayfly.open(tmp_path / "ck")
    with pytest.raises(NotClosed, match="no instant is closed yet"):
        reader.view("recent")
    with pytest.raises(NotClosed, match="no instant is closed yet"):
        reader.query("SELECT user FROM recent")
    with pytest.raises(InvalidSetting, match="did you mean recent"):
        reader.view("recnt")
    with pytest.raises(StorageError, match="no Mayfly directory"):
        mayfly.open(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="there is no file"):
        mayfly.open(tmp_path / "nowhere.cql")
    golden = Path(__file__).parents[2] / "golden" / "formats" / "checkpoint-version-5"
    with pytest.raises(UnsupportedFormat, match="start the pipeline once"):
        mayfly.open(golden).query("SELECT 1 FROM q")


def test_a_pipeline_file_stands_for_its_checkpoint_and_archives(tmp_path: Path) -> None:
    file = tmp_path / "p.cql"
    file.write_text(
        "CREATE STREAM clicks (ts TIMESTAMP, user STRING) FROM json('in') TIMESTAMP BY ts;\n"
        "CREATE ARCHIVE days KEY user REFRESH 1 DAY AS SELECT user, ts FROM clicks [RANGE 9 DAYS];"
    )
    with pytest.raises(StorageError, match="has no checkpoint yet"):
        mayfly.open(file)
    fed(tmp_path / "p.state")
    create(
        tmp_path / "archives" / "days", {"user": "string", "ts": "timestamp"}, key="user",
        window="9 days", time="ts",
    )  # fmt: skip
    reader = mayfly.open(file)
    assert list(reader.archives) == ["days"]
    assert tuples(reader.view("recent").rows) == expected("recent", 28)


PARTNERS = (
    "SELECT user, n FROM totals WHERE user IN (SELECT user FROM people)",
    "SELECT user, n FROM totals t WHERE EXISTS (SELECT 1 FROM people p WHERE p.user = t.user)",
    "SELECT user, page FROM recent WHERE n IN (SELECT n FROM recent WHERE page = 'p1')",
    "SELECT user, n FROM recent r WHERE EXISTS (SELECT 1 FROM recent o WHERE o.n > r.n + 3)",
    "SELECT user FROM people WHERE town IN (SELECT town FROM towns) AND user NOT IN "
    "(SELECT user FROM recent WHERE user IS NOT NULL AND n > 9)",
)


@pytest.mark.parametrize("sql", PARTNERS)
def test_partners_are_found_in_any_table_by_any_condition(tmp_path: Path, sql: str) -> None:
    fed(tmp_path)
    reader = mayfly.open(tmp_path)
    database = duckdb.connect()
    for name in ("recent", "totals", "towns", "people"):
        database.register(name, reader.query(f"SELECT * FROM {name}").rows)
    assert tuples(reader.query(sql).rows) == sorted(database.execute(sql).fetchall(), key=str)
