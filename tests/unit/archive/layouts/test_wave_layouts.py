"""The six schemes: golden tables, and what must hold for every window and number of indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.layouts import (
    AddIndex,
    AddLateRows,
    AddToIndex,
    BuildIndex,
    CopyIndex,
    CreateIndex,
    DeleteFromIndex,
    DropIndex,
    Operation,
    RenameIndex,
    Transition,
    UpdateTechnique,
    WaveLayout,
    WaveScheme,
    WaveState,
    most_stored_days,
)
from mayfly.archive.layouts.operations import execute
from mayfly.errors import BadInput, InvalidEdit, InvalidSetting

GOLDEN = Path(__file__).parents[3] / "golden" / "archive"
TABLES = ["del.txt", "reindex.txt", "reindex+.txt", "reindex++.txt", "wata.txt", "rata.txt"]
TABLES += ["rata_spread.txt", "reindex++_spread.txt"]
SMALL_WINDOWS = range(1, 13)
SPREAD_FROM = {WaveScheme.RATA: 3, WaveScheme.REINDEX_PLUS_PLUS: 2}
"""Constituents from which on temporaries can be spread; fewer do for a window as small."""


def parse_days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("..")
        days.update(range(int(first), int(last or first) + 1))
    return frozenset(days)


def parse_row(line: str) -> tuple[int, list[frozenset[int]], dict[str, frozenset[int]]]:
    day, rest = line.split(maxsplit=1)
    indexes = re.findall(r"(\w*)\{([^}]*)\}", rest)
    constituents = [parse_days(days) for name, days in indexes if not name]
    return int(day), constituents, {n: parse_days(days) for n, days in indexes if n}


def layouts(windows: range = SMALL_WINDOWS) -> Iterator[WaveLayout]:
    for scheme in WaveScheme:
        for window in windows:
            for constituents in range(scheme.fewest_constituents, window + 1):
                yield WaveLayout(scheme, window, constituents)
                if scheme in SPREAD_FROM and (
                    constituents >= SPREAD_FROM[scheme] or window <= SPREAD_FROM[scheme]
                ):
                    yield WaveLayout(scheme, window, constituents, spread=True)


@st.composite
def wide_layouts(draw: st.DrawFn) -> WaveLayout:
    scheme = draw(st.sampled_from(WaveScheme))
    window = draw(st.integers(3, 60))
    constituents = draw(st.integers(scheme.fewest_constituents, window))
    spread = constituents >= SPREAD_FROM.get(scheme, window + 1) and draw(st.booleans())
    return WaveLayout(scheme, window, constituents, spread)


def steps(layout: WaveLayout) -> list[Transition]:
    return list(layout.run(WaveState(), 3 * layout.window + 4))


@pytest.mark.parametrize("table", TABLES)
def test_days_are_as_the_golden_table_says(table: str) -> None:
    title, *lines = (GOLDEN / table).read_text().splitlines()
    shape = re.fullmatch(r"(\S+) W=(\d+) n=(\d+)(, spread)?", title)
    assert shape
    layout = WaveLayout(WaveScheme(shape[1]), int(shape[2]), int(shape[3]), bool(shape[4]))
    assert len(lines) == 7
    for line in lines:
        day, expected, temporaries = parse_row(line)
        state = layout.state_after(day)
        assert list(state.constituents) == [f"I{at + 1}" for at in range(len(expected))]
        assert list(state.constituents.values()) == expected, line
        held = {name: days for name, days in state.temporaries.items() if days}
        assert held == {name: days for name, days in temporaries.items() if days}, line


def test_wata_stores_as_many_days_as_the_golden_bound() -> None:
    lines = (GOLDEN / "most_stored_days.txt").read_text().splitlines()[1:]
    assert len(lines) == 5
    for line in lines:
        window, constituents, most = map(int, line.split())
        layout = WaveLayout(WaveScheme.WATA, window, constituents)
        assert layout.most_stored_days == most_stored_days(window, constituents) == most
        reached = max(len(step.after.stored_days) for step in layout.run(WaveState(), 3 * window))
        assert reached == most


def check_window(layout: WaveLayout, after: WaveState) -> None:
    held = list(after.constituents.values())
    stored = after.stored_days
    assert sum(map(len, held)) == len(stored), "constituents overlap"
    last_days = set(range(max(1, after.day - layout.window + 1), after.day + 1))
    if layout.scheme.hard:
        assert stored == last_days
    else:
        assert last_days <= stored <= set(range(1, after.day + 1))
        assert len(stored) <= layout.most_stored_days
    assert all(held), "an empty constituent"
    assert len(held) <= layout.constituents
    if after.day >= layout.window:
        assert len(held) == layout.constituents


def check_temporaries(layout: WaveLayout, after: WaveState) -> None:
    """Whatever tomorrow's transition needs is there, and nothing that will not be needed."""
    if after.day < layout.window:
        assert layout.spread or not after.temporaries
        return
    oldest = after.constituents[after.oldest()]
    expiring = after.day - layout.window + 1
    match layout.scheme:
        case WaveScheme.REINDEX_PLUS:
            new_days = {day for day in oldest if day > last_old_day(layout, after)}
            assert after.temporaries.get("Temp", frozenset()) == new_days
        case WaveScheme.REINDEX_PLUS_PLUS:
            rungs = [days for name, days in after.temporaries.items() if name[0] == "T"]
            assert rungs[-1] == oldest - {expiring}
            old = sorted(day for day in oldest if day <= last_old_day(layout, after))
            whole = [oldest - set(old[: len(old) - height]) for height in range(len(old))]
            if not layout.spread:
                assert rungs == list(after.temporaries.values()) == whole
                return
            assert len(rungs) == len(whole)
            for rung, complete in zip(rungs, whole, strict=True):
                assert set(old) & complete <= rung <= complete
        case WaveScheme.RATA:
            for name, days in after.temporaries.items():
                needed_on = int(name[1:])
                assert needed_on > after.day
                owner = after.constituents[after.holder_of(max(days))]
                assert days == {day for day in owner if day > needed_on - layout.window}
            if len(oldest) > 1:
                assert after.temporaries[f"T{after.day + 1}"] == oldest - {expiring}
        case _:
            assert not after.temporaries


