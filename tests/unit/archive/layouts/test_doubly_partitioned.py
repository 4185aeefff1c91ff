"""Cells to sub-indices: golden touch sets, sizes and the size theorem."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.archive.layouts import WaveLayout, WaveScheme, WaveState
from mayfly.archive.layouts.doubly_partitioned import (
    BASELINES,
    PartitionedLayout,
    PartitionRule,
    baseline,
    live_cells,
    square,
)
from mayfly.errors import InvalidSetting

RULES = [rule for rule in PartitionRule if rule is not PartitionRule.WATA]


def layout(rule: str, p: int = 8, g: int = 2, e: int = 2, **more: object) -> PartitionedLayout:
    return PartitionedLayout(PartitionRule(rule), p, g, e, **more)  # type: ignore[arg-type]


def numbers(names: frozenset[str]) -> set[int]:
    return {int(name.removeprefix("I")) for name in names}


@st.composite
def layouts(draw: st.DrawFn) -> PartitionedLayout:
    rule = draw(st.sampled_from(list(PartitionRule)))
    fewest = 2 if rule.throws_away else 1
    p = draw(st.integers(fewest, 13))
    groups = draw(st.integers(fewest, p if rule.throws_away else 6))
    lanes = 1 if rule is PartitionRule.WATA else draw(st.integers(1, 6))
    rebuild = rule is not PartitionRule.WATA and draw(st.booleans())
    span = 1 if rebuild else draw(st.integers(1, 4))
    return PartitionedLayout(rule, p, groups, lanes, rebuild, span)


# -- golden touch sets: S = 16, Δ = 2, 2x2 ---------------------------------------------------


def test_round_robin_updates_at_times_18_and_20() -> None:
    found = layout("round-robin")
    assert numbers(found.inserts(9)) == {1, 2}
    assert numbers(found.removes(9)) == {1, 3}
    assert numbers(found.inserts(10)) == {3, 4}
    assert numbers(found.removes(10)) == {2, 4}


def test_chronological_updates_of_a_whole_roll_over() -> None:
    found = layout("chronological")
    for update in range(9, 13):
        assert (numbers(found.inserts(update)), numbers(found.removes(update))) == ({1, 2}, {1, 3})
    for update in range(13, 17):
        assert (numbers(found.inserts(update)), numbers(found.removes(update))) == ({3, 4}, {2, 4})


def test_lazy_waits_until_a_group_has_expired() -> None:
    found = layout("lazy")
    for update in range(9, 15):
        assert not numbers(found.touched(update)) & {1, 2}
        assert not found.throws_away(update)
    assert numbers(found.throws_away(15)) == {1, 2} == numbers(found.inserts(15))


def test_sub_indices_at_time_16() -> None:
    """variable-lifetimes-2006, Figures 2 and 3: chronological leaves I2 empty."""
    sizes = {rule: Counter[str]() for rule in ("chronological", "round-robin")}
    for rule, counted in sizes.items():
        found = layout(rule)
        counted.update(found.sub_index(i, j) for i, j in live_cells(found, 8))
    assert sizes["chronological"] == {"I1": 10, "I3": 16, "I4": 10}
    assert sizes["round-robin"] == {"I1": 10, "I2": 6, "I3": 10, "I4": 10}


# -- how many are touched --------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["chronological", "round-robin", "count"])
@pytest.mark.parametrize(("p", "g", "e"), [(8, 2, 2), (36, 4, 4), (37, 5, 3), (10, 1, 4)])
def test_an_update_touches_g_plus_e_minus_1(rule: str, p: int, g: int, e: int) -> None:
    found = layout(rule, p, g, e)
    assert {len(found.touched(u)) for u in range(p + 1, 3 * p)} == {g + e - 1}


@pytest.mark.parametrize(("p", "g", "e"), [(8, 2, 2), (36, 4, 4), (37, 5, 3), (6, 6, 2)])
def test_lazy_touches_one_fewer_unless_it_throws_away(p: int, g: int, e: int) -> None:
    found = layout("lazy", p, g, e)
    for update in range(p + 1, 4 * p):
        more = 1 if found.throws_away(update) else 0
        assert len(found.touched(update)) == g + e - 2 + more


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_touch_all(name: str) -> None:
    found = baseline(name, 12, 4)
    touched = {len(found.touched(update)) for update in range(13, 40)}
    assert touched == ({1} if name == "WATA" else {4})
    assert found.rebuild == name.startswith("R")


@given(layouts(), st.integers(0, 40))
def test_only_touched_sub_indices_change(chosen: PartitionedLayout, after: int) -> None:
    """What is inserted lies where the update inserts; what expires, where it may be removed."""
    update = chosen.rollover + after + 1
    removals = {n: chosen.removals_in(n, update) for n in chosen.names}
    assert {n for n, found in removals.items() if found} <= chosen.inserts(update)
    coming = sorted(j for found in removals.values() for j in found)
    assert coming == list(range(update + 1, update + chosen.rollover + 1))
    for inserted in range(update - chosen.rollover, update):
        name = chosen.sub_index(inserted, update)
        oldest = chosen.group_of(update - chosen.rollover)
        waits = chosen.rule.throws_away and chosen.group_of(inserted) == oldest
        if not waits and chosen.rule is not PartitionRule.WATA:
            assert name in chosen.removes(update)


@given(layouts(), st.integers(1, 60))
def test_what_is_thrown_away_has_expired(chosen: PartitionedLayout, update: int) -> None:
    thrown = chosen.throws_away(update)
    for inserted in range(max(1, update - chosen.rollover + 1), update):
        if chosen.rule.throws_away:
            group = {chosen.sub_index(inserted, j) for j in range(update + 1, update + 40)}
            assert not group & thrown


@pytest.mark.parametrize(("p", "g"), [(8, 2), (10, 4), (7, 2), (36, 5), (9, 9), (2, 2), (100, 10)])
def test_lazy_groups_are_wata_clusters(p: int, g: int) -> None:
    wave, state, found = WaveLayout(WaveScheme.WATA, p, g), WaveState(), layout("lazy", p, g, 3)
    for step in wave.run(state, 4 * p):
        for name, days in step.after.constituents.items():
            assert {found.group_of(day) for day in days} == {int(name[1:]) - 1}
        dropped = any(str(one).startswith("DropIndex") for one in step.transition)
        assert dropped == bool(found.throws_away(step.day))


# -- sizes -----------------------------------------------------------------------------------


def squared_deviations(found: PartitionedLayout, update: int) -> Fraction:
    sizes = Counter(dict.fromkeys(found.names, 0))
    sizes.update(found.sub_index(i, j) for i, j in live_cells(found, update))
    mean = Fraction(sum(sizes.values()), found.constituents)
    return sum(((size - mean) ** 2 for size in sizes.values()), Fraction(0))


THEOREM = [(8, 2, "12", "52"), (36, 4, "303.75", "13263.75"), (40, 5, "384", "15168")]


@pytest.mark.parametrize(("p", "root", "even", "_"), THEOREM)
def test_round_robin_sizes_are_as_even_at_every_moment(
    p: int, root: int, even: str, _: str
) -> None:
    found = layout("round-robin", p, root, root)
    n = root * root
    assert Fraction(p * p, 4) * (1 - Fraction(1, n)) == Fraction(even)
    assert {squared_deviations(found, u) for u in range(p, 2 * p)} == {Fraction(even)}


@pytest.mark.parametrize(("p", "root", "_", "uneven"), THEOREM)
def test_chronological_sizes_over_a_roll_over(p: int, root: int, _: str, uneven: str) -> None:
    found = layout("chronological", p, root, root)
    moments = [squared_deviations(found, update) for update in range(p, 2 * p)]
    assert sum(moments) / p == Fraction(uneven)


@pytest.mark.parametrize(("p", "g"), [(8, 2), (8, 3), (36, 4), (10, 4), (35, 5), (12, 12)])
def test_dead_rows_of_lazy(p: int, g: int) -> None:
    """Equal lifetimes, constant rate: the bound holds and is reached."""
    found = layout("lazy", p, g, 1)
    most = 0
    for update in range(2 * p, 6 * p):
        held = {i for i in range(update - 2 * p, update + 1) if i >= 1}
        for past in range(update - 3 * p, update + 1):
            thrown = found.throws_away(past)
            held -= {i for i in held if i < past and found.sub_index(i, i + p) in thrown}
            if past > p:
                spared = found.group_of(past - p)
                held -= {i for i in held if i + p <= past and found.group_of(i) != spared}
        dead = [i for i in held if i + p <= update]
        most = max(most, len(dead))
    assert most == ceil((p - 1) / (g - 1)) - 1
    assert most / p == found.most_lingering


def test_dead_rows_of_lazy_2x2() -> None:
    assert layout("lazy").most_lingering == 0.75


# -- what makes no sense ---------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 9])
def test_lazy_needs_two_groups_at_most_p(groups: int) -> None:
    with pytest.raises(InvalidSetting, match="use 2 to 8 groups"):
        layout("lazy", 8, groups, 2)


def test_unknown_names() -> None:
    with pytest.raises(InvalidSetting, match="round-robin"):
        PartitionRule("diagonal")
    with pytest.raises(InvalidSetting, match="R-ins"):
        baseline("X-ins", 8, 2)
    assert PartitionRule("Round_Robin") is PartitionRule.ROUND_ROBIN


def test_nothing_of_nothing() -> None:
    with pytest.raises(InvalidSetting, match="1 or more of each"):
        layout("round-robin", 8, 0, 2)
    with pytest.raises(InvalidSetting, match="span of 2"):
        layout("round-robin", span=2)
    with pytest.raises(InvalidSetting, match="WATA"):
        PartitionedLayout(PartitionRule.WATA, 8, 2, 2, rebuild=False)


def test_square() -> None:
    assert [square(n) for n in (1, 2, 4, 6, 16, 17, 12)] == [
        (1, 1), (2, 1), (2, 2), (3, 2), (4, 4), (17, 1), (4, 3),
    ]  # fmt: skip


def test_names() -> None:
    assert str(layout("lazy", rebuild=False)) == "lazy NoRebuild 2x2"
    assert str(baseline("WATA", 8, 3)) == "WATA3"
