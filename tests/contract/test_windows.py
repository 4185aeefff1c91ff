"""One suite for every storage, index and ring of mayfly.windows, against the obvious model."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import BadInput, InvalidSetting
from mayfly.windows import Refresh, Rows, SlidingWindow, Span, over_range
from mayfly.windows.rings import RINGS
from tests.contract.window_model import WindowModel, same

VALUE_INDEXES = ("T", "H", "AVL", "L", "UH")
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-4, 12)),
    "wide": (pa.int64(), st.integers(-(2**63) + 1, 2**63 - 1)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, -2.5, float("nan"), float("inf")])),
    "text": (pa.string(), st.text("abß\U0001f41d", max_size=3)),
    "decimal": (pa.decimal128(10, 2), st.integers(-200, 200).map(lambda n: Decimal(n) / 100)),
    "date": (pa.date32(), st.dates(date(2020, 1, 1), date(2020, 1, 9))),
}
KINDS = st.sampled_from(sorted(TYPES))


def comparable(values: list[Any]) -> list[Any]:
    return [tuple(map(same, v)) if isinstance(v, tuple) else same(v) for v in values]


@given(
    kind=KINDS,
    index=st.sampled_from([*VALUE_INDEXES, None]),
    storage=st.sampled_from(["LIST", "AGGR", "HASH"]),
    b=st.integers(1, 5),
    slots=st.integers(1, 4),
    purge=st.integers(0, 3),
    data=st.data(),
)
def test_answers_are_those_of_the_rows_in_the_window(
    kind: str, index: str | None, storage: str, b: int, slots: int, purge: int, data: st.DataObject
) -> None:
    arrow, values = TYPES[kind]
    rows = data.draw(st.lists(st.none() | values, max_size=40))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    window = SlidingWindow(
        by=Rows(b), slots=slots, storage=storage, index=index, purge_every=purge, basic_buckets=2
    )
    model = WindowModel(slots)
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        window.append(pa.array(rows[start:end], arrow))
        while (len(model.basic) + 1) * b <= end:
            model.attach(rows[len(model.basic) * b :][:b])
        assert window.rows == len(model.rows)
        assert window.partial == (len(model.basic) < slots)
        assert comparable(list(window.histogram())) == comparable(model.histogram())
        assert window.distinct() == model.distinct()
        for q in (0.0, 0.25, 0.5, 1.0):
            assert same(window.quantile(q)) == same(model.quantile(q))
        assert comparable(window.top(2)) == comparable(model.top(2))
        assert same(window.min()) == same(model.present()[0] if model.present() else None)
        assert same(window.max()) == same(model.present()[-1] if model.present() else None)
        if kind in ("whole", "decimal"):
            assert window.median() == model.median()


@given(
    kind=KINDS,
    ring=st.sampled_from(sorted(RINGS)),
    index=st.sampled_from(VALUE_INDEXES),
    b=st.integers(1, 4),
    slots=st.integers(1, 4),
    purge=st.integers(0, 2),
    data=st.data(),
)
def test_rings_find_the_rows_of_a_value_in_stream_order(
    kind: str, ring: str, index: str, b: int, slots: int, purge: int, data: st.DataObject
) -> None:
    arrow, values = TYPES[kind]
    rows = data.draw(st.lists(st.none() | values, max_size=30))
    window = SlidingWindow(by=Rows(b), slots=slots, index=index, ring=ring, purge_every=purge)
    model = WindowModel(slots)
    for number, value in enumerate(rows):
        window.append(
            pa.table({"value": pa.array([value], arrow), "row": pa.array([number], pa.int64())})
        )
        if (number + 1) % b == 0:
            model.attach(rows[number + 1 - b : number + 1])
        for sought in {same(v): v for v in rows}.values():
            looked_up = window.lookup(sought)
            assert (looked_up["row"].to_pylist() if looked_up.num_rows else []) == model.lookup(
                sought
            )
    ordered = window.sorted_by()
    places = {value: place for place, (value, _) in enumerate(model.histogram())}
    expected = sorted(model.rows, key=lambda row: places[same(row[1])])
    if expected:
        assert ordered["row"].to_pylist() == [number for number, _ in expected]


@given(
    rows=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), max_size=30),
    span=st.integers(1, 7),
    slots=st.integers(1, 4),
    clocks=st.lists(st.integers(0, 80), min_size=1, max_size=6),
    origin=st.integers(-3, 3),
)
def test_time_windows_hold_whole_basic_windows(
    rows: list[tuple[int, int]], span: int, slots: int, clocks: list[int], origin: int
) -> None:
    """A row is in the answer at refresh w exactly if ⌈ts⌉ ≤ w < ⌈ts⌉ + slots, in spans."""
    window = SlidingWindow(by=_span(span, origin), slots=slots)
    seen: dict[int, list[tuple[Any, int]]] = {}

    def look(w: SlidingWindow, refresh: Refresh) -> None:
        for back in range(refresh.repeats):
            seen[refresh.as_of - back * span] = list(w.histogram())  # type: ignore[arg-type]

    window.on_refresh(look)
    sent: list[tuple[int, int]] = []
    last = 0
    for clock in sorted(clocks):
        fresh = [row for row in rows if last <= row[0] and row not in sent]
        fresh = [row for row in fresh if row[0] < clock + 5]
        window.append([v for _, v in fresh], [t for t, _ in fresh])
        sent += fresh
        window.advance(clock)
        last = clock
    if not seen:
        return
    for as_of, histogram in seen.items():
        alive = [v for t, v in sent if t <= as_of < t + (-(t - origin) % span) + slots * span]
        assert histogram == sorted({v: alive.count(v) for v in alive}.items())
    instants = sorted(seen)
    assert instants == list(range(instants[0], instants[-1] + 1, span))


def _span(micros: int, origin: int = 0) -> Span:
    return Span(f"{micros} us", origin=origin)


@pytest.mark.parametrize("index", VALUE_INDEXES)
@given(data=st.data())
def test_windows_that_share_an_index_intersect(index: str, data: st.DataObject) -> None:
    slots = data.draw(st.integers(1, 3))
    first = SlidingWindow(by=Rows(3), slots=slots, index=index, purge_every=1)
    second = SlidingWindow(by=Rows(2), slots=slots, index=index, purge_every=1, share=first)
    models = WindowModel(slots), WindowModel(slots)
    for _ in range(data.draw(st.integers(1, 8))):
        which = data.draw(st.integers(0, 1))
        batch = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=5))
        (first, second)[which].append(batch)
        rows = models[which].__dict__.setdefault("all", [])
        rows += batch
        size = (3, 2)[which]
        while (len(models[which].basic) + 1) * size <= len(rows):
            models[which].attach(rows[len(models[which].basic) * size :][:size])
        here, there = ({v for _, v in model.rows} for model in models)
        assert first.intersection(second) == sorted(here & there)
        assert first.difference(second) == sorted(here - there)


@given(data=st.data(), storage=st.sampled_from(["GROUP", "LIST"]))
def test_groups_count_ranges_and_never_miss_a_common_value(
    data: st.DataObject, storage: str
) -> None:
    edges = sorted(data.draw(st.sets(st.integers(0, 20), min_size=1, max_size=5)))
    windows = [
        SlidingWindow(by=Rows(3), slots=2, storage=storage, index="G", groups=edges)
        for _ in range(2)
    ]
    models = WindowModel(2), WindowModel(2)
    for window, model in zip(windows, models, strict=True):
        rows = data.draw(st.lists(st.none() | st.integers(-2, 22), max_size=12))
        window.append(rows)
        for start in range(0, len(rows) // 3 * 3, 3):
            model.attach(rows[start : start + 3])
        values = model.present()
        assert window.rows == len(model.rows)
        histogram: Any = window.histogram()
        assert sum(part.count for part in histogram) == len(values)
        for part in histogram:
            low, high = part.range.low, part.range.high
            inside = [v for v in values if (low is None or low <= v) and (high is None or v < high)]
            assert part.count == len(inside)
        least, most = window.distinct()  # type: ignore[misc]
        assert least <= model.distinct() <= most
    common = set(models[0].present()) & set(models[1].present())
    answer: Any = windows[0].intersection(windows[1])
    for value in common:
        assert any(
            (r.low is None or r.low <= value) and (r.high is None or value < r.high)
            for r in answer.ranges
        )
    assert len(common) <= answer.at_most


def test_every_kth_slide_is_evaluated_once() -> None:
    window = SlidingWindow(by=Rows(2), slots=3)
    seen: list[tuple[int, bool]] = []
    watch = window.on_refresh(lambda w, r: seen.append((r.as_of, r.partial)), every=2)
    window.append(range(12))
    assert seen == [(4, True), (8, False), (12, False)]
    watch.every = 3
    window.append(range(6))
    assert seen[3:] == [(18, False)]


def test_slides_of_one_instant_give_one_evaluation() -> None:
    window = SlidingWindow(by=Rows(2), slots=2)
    seen: list[int] = []
    window.on_refresh(lambda w, r: seen.append(r.number))
    window.append(range(7), [1, 5, 5, 5, 5, 5, 9])
    window.advance(10)
    assert seen == [3]


def test_silence_takes_no_time() -> None:
    window = over_range("10 min", "1 min")
    repeats: list[int] = []
    window.on_refresh(lambda w, r: repeats.append(r.repeats))
    window.append([1, 2], _times("2020-01-01", "2020-01-01"))
    window.advance("2920-01-01")
    assert window.rows == 0
    assert len(repeats) <= 12
    assert sum(repeats) == (_times("2920-01-01")[0] - 1 - _times("2020-01-01")[0]) // 60_000_000 + 1


def _times(*texts: str) -> list[int]:
    from mayfly.lifetime import instant

    return [instant(text) for text in texts]


def test_labels_are_spread_anew_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    from mayfly.windows import domain

    monkeypatch.setattr(domain, "_STEP", 4)
    for index in (*VALUE_INDEXES, None):
        for storage in ("LIST", "AGGR"):
            window = SlidingWindow(by=Rows(5), slots=4, index=index, storage=storage)
            model = WindowModel(4)
            # Each value goes between the first and the one before it, where room runs out soon.
            values = ["a", *(chr(ord("z") - n % 25) * (1 + n // 25) for n in range(29))]
            for end in range(2, 32, 2):  # the buffer is rarely empty
                window.append(values[end - 2 : end])
                if end % 5 < 2:
                    model.attach(values[end // 5 * 5 - 5 :][:5])
                assert window.histogram() == model.histogram()


def test_many_values_split_blocks() -> None:
    rng = np.random.default_rng(2003)
    window = SlidingWindow(by=Rows(997), slots=9)
    rows = rng.integers(0, 20_000, 30_000)
    for part in np.array_split(rows, 50):
        window.append(part)
        held = rows[: window.slides * 997][-9 * 997 :]
        if len(held):
            ordered = np.sort(held)
            for q in (0.01, 0.3, 0.5, 0.99):
                assert window.quantile(q) == ordered[max(1, int(np.ceil(q * len(held) - 1e-9))) - 1]
            assert window.distinct() == len(np.unique(held))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"storage": "HEAP"}, "no storage 'HEAP'"),
        ({"index": "B"}, "no index 'B'"),
        ({"ring": "gold"}, "no ring 'gold'"),
        ({"ring": "DB", "storage": "AGGR"}, "whole tuples"),
        ({"ring": "DB", "index": None}, "value index"),
        ({"index": "G"}, "groups belong"),
        ({"groups": [1]}, "groups belong"),
        ({"index": "G", "groups": [3, 1]}, "not ascending"),
        ({"storage": "GROUP", "index": "T", "groups": [1]}, "hold no values"),
        ({"slots": 0}, "slots is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    basic: dict[str, Any] = {"by": Rows(2), "slots": 2}
    with pytest.raises(InvalidSetting, match=words):
        SlidingWindow(**basic | settings)


def test_bad_rows_are_refused_and_nothing_is_taken() -> None:
    window = SlidingWindow(by=_span(10), slots=3)
    with pytest.raises(BadInput, match="needs the time"):
        window.append([1])
    window.append([1, 2], [5, 25])
    window.advance(20)
    with pytest.raises(BadInput, match="is late"):
        window.append([3, 4], [30, 19])
    with pytest.raises(BadInput, match="cannot go back"):
        window.advance(19)
    window.advance(31)
    assert window.histogram() == [(1, 1), (2, 1)]
    with pytest.raises(BadInput, match="stands for NULL"):
        SlidingWindow(by=Rows(1), slots=1).append([-(2**63)])
    other = SlidingWindow(by=Rows(1), slots=1)
    other.append([1])
    with pytest.raises(BadInput, match="came after one of"):
        other.append(["x"])
    with pytest.raises(InvalidSetting, match='ring="numbered"'):
        window.lookup(1)
