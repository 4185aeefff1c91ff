"""Every rewrite against its golden plans, and both sides of every pair against random data."""

from __future__ import annotations

from collections import Counter

import pytest

from mayfly.optimizer.optimize import RULES
from tests.unit.optimizer import golden_rules
from tests.unit.optimizer.golden_rules import GoldenCase
from tests.unit.optimizer.plan_oracle import answer
from tests.unit.optimizer.window_tables import INSTANTS, bound, random_tables

DATA_SETS = 60
EMPTY = (
    "what is never true stays as FALSE",
    "a NULL predicate selects nothing",
    "NOT of an unknown value is unknown",
    "a constant stays above an aggregate without keys",
)
CASES = golden_rules.all_cases()
IDS = [f"{case.rule.name}: {case.title}" for case in CASES]


def test_every_rule_has_golden_cases() -> None:
    hand_made = {"join-relations-first", "limit-numbers", "merge-joins"}
    hand_made |= {"join-panes", "SS3", "CS4", "CS5"}
    assert {case.rule.name for case in CASES} | hand_made == {rule.name for rule in RULES}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_golden(case: GoldenCase) -> None:
    before = bound(case.query)
    plans = golden_rules.rendered(case.rule, before, golden_rules.rewritten(case.rule, before))
    assert plans == case.plans


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_both_sides_have_one_answer(case: GoldenCase) -> None:
    before = bound(case.query)
    others = golden_rules.rewritten(case.rule, before)

    seen = Counter[str]()
    for seed in range(DATA_SETS):
        rows = random_tables(seed)
        for at in INSTANTS:
            expected = answer(before, rows, at)
            seen["rows"] += expected.total()
            for plan in others:
                assert answer(plan, rows, at) == expected, f"data set {seed} at instant {at}"
    assert seen["rows"] or case.title in EMPTY, "the data never gives a row: nothing was compared"


if golden_rules.UPDATE:
    golden_rules.write(
        [
            golden_rules.with_plans(
                case,
                golden_rules.rendered(
                    case.rule,
                    bound(case.query),
                    golden_rules.rewritten(case.rule, bound(case.query)),
                ),
            )
            for case in CASES
        ]
    )