def last_old_day(layout: WaveLayout, after: WaveState) -> int:
    """Where the old part of the oldest cluster ends: before the first hole between its days."""
    if layout.constituents == 1:
        return after.day // layout.window * layout.window
    ordered = sorted(after.constituents[after.oldest()])
    holes = (day for day, following in pairwise(ordered) if following != day + 1)
    return next(holes, ordered[-1])


@pytest.mark.parametrize("scheme", WaveScheme)
def test_every_small_wave_keeps_its_window_and_its_temporaries(scheme: WaveScheme) -> None:
    for layout in (layout for layout in layouts() if layout.scheme is scheme):
        for step in steps(layout):
            check_window(layout, step.after)
            check_temporaries(layout, step.after)


@given(wide_layouts())
def test_wide_waves_keep_their_window_and_their_temporaries(layout: WaveLayout) -> None:
    for step in steps(layout):
        check_window(layout, step.after)
        check_temporaries(layout, step.after)


def replay(before: WaveState, operations: tuple[Operation, ...]) -> dict[str, set[int]]:
    """An independent reading of the operations, on plain sets under plain names."""
    indexes = {n: set(d) for n, d in [*before.constituents.items(), *before.temporaries.items()]}
    for operation in operations:
        match operation:
            case BuildIndex(days, target):
                indexes[target] = set(days)
            case CreateIndex(target):
                indexes[target] = set()
            case CopyIndex(source, target):
                indexes[target] = set(indexes[source])
            case AddToIndex(days, target):
                assert not indexes[target] & days
                indexes[target] |= days
            case DeleteFromIndex(days, target):
                assert days <= indexes[target]
                indexes[target] -= days
            case RenameIndex(source, target):
                assert target not in indexes
                indexes[target] = indexes.pop(source)
            case DropIndex(target):
                del indexes[target]
            case AddIndex(target):
                assert target in indexes
            case AddLateRows(days, target):
                assert days <= indexes[target]
    return indexes


