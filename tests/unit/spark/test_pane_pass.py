"""Which rows Spark SQL makes panes of, and where it cuts them."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from mayfly.cql import catalog_after, parse
from mayfly.kernels.pane_edges import edges
from mayfly.plan.window_kinds import Range, Slide
from mayfly.runtime.max_gap import Limits, spans
from mayfly.spark.stream.arrivals import counted, counted_groups, unwanted
from mayfly.spark.stream.pane_pass import PanePass
from mayfly.spark.stream.slots import STREAM
from tests.property.shared_runs import runner_of
from tests.property.test_panes import DECLARED

WINDOW = "[RANGE 10 us SLIDE 4 us]"


def window(duration: int, period: int, origin: int = 0) -> Range:
    return Range(duration=duration, slide=Slide(period=period, origin=origin))


def next_edge(families: list[tuple[int, int]], ts: int) -> int:
    return min(ts + (phase - ts) % period for period, phase in families)


@pytest.mark.parametrize("seed", range(20))
def test_panes_are_cut_at_the_edges_of_all_windows(seed: int) -> None:
    rng = Random(seed)
    windows = [
        window(rng.randint(1, 12), rng.choice((1, 2, 3, 4, 6)), rng.randint(0, 5))
        for _ in range(rng.randint(1, 4))
    ]
    families = edges(windows)
    for ts in range(-30, 30):
        edge = next_edge(families, ts)
        for each in windows:
            assert each.slide is not None
            for time in (ts, ts + each.duration):
                shift = edge - ts
                assert each.slide.at_or_after(time) == each.slide.at_or_after(time + shift)


def test_edges_that_others_have_are_left_out() -> None:
    assert edges([window(60, 60), window(3600, 300), window(120, 60)]) == [(60, 0)]
    assert edges([window(10, 4)]) == [(4, 0), (4, 2)]
    assert edges([window(60, 60), window(60, 60, 30)]) == [(60, 0), (60, 30)]


def passed(tmp_path: object, *queries: str, declared: str = DECLARED) -> PanePass | None:
    passes = every_pass(tmp_path, *queries, declared=declared)
    return passes[0] if passes else None


def every_pass(tmp_path: object, *queries: str, declared: str) -> tuple[PanePass, ...]:
    texts = {f"q{number}": cql for number, cql in enumerate(queries)}
    return runner_of(str(tmp_path), catalog_after(parse(declared)), texts).dataflow.panes


def test_a_stream_has_a_pass_whatever_others_need(tmp_path: object) -> None:
    other = DECLARED.replace("STREAM s", "STREAM t")
    passes = every_pass(
        tmp_path,
        f"SELECT SUM(v) FROM t {WINDOW}",
        "SELECT g FROM s [RANGE 10 us]",
        declared=f"{DECLARED};{other}",
    )
    assert [made.stream for made in passes] == [1]
    assert passes[0].tags == (1, -5, -6, -7)


def test_one_pass_serves_queries_with_equal_numbers(tmp_path: object) -> None:
    panes = passed(
        tmp_path,
        f"SELECT g, SUM(v) FROM s {WINDOW} WHERE v > 1 GROUP BY g",
        "SELECT g, SUM(v), COUNT(*) FROM s [RANGE 60 us SLIDE 6 us] WHERE v > 1 GROUP BY g",
        f"SELECT k, COUNT(*) FROM s {WINDOW} GROUP BY k",
    )
    assert panes is not None
    assert len(panes.sets) == 2
    counts = [sql for sql in panes.numbers if sql.startswith("count(*)")]
    sums = [sql for sql in panes.numbers if sql.startswith("sum")]
    assert (len(counts), len(sums)) == (2, 2)
    assert all("FILTER (WHERE" in sql for sql in sums)


def test_rows_are_marked_with_their_predicates_where_these_are_many(tmp_path: object) -> None:
    def queries(count: int) -> list[str]:
        return [
            f"SELECT {keys}, SUM(v) FROM s {WINDOW} WHERE v = {number} GROUP BY {keys}"
            for number in range(count)
            for keys in ("g", "k")
        ]

    few = passed(f"{tmp_path}/few", *queries(8))
    many = passed(f"{tmp_path}/many", *queries(70), f"SELECT g, SUM(v) FROM s {WINDOW} GROUP BY g")
    assert few is not None
    assert many is not None
    assert (few.marks_rows, many.marks_rows) == (False, True)
    assert all("FILTER (WHERE" in sql for sql in few.numbers)
    assert len(many.numbers) == 3, "the count, and the halves of the sum"
    marks = [feed.mark for feed in many.feeds]
    assert marks.count(None) == 1, "the query without a predicate"
    assert len(set(marks)) == 141
    assert {mark[0] for mark in marks if mark} == {"_m0_0", "_m0_1", "_m1_0", "_m1_1"}


@pytest.mark.parametrize(
    "cql",
    [
        "SELECT g FROM s [RANGE 10 us]",
        f"SELECT LAST(v) FROM s {WINDOW}",
        f"SELECT COUNT(*) FROM s {WINDOW} WHERE upper(g) = 'A'",
    ],
)
def test_rows_cross_for_those_who_need_them(tmp_path: object, cql: str) -> None:
    panes = passed(tmp_path, f"SELECT SUM(v) FROM s {WINDOW}", cql)
    assert panes is not None
    assert [feed.number for feed in panes.feeds] == [0]
    assert panes.rest == (1,)


GROUPINGS = ("g", "k", "k, g")


def grouped(call: str, *where: str) -> list[str]:
    return [
        f"SELECT {keys}, {call} AS x FROM s {WINDOW} {condition} GROUP BY {keys}"
        for keys in GROUPINGS
        for condition in where or ("",)
    ]


@pytest.mark.parametrize("call", ["SUM(v)", "MAX(v)", "COUNT(*)", "AVG(v)"])
def test_rows_cross_once_for_many_groupings(tmp_path: object, call: str) -> None:
    """Spark would look every row up once for each."""
    assert passed(tmp_path, *grouped(call)) is None
    assert passed(tmp_path, *grouped(call)[1:]) is not None


def test_panes_that_take_long_in_python_are_made_by_spark(tmp_path: object) -> None:
    conditions = [f"WHERE v > {number}" for number in range(3)]
    for queries in (
        grouped("COUNT(*)", *conditions),
        [*grouped("SUM(v)"), f"SELECT VAR_POP(v) AS x FROM s {WINDOW}"],
        [*grouped("SUM(v)"), f"SELECT DISTINCT v FROM s {WINDOW}"],
    ):
        assert passed(tmp_path, *queries) is not None


def test_rows_cross_if_a_number_of_shared_panes_may_fail(tmp_path: object) -> None:
    queries = (f"SELECT SUM(v) FROM s {WINDOW}", f"SELECT SUM(v + v) FROM s {WINDOW}")
    assert passed(tmp_path, *queries) is None


def test_rows_cross_if_gaps_would_be_inside_of_panes(tmp_path: object) -> None:
    declared = DECLARED.replace("SLACK 5 us", "SLACK 5 us MAX GAP 50 us")
    assert declared != DECLARED
    short, long = "[RANGE 60 us SLIDE 50 us]", "[RANGE 120 us SLIDE 60 us]"
    cql = "SELECT SUM(v) FROM s "
    assert passed(f"{tmp_path}/1", cql + short, declared=declared) is not None
    assert passed(f"{tmp_path}/2", cql + long, declared=declared) is None


def test_groups_are_counted_as_their_rows() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        limit = Limits(late=20, beyond=80, step=10)
        tags = rng.choice([0, unwanted(0), -1, -2, -3], 60).astype(np.int32)
        times = pa.array(rng.integers(0, 100, 60), mask=rng.random(60) < 0.1)
        rows = pa.table({STREAM: tags, "_ts": times})
        kinds = [None if t is None else (t > 80) - (t < 20) for t in times.to_pylist()]
        panes = [None if t is None else t // 10 for t in times.to_pylist()]
        groups = (
            rows.append_column("kind", pa.array(kinds))
            .append_column("pane", pa.array(panes))
            .group_by([STREAM, "kind", "pane"])
            .aggregate([("_ts", "min"), ("_ts", "max"), ([], "count_all")])
            .combine_chunks()
        )
        least, largest = (groups[name].combine_chunks() for name in ("_ts_min", "_ts_max"))
        sizes = groups["count_all"].to_numpy()
        which = groups[STREAM].to_numpy()
        assert counted_groups(which, least, largest, sizes, [limit]) == counted(rows, [limit])
    assert spans(np.array([1, 5, 30]), 10) == ((1, 5), (30, 30))
