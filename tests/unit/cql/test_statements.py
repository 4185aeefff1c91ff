"""Statements: what a file declares, registers, changes and asks for."""

from __future__ import annotations

from copy import copy
from datetime import date
from decimal import Decimal

import pytest

from mayfly.cql import (
    CqlError,
    Create,
    Delete,
    Drop,
    Explain,
    ExplainSharing,
    Insert,
    OneTimeQuery,
    Show,
    Statement,
    Update,
    catalog_after,
    parse,
)
from mayfly.lifetime import NEVER, instant
from mayfly.plan.catalog import (
    ArchiveDefinition,
    Catalog,
    Connector,
    Definition,
    Idle,
    LayoutChoice,
    QueryDefinition,
    RelationDefinition,
    StreamDefinition,
)
from mayfly.plan.logical_operators import OutputKind
from mayfly.plan.serving_terms import Isolation, ServeClause
from tests.golden.cql.cases import catalog

CATALOG = catalog()
SECOND = 1_000_000


def one(text: str, known: Catalog = CATALOG) -> Statement:
    (statement,) = parse(text, known)
    return statement


def created(text: str, known: Catalog = CATALOG) -> Definition:
    statement = one(text, known)
    assert isinstance(statement, Create)
    return statement.definition


def test_a_stream_with_every_clause() -> None:
    stream = created(
        """CREATE STREAM `my stream` (
             ts TIMESTAMP NOT NULL, n BIGINT, `odd name` STRUCT<a: INT, b: ARRAY<DECIMAL(10, 2)>>
           )
           SEQUENCE BY n
           FROM parquet('in/', pathGlobFilter => '*.gz', mode = 'x')
           TIMESTAMP BY ts
           DEAD LETTERS TO json('late/')
           SLACK 2 SECONDS IDLE WALL CLOCK MINUS 5s"""
    )
    assert isinstance(stream, StreamDefinition)
    assert stream.name == "my stream"
    assert [(c.name, c.type.sql(), c.nullable) for c in stream.columns] == [
        ("ts", "timestamp", False),
        ("n", "bigint", True),
        ("odd name", "struct<a:int,b:array<decimal(10,2)>>", True),
    ]
    assert (stream.time, stream.sequence, stream.slack) == ("ts", ("n",), 2 * SECOND)
    assert (stream.idle, stream.idle_delay) == (Idle.WALL_CLOCK, 5 * SECOND)
    options = (("pathGlobFilter", "*.gz"), ("mode", "x"))
    assert stream.source == Connector("parquet", "in/", options)
    assert stream.dead_letters == Connector("json", "late/")


@pytest.mark.parametrize(
    ("clause", "idle"), [("IDLE NONE", Idle.NONE), ("IDLE PUNCTUATIONS", Idle.PUNCTUATIONS)]
)
def test_idle_forms(clause: str, idle: Idle) -> None:
    stream = created(f"CREATE STREAM s (t BIGINT) TIMESTAMP BY T {clause}")
    assert isinstance(stream, StreamDefinition)
    assert (stream.time, stream.idle) == ("t", idle)


def test_relations_and_nrrs() -> None:
    relation = created("CREATE RELATION r (a INT, b STRING)")
    nrr = created("CREATE NRR n (a INT, b STRING) KEY (A) FROM csv('n.csv')")
    assert isinstance(relation, RelationDefinition)
    assert isinstance(nrr, RelationDefinition)
    assert (relation.retroactive, relation.key, relation.kind) == (True, (), "relation")
    assert (nrr.retroactive, nrr.key, nrr.kind) == (False, ("a",), "NRR")
    assert [c.nullable for c in nrr.columns] == [False, True]


def test_a_query_keeps_its_text_and_its_sink() -> None:
    query = created(
        "CREATE QUERY q TO parquet('out') SERVE PRIORITY 2 ISOLATION WINDOW AS "
        "SELECT COUNT(*) AS n FROM link1 [RANGE 1 MIN SLIDE 10 S];"
    )
    assert isinstance(query, QueryDefinition)
    assert query.plan.serve == ServeClause(priority=2, isolation=Isolation.WINDOW)
    assert query.text == (
        "SERVE PRIORITY 2 ISOLATION WINDOW AS "
        "SELECT COUNT(*) AS n FROM link1 [RANGE 1 MIN SLIDE 10 S]"
    )
    assert query.sink == Connector("parquet", "out")


