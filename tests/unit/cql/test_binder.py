"""Binding: names, scopes, types and the shape of plans, beside the golden plans."""

from __future__ import annotations

import pytest

from mayfly.cql import CqlError, bind_query
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import (
    AntiJoin,
    Join,
    Node,
    Output,
    OutputKind,
    Project,
    RelationJoin,
    Sort,
    StreamScan,
    Top,
)
from mayfly.plan.serving_terms import Isolation
from tests.golden.cql.cases import catalog

CATALOG = catalog()


def bind(text: str, one_time: bool = False) -> Output:
    return bind_query(text, CATALOG, one_time=one_time)


def only(plan: Node, kind: type[Node]) -> Node:
    (found,) = (node for node in plan.walk() if isinstance(node, kind))
    return found


def names(plan: Output) -> list[str]:
    return [column.name for column in plan.schema]


def test_names_are_found_whatever_their_case() -> None:
    plan = bind("SELECT L.SRC, Bytes FROM LINK1 [NOW] l")
    assert plan.schema == tuple(
        Column("", name, kind, True)
        for name, kind in (
            (c.name, c.type) for c in only(plan, StreamScan).schema if c.name in ("src", "bytes")
        )
    )


def test_quoted_names_may_hold_anything() -> None:
    plan = bind("SELECT `l 1`.`src` AS `a``b c` FROM `link1` [NOW] `l 1`")
    assert names(plan) == ["a`b c"]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("*", ["a_ts", "a_src", "a_dst", "a_protocol", "a_bytes", "ip", "owner", "since", "load"]),
        ("h.*, a.src", ["ip", "owner", "since", "load", "src"]),
        ("a.src, b.src", ["a_src", "b_src"]),
        ("a.src, b.src AS src", ["a_src", "src"]),
        ("a.bytes + 1, abs(a.bytes), a.src || 'x' AS x", ["column_1", "column_2", "x"]),
        ("COUNT(*), SUM(a.bytes), COUNT(DISTINCT a.src)", None),
    ],
)
def test_names_of_output_columns(select: str, expected: list[str] | None) -> None:
    plan = bind(
        f"SELECT {select} FROM link1 [NOW] a, link2 [NOW] b, hosts h"
        " WHERE a.src = b.src AND a.src = h.ip"
    )
    if expected is None:
        assert names(plan) == ["count", "sum_bytes", "count_distinct_src"]
    else:
        assert [name for name in names(plan) if not name.startswith("b_")] == [
            name for name in expected if not name.startswith("b_")
        ]
        assert len(set(names(plan))) == len(names(plan))


def test_the_time_of_a_stream_is_never_null() -> None:
    plan = bind("SELECT ts, src FROM link1 [NOW]")
    assert [column.nullable for column in plan.schema] == [False, True]


def test_aliases_are_unique_in_a_whole_query() -> None:
    plan = bind(
        "SELECT s.src FROM link1 [NOW] s WHERE NOT EXISTS"
        " (SELECT * FROM link2 [NOW] s WHERE s.src = 'x')"
    )
    aliases = [node.alias for node in plan.walk() if isinstance(node, StreamScan)]
    assert len(set(aliases)) == 2


def test_an_inner_name_hides_the_outer_one() -> None:
    plan = bind(
        "SELECT src FROM link1 [NOW] WHERE NOT EXISTS (SELECT * FROM link2 [NOW] WHERE src = 'x')"
    )
    anti = only(plan, AntiJoin)
    assert isinstance(anti, AntiJoin)
    assert (anti.equalities, anti.residual) == ((), None)


def test_conditions_over_the_outer_query_alone_are_part_of_the_match() -> None:
    plan = bind(
        "SELECT src FROM link1 [NOW] l WHERE NOT EXISTS"
        " (SELECT * FROM link2 [NOW] r WHERE l.bytes > 5 AND r.src = l.src)"
    )
    anti = only(plan, AntiJoin)
    assert isinstance(anti, AntiJoin)
    assert anti.residual is not None
    assert anti.residual.sql() == "(`l`.`bytes` > 5L)"
    assert [(e.left.sql(), e.right.sql()) for e in anti.equalities] == [("`l`.`src`", "`r`.`src`")]


