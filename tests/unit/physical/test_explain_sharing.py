"""What queries of a pipeline share, as EXPLAIN tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mayfly.cli.app import command_line
from mayfly.cql import bind_query, catalog_after, parse
from mayfly.kernels.predicate_index import MANY_SELECTIONS
from mayfly.optimizer.optimize import optimize
from mayfly.physical.compiler import compile_plan
from mayfly.physical.explain.shared_parts import Together, together
from mayfly.physical.program import Program
from mayfly.physical.shared_program import canonical
from mayfly.plan.logical_operators import Output

STREAMS = """
CREATE STREAM s (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;
CREATE STREAM t (ts TIMESTAMP, k INT, g STRING, v BIGINT) TIMESTAMP BY ts;
CREATE RELATION r (id INT, name STRING) KEY id;
"""
CATALOG = catalog_after(parse(STREAMS))
JOIN = "FROM s [RANGE 10 s] {0}, t [RANGE 5 s] {1} WHERE {0}.k = {1}.k"


def explained(**queries: str) -> Together:
    return together({name: program(cql) for name, cql in queries.items()})


def program(cql: str) -> Program:
    plan = optimize(bind_query(cql, CATALOG)).plan
    assert isinstance(plan, Output)
    return compile_plan(canonical(plan), CATALOG)


def test_the_largest_common_part_is_told_once() -> None:
    found = explained(
        pairs="SELECT a.g, b.v " + JOIN.format("a", "b"),
        counts="SELECT x.g, COUNT(y.v) AS n\n" + JOIN.format("x", "y") + " GROUP BY x.g",
        alone="SELECT g FROM s [RANGE 10 s]",
    )
    (part,) = found.parts
    assert str(part) == "the join of s [RANGE 10 s], t [RANGE 5 s], for pairs and counts"
    assert [(one.stream, one.queries) for one in found.streams] == [
        ("s", ("pairs", "counts", "alone")),
        ("t", ("pairs", "counts")),
    ]
    assert [(one.streams, one.queries) for one in found.clocks] == [
        (("s", "t"), ("pairs", "counts")),
        (("s",), ("alone",)),
    ]
    assert found.stages == 2


def test_equal_queries_share_everything_and_others_nothing() -> None:
    groups = "SELECT g, COUNT(*) AS n FROM s [RANGE 10 s] GROUP BY g"
    found = explained(one=groups, two=groups.replace(" AS n", " AS  n"), three=groups)
    assert [one.queries for one in found.parts] == [("one", "two", "three")]
    found = explained(one=groups, two=groups.replace("10 s", "11 s"))
    assert found.parts == ()
    assert "nothing: no two queries" in found.text()


def test_a_relation_is_named_among_the_sources() -> None:
    joined = "SELECT a.v, r.name FROM s [RANGE 3 s] a, r WHERE a.k = r.id"
    sums = f"SELECT name, SUM(v) AS n FROM ({joined}) x GROUP BY name"
    found = explained(one=joined, two=sums)
    assert [(one.over, one.queries) for one in found.parts] == [
        (("s [RANGE 3 s]", "r"), ("one", "two"))
    ]


@pytest.mark.parametrize("count", [MANY_SELECTIONS - 1, MANY_SELECTIONS])
def test_the_predicate_index_is_told_where_it_is_used(count: int) -> None:
    texts = [f"SELECT v FROM s [RANGE 1 s] WHERE k = {number}" for number in range(count - 1)]
    texts.append("SELECT v FROM s [RANGE 1 s] WHERE upper(g) = 'A'")
    found = explained(**{f"q{number}": text for number, text in enumerate(texts)})
    (stream,) = found.streams
    used = count >= MANY_SELECTIONS
    assert (stream.selections, stream.indexed) == (count, count - 1 if used else 0)
    assert ("index of their predicates" in found.text()) == used


def test_the_command_tells_it_behind_the_plans(tmp_path: Path) -> None:
    queries = {"pairs": "SELECT a.g, b.v " + JOIN.format("a", "b"), "again": "SELECT b.v, a.g "
               + JOIN.format("a", "b"), "other": "SELECT g FROM s [NOW]"}  # fmt: skip
    file = tmp_path / "p.cql"
    file.write_text(
        STREAMS + "".join(f"CREATE QUERY {name} AS {cql};\n" for name, cql in queries.items())
    )
    told = CliRunner().invoke(command_line(["explain"]), ["explain", str(file)])
    assert told.exit_code == 0, told.output
    head, _, behind = told.output.partition("== together\n")
    assert "== other" in head
    assert "s is read once, for pairs, again and other" in behind
    one = ["explain", str(file), "--query", "pairs"]
    assert "together" not in CliRunner().invoke(command_line(one), one).output
    values = ["explain", str(file), "--json"]
    found = json.loads(CliRunner().invoke(command_line(values), values).output)
    assert {one["name"]: [part["queries"] for part in one["shared"]] for one in found} == {
        "pairs": [["pairs", "again"]],
        "again": [["pairs", "again"]],
        "other": [],
    }


def test_what_cannot_run_is_not_explained(tmp_path: Path) -> None:
    file = tmp_path / "p.cql"
    file.write_text(
        STREAMS
        + "CREATE QUERY often AS SELECT Istream-restore(FREQUENT(k, 3)) "
        + "FROM s [RANGE 10 s SLIDE 1 s];"
        + "CREATE QUERY plain AS SELECT g FROM s [NOW];"
    )
    told = CliRunner().invoke(command_line(["explain"]), ["explain", str(file)])
    assert told.exit_code == 2
    assert "FREQUENT counts whole sub-windows" in told.output
