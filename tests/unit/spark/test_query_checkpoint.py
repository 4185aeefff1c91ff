"""What a checkpoint of queries accepts when it is opened again, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.pipeline.query import Stream
from mayfly.spark.query_checkpoint import Registered, registered
from mayfly.storage import SetProperties

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
STREAMS = [Stream("a", SCHEMA), Stream("b", SCHEMA)]


def query(text: str, plan: str = "p", **more: Any) -> dict[str, Any]:
    return {"text": text, "plan": plan, "streams": ["a"], **more}


def opened(root: Path, queries: dict[str, Any], asked: int | None = None) -> Registered:
    return registered(root, STREAMS, queries, 2, asked, sync=False)


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


def test_other_streams_and_buckets_are_refused(root: Path) -> None:
    same = {"q": query("SELECT k FROM a [RANGE 5 s]")}
    with pytest.raises(InvalidSetting, match="stream c is new, b is missing"):
        registered(root, [STREAMS[0], Stream("c", SCHEMA)], same, 2, None, sync=False)
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3"):
        opened(root, same, asked=3)


def test_a_changed_query_may_begin_anew_under_its_name(root: Path) -> None:
    changed = {"q": query("SELECT k FROM a [RANGE 6 s]", "other")}
    register = registered(root, STREAMS, changed, 2, None, sync=False, replace=["q"])
    assert (register.added, register.dropped, register.replaced) == (("q",), (), ("q",))
    assert register.since == {"q": 7}


def test_a_query_that_is_the_same_is_not_replaced(root: Path) -> None:
    same = {"q": query("SELECT k FROM a [RANGE 5 s]")}
    register = registered(root, STREAMS, same, 2, None, sync=False, replace=["q"])
    assert (register.added, register.replaced, register.since) == ((), (), {"q": None})
    with pytest.raises(InvalidSetting, match="no query other to replace"):
        registered(root, STREAMS, same, 2, None, sync=False, replace=["other"])


def test_another_number_of_buckets_is_told_how_to_get_there(root: Path) -> None:
    with pytest.raises(InvalidSetting, match="has 2 buckets, not 3") as refused:
        opened(root, {"q": query("SELECT k FROM a [RANGE 5 s]")}, 3)
    assert "mayfly migrate" in refused.value.hint