def test_equalities_are_written_in_the_order_of_the_inputs() -> None:
    plan = bind("SELECT a.src FROM link1 [NOW] a, link2 [NOW] b WHERE b.src = a.dst")
    join = only(plan, Join)
    assert isinstance(join, Join)
    assert join.equalities[0].left.sql() == "`a`.`dst`"


@pytest.mark.parametrize(
    "condition",
    [
        "a.src <> b.src",
        "a.src = b.src OR a.dst = b.dst",
        "a.bytes + b.bytes = 5",
        "a.src <=> b.src",
    ],
)
def test_what_is_no_equality_of_two_inputs_is_a_residual(condition: str) -> None:
    join = only(bind(f"SELECT a.src FROM link1 [NOW] a, link2 [NOW] b WHERE {condition}"), Join)
    assert isinstance(join, Join)
    assert join.equalities == ()
    assert join.residual is not None


def test_relations_are_joined_above_streams_and_nrrs_before_relations() -> None:
    plan = bind(
        "SELECT a.src FROM hosts h, companies c, link1 [NOW] a, link2 [NOW] b"
        " WHERE a.src = h.ip AND a.src = c.symbol AND a.dst = b.dst"
    )
    outer, inner = (node for node in plan.walk() if isinstance(node, RelationJoin))
    assert (outer.retroactive, inner.retroactive) == (True, False)
    assert isinstance(inner.child, Join)


def test_a_join_without_conditions_is_a_product() -> None:
    join = only(bind("SELECT a.src FROM link1 [NOW] a CROSS JOIN link2 [NOW] b"), Join)
    assert isinstance(join, Join)
    assert (join.equalities, join.residual) == ((), None)


@pytest.mark.parametrize(
    ("written", "kind", "restore"),
    [
        ("Istream(src)", OutputKind.ISTREAM, False),
        ("dstream(src)", OutputKind.DSTREAM, False),
        ("RSTREAM(src)", OutputKind.RSTREAM, False),
        ("Istream-restore(src)", OutputKind.ISTREAM, True),
        ("Rstream_restore(src)", OutputKind.RSTREAM, True),
        ("src", OutputKind.VIEW, False),
    ],
)
def test_outputs(written: str, kind: OutputKind, restore: bool) -> None:
    plan = bind(f"SELECT {written} FROM link1 [RANGE 1 MIN SLIDE 10 S]")
    assert (plan.kind, plan.restore) == (kind, restore)
    assert names(plan) == ["src"]


def test_isolation_may_also_be_a_name() -> None:
    plan = bind(
        "SELECT Rstream(src AS isolation) FROM link1 [NOW] isolation ORDER BY isolation DESC"
    )
    assert (names(plan), plan.isolation) == (["isolation"], None)
    text = "SELECT isolation.src FROM link1 [NOW] isolation ISOLATION latest"
    plan = bind_query(text, CATALOG, one_time=True)
    assert plan.isolation is Isolation.LATEST


def test_a_column_may_be_called_restore() -> None:
    plan = bind("SELECT bytes - bytes AS restore FROM link1 [NOW]")
    assert names(plan) == ["restore"]


def test_grouping_understands_equal_expressions() -> None:
    plan = bind("SELECT (bytes + 1) * 2, COUNT(*) FROM link1 [NOW] GROUP BY bytes + 1")
    project = only(plan, Project)
    assert isinstance(project, Project)
    assert project.outputs[0].expression.sql() == "(`groups`.`key_1` * 2L)"


