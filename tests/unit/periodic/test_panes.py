"""Panes by the edges in use, and queries that come while panes are open."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mayfly.errors import BadInput, InvalidSetting, LimitExceeded
from mayfly.lifetime import MIN_TIME
from mayfly.periodic import Aggregate, PeriodicQuery, QueryWorkload
from mayfly.periodic.panes import Panes, grid_of, next_edges, panes_within, progressions

SUM = Aggregate("SUM", "x")
SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64()})


def query(name: str, length: int, period: int, origin: int = 0) -> PeriodicQuery:
    return PeriodicQuery(name, SUM, (length,), period, origin)


def rows(*instants: int) -> pa.Table:
    """A row at each instant, whose value is the instant."""
    return pa.table([instants, instants], schema=SCHEMA)


def values(
    workload: QueryWorkload, table: pa.Table, clock: int
) -> dict[tuple[str, int], int | None]:
    answers = workload.feed(table, clock)
    return {(a.query, a.as_of): a.rows.to_pylist()[0]["value"] for a in answers}


def test_range_10_slide_4_has_panes_of_two() -> None:
    edges = progressions([query("q", 10, 4)])
    assert edges == {(4, 0), (4, 2)}
    assert grid_of([query("q", 10, 4)]) == 2
    assert panes_within(edges, 10, 0) == 5
    assert next_edges(np.array([-1, 0, 1, 2, 3]), edges).tolist() == [0, 0, 2, 2, 4]


def test_coprime_periods_cut_at_their_edges_only() -> None:
    queries = [query("a", 7000, 3500), query("b", 11000, 1100), query("c", 600_000, 333)]
    panes = np.unique(next_edges(np.arange(1, 600_001), progressions(queries))).tolist()
    edges = np.arange(1, 600_001)
    ends, begins = (
        {e for q in queries for e in edges[(edges + back * q.length) % q.period == 0].tolist()}
        for back in (0, 1)
    )
    assert panes[:-1] == sorted(ends | begins)
    # Pieces of equal length would be 600,000.
    assert (grid_of(queries), len(ends), len(ends | begins)) == (1, 2501, 4300)


def test_edges_that_others_contain_are_left_out() -> None:
    assert progressions([query("a", 6, 2), query("b", 8, 4), query("c", 12, 6)]) == {(2, 0)}
    assert progressions([query("a", 5, 2)]) == {(2, 0), (2, 1)}


def test_a_newcomer_cuts_behind_the_last_pane_that_has_rows() -> None:
    panes = Panes()
    panes.use([query("a", 10, 10)])
    assert panes.ends_of(np.array([1, 12])).tolist() == [10, 20]
    panes.use([query("a", 10, 10), query("b", 3, 3)])
    assert panes.ends_of(np.array([4, 13, 20, 21, 22, 28])).tolist() == [10, 20, 20, 21, 24, 30]
    assert panes.whole(np.array([9, 10, 12, 20, 21, 24, 25])).tolist() == [
        False, True, False, True, True, True, False,
    ]  # fmt: skip


def test_a_late_query_says_from_when_and_answers_from_what_is_kept() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("all", 20, 10))
    assert values(workload, rows(1, 12, 15), 14) == {("all", 10): 1}
    fits = workload.add(query("fits", 10, 10))
    cut = workload.add(query("cut", 4, 4))
    own = workload.add(PeriodicQuery("own", Aggregate("MAX", "x"), (5,), 5))
    # The pane (10, 20] has rows and is not cut any more; what is new begins behind it.
    assert (fits.since, cut.since, own.since) == (20, 24, 25)
    assert values(workload, rows(16, 22, 24), 27) == {
        ("fits", 20): 43,
        ("all", 20): 44,
        ("cut", 24): 46,
        ("own", 25): 24,
    }


def test_a_late_query_waits_for_panes_in_place_of_those_that_were_dropped() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("first", 15, 10))
    assert values(workload, rows(3, 8, 13), 16) == {("first", 10): 11}
    assert workload.add(query("longer", 20, 10)).since == 30
    assert values(workload, rows(18, 22), 31) == {
        ("first", 20): 39,
        ("first", 30): 40,
        ("longer", 30): 53,
    }


def test_a_query_that_comes_and_cuts_an_open_pane_waits_for_whole_ones() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("slow", 100, 100))
    workload.feed(rows(5, 30), 10)
    share = workload.add(query("quick", 10, 10))
    assert share.since == 110
    answers = values(workload, rows(95, 101, 109), 121)
    assert answers == {("slow", 100): 130, ("quick", 110): 210, ("quick", 120): None}


def test_the_first_refresh_is_that_of_the_first_row_in_whatever_batch_it_comes() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("q", 2, 2))
    assert values(workload, rows(5), 1) == {}
    assert values(workload, rows(1), 5) == {("q", 2): 1, ("q", 4): None}


def test_silence_costs_no_panes() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("q", 10, 1_000_000))
    workload.feed(rows(1), 2)
    before = workload.read
    answers = workload.feed(rows(), 5_000_000_001)
    assert len(answers) == 5_000
    assert workload.read - before <= 4
    assert workload.stored <= 2
    with pytest.raises(LimitExceeded, match="more than 1,000,000 refreshes"):
        workload.feed(rows(), 5_000_000_000_000)


def test_windows_shorter_than_their_period_keep_no_panes_between() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("q", 10, 100))
    assert values(workload, rows(*range(1, 101)), 101) == {("q", 100): sum(range(91, 101))}
    workload.feed(rows(*range(101, 190)), 190)
    assert workload.stored <= 2


def test_queries_that_would_cut_too_many_panes_share_nothing() -> None:
    workload = QueryWorkload(SCHEMA)
    first = workload.add(query("long", 3_000_000, 1_000_000))
    second = workload.add(query("short", 100, 100))
    assert (first.access, second.access) == (second.access, first.access)
    assert second.rule == "own synopsis"
    assert workload.explain().count("panes ") == 2


def test_input_that_makes_no_sense_is_refused() -> None:
    workload = QueryWorkload(SCHEMA)
    workload.add(query("q", 2, 1))
    with pytest.raises(InvalidSetting, match="there is a query 'q' already"):
        workload.add(query("q", 2, 1))
    with pytest.raises(InvalidSetting, match="no query 'p'"):
        workload.remove("p")
    with pytest.raises(InvalidSetting, match="no column 'k'"):
        workload.add(PeriodicQuery("k", SUM, (1,), 1, keys=("k",)))
    with pytest.raises(InvalidSetting, match="no column 'z'"):
        workload.add(PeriodicQuery("z", Aggregate("SUM", "z"), (1,), 1))
    with pytest.raises(InvalidSetting, match="has 2 windows"):
        workload.add(PeriodicQuery("z", SUM, (1, 2), 1))
    with pytest.raises(InvalidSetting, match="give times above 0"):
        query("z", 0, 1)
    with pytest.raises(InvalidSetting, match="a column 'value' of their own"):
        PeriodicQuery("z", SUM, (1,), 1, keys=("value",))
    with pytest.raises(BadInput, match="of other types or names"):
        workload.feed(pa.table({"ts": [1]}), 5)
    with pytest.raises(BadInput, match="1 row without a time"):
        workload.feed(pa.table([[None], [1]], schema=SCHEMA), 5)
    workload.feed(rows(1), 5)
    with pytest.raises(BadInput, match="the clock goes back"):
        workload.feed(rows(), 4)
    assert workload.feed(rows(2), 5) == []
    assert workload.late == 1
    assert QueryWorkload(SCHEMA).clock == MIN_TIME
