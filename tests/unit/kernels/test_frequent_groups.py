"""FREQUENT in queries: against DuckDB's counts, a plain model of Algorithm 6, and the library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mayfly import LocalSession
from mayfly.errors import InvalidSetting
from mayfly.runtime.in_process import ContinuousRun
from mayfly.windows import Frequent, Rows, Span

Row = tuple[int, int, Any]
EXAMPLE = ("xxxxxaaabc", "aaaacccxxx", "aaaacccxxx", "xxxxxxaabb", "xxxxxxxxxx")
ROWS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 1), st.none() | st.sampled_from("abcde")),
    max_size=60,
)
ERRORS = st.sampled_from(["", ", 'NO FALSE POSITIVES'", ", 'NO FALSE NEGATIVES'"])
SHARES = st.sampled_from(["", ", 0.2", ", 0.5", ", 0.0"])
FUNCTIONS = st.sampled_from(["FREQUENT", "APPROX_FREQUENT"])


def session_of(kind: str = "STRING", **options: Any) -> LocalSession:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "n": "BIGINT", "k": "BIGINT", "x": kind},
                   sequence=["n"], **options)  # fmt: skip
    return session


def fed(run: ContinuousRun, rows: Sequence[Row], cuts: Sequence[int] = ()) -> ContinuousRun:
    """Rows in the order of their times, in batches that end before the cuts."""
    ordered = [(ts, n, k, x) for n, (ts, k, x) in enumerate(sorted(rows, key=lambda r: r[0]))]
    edges = [*sorted(cuts), 10**6]
    for begin, end in zip([0, *edges], edges, strict=False):
        part = [row for row in ordered if begin <= row[0] < end]
        if part:
            columns = ("ts", "n", "k", "x")
            run.feed({"s": [dict(zip(columns, row, strict=True)) for row in part]})
    run.feed(heartbeats={"s": 1000})
    return run


def answers(run: ContinuousRun, at: int) -> dict[int, Any]:
    return {row["k"]: row["f"] for row in run.snapshot(at).to_pylist()}


def panes_by_time(rows: Sequence[Row], at: int, slide: int, slots: int) -> list[list[Row]]:
    """The sub-windows that are alive at an instant, the oldest first."""
    last = at // slide
    return [
        [row for row in rows if -(-row[0] // slide) == number]
        for number in range(last - slots + 1, last + 1)
    ]


def model(panes: list[list[Any]], k: int) -> tuple[int, dict[Any, tuple[int, int]]]:
    """Algorithm 6 as the spec says it: δ, and the bounds of every listed value."""
    delta, total, covered = 0, Counter[Any](), Counter[Any]()
    for pane in panes:
        counts = sorted(Counter(pane).items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        least = counts[-1][1] if len(counts) == k else 0
        delta += least
        for value, count in counts:
            total[value] += count
            covered[value] += least
    return delta, {v: (total[v], total[v] + delta - covered[v]) for v in total}


def expected(panes: list[list[Any]], k: int, share: str, errors: str, partial: bool) -> Any:
    delta, bounds = model(panes, k)
    rows = sum(map(len, panes))
    threshold = Decimal(share.strip(", ")) * rows if share else delta
    negatives = "NEGATIVES" in errors
    sure = {value for value, (low, _) in bounds.items() if low > threshold}
    maybe = {value for value, (_, high) in bounds.items() if high > threshold}
    shown = [(value, *bounds[value]) for value in (maybe if negatives else sure)]
    shown.sort(key=lambda item: (-item[1], item[0]))
    items = [{"value": value, "low": low, "high": high} for value, low, high in shown]
    complete = int(threshold) >= delta and (negatives or sure == maybe)
    return {
        "items": items, "delta": delta, "rows": rows, "partial": partial, "complete": complete
    }  # fmt: skip


@pytest.mark.parametrize("window", ["RANGE 30 us SLIDE 10 us", "ROWS 30 SLIDE 10 ROWS"])
def test_the_worked_example(window: str) -> None:
    run = session_of().query(f"SELECT 0 AS k, FREQUENT(x, 2) AS f FROM s [{window}]")
    fed(run, [(at, 0, x) for at, x in enumerate("".join(EXAMPLE), start=1)])
    shown = []
    for at in (10, 20, 30, 40, 50):
        found = answers(run, at)[0]
        items = " ".join(f"{one['value']}{one['low']}–{one['high']}" for one in found["items"])
        shown.append((found["delta"], found["partial"], items))
    assert shown == [
        (3, True, "x5–5"),
        (6, True, "a7–7"),
        (9, False, "a11–11"),
        (8, False, "a10–10"),
        (5, False, "x16–19 a6–6"),
    ]


@given(rows=ROWS, k=st.integers(1, 4), slots=st.integers(1, 3), function=FUNCTIONS, share=SHARES,
       errors=ERRORS, cuts=st.lists(st.integers(0, 45), max_size=4), buckets=st.integers(1, 3),
       strategy=st.sampled_from(["UPA", "NT", "DIRECT"]))  # fmt: skip
@example(rows=[(1, 0, x) for x in "aaaaabbbbcccdde"], k=1, slots=1, function="FREQUENT", share="",
         errors="", cuts=[], buckets=3, strategy="UPA")  # fmt: skip
def test_groups_of_a_time_window(
    rows: list[Row], k: int, slots: int, function: str, share: str, errors: str, cuts: list[int],
    buckets: int, strategy: str,
) -> None:  # fmt: skip
    cql = (
        f"SELECT k, {function}(x, {k}{share}{errors}) AS f "
        f"FROM s [RANGE {5 * slots} us SLIDE 5 us] GROUP BY k"
    )
    run = fed(session_of().query(cql, strategy=strategy, buckets=buckets), rows, cuts)
    for at in range(5, 70, 5):
        panes = panes_by_time(rows, at, 5, slots)
        first = min((row[0] for row in rows), default=0)
        partial = at < -(-first // 5) * 5 + 5 * (slots - 1)
        keys = {row[1] for pane in panes for row in pane}
        values = {
            key: [[x for _, own, x in pane if own == key and x is not None] for pane in panes]
            for key in keys
        }
        wanted = {key: expected(own, k, share, errors, partial) for key, own in values.items()}
        assert answers(run, at) == wanted, at


@given(rows=ROWS, k=st.integers(1, 4), slots=st.integers(1, 4), size=st.integers(1, 6),
       share=SHARES, errors=ERRORS, cuts=st.lists(st.integers(0, 45), max_size=4),
       buckets=st.integers(1, 3), strategy=st.sampled_from(["UPA", "NT", "DIRECT"]))  # fmt: skip
def test_a_window_of_rows(
    rows: list[Row], k: int, slots: int, size: int, share: str, errors: str, cuts: list[int],
    buckets: int, strategy: str,
) -> None:  # fmt: skip
    """Several slides at one instant give one answer, after the last."""
    cql = (
        f"SELECT 0 AS k, FREQUENT(x, {k}{share}{errors}) AS f "
        f"FROM s [ROWS {slots * size} SLIDE {size} ROWS]"
    )
    run = fed(session_of().query(cql, strategy=strategy, buckets=buckets), rows, cuts)
    ordered = sorted(rows, key=lambda row: row[0])
    for at in range(45):
        came = [x for ts, _, x in ordered if ts <= at]
        slides = len(came) // size
        panes = [came[n * size : (n + 1) * size] for n in range(slides)][-slots:]
        values = [[x for x in pane if x is not None] for pane in panes]
        assert answers(run, at)[0] == expected(values, k, share, errors, slides < slots), at


@given(rows=ROWS, k=st.integers(1, 4), slots=st.integers(1, 3))
def test_every_answer_is_true_by_exact_counts(rows: list[Row], k: int, slots: int) -> None:
    cql = f"SELECT k, FREQUENT(x, {k}) AS f FROM s [RANGE {5 * slots} us SLIDE 5 us] GROUP BY k"
    run = fed(session_of().query(cql), rows)
    columns = {name: [row[at] for row in rows] for at, name in enumerate(("ts", "k", "x"))}
    alive = pa.table(
        columns, pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("x", pa.string())])
    )
    database = duckdb.connect()
    database.register("alive", alive)
    for at in range(5, 60, 5):
        counted = database.execute(
            "SELECT k, x, COUNT(*) FROM alive WHERE ts <= ? AND ts > ? AND x IS NOT NULL "
            "GROUP BY ALL", [at, at - 5 * slots],
        ).fetchall()  # fmt: skip
        exact = {(key, x): count for key, x, count in counted}
        for key, answer in answers(run, at).items():
            items = {item["value"]: item for item in answer["items"]}
            for value, item in items.items():
                assert exact[key, value] > answer["delta"]
                assert item["low"] <= exact[key, value] <= item["high"]
            often = {x for (own, x), n in exact.items() if own == key and n > 2 * answer["delta"]}
            assert often <= set(items)
            over = {x for (own, x), n in exact.items() if own == key and n > answer["delta"]}
            assert not answer["complete"] or over == set(items)


@given(
    rows=st.lists(
        st.tuples(st.integers(1, 40), st.just(0), st.sampled_from("abcdefg")), min_size=1
    ),
    k=st.integers(1, 4),
    slots=st.integers(1, 4),
)
def test_the_library_says_the_same(rows: list[Row], k: int, slots: int) -> None:
    ordered = sorted(rows, key=lambda row: row[0])
    found = []
    library = Frequent(k, slots, Span("5 us"))
    library.on_refresh(lambda window, refresh: found.append((refresh.as_of, window.items())))
    library.append([row[2] for row in ordered], times=[row[0] for row in ordered])
    library.advance(46)
    cql = f"SELECT 0 AS k, FREQUENT(x, {k}) AS f FROM s [RANGE {5 * slots} us SLIDE 5 us]"
    run = fed(session_of().query(cql), rows)
    for at, answer in found:
        mine = answers(run, at)[0]
        items = [{"value": o.value, "low": o.low, "high": o.high} for o in answer.items]
        assert (mine["items"], mine["delta"], mine["rows"], mine["partial"]) == (
            items, answer.delta, answer.rows, answer.partial,
        )  # fmt: skip
    by_rows = Frequent(k, slots, Rows(3))
    by_rows.append([row[2] for row in ordered])
    cql = f"SELECT 0 AS k, FREQUENT(x, {k}) AS f FROM s [ROWS {3 * slots} SLIDE 3 ROWS]"
    mine = answers(fed(session_of().query(cql), rows), 999)[0]
    items = [{"value": o.value, "low": o.low, "high": o.high} for o in by_rows.items().items]
    assert (mine["items"], mine["partial"]) == (items, by_rows.partial)


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "values", "most"),
    [
        ("DOUBLE", [NAN, 1.5, NAN, -0.0, 0.0, 0.0, None], [(0.0, 3), ("nan", 2), (1.5, 1)]),
        ("DECIMAL(9,2)", [Decimal("1.50"), Decimal("2.00"), Decimal("1.50")],
         [(Decimal("1.50"), 2), (Decimal("2.00"), 1)]),
        ("BOOLEAN", [True, False, True, None], [(True, 2), (False, 1)]),
        ("STRING", ["é", "", "é", "\0", None], [("é", 2), ("", 1), ("\0", 1)]),
        ("BIGINT", [2**63 - 1, -(2**63), 2**63 - 1], [(2**63 - 1, 2), (-(2**63), 1)]),
    ],
)  # fmt: skip
def test_values_of_every_type(kind: str, values: list[Any], most: list[tuple[Any, int]]) -> None:
    cql = "SELECT k, FREQUENT(x, 9) AS f FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
    run = fed(session_of(kind).query(cql), [(3, 0, value) for value in values])
    items = answers(run, 10)[0]["items"]
    shown = [("nan" if one["value"] != one["value"] else one["value"], one["low"]) for one in items]
    assert shown == most


def test_a_group_whose_values_are_all_null_is_there() -> None:
    cql = "SELECT k, FREQUENT(x, 2) AS f FROM s [RANGE 10 us SLIDE 10 us] GROUP BY k"
    run = fed(session_of().query(cql), [(3, 7, None)])
    assert answers(run, 10)[7]["items"] == []
    assert answers(run, 10)[7]["rows"] == 0
    assert answers(run, 20) == {}


def test_several_calls_beside_other_aggregates() -> None:
    cql = (
        "SELECT k, COUNT(*) AS n, COUNT(x) AS m, MAX(x) AS top, FREQUENT(x, 2) AS f, "
        "FREQUENT(x, 1) AS g, FREQUENT(n, 3) AS h FROM s [ROWS 30 SLIDE 10 ROWS] "
        "WHERE x <> 'b' GROUP BY k HAVING COUNT(*) > 5"
    )
    rows = [(at, 0, x) for at, x in enumerate("".join(EXAMPLE), start=1)]
    (row,) = fed(session_of().query(cql), rows).snapshot().to_pylist()
    assert (row["n"], row["m"], row["top"]) == (28, 28, "x")
    assert [item["value"] for item in row["f"]["items"]] == ["x", "a"]
    assert (row["g"]["delta"], row["g"]["items"]) == (20, [])
    assert row["h"]["delta"] == 3


def test_a_window_becomes_full_without_a_row() -> None:
    cql = "SELECT k, FREQUENT(x, 2) AS f FROM s [RANGE 30 us SLIDE 10 us] GROUP BY k"
    run = fed(session_of().query(cql), [(12, 1, "a")])
    assert [answers(run, at)[1]["partial"] for at in (20, 30, 40)] == [True, True, False]
    lives = run.lifetimes()
    assert lives["ts"].to_pylist() == [20, 40]


@given(rows=ROWS, k=st.integers(1, 3), length=st.integers(1, 17), slide=st.integers(1, 7),
       errors=ERRORS, cuts=st.lists(st.integers(0, 45), max_size=4), buckets=st.integers(1, 3),
       strategy=st.sampled_from(["UPA", "NT", "DIRECT"]))  # fmt: skip
@example(rows=[(ts, 0, x) for ts, x in enumerate("abcabcaabbbccaacbab", 1)], k=1, length=7, slide=3,
         errors="", cuts=[8], buckets=2, strategy="NT")  # fmt: skip
def test_a_slide_need_not_divide_a_time_window(
    rows: list[Row], k: int, length: int, slide: int, errors: str, cuts: list[int], buckets: int,
    strategy: str,
) -> None:  # fmt: skip
    """Rows that come and go at the same refreshes are a sub-window."""
    cql = (
        f"SELECT k, FREQUENT(x, {k}{errors}) AS f, COUNT(*) AS n "
        f"FROM s [RANGE {length} us SLIDE {slide} us] GROUP BY k"
    )
    run = fed(session_of().query(cql, strategy=strategy, buckets=buckets), rows, cuts)
    first = min((row[0] for row in rows), default=0)
    for at in range(slide, 70, slide):
        panes: dict[tuple[int, int], list[Row]] = {}
        for row in rows:
            came, goes = -(-row[0] // slide) * slide, -(-(row[0] + length) // slide) * slide
            if came <= at < goes:
                panes.setdefault((came, goes), []).append(row)
        partial = at < -(-first // slide) * slide + (length - 1) // slide * slide
        wanted = {
            key: expected(
                [[x for _, own, x in pane if own == key and x is not None]
                 for pane in panes.values()], k, "", errors, partial,
            )
            for key in {row[1] for pane in panes.values() for row in pane}
        }  # fmt: skip
        assert answers(run, at) == wanted, at


@given(rows=ROWS, k=st.integers(1, 3), length=st.integers(1, 17), slide=st.integers(1, 7),
       cuts=st.lists(st.integers(0, 45), max_size=4), buckets=st.integers(1, 3),
       strategy=st.sampled_from(["UPA", "NT", "DIRECT"]))  # fmt: skip
@example(rows=[(ts, 0, x) for ts, x in enumerate("abcabcaabbbccaacbab", 1)], k=1, length=7, slide=3,
         cuts=[8], buckets=2, strategy="NT")  # fmt: skip
def test_a_slide_need_not_divide_a_window_of_rows(
    rows: list[Row], k: int, length: int, slide: int, cuts: list[int], buckets: int, strategy: str
) -> None:
    cql = f"SELECT 0 AS k, FREQUENT(x, {k}) AS f FROM s [ROWS {length} SLIDE {slide} ROWS]"
    run = fed(session_of().query(cql, strategy=strategy, buckets=buckets), rows, cuts)
    ordered = sorted(rows, key=lambda row: row[0])
    for at in range(45):
        came = sum(1 for ts, _, _ in ordered if ts <= at) // slide * slide
        panes: dict[tuple[int, int], list[Any]] = {}
        for number in range(max(0, came - length), came):
            pane = panes.setdefault((number // slide, (number + length) // slide), [])
            pane += [x for x in [ordered[number][2]] if x is not None]
        answer = expected(list(panes.values()), k, "", "", came < length)
        assert answers(run, at)[0] == answer, at


WORDS = [f"w{number:04d}" for number in range(3000)]


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("errors", ["NO FALSE POSITIVES", "NO FALSE NEGATIVES"])
def test_a_sketch_keeps_its_bounds_where_it_has_forgotten(errors: str, buckets: int) -> None:
    """Sub-windows of more values than a sketch has counters."""
    rows: list[Row] = []
    for pane in range(4):
        rows += [(10 * pane + 5, 0, word) for word in WORDS]
        rows += [(10 * pane + 5, 0, word) for word in WORDS[:3] for _ in range(200 + 50 * pane)]
    cql = (
        f"SELECT 0 AS k, APPROX_FREQUENT(x, 5, 0.02, '{errors}') AS f "
        "FROM s [RANGE 20 us SLIDE 10 us]"
    )
    run = fed(session_of().query(cql, buckets=buckets), rows)
    for at, pane in ((20, 1), (30, 2), (40, 3)):
        alive = Counter(x for row in panes_by_time(rows, at, 10, 2) for _, _, x in row)
        answer = answers(run, at)[0]
        assert answer["rows"] == sum(alive.values())
        items = {item["value"]: item for item in answer["items"]}
        assert all(one["low"] <= alive[v] <= one["high"] for v, one in items.items())
        assert any(one["low"] < one["high"] for one in items.values()), "the sketch was full"
        over = {value for value, count in alive.items() if count > 0.02 * answer["rows"]}
        assert over == set(WORDS[:3])
        if errors == "NO FALSE POSITIVES":
            assert set(items) <= over
        elif answer["complete"]:
            assert over <= set(items), pane
    again = fed(session_of().query(cql, buckets=buckets), rows, cuts=[6, 16, 26])
    assert again.lifetimes().equals(run.lifetimes())


def test_state_is_bounded_by_k() -> None:
    cql = "SELECT FREQUENT(x, 3) AS f FROM s [RANGE 40 us SLIDE 10 us]"
    rows = [(at, 0, WORDS[at * 37 % 900]) for at in range(1, 41) for _ in range(50)]
    run = fed(session_of().query(cql), rows, cuts=range(5, 40, 5))
    (report,) = [one for one in run.reports() if one.name.startswith("the aggregate")][-1:]
    assert report.state_rows <= 4 * (3 + 1) + 1


def test_the_restore_forms_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="counts whole sub-windows"):
        session_of().query(
            "SELECT Istream-restore(FREQUENT(x, 2)) FROM s [RANGE 20 us SLIDE 10 us]"
        )
