"""One suite for every synopsis and every content: any window, slide, growth and restart."""

from __future__ import annotations

from decimal import Decimal
from math import isclose, isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.errors import CorruptFile, InvalidSetting, NotClosed
from mayfly.storage.directory import Directory
from mayfly.storage.segment import open_segment, write_segment
from mayfly.synopses import BasicInterval, DyadicIntervals, Running, Synopsis
from mayfly.synopses.contents import (
    Aggregate,
    Content,
    Counters,
    CountMin,
    DistinctSketch,
    FrequentSketch,
    Keys,
    QuantileSketch,
    Sample,
    TableAlgebra,
    content_for,
)
from mayfly.synopses.stored_form import (
    JOIN_KINDS,
    restored_join,
    restored_synopsis,
    stored_table,
)
from tests.contract.synopsis_model import Row, expected
from tests.contract.window_model import same

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-4, 6)),
    "wide": (pa.int64(), st.integers(-(2**60), 2**60)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 0.1, 1e300, -1e300, 3e-320, 7.5])),
    "odd": (pa.float64(), st.sampled_from([0.0, 1.5, float("nan"), float("inf"), float("-inf")])),
    "decimal": (pa.decimal128(10, 2), st.integers(-200, 200).map(lambda n: Decimal(n) / 100)),
    "text": (pa.string(), st.text("abß", max_size=2)),
}
NUMERIC = ("whole", "wide", "float", "odd", "decimal")
CALLS = {
    Aggregate("COUNT"): tuple(TYPES),
    Aggregate("COUNT", "x"): tuple(TYPES),
    Aggregate("SUM", "x"): NUMERIC,
    Aggregate("AVG", "x"): NUMERIC,
    Aggregate("MIN", "x"): tuple(TYPES),
    Aggregate("MAX", "x"): tuple(TYPES),
    Aggregate("VAR", "x"): ("whole", "decimal"),
    Aggregate("STDDEV", "x"): ("whole", "decimal"),
    Aggregate("COUNT DISTINCT", "x"): tuple(TYPES),
    Aggregate("MEDIAN", "x"): ("whole", "odd", "decimal"),
    Aggregate("QUANTILE", "x", 0.4): tuple(TYPES),
    Aggregate("TOP", "x", 2): ("whole", "text", "decimal"),
}
KINDS = ("running", "interval", "open interval", "basic interval")


def kinds_of(content: Content) -> tuple[str, ...]:
    return KINDS if content.running else KINDS[1:]


def made(kind: str, algebra: TableAlgebra, panes: int) -> Synopsis[pa.Table]:
    if kind == "running":
        return Running(algebra, panes)
    if kind == "basic interval":
        return BasicInterval(algebra, panes)
    return DyadicIntervals(algebra, panes, is_open=kind == "open interval")


def answers(content: Content, summary: pa.Table, keys: Keys, call: Aggregate) -> dict[Any, Any]:
    table = content.answer(summary, keys, call)
    values = table.column("value").to_pylist()
    if not keys:
        return {None: values[0] if values else content.of_nothing(call)}
    return dict(zip(map(same, table.column(keys[0]).to_pylist()), values, strict=True))


def alike(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float | int):
        both_nan = isnan(left) and isnan(right)
        return both_nan or isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(left, list):
        return bool([{k: same(v) for k, v in item.items()} for item in left] == right)
    return bool(same(left) == same(right))


def assert_equal(given: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert given.keys() == wanted.keys()
    for key, value in wanted.items():
        assert alike(given[key], value), (key, given[key], value)


def draw_panes(data: st.DataObject, values: st.SearchStrategy[Any]) -> list[list[Row]]:
    row = st.tuples(st.sampled_from(["a", "b", None]), st.none() | values)
    return data.draw(st.lists(st.lists(row, max_size=4), min_size=1, max_size=14))


def rows_table(rows: list[Row], kind: pa.DataType) -> pa.Table:
    keys, values = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"k": pa.array(keys, pa.string()), "x": pa.array(values, kind)})


