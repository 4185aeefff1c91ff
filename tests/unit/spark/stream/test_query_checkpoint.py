"""What a checkpoint of queries accepts when it is opened again, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.checkpoint.clock_record import clock_record
from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.plan.stream_joins import Stream, WallClock
from mayfly.spark.stream.query_checkpoint import (
    RegisteredQueries,
    check_zone,
    move_sources,
    register_queries,
)
from mayfly.storage import SetProperties

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
STREAMS = [Stream("a", SCHEMA), Stream("b", SCHEMA)]


def query(text: str, plan: str = "p", **more: Any) -> dict[str, Any]:
    return {"text": text, "plan": plan, "streams": ["a"], **more}


def opened(root: Path, queries: dict[str, Any], asked: int | None = None) -> RegisteredQueries:
    return register_queries(str(root), STREAMS, queries, 2, asked, sync=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkpoint of the query q after a batch, at clock 7 of stream a."""
    register = opened(tmp_path / "ck", {"q": query("SELECT k FROM a [RANGE 5 s]")})
    clocks = {"streams": {"a": 7, "b": 3}, "largest": {}, "ended": False}
    edits = [SetProperties({"batch": 0, "clocks": clocks})]
    register.repository.commit(register.repository.current(), edits)
    return tmp_path / "ck"


def test_a_query_laid_out_anew_is_the_same(root: Path) -> None:
    register = opened(root, {"q": query("SELECT k\nFROM a   [RANGE 5 s]")})
    assert (register.added, register.dropped, register.since) == ((), (), {"q": None})


def test_queries_come_and_go(root: Path) -> None:
    register = opened(root, {"new": query("SELECT 1", "other")})
    assert (register.added, register.dropped) == (("new",), ("q",))
    assert register.since == {"new": 7}
    assert "new" not in register.repository.current().properties["queries"], "looking changes none"


def test_a_changed_query_is_shown_as_a_difference(root: Path) -> None:
    with pytest.raises(InvalidSetting, match="belongs to another query q") as refused:
        opened(root, {"q": query("SELECT k FROM a [RANGE 6 s] WHERE k > 1", "other")})
    told = str(refused.value)
    assert "  - FROM a [RANGE 5 s]\n" in told
    assert "  + FROM a [RANGE 6 s]\n" in told
    assert "  + WHERE k > 1\n" in told
    assert "    SELECT k\n" in told
    assert "a new name" in refused.value.hint


def test_the_same_text_with_another_plan_is_refused(root: Path) -> None:
    with pytest.raises(InvalidSetting, match="planned differently"):
        opened(root, {"q": query("SELECT k FROM a [RANGE 5 s]", "other")})


def test_other_columns_are_refused(root: Path) -> None:
    changed = query("SELECT k FROM a [RANGE 5 s]", **{"columns of a": "ts BIGINT, k INT"})
    with pytest.raises(InvalidSetting, match=r"\+ columns of a: ts BIGINT, k INT"):
        opened(root, {"q": changed})


SAME = {"q": query("SELECT k FROM a [RANGE 5 s]")}
LEFT = {"sources": ["a", "b"]}
C = Stream("c", SCHEMA)


def said(root: Path, properties: dict[str, Any]) -> RegisteredQueries:
    """A checkpoint that says what the properties do, opened again."""
    repository = opened(root, SAME).repository
    repository.commit(repository.current(), [SetProperties(properties)])
    return opened(root, SAME)


def test_streams_come_and_go(root: Path) -> None:
    said(root, LEFT)
    queries = {
        **SAME,
        "own": {**query("SELECT k FROM c"), "streams": ["c"]},
        "both": {**query("SELECT k FROM a, c"), "streams": ["a", "c"]},
    }
    register = register_queries(str(root), [STREAMS[0], C], queries, 2, None, sync=False)
    assert (register.new_streams, register.gone_streams) == (("c",), ("b",))
    assert register.since == {"q": None, "own": None, "both": MIN_TIME}
    assert register.entries["both"] is not None
    base = register.repository.current()
    moved = move_sources(register, base)
    assert moved["sources"] == ["a", "c"]
    assert moved["clocks"]["streams"] == {"a": 7, "c": None}, "the clock of a is as it was"
    assert moved["spark_part"] == f"spark-{base.version}"


