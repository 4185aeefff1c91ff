"""Every propagation rule, as a table, with the corrections of the thesis (3.5.1)."""

from __future__ import annotations

import pytest

from mayfly.patterns import MON, STR, WK, Label, Pattern, PatternError, wks
from mayfly.patterns import propagation as rule

MIN = 60_000_000
STREAM = rule.unbounded("s")
TEN = rule.time_window("a [RANGE 10 MIN]", 10 * MIN)
FIVE = rule.time_window("b [RANGE 5 MIN]", 5 * MIN)
ROWS = rule.count_window("[ROWS 5] at line 2")
WEAK = rule.window_join([TEN, FIVE], "the join at line 1")
NEGATED = rule.negation([TEN, FIVE], "NOT EXISTS at line 4")
INNER = rule.internal(TEN, "a [RANGE 10 MIN INTERNAL]")
INNER_ROWS = rule.internal(ROWS, "c [ROWS 5 INTERNAL]")
WINDOWLESS_INNER = rule.internal(STREAM, "s [UNBOUNDED INTERNAL]")

RULES: list[tuple[str, Label, Pattern]] = [
    ("unbounded stream", STREAM, MON),
    ("time window", TEN, wks(10 * MIN)),
    ("count window", ROWS, STR),
    ("internal time window", INNER, MON),
    ("internal count window", INNER_ROWS, MON),
    ("select on MON", rule.stateless(STREAM), MON),
    ("select on WKS", rule.stateless(TEN), wks(10 * MIN)),
    ("select on WK", rule.stateless(WEAK), WK),
    ("select on STR", rule.stateless(ROWS), STR),
    ("NRR join on MON", rule.nrr_join(STREAM, "r"), MON),
    ("NRR join on WKS", rule.nrr_join(TEN, "r"), wks(10 * MIN)),
    ("NRR join on WK", rule.nrr_join(WEAK, "r"), WK),
    ("NRR join on internal ROWS", rule.nrr_join(INNER_ROWS, "r"), MON),
    ("union of MON", rule.merge_union([STREAM, STREAM], "u"), MON),
    ("union of one constant", rule.merge_union([TEN, TEN, TEN], "u"), wks(10 * MIN)),
    # The thesis makes this one WKS: it overlooks that the constants differ.
    ("union of two constants", rule.merge_union([TEN, FIVE], "u"), WK),
    ("union of MON and WKS", rule.merge_union([STREAM, TEN], "u"), WK),
    ("union of WKS and WK", rule.merge_union([TEN, WEAK], "u"), WK),
    ("union with STR", rule.merge_union([TEN, ROWS], "u"), STR),
    ("join of streams", rule.window_join([STREAM, STREAM], "j"), MON),
    ("join of internal windows", rule.window_join([INNER, INNER_ROWS], "j"), MON),
    ("join of stream and internal", rule.window_join([STREAM, INNER], "j"), MON),
    # The thesis makes these WKS: it overlooks that the remaining lifetimes differ.
    ("join with one external", rule.window_join([INNER, TEN], "j"), WK),
    ("join of stream and window", rule.window_join([STREAM, TEN], "j"), WK),
    ("join of two windows", rule.window_join([TEN, TEN], "j"), WK),
    ("join with STR", rule.window_join([TEN, ROWS], "j"), STR),
    ("join with internal ROWS", rule.window_join([TEN, INNER_ROWS], "j"), WK),
    ("δ on MON", rule.distinct(STREAM, "DISTINCT"), MON),
    ("δ on WKS", rule.distinct(TEN, "DISTINCT"), WK),
    ("δ on WK", rule.distinct(WEAK, "DISTINCT"), WK),
    ("δ on STR", rule.distinct(ROWS, "DISTINCT"), STR),
    ("strict δ on WKS", rule.strict_distinct(TEN, "DISTINCT"), STR),
    ("negation", NEGATED, STR),
    ("negation of MON", rule.negation([STREAM, STREAM], "EXCEPT ALL"), STR),
    ("aggregate, external sliding", rule.aggregate(TEN, "GROUP BY"), STR),
    ("aggregate, external unbounded", rule.aggregate(STREAM, "GROUP BY"), STR),
    ("aggregate, internal sliding", rule.aggregate(INNER, "GROUP BY"), MON),
    ("aggregate, internal unbounded", rule.aggregate(WINDOWLESS_INNER, "GROUP BY"), MON),
    (
        "aggregate over an internal and an external window",
        rule.aggregate(rule.window_join([INNER, TEN], "j"), "GROUP BY"),
        STR,
    ),
    ("relation", rule.relation("r"), STR),
    ("NRR", rule.non_retroactive_relation("r"), MON),
    ("relation join", rule.relation_join(TEN, "r"), STR),
    ("relation join on MON", rule.relation_join(STREAM, "r"), STR),
    ("change stream", rule.append_only("Istream"), MON),
    ("output window", rule.output_window(FIVE, "Wstream"), wks(5 * MIN)),
]


@pytest.mark.parametrize(
    ("label", "expected"), [row[1:] for row in RULES], ids=[row[0] for row in RULES]
)
def test_rule(label: Label, expected: Pattern) -> None:
    assert label.pattern == expected
    assert label.reason.startswith("because ")


def test_the_reason_names_the_operator_that_decides() -> None:
    assert str(NEGATED) == "STR because of NOT EXISTS at line 4"
    joined = rule.window_join([TEN, NEGATED], "the join at line 1")
    assert str(joined) == "STR because of NOT EXISTS at line 4"
    assert str(rule.merge_union([TEN, ROWS], "u")).startswith("STR because of [ROWS 5] at line 2")
    assert "different times" in rule.merge_union([TEN, FIVE], "u").reason


def test_state_over_internal_windows_is_kept_as_if_external() -> None:
    joined = rule.window_join([INNER, rule.internal(FIVE, "b")], "j")
    assert (joined.pattern, joined.held, joined.internal) == (MON, WK, True)
    assert rule.aggregate(joined, "GROUP BY").held == STR
    assert rule.window_join([INNER, INNER_ROWS], "j").held == STR
    assert rule.window_join([INNER, TEN], "j").internal is False


@pytest.mark.parametrize("source", [ROWS, NEGATED], ids=["ROWS", "negation"])
def test_relations_refuse_strict_input(source: Label) -> None:
    for join in (rule.nrr_join, rule.relation_join):
        with pytest.raises(PatternError, match=r"negative tuples.*STR because of"):
            join(source, "the join with prices at line 3")


def test_internal_windows_are_refused_below_distinct_and_negation() -> None:
    with pytest.raises(PatternError, match="INTERNAL"):
        rule.distinct(INNER, "DISTINCT at line 1")
    with pytest.raises(PatternError, match="INTERNAL"):
        rule.strict_distinct(INNER, "DISTINCT at line 1")
    with pytest.raises(PatternError, match="INTERNAL"):
        rule.negation([TEN, INNER], "NOT EXISTS at line 2")


def test_weak_elimination_is_refused_on_strict_input() -> None:
    with pytest.raises(PatternError, match="δ\\*"):
        rule.weak_distinct(ROWS, "DISTINCT at line 1")