@pytest.mark.parametrize("call", CALLS, ids=str)
@settings(max_examples=max(4, settings().max_examples // 6))
@given(data=st.data(), keyed=st.booleans(), b=st.integers(1, 6), grown=st.integers(1, 9))
def test_answers_are_those_of_the_rows_in_the_youngest_panes(
    call: Aggregate, data: st.DataObject, keyed: bool, b: int, grown: int
) -> None:
    arrow, values = TYPES[data.draw(st.sampled_from(CALLS[call]))]
    panes = draw_panes(data, values)
    keys: Keys = ("k",) if keyed else ()
    schema = pa.schema({"k": pa.string(), "x": arrow})
    content = content_for(call, schema)
    algebra = TableAlgebra(content, keys, schema)
    synopsis = made(data.draw(st.sampled_from(kinds_of(content))), algebra, b)
    change = data.draw(st.integers(0, len(panes)))
    restart = data.draw(st.integers(0, len(panes)))
    for u, rows in enumerate(panes, 1):
        if u == change:
            synopsis.resize(grown)
        if u == restart:
            synopsis = restored_synopsis(stored_table(synopsis), algebra)
        synopsis.slide(content.summarize(rows_table(rows, arrow), keys))
        assert synopsis.covers >= min(u, b if u < change or not change else min(b, grown))
        lengths = {1, synopsis.covers // 2, synopsis.covers}
        for j, summary in synopsis.answers(lengths).items():
            window = [row for pane in panes[u - j : u] for row in pane]
            assert_equal(answers(content, summary, keys, call), expected(window, call, keyed))


@given(data=st.data(), content=st.sampled_from([Counters("x"), CountMin("x", 8, 2)]))
@settings(max_examples=settings().max_examples // 2)
def test_a_subtracted_part_leaves_what_the_rest_is(data: st.DataObject, content: Content) -> None:
    panes = draw_panes(data, st.integers(-3, 3))
    rest, part = panes[::2], panes[1::2]
    table = [
        rows_table([row for pane in some for row in pane], pa.int64()) for some in (rest, part)
    ]
    algebra = TableAlgebra(content, ("k",), table[0].schema)
    summaries = [content.summarize(rows, ("k",)) for rows in table]
    left = algebra.subtract(algebra.merge(summaries), summaries[1])
    order = [(name, "ascending") for name in left.schema.names[:2]]
    assert left.sort_by(order).equals(summaries[0].select(left.schema.names).sort_by(order))


def test_a_content_that_cannot_be_subtracted_says_so() -> None:
    content = content_for(Aggregate("MAX", "x"), pa.schema({"x": pa.int64()}))
    part = content.summarize(pa.table({"x": [1]}), ())
    with pytest.raises(InvalidSetting, match="Maximum of x cannot be subtracted"):
        content.subtract(part, part, ())


def test_sums_that_do_not_fit_are_refused_and_those_that_come_back_are_not() -> None:
    call = Aggregate("SUM", "x")
    schema = pa.schema({"x": pa.int64()})
    content = content_for(call, schema)
    synopsis = Running(TableAlgebra(content, (), schema), 3)
    for value in (2**62, 2**62, -(2**62)):
        synopsis.slide(content.summarize(pa.table({"x": [value]}, schema=schema), ()))
    assert answers(content, synopsis.answer(3), (), call) == {None: 2**62}
    synopsis.slide(content.summarize(pa.table({"x": [2**62]}, schema=schema), ()))
    synopsis.slide(content.summarize(pa.table({"x": [2**62]}, schema=schema), ()))
    with pytest.raises(Exception, match="does not fit"):
        answers(content, synopsis.answer(2), (), call)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_infinities_and_nan_leave_with_their_pane(kind: str) -> None:
    call = Aggregate("SUM", "x")
    schema = pa.schema({"x": pa.float64()})
    content = content_for(call, schema)
    synopsis = made(kind, TableAlgebra(content, (), schema), 4)
    for value in (float("inf"), float("nan"), float("-inf"), 0.5, 0.25):
        synopsis.slide(content.summarize(pa.table({"x": [value, 1.0]}), ()))
    given = [answers(content, synopsis.answer(j), (), call)[None] for j in range(1, 5)]
    assert str(given) == "[1.25, 2.75, -inf, nan]"
    synopsis = made(kind, TableAlgebra(content, (), schema), 4)
    for value in (float("inf"), 1.0):
        synopsis.slide(content.summarize(pa.table({"x": [value]}), ()))
    assert answers(content, synopsis.answer(2), (), call) == {None: float("inf")}


# ── sketches ──────────────────────────────────────────────────────────────────────────────


def merged_over_panes(content: Content, values: list[Any], kind: str) -> pa.Table:
    """Values spread over eight panes, as one summary."""
    schema = pa.schema({"x": pa.array(values).type})
    synopsis = made(kind, TableAlgebra(content, (), schema), 8)
    for pane in range(8):
        rows = pa.table({"x": pa.array(values[pane::8], schema.field("x").type)})
        synopsis.slide(content.summarize(rows, ()))
    return synopsis.answer(8)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_sketches_hold_their_bounds(kind: str) -> None:
    values = [(n * n) % 3001 for n in range(6000)]
    distinct = DistinctSketch("x")
    call = Aggregate("APPROX COUNT DISTINCT", "x")
    [row] = distinct.answer(merged_over_panes(distinct, values, kind), (), call).to_pylist()
    assert row["low"] <= len(set(values)) <= row["high"]
    quantile = QuantileSketch("x")
    call = Aggregate("APPROX QUANTILE", "x", 0.5)
    [row] = quantile.answer(merged_over_panes(quantile, values, kind), (), call).to_pylist()
    assert row["low"] <= sorted(values)[3000] <= row["high"]
    skewed = [str(n % 7) if n % 3 else "often" for n in range(4000)]
    frequent = FrequentSketch("x", 4)
    call = Aggregate("APPROX TOP", "x", 3)
    [row] = frequent.answer(merged_over_panes(frequent, skewed, kind), (), call).to_pylist()
    assert row["value"][0] == "often"
    for value, low, high in zip(row["value"], row["low"], row["high"], strict=True):
        assert low <= skewed.count(value) <= high
    count = CountMin("x")
    call = Aggregate("APPROX COUNT", "x", 9)
    [row] = count.answer(merged_over_panes(count, values, kind), (), call).to_pylist()
    assert row["low"] <= values.count(9) <= row["high"] == row["value"]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_sample_is_of_the_rows_and_of_its_size(kind: str) -> None:
    content = Sample("x", 50)
    call = Aggregate("SAMPLE", "x")
    [row] = content.answer(
        merged_over_panes(content, list(range(4000)), kind), (), call
    ).to_pylist()
    assert len(set(row["value"])) == 50
    assert 1200 < sum(row["value"]) / 50 < 2800


# ── restarts and refusals ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_a_synopsis_goes_on_from_a_segment(kind: str, tmp_path: Path) -> None:
    schema = pa.schema({"k": pa.string(), "x": pa.int64()})
    call = Aggregate("SUM", "x")
    content = content_for(call, schema)
    algebra = TableAlgebra(content, ("k",), schema)
    synopsis = made(kind, algebra, 4)
    panes = [[("a", n), ("b", -n)] if n % 3 != 1 else [] for n in range(12)]
    for rows in panes[:7]:
        synopsis.slide(content.summarize(rows_table(rows, pa.int64()), ("k",)))
    directory = Directory.at(tmp_path / "stored")
    table = stored_table(synopsis)
    segment = write_segment(directory, "synopsis", table)
    assert segment is not None
    last = 7 + 4 + (kind == "running")
    assert not segment.dead_at(last - 1)
    assert segment.dead_at(last)
    synopsis = restored_synopsis(open_segment(directory, segment), algebra)
    window = [row for pane in panes[3:7] for row in pane]
    assert_equal(answers(content, synopsis.answer(4), ("k",), call), expected(window, call, True))
    for rows in panes[7:]:
        synopsis.slide(content.summarize(rows_table(rows, pa.int64()), ("k",)))
    window = [row for pane in panes[-4:] for row in pane]
    assert_equal(answers(content, synopsis.answer(4), ("k",), call), expected(window, call, True))


def result(panes: tuple[int, int]) -> Row:
    """The one result of a pair of panes."""
    return ("a" if panes[0] % 2 else None, sum(panes))


@pytest.mark.parametrize("kind", JOIN_KINDS)
def test_a_synopsis_of_a_join_goes_on_from_a_table(kind: str) -> None:
    schema = pa.schema({"k": pa.string(), "x": pa.int64()})
    call = Aggregate("SUM", "x")
    content = content_for(call, schema)
    algebra = TableAlgebra(content, ("k",), schema)
    synopsis = JOIN_KINDS[kind](algebra, 4, 2)
    for u in range(1, 12):
        window = range(max(1, u - 3), u + 1)
        panes = [(p1, p2) for p1 in window for p2 in window if u in (p1, p2)]
        tables = {pair: rows_table([result(pair)], pa.int64()) for pair in panes}
        synopsis.slide({pair: content.summarize(t, ("k",)) for pair, t in tables.items()})
        if u % 3 == 0:
            synopsis = restored_join(stored_table(synopsis), algebra)
        for n1, n2 in ((1, 1), (4, 4), (2, 4), (4, 3)):
            if max(n1, n2) <= synopsis.covers:
                pairs = [(i, k) for i in range(u - n1 + 1, u + 1) for k in range(u - n2 + 1, u + 1)]
                given = answers(content, synopsis.answer(n1, n2), ("k",), call)
                assert_equal(given, expected([result(pair) for pair in pairs], call, True))


def test_a_table_of_something_else_is_refused() -> None:
    schema = pa.schema({"x": pa.int64()})
    algebra = TableAlgebra(content_for(Aggregate("COUNT"), schema), (), schema)
    with pytest.raises(CorruptFile, match="holds no synopsis"):
        restored_synopsis(pa.table({"x": [1]}), algebra)
    with pytest.raises(CorruptFile, match="of a kind of running join"):
        restored_join(stored_table(Running(algebra, 2)), algebra)


@pytest.mark.parametrize("kind", KINDS)
def test_more_panes_than_are_kept_are_refused(kind: str) -> None:
    schema = pa.schema({"x": pa.int64()})
    content = content_for(Aggregate("COUNT"), schema)
    synopsis = made(kind, TableAlgebra(content, (), schema), 2)
    for _ in range(5):
        synopsis.slide(content.summarize(pa.table({"x": [1]}), ()))
    with pytest.raises(NotClosed, match="covers its 2 youngest panes, not 3"):
        synopsis.answer(3)