def test_the_clock_of_a_batch_over_other_streams_is_forgotten(root: Path) -> None:
    register = said(root, LEFT)
    directory = register.repository.directory
    for batch in (0, 1):
        directory.put_if_absent(clock_record(batch), b"{}")
    assert move_sources(register, register.repository.current()) == {}
    grown = register_queries(str(root), [*STREAMS, C], SAME, 2, None, sync=False)
    move_sources(grown, grown.repository.current())
    assert directory.names("clock") == [clock_record(0)]


def test_a_heartbeat_is_a_source_and_no_stream(root: Path) -> None:
    said(root, LEFT)
    beating = Stream("b", SCHEMA, idle=WallClock(5))
    register = register_queries(str(root), [STREAMS[0], beating], SAME, 2, None, sync=False)
    assert register.move is not None
    assert register.move.after == ("a", "b", "*")
    assert (register.new_streams, register.gone_streams) == ((), ())
    moved = move_sources(register, register.repository.current())
    assert moved["clocks"]["streams"] == {"a": 7, "b": 3}


def test_an_old_checkpoint_gets_streams_but_does_not_know_which_one_left(root: Path) -> None:
    register = register_queries(str(root), [STREAMS[0], C, STREAMS[1]], SAME, 2, None, sync=False)
    assert register.move is not None
    assert (register.move.before, register.move.after) == (("a", "b"), ("a", "c", "b"))
    with pytest.raises(InvalidSetting, match="does not say which source") as refused:
        register_queries(str(root), [STREAMS[0]], SAME, 2, None, sync=False)
    assert "start it once with all its streams" in refused.value.hint


def test_other_buckets_are_refused(root: Path) -> None:
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3"):
        opened(root, SAME, asked=3)


def test_a_changed_query_may_begin_anew_under_its_name(root: Path) -> None:
    changed = {"q": query("SELECT k FROM a [RANGE 6 s]", "other")}
    register = register_queries(str(root), STREAMS, changed, 2, None, sync=False, replace=["q"])
    assert (register.added, register.dropped, register.replaced) == (("q",), (), ("q",))
    assert register.since == {"q": 7}


def test_a_query_that_is_the_same_is_not_replaced(root: Path) -> None:
    same = {"q": query("SELECT k FROM a [RANGE 5 s]")}
    register = register_queries(str(root), STREAMS, same, 2, None, sync=False, replace=["q"])
    assert (register.added, register.replaced, register.since) == ((), (), {"q": None})
    with pytest.raises(InvalidSetting, match="no query other to replace"):
        register_queries(str(root), STREAMS, same, 2, None, sync=False, replace=["other"])


def test_another_number_of_buckets_is_told_how_to_get_there(root: Path) -> None:
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3") as refused:
        opened(root, {"q": query("SELECT k FROM a [RANGE 5 s]")}, 3)
    assert "mayfly migrate" in refused.value.hint


def test_another_zone_is_refused_and_none_recorded_goes_on(root: Path) -> None:
    repository = opened(root, SAME).repository
    check_zone(repository, "Europe/Berlin")  # as earlier versions left it
    repository.commit(repository.current(), [SetProperties({"zone": "UTC"})])
    check_zone(repository, "Etc/UTC")
    with pytest.raises(InvalidSetting, match="was made in the time zone UTC") as refused:
        check_zone(repository, "Europe/Berlin")
    assert "--conf spark.sql.session.timeZone=UTC" in refused.value.hint


def test_columns_computed_in_another_way_are_refused(root: Path) -> None:
    text, part = "SELECT k FROM a [RANGE 5 s]", "derivation of a"
    assert opened(root, {"q": query(text, **{part: "t AS (u)"})}).added == ()
    repository = opened(root, SAME).repository
    stored = {"q": query(text, **{part: "TIME ZONE UTC"}, since=None)}
    repository.commit(repository.current(), [SetProperties({"queries": stored})])
    with pytest.raises(InvalidSetting, match="derivation of a: TIME ZONE Europe/Berlin"):
        opened(root, {"q": query(text, **{part: "TIME ZONE Europe/Berlin"})})
