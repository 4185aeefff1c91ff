"""What windows take, and how they refuse what they cannot: whole, and saying what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mayfly.errors import BadInput, InvalidSetting, MayflyError
from mayfly.windows import (
    ApproximateFrequent,
    Frequent,
    PartitionedWindow,
    Refresh,
    Rows,
    SlidingWindow,
    Span,
)
from mayfly.windows import domain as domain_module
from mayfly.windows.window import over_range

NAN = float("nan")


def rows_of_two(**settings: Any) -> SlidingWindow:
    return SlidingWindow(by=Rows(2), slots=2, **settings)


def spans(**settings: Any) -> SlidingWindow:
    return SlidingWindow(by=Span("10 us"), slots=2, **settings)


def filled(window: Any, *batches: object) -> Any:
    for batch in batches:
        window.append(batch)
    return window


@pytest.mark.parametrize(
    ("batch", "values"),
    [
        ([1, 2], [1, 2]),
        ((n for n in (1, 2)), [1, 2]),
        (range(1, 3), [1, 2]),
        ({"value": [1, 2], "other": ["x", "y"]}, [1, 2]),
        (np.array([1.5, NAN]), [1.5, NAN]),
        ([1.5, NAN], [1.5, NAN]),
        (np.array([1, 2], np.float16), [1.0, 2.0]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([2, 1], np.uint8), [1, 2]),
        (np.array([2, 1], ">i4"), [1, 2]),
        (pd.Series([1.5, NAN]), [None, 1.5]),
        (pd.Series([1, None], dtype="Int64"), [None, 1]),
        (pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
        (pd.DataFrame({"value": [1, 2]}), [1, 2]),
        (pd.Index([1, 2]), [1, 2]),
        (pa.table({"value": [1, 2]}), [1, 2]),
        (pa.record_batch({"value": [1, 2]}), [1, 2]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
        (pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        (pa.array([b"a", b"b"], pa.large_binary()), [b"a", b"b"]),
        (pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
        (pa.RunEndEncodedArray.from_arrays([1, 2], [7, 8]), [7, 8]),
        (pa.array([0, 86_400_000], pa.date64()), [date(1970, 1, 1), date(1970, 1, 2)]),
        (pa.array([time(1), time(2)]), [time(1), time(2)]),
        (pa.array([Decimal(1), Decimal(2)], pa.decimal256(50, 0)), [Decimal(1), Decimal(2)]),
        ([timedelta(1), timedelta(2)], [timedelta(1), timedelta(2)]),
        ([None, True], [None, True]),
    ],
)
def test_values_come_in_many_forms(batch: object, values: list[Any]) -> None:
    histogram = filled(rows_of_two(), batch).histogram()
    assert repr([value for value, _ in histogram]) == repr(values)


@pytest.mark.parametrize(
    "batch",
    [
        "ab",
        b"ab",
        {1, 2},
        5,
        None,
        [1, "a"],
        [2**70],
        [-(2**63)],
        [[1], [2]],
        [{"a": 1}],
        np.ones((2, 2)),
        np.array([1j, 2j]),
        np.array([1, "a"], object),
        np.array([2**63, 1], np.uint64),
        {"value": [1, "a"]},
        {"other": [1, 2]},
        pd.DataFrame({"value": [1, "a"]}),
        pd.DataFrame([[1, 2]], columns=["value", "value"]),
        pa.table([[1], [2]], names=["value", "value"]),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    ],
)
@pytest.mark.parametrize(
    "window", [rows_of_two, lambda: Frequent(2, 2, Rows(2)), lambda: spans(index="H")]
)
def test_what_makes_no_column_is_refused(window: Callable[[], Any], batch: object) -> None:
    with pytest.raises(BadInput) as refusal:
        window().append(batch)
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1, 2], [1.5, 2.0]),
        ([1, 2], ["1", "2"]),
        (["a", "b"], [1, 2]),
        ([1, 2], [date.today()] * 2),
    ],
)
def test_a_batch_with_one_bad_value_is_refused_whole(first: list[Any], second: list[Any]) -> None:
    for by in (Rows(1), Span("1 us")):
        window = SlidingWindow(by=by, slots=9)
        times = None if isinstance(by, Rows) else [1, 2]
        window.append(first, times)
        with pytest.raises(BadInput, match="came after one of"):
            window.append(second[::-1], times)
        if times:
            window.advance(100)
            continue
        assert window.histogram() == [(value, 1) for value in first]


def test_an_empty_batch_does_not_decide_the_type() -> None:
    for values in ([1, 2], ["a", "b"]):
        assert filled(rows_of_two(), np.array([]), values).histogram() == [(v, 1) for v in values]


def test_decimals_become_wider() -> None:
    window = filled(rows_of_two(), [Decimal("1.5"), None], [Decimal("100.25"), Decimal("1.50")])
    assert window.histogram() == [(None, 1), (Decimal("1.5"), 2), (Decimal("100.25"), 1)]
    ringed = filled(rows_of_two(ring="DB"), [Decimal("1.5")] * 2, [Decimal("100.25")] * 2)
    assert ringed.sorted_by()["value"].to_pylist() == [Decimal("1.5")] * 2 + [Decimal("100.25")] * 2


@pytest.mark.parametrize(
    "times",
    [
        [1],
        ["2020-01-01"] * 2,
        [1.5, 2.0],
        [None, 1],
        [2**63 - 1, 0],
        [-(2**63), 0],
        np.array([2**64 - 1, 0], np.uint64),
        np.array(["2020-01-01T00:00:00.000000001"] * 2, "datetime64[ns]"),
        pa.array([2**62, 0], pa.timestamp("s")),
    ],
)
def test_times_that_are_none_are_refused(times: object) -> None:
    with pytest.raises(BadInput) as refusal:
        spans().append([1, 2], times)
    assert refusal.value.hint
    with pytest.raises(BadInput, match="one time"):
        spans().append(pa.table({"value": [1], "ts": [1]}), [1])


def test_times_may_be_dates_and_instants() -> None:
    instants = [datetime(2020, 1, 1, tzinfo=UTC)] * 2
    for times in ([date(2020, 1, 1)] * 2, instants, pd.Series(pd.to_datetime(["2020-01-01"] * 2))):
        window = spans()
        window.append([1, 2], times)
        window.advance("2020-01-01T00:00:00.000001")
        assert window.rows == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"by": 5},
        {"by": None},
        {"slots": "2"},
        {"slots": 10**12},
        {"storage": None},
        {"index": []},
        {"ring": [1]},
        {"purge_every": -1},
        {"purge_every": "x"},
        {"purge_every": 1.5},
        {"index": "H", "buckets": 0},
        {"index": "H", "buckets": "a"},
        {"index": "T", "buckets": 4},
        {"storage": "HASH", "basic_buckets": 0},
        {"attribute": 5},
        {"attribute": ""},
        {"attribute": "ts"},
        {"index": "G", "groups": 5},
        {"index": "G", "groups": "abc"},
        {"index": "G", "groups": []},
        {"index": "G", "groups": [1, "a"]},
        {"share": [1]},
        {"index": "H", "buckets": 3, "share": rows_of_two(index="H")},
        {"share": rows_of_two(index=None), "index": None},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    basic: dict[str, Any] = {"by": Rows(2), "slots": 2}
    with pytest.raises(MayflyError) as refusal:
        SlidingWindow(**basic | settings)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "question",
    [
        lambda: filled(rows_of_two(), ["a", "b"]).median(),
        lambda: filled(rows_of_two(), [date(2020, 1, 1)] * 2).median(),
        lambda: filled(rows_of_two(), [1, 2]).quantile("a"),
        lambda: filled(rows_of_two(), [1, 2]).quantile(None),
        lambda: filled(rows_of_two(), [1, 2]).quantile(NAN),
        lambda: filled(rows_of_two(), [1, 2]).quantile(True),
        lambda: filled(rows_of_two(), [1, 2]).top(1.5),
        lambda: filled(rows_of_two(), [1, 2]).sorted_by(),
        lambda: rows_of_two(index=None).sorted_by(),
        lambda: filled(rows_of_two(ring="DB"), [1, 2]).lookup("1"),
        lambda: filled(rows_of_two(ring="DB"), [1, 2]).lookup(1.5),
        lambda: filled(rows_of_two(ring="DB"), [1, 2]).lookup(object()),
        lambda: filled(rows_of_two(ring="DB"), [1, 2]).lookup(2**80),
        lambda: filled(rows_of_two(ring="DB"), ["1", "2"]).lookup(1),
        lambda: rows_of_two().intersection(None),  # type: ignore[arg-type]
        lambda: filled(rows_of_two(), [1, 2]).intersection(filled(rows_of_two(), ["1", "2"])),
        lambda: filled(rows_of_two(), [1, 2]).intersection(filled(rows_of_two(), [1.0, 2.0])),
        lambda: rows_of_two().intersection(rows_of_two(index="G", groups=[1])),
        lambda: rows_of_two().difference(rows_of_two(index="G", groups=[1])),
        lambda: rows_of_two(index="G", groups=[1]).intersection(rows_of_two()),
        lambda: rows_of_two(index="G", groups=[1]).intersection(
            rows_of_two(index="G", groups=[1, 2])
        ),
        lambda: rows_of_two().on_refresh(None),  # type: ignore[arg-type]
        lambda: setattr(rows_of_two().on_refresh(print), "every", 0),
        lambda: over_range("1 s", "0 s"),
        lambda: over_range("0 s", "1 s"),
        lambda: over_range("10 days", "1 us"),
        lambda: Span("1 s", origin="never"),
        lambda: Frequent(1, 1, by=4),  # type: ignore[arg-type]
        lambda: filled(Frequent(1, 1, Rows(2)), [1, 1]).over("x"),
        lambda: filled(Frequent(1, 1, Rows(2)), [1, 1]).bounds("x"),
        lambda: ApproximateFrequent(1, 1, Rows(2), size=1),
        lambda: ApproximateFrequent(1, 1, Rows(2), size=100),
    ],
)
def test_impossible_questions_are_refused(question: Callable[[], object]) -> None:
    with pytest.raises(MayflyError) as refusal:
        question()
    assert refusal.value.hint


def test_numbers_of_numpy_are_numbers() -> None:
    window = SlidingWindow(by=Rows(np.int64(2)), slots=np.int64(2))  # type: ignore[arg-type]
    assert filled(window, [1, 2]).top(np.int64(1)) == [(1, 1)]
    assert window.quantile(np.float32(0.5)) == 1  # type: ignore[arg-type]


def test_medians_of_large_numbers_do_not_overflow() -> None:
    assert filled(rows_of_two(), [-1.7e308, 1.7e308]).median() == 0.0
    assert filled(rows_of_two(), [2**62, 2**62 + 2]).median() == float(2**62 + 1)


def test_nan_is_common_to_windows_with_nan() -> None:
    common = filled(rows_of_two(), [1.0, NAN]).intersection(filled(rows_of_two(), [NAN, 2.0]))
    assert repr(common) == "[nan]"
    assert filled(rows_of_two(), [1.0, NAN]).difference(filled(rows_of_two(), [NAN, 2.0])) == [1.0]


@pytest.mark.parametrize("window", [rows_of_two, spans])
def test_a_ring_keeps_the_columns_of_the_first_batch(window: Callable[..., Any]) -> None:
    ringed = window(ring="numbered")
    time_of = {} if window is rows_of_two else {"ts": [1, 1]}
    ringed.append(pa.table({"value": [1, 2], "x": [1, 2], **time_of}))
    for columns in ({"value": [1, 2]}, {"value": [1, 2], "x": ["a", "b"]}):
        with pytest.raises(BadInput, match="column"):
            ringed.append(pa.table({**columns, **time_of}))
    ringed.append(pa.table({"x": pa.array([3, 4], pa.int8()), "value": [1, 2], **time_of}))
    if time_of:
        ringed.advance(100)
        return
    assert ringed.sorted_by().select(["value", "x"]).to_pydict() == {
        "value": [1, 1, 2, 2],
        "x": [1, 3, 2, 4],
    }


def test_a_function_that_fails_costs_no_rows() -> None:
    window = rows_of_two()

    def fail(_: SlidingWindow, refresh: Refresh) -> None:
        raise ValueError(refresh.number)

    window.on_refresh(fail)
    with pytest.raises(ValueError, match="1"):
        window.append([1, 2, 3, 4])
    assert window.histogram() == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_a_window_is_not_moved_while_it_slides() -> None:
    window = rows_of_two()
    window.on_refresh(lambda w, _: w.append([1]))
    with pytest.raises(BadInput, match="is sliding"):
        window.append([1, 2])
    assert window.rows == 2


def test_values_that_left_are_forgotten() -> None:
    """Labels of texts are memory; a stream of ever new ones must not keep them."""
    for window in (
        rows_of_two(index=None, purge_every=1),
        rows_of_two(purge_every=1),
        rows_of_two(index="G", groups=["b"], purge_every=1),
        Frequent(2, 2, Rows(2)),
        ApproximateFrequent(2, 2, Rows(2)),
    ):
        for number in range(50):
            window.append([f"a{number}", f"c{number}"])
        labels = window._domain._labels
        assert labels is not None
        assert len(labels.keys()) <= 5


def test_groups_of_texts_move_with_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain_module, "_STEP", 4)
    for storage in ("GROUP", "LIST"):
        window = SlidingWindow(by=Rows(5), slots=9, index="G", storage=storage, groups=["m", "p"])
        texts = ["a", *(chr(ord("z") - n % 25) for n in range(29))]
        for start in range(0, 30, 5):
            window.append(texts[start : start + 5])
        histogram: Any = window.histogram()
        assert [part.count for part in histogram] == [
            sum(text < "m" for text in texts),
            sum("m" <= text < "p" for text in texts),
            sum(text >= "p" for text in texts),
        ]


def test_a_refresh_attaches_several_basic_windows() -> None:
    """RANGE 10 SLIDE 4 goes by basic windows of 2, and refreshes every 4."""
    window = over_range("10 us", "4 us")
    seen: list[int] = []
    window.on_refresh(lambda w, refresh: seen.append(refresh.as_of))
    window.append([1, 2, 3], [1, 5, 9])
    window.advance(14)
    assert seen == [4, 8, 12]


def test_what_cannot_be_a_setting_says_so() -> None:
    with pytest.raises(InvalidSetting, match=r"Rows\(1000\)"):
        SlidingWindow(by="10 min", slots=2)  # type: ignore[arg-type]


def test_windows_say_in_a_line_what_they_are() -> None:
    window = SlidingWindow(by=Rows(2), slots=3)
    window.append([1, 2, 3])
    assert (
        repr(window) == "SlidingWindow(Rows(count=2), slots=3, storage='LIST', index='T'): 2 rows"
    )
    assert repr(Frequent(k=1, slots=2, by=Rows(2))) == (
        "Frequent(k=1, slots=2, Rows(count=2)): 0 rows, δ 0"
    )
    assert repr(PartitionedWindow(by=Rows(2), slots=2, partition="p")) == (
        "PartitionedWindow(Rows(count=2), slots=2, partition='p'): 0 partitions"
    )
