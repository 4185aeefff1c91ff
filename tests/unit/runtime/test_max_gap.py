"""MAX GAP: what is too far ahead to be true, live and in a replay."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.cql import parse
from mayfly.errors import MayflyError
from mayfly.lifetime import LIVE_GAP, NEVER
from mayfly.plan.catalog import StreamDefinition
from mayfly.runtime.clock import Clocks
from mayfly.runtime.max_gap import Limits, Reach, joined, limits, spans

TIMES = st.lists(st.integers(-50, 50) | st.sampled_from([-(2**63), 2**63 - 2]), max_size=12)


def test_a_live_stream_is_measured_by_the_wall_clock() -> None:
    assert limits(5, 10, live=True, now=100) == Limits(5, 110)
    assert limits(5, None, live=True, now=100) == Limits(5, 100 + LIVE_GAP)
    assert limits(5, NEVER, live=True, now=100) == Limits(5)


def test_a_replay_is_measured_only_where_that_is_asked_for() -> None:
    assert limits(5, None, live=False, now=100) == Limits(5)
    assert limits(5, 10, live=False, now=100) == Limits(5, step=10)


@given(st.lists(TIMES, max_size=3), st.integers(0, 20))
def test_stretches_of_parts_are_those_of_the_whole(parts: list[list[int]], step: int) -> None:
    """Beside a walk from time to time."""
    found: list[list[int]] = []
    for at in sorted(at for part in parts for at in part):
        if found and at - found[-1][-1] <= step:
            found[-1].append(at)
        else:
            found.append([at])
    pieces = [one for part in parts for one in spans(np.array(part, np.int64), step)]
    assert joined(pieces, step) == tuple((one[0], one[-1]) for one in found)


def test_a_jump_counts_when_the_next_batch_confirms_it() -> None:
    reach = Reach(None).after(((0, 50), (500, 500)), 10)
    assert (reach.largest, reach.jump) == (50, ((500, 500),))
    assert reach.after((), 10) == reach, "an empty batch decides nothing"
    assert reach.after(((55, 60),), 10) == Reach(60), "it was one wrong row"
    assert reach.after(((505, 520),), 10) == Reach(520), "time did go on there"
    assert reach.after(((900, 900),), 10) == Reach(50, ((900, 900),)), "another wrong row"


def test_jumps_are_recorded_with_the_clock() -> None:
    before = Clocks.unset(("s",))
    after, largest = before.reaching({"s": ((0, 5), (90, 95))}, {"s": 10})
    assert largest == {"s": 5}
    assert Clocks.from_json(after.to_json()) == after
    assert Clocks.from_json(before.to_json()).jumps == {}


def rows(*times: int) -> dict[str, pa.Table]:
    return {"s": pa.table({"ts": pa.array(times, pa.int64())})}


def test_one_row_of_a_wrong_year_ends_no_stream() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT"}, max_gap="1 second")
    run = session.query("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]")
    run.feed(rows(1, 2, 7 * 10**15))
    assert run.clocks.query == 2
    run.feed(rows(3, 4))
    run.finish()
    assert (run.clocks.query, run.snapshot()["n"].to_pylist()) == (5, [4])


def test_a_promise_of_a_wrong_year_ends_no_stream() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT"}, max_gap="1 second", slack="5 us")
    run = session.query("SELECT COUNT(*) AS n FROM s [RANGE 1 HOUR]")
    run.feed(rows(11, 12), {"s": 10})
    assert run.clocks.query == 10
    run.feed(None, {"s": 7 * 10**15})
    assert run.clocks.query == 10
    run.feed(rows(11, 20), {"s": 15})
    assert run.clocks.query == 15
    run.feed(None, {"s": 20 + 10**6})
    assert run.clocks.query == 20 + 10**6


def test_a_promise_that_the_next_batch_confirms_counts() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT"}, max_gap="10 us")
    run = session.query("SELECT COUNT(*) AS n FROM s")
    run.feed(rows(1), {"s": 1000})
    assert run.clocks.query == 1
    run.feed(rows(1001), {"s": 1005})
    assert run.clocks.query == 1005


def test_a_pause_is_passed_when_rows_go_on_behind_it() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT"}, max_gap="10 us")
    run = session.query("SELECT COUNT(*) AS n FROM s")
    run.feed(rows(1, 1000))
    run.feed(rows(1001, 1002))
    run.finish()
    assert (run.clocks.query, run.snapshot()["n"].to_pylist()) == (1003, [4])


def declared(clause: str) -> StreamDefinition:
    (create,) = parse(f"CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts {clause}")
    definition = create.definition  # type: ignore[attr-defined]
    assert isinstance(definition, StreamDefinition)
    return definition


def test_the_clause() -> None:
    assert declared("").max_gap is None
    assert declared("MAX GAP 1 DAY").max_gap == LIVE_GAP
    assert declared("MAX GAP NONE SLACK 1 s").max_gap == NEVER


@pytest.mark.parametrize("clause", ["MAX GAP", "MAX 1 DAY", "SLACK 2 DAYS MAX GAP 1 DAY"])
def test_clauses_that_are_refused(clause: str) -> None:
    with pytest.raises(MayflyError, match="GAP"):
        declared(clause)