def test_what_is_undone_is_in_the_text_of_a_query() -> None:
    begin = "SERVE ISOLATION LATEST UNDO AS"
    select = "SELECT COUNT(*) AS n FROM link1 [RANGE 1 MIN SLIDE 10 S];"
    query = created(f"CREATE QUERY q {begin} {select}")
    assert isinstance(query, QueryDefinition)
    assert query.plan.serve == ServeClause(undo=True)
    assert query.text.startswith(begin)


@pytest.mark.parametrize(
    ("clause", "layout"),
    [
        ("", LayoutChoice("AUTO")),
        ("LAYOUT auto", LayoutChoice("AUTO")),
        ("LAYOUT DEL(3)", LayoutChoice("DEL", (3,))),
        ("LAYOUT REINDEX+ (2)", LayoutChoice("REINDEX+", (2,))),
        (
            "LAYOUT REINDEX++(4) USING PACKED SHADOW",
            LayoutChoice("REINDEX++", (4,), "PACKED SHADOW"),
        ),
        (
            "LAYOUT ROUND_ROBIN(4, 2) USING NO REBUILD",
            LayoutChoice("ROUND_ROBIN", (4, 2), "NO REBUILD"),
        ),
    ],
)
def test_layouts_of_an_archive(clause: str, layout: LayoutChoice) -> None:
    archive = created(
        f"CREATE ARCHIVE a KEY SRC REFRESH 1 DAY {clause} AS SELECT src FROM link1 [RANGE 7 DAYS]"
    )
    assert isinstance(archive, ArchiveDefinition)
    assert archive.layout == layout
    assert (archive.key, archive.refresh) == (("src",), 86_400 * SECOND)


def test_an_archive_with_every_clause() -> None:
    archive = created(
        "CREATE ARCHIVE a KEY (src, tag) REFRESH 1 MIN SOFT(2) PHYSICAL WITHIN 1 HOUR"
        " MAX GAP 1 DAY MAX LIFETIME 2 HOURS DEAD LETTERS TO parquet('late')"
        " AS SELECT src, dst AS tag FROM link1"
    )
    assert isinstance(archive, ArchiveDefinition)
    assert (archive.soft, archive.physical_within) == (2, 3600 * SECOND)
    assert archive.max_lifetime == 7200 * SECOND
    assert archive.max_gap == 86_400 * SECOND
    assert archive.dead_letters == Connector("parquet", "late")


def test_an_archive_without_a_limit_on_the_gap() -> None:
    archive = created("CREATE ARCHIVE a KEY src REFRESH 1 MIN MAX GAP NONE AS SELECT src FROM link1"
                      " [RANGE 1 HOUR]")  # fmt: skip
    assert isinstance(archive, ArchiveDefinition)
    assert archive.max_gap == NEVER


def test_an_array_can_be_a_key() -> None:
    archive = created(
        "CREATE ARCHIVE a KEY tags REFRESH 1 DAY HARD AS SELECT tags FROM readings [RANGE 7 DAYS]"
    )
    assert isinstance(archive, ArchiveDefinition)
    assert (archive.key, archive.soft) == (("tags",), 0)


def test_statements_see_what_was_declared_before_them() -> None:
    text = """
      -- a comment; with a semicolon
      CREATE STREAM a (ts TIMESTAMP, x INT) TIMESTAMP BY ts;
      CREATE QUERY q AS SELECT x FROM a [RANGE 1 MIN]; /* another ; */
      ;
      EXPLAIN COMPARE q; SHOW QUERIES; DROP QUERY q; DROP STREAM a;
      CREATE STREAM A (ts TIMESTAMP, y INT) TIMESTAMP BY ts;
      SELECT y FROM a [NOW] ORDER BY y LIMIT 5
    """
    statements = parse(text)
    kinds = [type(statement) for statement in statements]
    assert kinds == [Create, Create, Explain, Show, Drop, Drop, Create, OneTimeQuery]
    assert [statement.position.line for statement in statements] == [3, 4, 6, 6, 6, 6, 7, 8]
    after = catalog_after(statements)
    assert [entry.name for entry in after] == ["A"]
    assert list(Catalog()) == []


