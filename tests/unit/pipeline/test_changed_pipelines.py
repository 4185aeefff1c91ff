"""Commands by which queries, streams and relations come to a pipeline and leave it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mayfly.cql import CqlError
from mayfly.errors import InvalidSetting
from mayfly.pipeline.control_log import ADD, DECLARED, DROP, RELATION, STREAM
from mayfly.pipeline.control_requests import Control
from mayfly.pipeline.declared_catalog import declarations
from mayfly.plan.catalog import StreamDefinition
from mayfly.storage import SetProperties
from tests.unit.pipeline.controlled_pipeline import CLICKS, INSERT, RUNNING, commands, committed


def test_queries_come_and_go(control: Control) -> None:
    control.add("new", "SELECT k FROM s [RANGE 1 s]")
    control.drop("q")
    control.drop("new")
    applied = commands(control)
    assert applied.awaited() == ADD
    applied.take_all(RUNNING)
    assert applied.readers(RUNNING).keys() == {"p"}
    assert applied.state.dropped == ("q",)
    assert applied.state.queries == {}
    committed(control, applied)
    control.repository.commit(control.repository.current(), [SetProperties({"queries": {"p": {}}})])
    control.add("q", "SELECT k FROM s [RANGE 5 s]")
    assert commands(control).awaited() == ADD
    back = commands(control)
    back.take_all(RUNNING)
    assert back.state.dropped == ("q",), "the one that the program calls q stays away"
    assert back.readers(RUNNING).keys() == {"p", "q"}
    assert back.renamed == {"q"}
    control.add("one", "SELECT k FROM s [RANGE 1 s]", parquet="/out/one")
    control.add("two", "SELECT k FROM s [RANGE 1 s]", parquet="/out/../out/own")
    back = commands(control)
    back.folders = {"/out/own": "p"}
    back.take_all(RUNNING)
    assert back.readers(RUNNING).keys() == {"p", "q", "one"}
    assert "the changes of p go to /out/own already" in back.state.outcomes["6"]
    committed(control, back)
    queries = {name: {"streams": ["s"]} for name in ("p", "q", "one")}
    control.repository.commit(control.repository.current(), [SetProperties({"queries": queries})])
    with pytest.raises(InvalidSetting, match="the changes of one go to /out/one already"):
        control.add("two", "SELECT k FROM s [RANGE 1 s]", parquet="/out/one")
    control.drop("one")
    control.add("two", "SELECT k FROM s [RANGE 1 s]", parquet="/out/one")


def test_a_stream_is_declared_read_and_dropped(control: Control, tmp_path: Path) -> None:
    control.stream(CLICKS)
    with pytest.raises(InvalidSetting, match="already a stream called clicks"):
        control.stream(CLICKS)
    control.add("new", "SELECT k FROM clicks [RANGE 1 s]")
    with pytest.raises(InvalidSetting, match="clicks is still read by new"):
        control.drop_stream("clicks")
    opened: list[tuple[str, str | None]] = []
    applied = commands(control, opened)
    assert applied.awaited() == STREAM
    applied.take_all(RUNNING)
    assert applied.readers(RUNNING) == {**RUNNING, "new": ("clicks",)}
    assert [name for name, _ in opened] == ["clicks"]
    assert opened[0][1] == str(Path.cwd()), "paths are those of the one who asks"
    committed(control, applied)
    assert [control.outcome(one) for one in (1, 2)] == ["done"] * 2
    again: list[tuple[str, str | None]] = []
    commands(control, again)
    assert [name for name, _ in again] == ["clicks"], "the next start reads it, too"


def test_a_stream_leaves_when_nobody_reads_it(control: Control) -> None:
    control.stream(CLICKS)
    control.add("new", "SELECT k FROM clicks [RANGE 1 s]")
    control.drop("new")
    control.drop_stream("clicks")
    applied = commands(control)
    applied.take_all(RUNNING)
    assert applied.leaving == {"clicks"}
    assert applied.state.streams == {}
    committed(control, applied)
    assert [control.outcome(one) for one in (1, 2, 3, 4)] == ["done"] * 4
    with pytest.raises(InvalidSetting, match="s is still read by p, q"):
        control.drop_stream("s")
    with pytest.raises(InvalidSetting, match="no stream x"):
        control.drop_stream("x")


def test_a_stream_that_cannot_be_opened_is_refused_and_the_others_go_on(control: Control) -> None:
    def refuse(definition: StreamDefinition, folder: str | None) -> None:
        raise InvalidSetting("there is no such folder", "create it")

    control.stream(CLICKS)
    control.add("new", "SELECT k FROM clicks [RANGE 1 s]")
    control.add("more", "SELECT k FROM s [RANGE 1 s]")
    applied = replace(commands(control), opening=refuse)
    applied.take_all(RUNNING)
    committed(control, applied)
    told = [str(control.outcome(one)) for one in (1, 2, 3)]
    assert told[0].startswith("refused: there is no such folder")
    assert told[1].startswith("refused")
    assert told[2] == "done"
    assert applied.readers(RUNNING).keys() == {"q", "p", "more"}


def test_a_query_brings_back_a_stream_that_was_about_to_leave(control: Control) -> None:
    base = control.repository.current()
    properties = {"queries": {"q": {"streams": ["other"]}}}
    control.repository.commit(base, [SetProperties(properties)])
    control.drop_stream("s")
    control.add("back", "SELECT k FROM s [RANGE 1 s]")
    applied = commands(control)
    applied.take_all({"q": ("other",)})
    assert applied.leaving == set()
    assert list(applied.state.outcomes.values()) == ["done", "done"]


@pytest.mark.parametrize(
    "text",
    ["SELECT 1", INSERT, "CREATE STREAM x (ts TIMESTAMP) TIMESTAMP BY ts", f"{CLICKS}; {CLICKS}"],
)
def test_what_declares_no_stream_is_refused(control: Control, text: str) -> None:
    with pytest.raises((InvalidSetting, CqlError)):
        control.stream(text)
    assert control.commands() == []


def test_a_drop_is_awaited_and_changes_are_not(control: Control) -> None:
    control.change(INSERT)
    assert commands(control).awaited() is None
    control.drop("q")
    assert commands(control).awaited() == DROP


def test_a_relation_is_declared_changed_read_and_dropped(control: Control) -> None:
    control.relation("CREATE RELATION owners (id INT, owner STRING) KEY id")
    with pytest.raises(InvalidSetting, match="already a relation called owners"):
        control.relation("CREATE RELATION owners (id INT) KEY id")
    control.change("INSERT INTO owners VALUES (1, 'ann')")
    control.add("owned", "SELECT o.owner FROM s [RANGE 1 s] e, owners o WHERE e.k = o.id")
    with pytest.raises(InvalidSetting, match="owners is still read by owned"):
        control.drop_relation("owners")
    applied = commands(control)
    assert applied.take() == {}
    assert applied.asked == RELATION, "queries are started anew, and so is what they read"
    applied.take_all(RUNNING)
    assert set(applied.state.outcomes.values()) == {"done"}
    assert applied.relations["owners"].rows.to_pylist() == [{"id": 1, "owner": "ann"}]
    assert applied.readers(RUNNING)["owned"] == ("s", "owners")
    committed(control, applied)

    again = commands(control)
    assert again.relations["owners"].rows.num_rows == 1, "what commands did lasts"
    known = {**declarations(again.catalog)}
    edits = [SetProperties({DECLARED: known, "queries": {"p": {}, "q": {}, "owned": {}}})]
    control.repository.commit(control.repository.current(), edits)
    control.drop("owned")
    dropped = control.drop_relation("owners")
    again.take_all(RUNNING)
    assert again.state.outcomes[str(dropped.number)] == "done"
    assert (again.state.relations, again.state.changes) == ({}, ())
    assert "owners" not in again.relations
    assert again.catalog.lookup("owners") is None


def test_relations_that_cannot_leave_or_come(control: Control) -> None:
    with pytest.raises(InvalidSetting, match="there is no relation x"):
        control.drop_relation("x")
    with pytest.raises(InvalidSetting, match="r is declared by the program"):
        control.drop_relation("r")
    with pytest.raises(InvalidSetting, match="not the declaration of a relation"):
        control.relation(CLICKS)
    assert control.commands() == []


@pytest.mark.parametrize(
    "source",
    [
        "json('in', colour => 'red')",
        "memory()",
        "rate(x => '1')",
        "python('../x:C')",
        "python('/elsewhere/x:C')",
    ],
)
def test_a_source_that_nobody_could_read_is_refused_by_control(
    control: Control, source: str
) -> None:
    with pytest.raises(InvalidSetting):
        control.stream(CLICKS.replace("json('in/clicks')", source))
    with pytest.raises(InvalidSetting):
        control.relation(f"CREATE RELATION t (id INT) KEY id FROM {source}")
    assert control.commands() == []
