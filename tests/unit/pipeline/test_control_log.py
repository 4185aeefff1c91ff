"""The control log: what is asked of a pipeline, in order, applied once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mayfly.checkpoint.source_log import ORIGINS, origin
from mayfly.cql import CqlError, catalog_after, parse
from mayfly.errors import CorruptFile, InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.control_log import ADD, DECLARED, REMEMBERED, STOP, Controlled
from mayfly.pipeline.control_requests import Control
from mayfly.pipeline.declared_catalog import declarations, declared_catalog
from mayfly.runtime.clock import Clocks
from mayfly.storage import Repository
from tests.unit.pipeline.controlled_pipeline import (
    CATALOG,
    CLICKS,
    INSERT,
    RUNNING,
    commands,
    committed,
    names,
)


def test_declarations_come_back_as_they_were() -> None:
    again = declared_catalog(declarations(CATALOG))
    assert list(again) == list(CATALOG)


def test_commands_have_the_order_in_which_they_were_asked_for(control: Control) -> None:
    control.add("new", "SELECT k FROM s [RANGE 1 s]", parquet="/out")
    control.change(f"  {INSERT}\n  AT '2026-01-01'")
    control.drop("q")
    control.stop()
    found = control.commands()
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert [one.kind for one in found] == ["add", "change", "drop", "stop"]
    assert found[0].text == "SELECT k FROM s [RANGE 1 s]"
    assert found[0].parquet == "/out"
    assert str(found[2]) == "drop q"
    assert control.commands(after=3) == found[3:]
    assert control.outcome(found[0]) is None


def test_no_command_is_lost_among_many(control: Control) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: control.stop().number, range(40)))
    assert sorted(asked) == list(range(1, 41))


@pytest.mark.parametrize(
    ("name", "cql", "problem"),
    [
        ("new", "SELECT nothing FROM s [RANGE 1 s]", "nothing"),
        ("new", "SELECT at FROM unknown [RANGE 1 s]", "unknown"),
        ("new", "SELECT k FROM s [RANGE 1", "line 1"),
        ("q", "SELECT k FROM s [RANGE 1 s]", "already a query q"),
    ],
)
def test_a_wrong_query_is_refused_to_the_one_who_asks(
    control: Control, name: str, cql: str, problem: str
) -> None:
    with pytest.raises((InvalidSetting, CqlError), match=problem):
        control.add(name, cql)
    assert control.commands() == []


def test_results_do_not_go_where_a_stream_reads(tmp_path: Path) -> None:
    properties = {"queries": {"q": {"streams": ["s"]}}, DECLARED: declarations(CATALOG)}
    origins = {"s": origin("json", str(tmp_path / "in")), "other": "kafka"}
    Repository.create(tmp_path / "ck", {**properties, ORIGINS: origins}, sync=False)
    control = Control.of(tmp_path / "ck")
    with pytest.raises(InvalidSetting, match="the stream s reads from"):
        control.add("new", "SELECT k FROM s [RANGE 1 s]", parquet=tmp_path / "out" / ".." / "in")
    control.add("new", "SELECT k FROM s [RANGE 1 s]", parquet=tmp_path / "out")


def test_a_query_that_cannot_know_closed_keys_is_refused_to_the_one_who_asks(
    tmp_path: Path,
) -> None:
    """Those of a stream of which batches have brought rows."""
    catalog = catalog_after(
        parse(
            """CREATE STREAM s (ts TIMESTAMP, k INT, last BOOLEAN) TIMESTAMP BY ts
            PUNCTUATION (k) WHEN (last); CREATE STREAM t (ts TIMESTAMP) TIMESTAMP BY ts"""
        )
    )
    running = {"queries": {"q": {"streams": ["s"]}}, DECLARED: declarations(catalog)}
    text = "SELECT k FROM s [RANGE 1 s]"
    for batch, clock in ((-1, None), (3, 10)):
        folder = tmp_path / str(batch)
        clocks = Clocks({"s": clock}, {"s": clock}).to_json()
        Repository.create(folder, {**running, "batch": batch, "clocks": clocks}, sync=False)
        control = Control.of(folder)
        control.add("other", "SELECT ts FROM t [RANGE 1 s]")
        if clock is None:
            control.add("new", text)
            continue
        with pytest.raises(InvalidSetting, match="PUNCTUATION of s may have closed keys before"):
            control.add("new", text)
        assert [command.name for command in control.commands()] == ["other"]


def test_a_served_query_has_no_changes_to_write(control: Control, tmp_path: Path) -> None:
    served = "SERVE AS SELECT COUNT(*) AS n FROM s [RANGE 2 s SLIDE 1 s]"
    with pytest.raises(InvalidSetting, match="is answered by a server"):
        control.add("new", served, parquet=tmp_path / "out")
    control.add("new", served)


@pytest.mark.parametrize("name", ["bad name", "_mine", "a/b", "1st", "a.b", ""])
def test_a_name_that_no_pipeline_could_use_is_refused(control: Control, name: str) -> None:
    with pytest.raises(InvalidSetting, match="cannot name a query") as told:
        control.add(name, "SELECT k FROM s [RANGE 1 s]")
    assert "letters" in told.value.hint
    if name:
        for kind in ("STREAM", "RELATION"):
            text = f"CREATE {kind} `{name}` (ts TIMESTAMP, k INT) "
            rest = "FROM json('in') TIMESTAMP BY ts" if kind == "STREAM" else "KEY k"
            with pytest.raises(InvalidSetting, match=f"cannot name a {kind.lower()}"):
                (control.stream if kind == "STREAM" else control.relation)(text + rest)
    assert control.commands() == []


def test_a_name_may_be_used_again_once_it_is_to_be_dropped(control: Control) -> None:
    with pytest.raises(InvalidSetting, match="no query x"):
        control.drop("x")
    control.drop("q")
    with pytest.raises(InvalidSetting, match="only query"):
        control.drop("p")
    control.add("q", "SELECT k FROM s [RANGE 1 s]")
    with pytest.raises(InvalidSetting, match="already"):
        control.add("q", "SELECT k FROM s [RANGE 1 s]")


@pytest.mark.parametrize(
    "text", ["SELECT 1", f"{INSERT}; {INSERT}", "DELETE FROM s", "INSERT INTO r VALUES (1)", "UPD"]
)
def test_a_wrong_change_is_refused_to_the_one_who_asks(control: Control, text: str) -> None:
    with pytest.raises((InvalidSetting, CqlError)):
        control.change(text)
    assert control.commands() == []


def test_a_running_pipeline_takes_changes_up_to_what_needs_a_new_start(control: Control) -> None:
    control.change(INSERT)
    control.add("new", "SELECT k FROM s [RANGE 1 s]")
    control.change("UPDATE r SET name = 'eins' WHERE id = 1")
    applied = commands(control)
    applied.take()
    assert names(applied) == ["one"]
    assert applied.asked == ADD
    assert applied.state.applied == 1
    committed(control, applied)
    assert control.outcome(1) == "done"
    assert control.outcome(2) is None
    again = commands(control)
    assert names(again) == ["one"], "what was applied is there after a new start"
    again.take_all(RUNNING)
    assert again.readers(RUNNING).keys() == {"q", "p", "new"}
    assert names(again) == ["eins"]
    committed(control, again)
    assert [control.outcome(one) for one in (1, 2, 3)] == ["done"] * 3
    assert commands(control).take() == {}, "nothing is applied twice"


def test_what_was_not_committed_is_applied_by_the_next_one(control: Control) -> None:
    control.change(INSERT)
    lost = commands(control)
    lost.take()
    assert control.outcome(1) is None
    again = commands(control)
    again.take()
    assert names(again) == ["one"]


def test_a_command_that_fails_when_it_is_applied_says_so(control: Control) -> None:
    control.change(INSERT)
    control.change(INSERT)
    control.change("DELETE FROM r")
    applied = commands(control)
    applied.take()
    committed(control, applied)
    assert control.outcome(1) == "done"
    assert str(control.outcome(2)).startswith("refused: the key (1,) occurs twice in r")
    assert control.outcome(3) == "done"
    assert names(applied) == []
    assert len(applied.relations["r"].changes) == 2
    assert commands(control).relations["r"].digests(2) == applied.relations["r"].digests(2)


def test_stop_is_done_once(control: Control) -> None:
    control.stop()
    control.change(INSERT)
    applied = commands(control)
    applied.take()
    assert applied.asked == STOP
    assert applied.state.applied == 1
    committed(control, applied)
    again = commands(control)
    again.take()
    assert again.asked is None
    assert names(again) == ["one"]


def test_a_stop_that_nobody_heard_stops_nothing_later(control: Control) -> None:
    control.stop()
    applied = commands(control)
    applied.take_all(RUNNING)
    committed(control, applied)
    assert control.outcome(1) == "done: nothing was running"
    assert commands(control).awaited() is None


def test_a_stop_behind_another_command_still_stops_what_is_started_anew(control: Control) -> None:
    control.drop("q")
    control.stop()
    applied = commands(control)
    applied.take_all(RUNNING, resumed=True)
    assert applied.readers(RUNNING).keys() == {"p"}
    committed(control, applied)
    assert commands(control).awaited() == STOP


def test_changes_take_effect_in_order(control: Control) -> None:
    control.change(f"{INSERT} AT '2026-01-01'")
    control.change("DELETE FROM r")
    control.change("INSERT INTO r VALUES (2, 'two') AT '2025-01-01'")
    applied = commands(control)
    applied.take()
    first, second = applied.relations["r"].changes
    assert first.instant == second.instant > MIN_TIME
    assert str(applied.state.outcomes["3"]).startswith("refused")


def test_old_outcomes_are_forgotten(control: Control) -> None:
    for _ in range(REMEMBERED + 5):
        control.stop()
    applied = commands(control)
    applied.take_all({"q": ("s",)})
    committed(control, applied)
    assert len(Controlled.of(control.repository.current()).outcomes) == REMEMBERED
    assert control.outcome(1) == "applied long ago"
    assert control.outcome(REMEMBERED + 5) == "done: nothing was running"


def test_there_must_be_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no checkpoint"):
        Control.of(tmp_path)


QUERY_WITH_COMMENT = """
SELECT k, name  -- not every name
FROM s [RANGE 10 s]
WHERE name = 'two  blanks' -- and a tab:
  AND name <> '\t'