def test_replaying_the_operations_leads_to_the_state() -> None:
    for layout in layouts(range(1, 10)):
        for step in steps(layout):
            after = {**step.after.constituents, **step.after.temporaries}
            assert replay(step.before, step.operations) == after


def test_the_new_day_can_be_queried_before_the_pre_transition_work() -> None:
    for layout in layouts(range(1, 10)):
        for step in steps(layout):
            arrived = execute(step.before, step.transition, step.day)
            assert arrived.constituents == step.after.constituents


@pytest.mark.parametrize("scheme", [WaveScheme.REINDEX_PLUS_PLUS, WaveScheme.WATA, WaveScheme.RATA])
def test_the_transition_is_one_add_to_index(scheme: WaveScheme) -> None:
    for layout in (layout for layout in layouts() if layout.scheme is scheme):
        for step in steps(layout)[layout.window :]:
            indexing = [
                operation
                for operation in step.transition
                if isinstance(operation, BuildIndex | AddToIndex | DeleteFromIndex | CopyIndex)
            ]
            assert [type(operation) for operation in indexing] == [AddToIndex]
            assert indexing[0].days == {step.day}  # type: ignore[union-attr]


def days_indexed(operations: tuple[Operation, ...]) -> int:
    return sum(len(o.days) for o in operations if isinstance(o, BuildIndex | AddToIndex))


def test_spread_rata_never_indexes_more_than_two_days_in_one() -> None:
    busiest = 0
    spread = [
        layout
        for layout in layouts(range(2, 15))
        if layout.spread and layout.scheme is WaveScheme.RATA
    ]
    spread += [WaveLayout(WaveScheme.RATA, 29, n, spread=True) for n in range(3, 30)]
    for layout in spread:
        work = [days_indexed(step.operations) for step in steps(layout)]
        assert max(work) <= 2, layout
        busiest = max(busiest, *work)
    assert busiest == 2
    at_once = WaveLayout(WaveScheme.RATA, 29, 3)
    assert max(days_indexed(step.operations) for step in steps(at_once)) == 14