def test_order_by_finds_an_output_by_its_expression() -> None:
    bind("SELECT Rstream(src, SUM(bytes) AS n) FROM link1 [NOW] GROUP BY src ORDER BY SUM(bytes)")
    with pytest.raises(CqlError, match="ORDER BY may only use output columns"):
        bind("SELECT Rstream(src) FROM link1 [NOW] GROUP BY src ORDER BY SUM(bytes)")


@pytest.mark.parametrize(
    ("written", "descending", "nulls_first"),
    [
        ("src", False, True),
        ("src ASC", False, True),
        ("src DESC", True, False),
        ("src NULLS LAST", False, False),
        ("src DESC NULLS FIRST", True, True),
    ],
)
def test_the_place_of_nulls_in_an_order(written: str, descending: bool, nulls_first: bool) -> None:
    sort = only(bind(f"SELECT Rstream(src) FROM link1 [NOW] ORDER BY {written}"), Sort)
    assert isinstance(sort, Sort)
    (key,) = sort.keys
    assert (key.descending, key.nulls_first) == (descending, nulls_first)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT src FROM link1 [NOW] UNION ALL SELECT dst FROM link2 [NOW] LIMIT 5",
        "SELECT src FROM link1 [NOW] UNION ALL (SELECT dst FROM link2 [NOW]) ORDER BY 1 LIMIT 5",
        "(SELECT src FROM link1 [NOW]) UNION ALL (SELECT dst FROM link2 [NOW]) LIMIT 5",
    ],
)
def test_a_limit_behind_a_union_is_kept_and_has_its_place(query: str) -> None:
    sort = only(bind(query, one_time=True), Sort)
    assert isinstance(sort, Sort)
    assert sort.limit == 5
    for wrapped in (
        query,
        f"SELECT src FROM link1 [NOW] WHERE src NOT IN ({query})",
        f"SELECT src FROM ({query}) q",
        f"SELECT dst FROM link2 [NOW] EXCEPT ALL ({query})",
        f"({query}) EXCEPT ALL SELECT dst FROM link2 [NOW]",
    ):
        top = only(bind(wrapped), Top)
        assert isinstance(top, Top)
        assert (top.limit, top.offset) == (5, 0)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("SELECT {fn abs(bytes)} FROM link1 [NOW]", "fn"),
        ("SELECT Rstream(src) FROM link1 [NOW] ORDER BY src LIMIT 5 OFFSET 2 ROWS", "ROWS"),
    ],
)
def test_words_that_sqlglot_skips_are_refused(text: str, word: str) -> None:
    with pytest.raises(CqlError) as caught:
        bind(text)
    assert caught.value.position is not None
    assert text[caught.value.position.column - 1 :].startswith(word)


def test_relations_alone_suffice_for_one_time_queries_only() -> None:
    assert names(bind("SELECT ip FROM hosts", one_time=True)) == ["ip"]
    with pytest.raises(CqlError, match="reads no stream"):
        bind("SELECT ip FROM hosts")


def test_one_query_at_a_time() -> None:
    assert names(bind("SELECT src FROM link1 [NOW];")) == ["src"]
    with pytest.raises(CqlError, match="expected one query"):
        bind("SELECT src FROM link1 [NOW]; SELECT dst FROM link1 [NOW]")


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(CqlError, match="nested too deeply"):
        bind(f"SELECT {'(' * 5000}1{')' * 5000} FROM link1 [NOW]")


def test_a_long_chain_of_conditions_is_no_nesting() -> None:
    chain = " OR ".join(f"bytes = {n}" for n in range(150))
    assert names(bind(f"SELECT src FROM link1 [NOW] WHERE {chain}")) == ["src"]


def test_a_ten_way_join() -> None:
    streams = ", ".join(f"link1 [RANGE 1 MIN] t{n}" for n in range(10))
    equalities = " AND ".join(f"t0.src = t{n}.src" for n in range(1, 10))
    join = only(bind(f"SELECT t9.dst FROM {streams} WHERE {equalities}"), Join)
    assert isinstance(join, Join)
    assert (len(join.inputs), len(join.equalities)) == (10, 9)
