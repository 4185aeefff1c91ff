"""The algebra of update patterns: a lattice, and a merge that is stricter than its join."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.patterns import MON, STR, WK, Kind, Pattern, join_all, merge_all, wks

SECOND = 1_000_000
patterns = st.one_of(
    st.sampled_from([MON, WK, STR]),
    st.builds(wks, st.integers(1, 4), st.integers(0, 3), st.integers(0, 3)),
)


def test_the_order_is_mon_wks_wk_str() -> None:
    assert MON < wks(10) < WK < STR
    assert not STR < MON


def test_different_constants_are_incomparable_and_meet_at_wk() -> None:
    assert not wks(1) <= wks(2)
    assert not wks(2) <= wks(1)
    assert wks(1).join(wks(2)) == WK
    assert wks(3).join(wks(3)) == wks(3)


def test_a_union_of_never_and_a_constant_is_weak() -> None:
    assert MON.join(wks(5)) == wks(5)
    assert MON.merge(wks(5)) == WK


def test_a_slide_that_does_not_divide_the_lifetime_belongs_to_the_constant() -> None:
    assert wks(10, slide=5) == wks(10, slide=2) == wks(10)
    assert wks(10, slide=4).merge(wks(10, slide=3)) == WK
    assert wks(10, slide=4, origin=1).merge(wks(10, slide=4, origin=5)) == wks(10, 4, 1)


@given(patterns, patterns, patterns)
def test_order_is_a_partial_order(a: Pattern, b: Pattern, c: Pattern) -> None:
    assert a <= a
    assert not (a <= b and b <= a) or a == b
    assert not (a <= b and b <= c) or a <= c
    assert (a < b) == (a <= b and a != b)


@given(patterns, patterns)
def test_join_is_the_least_upper_bound(a: Pattern, b: Pattern) -> None:
    both = a.join(b)
    assert a <= both
    assert b <= both
    for bound in [MON, WK, STR, a, b]:
        if a <= bound and b <= bound:
            assert both <= bound


@given(patterns, patterns, patterns)
def test_join_and_merge_are_associative_commutative_idempotent(
    a: Pattern, b: Pattern, c: Pattern
) -> None:
    for combine in (Pattern.join, Pattern.merge):
        assert combine(a, a) == a
        assert combine(a, b) == combine(b, a)
        assert combine(combine(a, b), c) == combine(a, combine(b, c))


@given(patterns, patterns)
def test_a_merge_is_never_simpler_than_either_input(a: Pattern, b: Pattern) -> None:
    assert a.join(b) <= a.merge(b)


@given(st.lists(patterns, min_size=1, max_size=5))
def test_folds_do_not_depend_on_the_order(several: list[Pattern]) -> None:
    assert join_all(several) == join_all(several[::-1])
    assert merge_all(several) == merge_all(several[::-1])


@pytest.mark.parametrize(("kind", "lifetime"), [(Kind.WKS, None), (Kind.WK, 5), (Kind.WKS, 0)])
def test_impossible_patterns_are_refused(kind: Kind, lifetime: int | None) -> None:
    with pytest.raises(InvalidSetting):
        Pattern(kind, lifetime)


def test_a_constant_is_shown_with_its_unit() -> None:
    assert str(wks(90 * SECOND)) == "WKS(1 min 30 s)"
    assert str(STR) == "STR"
