"""Relations of queries that run together, and of checkpoints that are opened again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.cql import Insert, Update, catalog_after, parse
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.commands import Commands
from mayfly.pipeline.control_requests import Control
from mayfly.plan.catalog import Catalog, RelationDefinition
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.relation_log import Changing
from mayfly.testing.random_queries import DECLARATIONS
from tests.property.continuous_cases import table_of, told
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of

SECOND = 1_000_000
TEXT = DECLARATIONS + "CREATE RELATION r (id INT, name STRING) KEY id;"
CQL = "SELECT x.v, n.name FROM s1 [RANGE 10 s] x, r n WHERE x.k = n.id"
ROWS = [
    {"ts": at * SECOND, "seq": at, "k": at % 3, "g": "a", "v": at, "x": 1.0} for at in range(12)
]


def relation(catalog: Catalog, *inserts: str) -> dict[str, Changing]:
    definition = catalog.lookup("r")
    assert isinstance(definition, RelationDefinition)
    changing = Changing(definition)
    for values in inserts:
        (statement,) = parse(f"INSERT INTO r VALUES {values}", catalog)
        assert isinstance(statement, Insert)
        changing.carry_out(statement, MIN_TIME)
    return {"r": changing}


def opened(folder: Path, catalog: Catalog, *inserts: str, **queries: str) -> HereRunner:
    runner = runner_of(folder, catalog, queries)
    runner.relations = relation(catalog, *inserts)
    runner.reads.check(runner.repository.current().properties["read"])
    return runner


def test_every_query_reads_the_whole_relation_and_its_changes(tmp_path: Path) -> None:
    catalog = catalog_after(parse(TEXT))
    queries = {"one": CQL, "two": CQL.replace("10 s", "4 s")}
    first = opened(tmp_path / "ck", catalog, "(1, 'one')", **queries)
    first.feed({"s1": table_of("s1", ROWS[:6])}, {})
    again = opened(tmp_path / "ck", catalog, "(1, 'one')", "(2, 'two')", **queries)
    again.feed({"s1": table_of("s1", ROWS[6:])}, {"s1": 1000 * SECOND})
    for name, cql in queries.items():
        changing = relation(catalog, "(1, 'one')")
        run = ContinuousRun(program_of(cql, catalog), catalog, changing)
        run.feed({"s1": table_of("s1", ROWS[:6])})
        (added,) = parse("INSERT INTO r VALUES (2, 'two')", catalog)
        assert isinstance(added, Insert)
        changing["r"].carry_out(added, MIN_TIME)
        run.feed({"s1": table_of("s1", ROWS[6:])}, {"s1": 1000 * SECOND})
        assert told(results_of(again, name), True) == told(run.lifetimes(), True)
        assert told(run.lifetimes(), True)


def test_another_relation_is_refused(tmp_path: Path) -> None:
    catalog = catalog_after(parse(TEXT))
    opened(tmp_path / "ck", catalog, "(1, 'one')", q=CQL).feed({"s1": table_of("s1", ROWS)}, {})
    opened(tmp_path / "ck", catalog, "(1, 'one')", q=CQL)
    with pytest.raises(InvalidSetting, match="not the one this checkpoint has read"):
        opened(tmp_path / "ck", catalog, "(1, 'eins')", q=CQL)


def test_what_is_new_in_the_file_after_a_command_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """A statement added to the file would come before what a command did later."""
    catalog = catalog_after(parse(TEXT))
    runner = opened(tmp_path / "ck", catalog, "(1, 'one')", q=CQL)
    control = Control(runner.repository)
    control._append("change", text="INSERT INTO r VALUES (2, 'two')")

    def begun(*inserts: str) -> HereRunner:
        runner = runner_of(tmp_path / "ck", catalog, {"q": CQL})
        runner.commands = Commands.of(control, catalog, relation(catalog, *inserts))
        runner.relations = runner.commands.relations
        read = runner.repository.current().properties["read"]
        runner.reads.check(read, runner.commands.changes_of)
        return runner

    begun("(1, 'one')").feed({"s1": table_of("s1", ROWS[:4])}, {})
    begun("(1, 'one')")
    with pytest.raises(InvalidSetting) as refusal:
        begun("(1, 'one')", "(3, 'three')")
    assert "a command changed it after what the program says" in refusal.value.message
    assert "INSERT INTO r VALUES (2, 'two')" in refusal.value.message
    assert "mayfly control change" in refusal.value.hint


def test_a_relation_changed_by_a_command_is_that_relation(tmp_path: Path) -> None:
    """What a command changes takes effect with the next batch, once, also after a new start."""
    catalog = catalog_after(parse(TEXT))
    runner = opened(tmp_path / "ck", catalog, "(1, 'one')", q=CQL)
    changing = relation(catalog, "(1, 'one')")
    local = ContinuousRun(program_of(CQL, catalog), catalog, changing)
    texts = ("INSERT INTO r VALUES (2, 'two')", "UPDATE r SET name = 'eins' WHERE id = 1")
    for number, text in enumerate(texts):
        rows = {"s1": table_of("s1", ROWS[number * 4 : number * 4 + 4])}
        runner.feed(rows, {})
        local.feed(rows)
        control = Control(runner.repository)
        control._append("change", text=text)
        declared = relation(catalog, "(1, 'one')")
        runner = runner_of(tmp_path / "ck", catalog, {"q": CQL})
        runner.commands = Commands.of(control, catalog, declared)
        runner.relations = runner.commands.relations
        runner.reads.check(runner.repository.current().properties["read"])
        (statement,) = parse(text, catalog)
        assert isinstance(statement, Insert | Update)
        changing["r"].carry_out(statement, MIN_TIME)
    rows = {"s1": table_of("s1", ROWS[8:])}
    runner.feed(rows, {"s1": 1000 * SECOND})
    local.feed(rows, {"s1": 1000 * SECOND})
    assert told(results_of(runner, "q"), True) == told(local.lifetimes(), True)
    assert {row["name"] for row in results_of(runner, "q").to_pylist()} == {"one", "two", "eins"}
    assert [control.outcome(one) for one in (1, 2)] == ["done", "done"]
