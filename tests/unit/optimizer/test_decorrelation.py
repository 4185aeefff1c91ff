"""Queries used as values become joins: the golden pairs, each with the join written by hand.

The binder decorrelates, so both texts are plans of joins. Only the answers are compared: how the
plan of the first looks is in the golden files of EXPLAIN.
"""

from __future__ import annotations

from collections import Counter

import pytest

from mayfly.plan.logical_operators import DECORRELATED, GroupAggregate
from tests.unit.optimizer.golden_rules import FOLDER
from tests.unit.optimizer.plan_oracle import answer
from tests.unit.optimizer.window_tables import INSTANTS, bound, random_tables

BLOCKS = (FOLDER / "decorrelation.cql").read_text().strip().split("\n\n")
PAIRS = [block.splitlines() for block in BLOCKS]
DATA_SETS = 60


@pytest.mark.parametrize(("title", "query", "by_hand"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_the_join_by_hand_has_the_same_answer(title: str, query: str, by_hand: str) -> None:
    plan, other = bound(query.removesuffix(";")), bound(by_hand.removesuffix(";"))
    seen = Counter[str]()
    for seed in range(DATA_SETS):
        rows = random_tables(seed)
        for at in INSTANTS:
            expected = answer(other, rows, at)
            seen["rows"] += expected.total()
            assert answer(plan, rows, at) == expected, f"data set {seed} at instant {at}"
    assert seen["rows"], "the data never gives a row: nothing was compared"


def test_values_that_depend_on_rows_are_grouped_by_their_own_side() -> None:
    for _, query, _ in PAIRS:
        if "EXISTS" not in query:
            nodes = bound(query.removesuffix(";")).walk()
            groups = [node for node in nodes if isinstance(node, GroupAggregate)]
            assert any(node.alias.startswith(DECORRELATED) and node.keys for node in groups)
