"""Which sides of a join may lose rows on purpose: those whose window never cuts a row."""

from __future__ import annotations

import pytest

from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.plan.strategy import Strategy
from mayfly.runtime.shed_load import shed_sides
from tests.property.continuous_cases import catalog
from tests.property.shared_runs import program_of

JOIN = "SELECT x.v FROM s1 {} x, s2 [RANGE 9 s] y WHERE x.k = y.k"


@pytest.mark.parametrize(
    ("window", "strategy", "expected"),
    [
        ("[RANGE 5 s]", Strategy.UPA, {"s1", "s2"}),
        ("[PARTITION BY k ROWS 2]", Strategy.UPA, {"s2"}),
        ("[RANGE 5 s]", Strategy.NT, set()),
    ],
)
def test_windows_that_cut_rows_are_left_alone(
    window: str, strategy: Strategy, expected: set[str]
) -> None:
    program = program_of(JOIN.format(window), catalog(0), strategy)
    stages = staged(shared({"q": program}, {}))
    found = {name for task in stages.tasks for name in shed_sides(stages, task).values()}
    assert found == expected