def test_spread_reindexing_divides_the_work_of_a_cluster_over_its_days() -> None:
    """A day indexes its own data, one step of the next ladder, and half a cluster's length."""
    scheme = WaveScheme.REINDEX_PLUS_PLUS
    for window, constituents in ((10, 2), (11, 3), (29, 2), (35, 5), (36, 4), (60, 7)):
        at_once, spread = (
            [
                days_indexed(step.operations)
                for step in WaveLayout(scheme, window, constituents, wanted).run(
                    WaveState(), 4 * window
                )
            ]
            for wanted in (False, True)
        )
        longest = -(-window // constituents)
        assert max(at_once) == longest
        assert max(spread) <= (longest + 1) // 2 + 2
        assert sum(at_once[window : 3 * window]) == sum(spread[window : 3 * window])


def test_spreading_does_not_change_what_is_queried() -> None:
    for layout in (layout for layout in layouts() if layout.spread):
        at_once = WaveLayout(layout.scheme, layout.window, layout.constituents)
        for spread, plain in zip(steps(layout), steps(at_once), strict=True):
            assert spread.after.constituents == plain.after.constituents


def test_the_pattern_of_cluster_lengths_repeats_after_its_period() -> None:
    def lengths(state: WaveState) -> list[int]:
        by_age = sorted(state.constituents.values(), key=min)
        return [*map(len, by_age), *sorted(map(len, state.temporaries.values()))]

    for layout in layouts(range(1, 9)):
        states = [step.after for step in steps(layout)][layout.window - 1 :]
        for state, later in zip(states, states[layout.period :], strict=False):
            assert lengths(state) == lengths(later), (layout, state.day)


@pytest.mark.parametrize("scheme", WaveScheme)
def test_late_rows_go_to_every_index_that_holds_their_day(scheme: WaveScheme) -> None:
    layout = WaveLayout(scheme, 10, 3)
    for day in range(2, 25):
        before = layout.state_after(day - 1)
        plain = layout.transition(before, day)
        late = frozenset(range(max(1, day - 9), day))
        step = layout.transition(before, day, late)
        assert step.after == plain.after
        additions = [o for o in step.operations if isinstance(o, AddLateRows)]
        reached = execute(before, plain.transition, day)
        for held in (reached.constituents, reached.temporaries):
            for name, days in held.items():
                expected = [AddLateRows(days & late, name)] if days & late else []
                assert [o for o in additions if o.target == name] == expected
        early = [o for o in step.transition if isinstance(o, AddLateRows)]
        assert {o.target for o in early} <= set(step.after.constituents)


@pytest.mark.parametrize("late", [0, 10, 14, 20])
def test_late_rows_without_a_constituent_are_refused(late: int) -> None:
    layout = WaveLayout(WaveScheme.DEL, 4, 2)
    with pytest.raises(BadInput, match=rf"late rows of \{{{late}\}}"):
        layout.transition(layout.state_after(13), 14, frozenset({late}))


@pytest.mark.parametrize(
    ("scheme", "window", "constituents", "spread", "complaint"),
    [
        ("DEL", 0, 1, False, "window of 0 days"),
        ("WATA", 1, 1, False, "window of 1 days"),
        ("DEL", 5, 0, False, "cannot have 0 constituents"),
        ("REINDEX", 5, 6, False, "cannot have 6 constituents"),
        ("WATA", 5, 1, False, "cannot have 1 constituents"),
        ("RATA", 5, 1, False, "cannot have 1 constituents"),
        ("WATA", 5, 3, True, "no temporaries"),
        ("RATA", 5, 2, True, "still growing"),
        ("REINDEX++", 5, 1, True, "still growing"),
        ("REINDEX+", 5, 2, True, "no temporaries"),
    ],
)
def test_senseless_settings_are_refused(
    scheme: str, window: int, constituents: int, spread: bool, complaint: str
) -> None:
    with pytest.raises(InvalidSetting, match=complaint) as refusal:
        WaveLayout(WaveScheme(scheme), window, constituents, spread)
    assert refusal.value.hint


def test_names_are_read_as_users_write_them() -> None:
    assert WaveScheme("reindex++") is WaveScheme.REINDEX_PLUS_PLUS
    assert UpdateTechnique("Packed_Shadow") is UpdateTechnique.PACKED_SHADOW
    with pytest.raises(InvalidSetting, match="no wave scheme 'FIFO'") as refusal:
        WaveScheme("FIFO")
    assert "DEL, REINDEX, REINDEX+, REINDEX++, WATA, RATA" in refusal.value.hint
    with pytest.raises(InvalidSetting, match="no update technique 'magic'"):
        UpdateTechnique("magic")


@pytest.mark.parametrize("day", [9, 10, 12])
def test_days_come_one_after_the_other(day: int) -> None:
    layout = WaveLayout(WaveScheme.WATA, 6, 3)
    with pytest.raises(BadInput, match=f"day {day} cannot follow day 10") as refusal:
        layout.transition(layout.state_after(10), day)
    assert "run day 11 first" in refusal.value.hint


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        (AddToIndex(frozenset({2}), "I1"), r"I1 holds \{2\} already"),
        (AddToIndex(frozenset({9}), "I7"), "no index I7"),
        (DeleteFromIndex(frozenset({2, 9}), "I1"), r"I1 does not hold \{9\}"),
        (AddLateRows(frozenset({9}), "I1"), r"I1 does not hold \{9\}"),
        (RenameIndex("T1", "I1"), "no index T1"),
        (RenameIndex("T", "I1"), "I1 exists already"),
        (CopyIndex("T1", "I1"), "no index T1"),
        (DropIndex("I7"), "no index I7"),
        (AddIndex("I7"), "no index I7"),
    ],
)
def test_an_impossible_operation_is_refused(operation: Operation, complaint: str) -> None:
    state = WaveState(3, {"I1": frozenset({1, 2, 3})}, {"T": frozenset({3})})
    with pytest.raises(InvalidEdit, match=complaint):
        execute(state, [operation], 4)


def test_a_state_of_another_window_is_noticed() -> None:
    state = WaveLayout(WaveScheme.DEL, 4, 2).state_after(9)
    with pytest.raises(InvalidEdit, match="day 2 is in no constituent"):
        WaveLayout(WaveScheme.DEL, 8, 2).transition(state, 10)