def test_explain_and_show() -> None:
    explain = one("EXPLAIN SELECT DISTINCT src FROM link1 [RANGE 1 MIN]")
    assert isinstance(explain, Explain)
    assert (explain.compare, explain.name, explain.plan.one_time) == (False, "", False)
    named = one("EXPLAIN COMPARE QUERY Busy")
    assert isinstance(named, Explain)
    assert (named.compare, named.name) == (True, "busy")
    forms = ("", " TEXT", " json", " MERMAID")
    sharing = [one(f"EXPLAIN SHARING{form}") for form in forms]
    shown_as = [statement.form for statement in sharing if isinstance(statement, ExplainSharing)]
    assert shown_as == ["TEXT", "TEXT", "JSON", "MERMAID"]
    shown = [one(f"SHOW {word}") for word in ("streams", "RELATIONS", "NRRS", "ARCHIVES")]
    assert [s.kind for s in shown if isinstance(s, Show)] == [
        "stream",
        "relation",
        "NRR",
        "archive",
    ]


def test_a_query_called_sharing_is_explained_as_others_are() -> None:
    text = "CREATE QUERY sharing AS SELECT src FROM link1 [RANGE 1 MIN]; EXPLAIN sharing"
    *_, explain = parse(text, CATALOG)
    assert isinstance(explain, Explain)
    assert explain.name == "sharing"


def test_a_select_on_its_own_is_a_one_time_query() -> None:
    query = one("SELECT ip FROM hosts ORDER BY ip LIMIT 2")
    assert isinstance(query, OneTimeQuery)
    assert query.plan.one_time
    assert query.plan.kind is OutputKind.VIEW
    assert query.text == "SELECT ip FROM hosts ORDER BY ip LIMIT 2"


def test_rows_are_inserted_in_the_order_of_the_columns() -> None:
    insert = one(
        "INSERT INTO hosts (since, load, IP) VALUES ('2026-01-31', 1, 'a'), (NULL, -2.5, 'b')"
        " AT '2026-02-01 10:00'"
    )
    assert isinstance(insert, Insert)
    values = [[getattr(cell, "value", None) for cell in row] for row in insert.rows]
    assert values == [
        ["a", None, date(2026, 1, 31), Decimal(1)],
        ["b", None, None, Decimal("-2.5")],
    ]
    types = [cell.type.sql() for cell in insert.rows[1]]
    assert types == ["string", "string", "date", "decimal(5,2)"]
    assert insert.instant == instant("2026-02-01T10:00")


def test_updates_and_deletes_read_the_columns() -> None:
    update = one("UPDATE hosts SET load = load + 1, owner = upper(owner) WHERE ip IN ('a', 'b')")
    assert isinstance(update, Update)
    assert [name for name, _ in update.assignments] == ["load", "owner"]
    assert update.assignments[1][1].sql() == "upper(`hosts`.`owner`)"
    assert update.condition is not None
    assert update.condition.sql() == "(`hosts`.`ip` IN ('a', 'b'))"
    assert update.instant is None
    delete = one("DELETE FROM companies AT '2026-01-01'")
    assert isinstance(delete, Delete)
    assert (delete.relation, delete.condition) == ("companies", None)
    assert delete.instant == instant("2026-01-01")


@pytest.mark.parametrize("value", ["ip", "since", "1.234", "99999"])
def test_a_new_value_must_fit_the_column(value: str) -> None:
    with pytest.raises(CqlError, match="load has type DECIMAL"):
        one(f"UPDATE hosts SET load = {value}")


def test_drop_if_exists() -> None:
    drop = one("DROP NRR IF EXISTS Companies")
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name) == ("NRR", "companies")
    assert isinstance(one("DROP QUERY IF EXISTS nothing"), Drop)


def test_an_error_names_the_file_and_survives_being_copied() -> None:
    with pytest.raises(CqlError) as caught:
        parse("SHOW QUERIES;\n  SHOW me", CATALOG, name="run.cql")
    error = caught.value
    assert str(error).startswith("run.cql:2:8: expected what to show, found me\n")
    again = copy(error)
    assert (str(again), again.position, again.problem) == (
        str(error),
        error.position,
        error.problem,
    )