"""


def test_texts_are_stored_as_they_are_given(control: Control) -> None:
    change = "UPDATE r SET name = 'a  b\n\tc' -- only the first\nWHERE id = 1"
    stream = f"  {CLICKS} -- from the shop\n"
    control.add("late", QUERY_WITH_COMMENT)
    control.change(change)
    control.stream(stream)
    assert [one.text for one in control.commands()] == [QUERY_WITH_COMMENT, change, stream]
    applied = commands(control)
    applied.take_all(RUNNING)
    assert applied.state.queries["late"]["text"] == QUERY_WITH_COMMENT
    assert applied.state.changes[0]["text"] == change


def test_a_comment_in_a_change_does_not_widen_it(control: Control) -> None:
    applied = commands(control)
    control.change("INSERT INTO r VALUES (1, 'x  y'), (2, 'z')")
    control.change("DELETE FROM r -- the second one\nWHERE id = 2")
    applied.take()
    assert names(applied) == ["x  y"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"kind": "stop", ', "is damaged"),
        (b"", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[1]", "is not a command: it does not say what kind it is"),
        (b'{"name": "q"}', "is not a command: its kind is null"),
        (b'{"kind": []}', "is not a command"),
        (b'{"kind": "stream"}', "is not a command: stream needs a name"),
        (b'{"kind": "add", "name": "q"}', "is not a command: add needs a text"),
        (b'{"kind": "change", "text": ""}', "is not a command: change needs a text"),
        (b'{"kind": "add", "name": "q", "text": 3}', "is not a command"),
        (b'{"kind": "stop", "parquet": {}}', "is not a command"),
        (b'{"kind": "stop", "loud": "yes"}', "is not a command"),
        (b'{"kind": "explode"}', 'its kind is "explode"'),
    ],
)
def test_a_broken_command_is_named(control: Control, data: bytes, problem: str) -> None:
    control.repository.directory.put_if_absent("control/000000000001.json", data)
    for ask in (control.commands, control.stop, commands(control).take):
        with pytest.raises(CorruptFile, match=problem) as refusal:
            ask()
        assert "control/000000000001.json" in refusal.value.message
        assert "remove the file" in refusal.value.hint


def test_a_command_nested_too_deep_is_named(control: Control) -> None:
    deep = b"[" * 100_000
    control.repository.directory.put_if_absent("control/000000000001.json", deep)
    with pytest.raises(CorruptFile, match="is damaged"):
        control.commands()


def test_changes_of_a_relation_by_commands_are_told(control: Control) -> None:
    applied = commands(control)
    control.change(INSERT)
    control.change("DELETE FROM R WHERE id = 1")
    applied.take()
    assert applied.changes_of("R") == (INSERT, "DELETE FROM R WHERE id = 1")
    assert applied.changes_of("fixed") == ()


def test_a_text_that_is_not_unicode_is_refused_before_anything_is_stored(control: Control) -> None:
    asked: tuple[Callable[[], object], ...] = (
        lambda: control.change("INSERT INTO r VALUES (1, '\ud800')"),
        lambda: control.add("more", "SELECT k FROM s [RANGE 1 h] WHERE name = '\ud800'"),
        lambda: control.stream(CLICKS.replace("in/clicks", "in/\ud800")),
        lambda: control.relation("CREATE RELATION t (id INT) KEY id -- \ud800"),
    )
    for ask in asked:
        with pytest.raises(CqlError, match="half of a pair"):
            ask()
    assert control.commands() == []


def test_a_text_is_shown_line_by_line(control: Control) -> None:
    command = control.change("DELETE FROM r -- the second one\n  WHERE id = 2\n")
    assert str(command) == "change DELETE FROM r -- the second one\n\t  WHERE id = 2"
