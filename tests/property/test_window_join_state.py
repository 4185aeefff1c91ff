"""What a running join remembers: no more than it must, in few runs.

Stored rows of a side stay within 1.25 times those that are alive or wait, at every instant and
for every input: this needs no allowance for small inputs, because a run that would break it is
rewritten, however small.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given

from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, numbers
from mayfly.kernels.window_assignment import WindowState
from mayfly.kernels.window_join import BothKept
from mayfly.plan.stream_joins import Stream
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage.merge import LIMIT
from mayfly.storage.segment import EXP, TS
from mayfly.testing import JoinCase, micros_of
from mayfly.testing.strategies import join_cases
from tests.property.busy_streams import busy_cases
from tests.property.join_runs import Chain, run, started


def check_kept(kept: KeptRows, clock: int) -> None:
    needed = sum(int((numbers(one.load(), EXP) > clock).sum()) for one in kept.runs)
    assert kept.rows <= 1.25 * needed, f"{kept.rows} rows stored, {needed} needed at {clock}"
    assert len(kept.runs) <= LIMIT
    for one in kept.runs:
        check_run(one)
        assert one.exp.high > clock, "a dead run is kept"
        codes, times, _ = one.keys()
        order = np.lexsort((times, codes))
        assert (order == np.arange(len(order))).all(), "a kept run is not sorted by (code, ts)"


def check_waiting(runs: tuple[RowRun, ...], clock: int) -> None:
    needed = sum(int((numbers(one.load(), TS) >= clock).sum()) for one in runs)
    stored = sum(one.rows for one in runs)
    assert stored <= 1.25 * needed, f"{stored} rows wait, {needed} of them for {clock} or later"
    assert len(runs) <= LIMIT // 4


def check_run(one: RowRun) -> None:
    """What a run says about itself is true of its rows."""
    table = one.load()
    ts, exp = numbers(table, TS), numbers(table, EXP)
    assert (one.rows, one.bytes) == (table.num_rows, table.nbytes)
    assert (one.ts.low, one.ts.high) == (ts.min(), ts.max())
    assert (one.exp.low, one.exp.high) == (exp.min(), exp.max())
    assert table[CODE].null_count == 0


def check(running: ContinuousRun) -> None:
    for states in running.states.values():
        for state in states:
            if isinstance(state, WindowState):
                check_waiting(state.waiting, running.clocks.query)
            elif isinstance(state, BothKept):
                check_kept(state.left, running.clocks.query)
                check_kept(state.right, running.clocks.query)


@given(busy_cases())
def test_stored_rows_and_runs_are_bounded(case: JoinCase) -> None:
    run(case, Chain((["key"], [("b.value", "c.value")])), after_each=check)


@given(join_cases(("a", "b", "c"), types=("int32", "string"), late=True))
def test_also_with_late_rows_heartbeats_and_buckets(case: JoinCase) -> None:
    run(case, Chain((case.keys, [("b.value", "c.value")])), buckets=2, after_each=check)


@given(busy_cases(("l", "r")) | join_cases(types=("int64",), late=True))
def test_the_state_holds_the_rows_that_can_still_matter(case: JoinCase) -> None:
    """Counted over the input: rows that outlive the clock, each on its side, once."""
    fed = [0]

    def compare(running: ContinuousRun) -> None:
        fed[0] += 1
        clock = running.clocks.query
        (joined,) = (one for (one,) in running.states.values() if isinstance(one, BothKept))
        for name, kept in zip(case.windows, (joined.left, joined.right), strict=True):
            accepted = [one.accepted[name] for one in case.outcomes[: fed[0]]]
            alive = sum(
                int(((ts < clock) & (ts + case.windows[name] > clock) & valid).sum())
                for rows in accepted
                for ts, valid in [(micros_of(rows), rows["key"].is_valid().to_numpy())]
            )
            held = sum(int((numbers(one.load(), EXP) > clock).sum()) for one in kept.runs)
            assert held == alive

    run(case, Chain((case.keys,)), buckets=1, after_each=compare)


def test_nothing_is_remembered_after_a_long_silence() -> None:
    """Expirations need no new row: a heartbeat is enough."""
    rows = pa.table({"ts": [1, 2, 3], "key": [1, 1, 2]})
    left, right = Stream("l", rows.schema), Stream("r", rows.schema)
    running = started(left.window(10).join(right.window(10), "key"))
    running.feed({"l": rows, "r": rows})
    assert running.state_rows == 6
    running.feed({}, {"l": 13, "r": 13})
    assert running.state_rows == 0
