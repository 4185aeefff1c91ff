"""Which rows OVER numbers where a condition around it takes the first ones only."""

from __future__ import annotations

import pytest

from mayfly import LocalSession
from mayfly.optimizer.optimize import optimize
from mayfly.plan.over_frames import NumberLimit, Over

NUMBERED = (
    "SELECT k, x FROM (SELECT k, x, {} OVER (PARTITION BY k ORDER BY x) AS n, {} AS o "
    "FROM s [RANGE 9 us]) q WHERE {}"
)


def limit_of(call: str, condition: str, beside: str = "x") -> NumberLimit | None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "INT", "x": "INT"})
    run = session.query(NUMBERED.format(call, beside, condition))
    (over,) = [node for node in run.program.plan.walk() if isinstance(node, Over)]
    return over.limit


@pytest.mark.parametrize(
    ("condition", "most"),
    [("n <= 3", 3), ("n < 3", 2), ("n = 1", 1), ("3 >= n", 3), ("n <= 5 AND n <= 2", 2)],
)
@pytest.mark.parametrize("call", ["ROW_NUMBER()", "RANK()", "DENSE_RANK()"])
def test_a_condition_limits_the_numbers(call: str, condition: str, most: int) -> None:
    limit = limit_of(call, condition)
    assert limit is not None
    assert limit.most == most


@pytest.mark.parametrize("condition", ["n > 3", "n <= x", "n <> 2", "n <= 3 OR x = 1", "n < 1"])
def test_other_conditions_do_not(condition: str) -> None:
    assert limit_of("ROW_NUMBER()", condition) is None


def test_a_sum_beside_it_needs_every_row() -> None:
    beside = "SUM(x) OVER (PARTITION BY k ORDER BY x)"
    assert limit_of("ROW_NUMBER()", "n <= 3", beside) is None


def test_the_rule_can_be_switched_off() -> None:
    session = LocalSession()
    session.stream("s", {"ts": "BIGINT", "k": "INT", "x": "INT"})
    text = NUMBERED.format("RANK()", "x", "n <= 3")
    run = session.query(text, without=["limit-numbers"])
    assert all(n.limit is None for n in run.program.plan.walk() if isinstance(n, Over))
    assert optimize(run.program.plan).chosen.plan != run.program.plan
