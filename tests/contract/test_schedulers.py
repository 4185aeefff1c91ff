"""One suite for every scheduling policy: what runs, how late, at what cost."""

from __future__ import annotations

from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.errors import InvalidSetting
from mayfly.periodic.scheduling import (
    POLICIES,
    Deadlines,
    Early,
    Overload,
    Policy,
    ScheduledQuery,
    advise,
    policy_named,
)
from mayfly.periodic.scheduling.cost_clock import run_on_cost_clock
from tests.contract.schedule_model import ScheduleModel

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))


@st.composite
def workloads(draw: st.DrawFn, periods: int = 7) -> list[ScheduledQuery]:
    return [
        ScheduledQuery(
            f"Q{number}",
            draw(st.sampled_from("AB")),
            draw(st.integers(1, periods)),
            draw(st.integers(1, 30)),
            post=draw(st.integers(0, 2)),
            priority=draw(st.integers(0, 2)),
        )
        for number in range(draw(st.integers(1, 7)))
    ]


@every_policy
@settings(max_examples=10, deadline=None)
@given(queries=workloads(), slots=st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_it_runs_what_the_definition_says(
    policy: Policy, queries: list[ScheduledQuery], slots: list[int]
) -> None:
    """The same queries run as in the model, as late; a late task is overtaken at most once by
    each other one."""
    model, deadlines = ScheduleModel(policy, queries), Deadlines(policy)
    for query in queries:
        deadlines.register(query)
    overtaken: dict[int, set[int]] = {number: set() for number in range(len(model.tasks))}
    for slot in slots:
        model.advance()
        deadlines.advance()
        for _ in range(slot):
            lead, members = model.lead, model.members()
            for number, left in enumerate(model.left):
                if lead is not None and left < 0 and number not in members:
                    assert lead not in overtaken[number]
                    overtaken[number].add(lead)
            for number in members:
                overtaken[number].clear()
            expected = model.run()
            assert deadlines.due == bool(expected)
            execution = deadlines.choose()
            late = deadlines.finish(execution) if execution else {}
            assert dict(late) == expected
            assert execution is None or execution.names == tuple(expected)
    assert {q.query: q.late for q in deadlines.report().queries} == {
        q.name: max(0, model.update - model.last[q.name] - q.period) for q in queries
    }


@every_policy
@settings(max_examples=10, deadline=None)
@given(queries=workloads(periods=5))
def test_its_price_is_what_its_schedule_costs(
    policy: Policy, queries: list[ScheduledQuery]
) -> None:
    """With time enough nothing is late, and a whole cycle costs what the formula says."""
    cycle = lcm(*(query.period for query in queries))
    run = run_on_cost_clock(policy, queries, 10_000, cycle)
    assert run.lateness.mean == 0
    # The run ends when the last update of the cycle has come; what that makes due is run, too.
    assert run.work_per_update <= policy.cost(queries)
    twice = run_on_cost_clock(policy, queries, 10_000, 2 * cycle)
    assert (twice.work - run.work) / cycle == policy.cost(queries)


@every_policy
@settings(max_examples=10, deadline=None)
@given(st.data())
def test_queries_come_and_go(policy: Policy, data: st.DataObject) -> None:
    """No query waits longer than its period while there is time, whoever comes and goes; the first
    execution is not behind the next multiple of the period."""
    deadlines = Deadlines(policy, early=data.draw(st.sampled_from(Early)))
    present: dict[str, ScheduledQuery] = {}
    limit: dict[str, int] = {}
    for step in range(20):
        if data.draw(st.booleans()):
            query = ScheduledQuery(
                f"Q{step}",
                data.draw(st.sampled_from("AB")),
                data.draw(st.integers(1, 6)),
                data.draw(st.integers(1, 9)),
            )
            present[query.name] = query
            deadlines.register(query)
            limit[query.name] = (deadlines.update // query.period + 1) * query.period
        if present and data.draw(st.integers(0, 3)) == 0:
            name = data.draw(st.sampled_from(sorted(present)))
            deadlines.remove(name)
            del present[name], limit[name]
        deadlines.advance()
        for _ in range(2 * len(present)):
            execution = deadlines.run()
            for name in execution.names if execution else ():
                limit[name] = deadlines.update + present[name].period
        assert not deadlines.due
        assert all(due > deadlines.update for due in limit.values())
    assert deadlines.report().mean == 0
    assert {q.query for q in deadlines.report().queries} == set(present)


@every_policy
def test_registration_is_on_multiples_of_the_period(policy: Policy) -> None:
    deadlines = Deadlines(policy)
    deadlines.advance(7)
    deadlines.register(ScheduledQuery("Q", "A", 5, 1))
    runs = []
    for _ in range(10):
        deadlines.advance()
        runs.append(deadlines.run())
    assert [run.update for run in runs if run] == [10, 15]


@every_policy
def test_a_skipped_refresh_is_counted_and_the_next_is_on_the_grid(policy: Policy) -> None:
    deadlines = Deadlines(policy)
    deadlines.register(ScheduledQuery("S", "A", 3, 1, overload=Overload.SKIP))
    deadlines.register(ScheduledQuery("L", "B", 3, 1))
    deadlines.advance(6)
    for execution in (deadlines.choose(), deadlines.choose()):
        assert execution
        assert set(deadlines.finish(execution).values()) == {3}  # a period late: still answered
    deadlines.advance(7)  # due at 9, now 13
    execution = deadlines.choose()
    assert execution
    assert execution.names == ("L",)
    assert deadlines.finish(execution) == {"L": 4}
    assert deadlines.choose() is None
    deadlines.advance(2)
    execution = deadlines.choose()
    assert execution
    assert execution.update == 15
    assert deadlines.finish(execution) == {"S": 0}
    lateness = deadlines.report()
    assert (lateness["S"].skipped, lateness["S"].total, lateness["L"].skipped) == (2, 3, 0)
    assert "2 skipped" in str(lateness)
    assert "overload" in str(lateness)


@every_policy
def test_priority_decides_between_equal_deadlines(policy: Policy) -> None:
    deadlines = Deadlines(policy)
    for name, priority in (("low", 0), ("high", 5), ("middle", 2)):
        deadlines.register(ScheduledQuery(name, name, 2, 1, priority=priority))
    deadlines.advance(2)
    assert [str(deadlines.run()) for _ in range(3)] == ["high", "middle", "low"]


@every_policy
def test_an_execution_that_was_not_answered_is_due_again(policy: Policy) -> None:
    deadlines = Deadlines(policy)
    deadlines.register(ScheduledQuery("Q", "A", 2, 1))
    deadlines.advance(2)
    execution = deadlines.choose()
    assert execution
    assert deadlines.choose() is None, "it runs already"
    assert deadlines.finish(execution, {}) == {}
    deadlines.advance(3)
    execution = deadlines.choose()
    assert execution
    assert deadlines.finish(execution, {"Q": 4}) == {"Q": 2}
    deadlines.advance()
    execution = deadlines.choose()
    assert execution
    assert execution.update == 6, "a period after the update that the answer showed"
    deadlines.finish(execution)
    deadlines.advance()
    deadlines.hasten("Q")
    assert str(deadlines.run()) == "Q"


@every_policy
def test_advice_before_a_query_comes(policy: Policy) -> None:
    queries = [ScheduledQuery("A1", "A", 2, 9), ScheduledQuery("B1", "B", 4, 8)]
    newcomer = ScheduledQuery("C1", "C", 1, 5)
    advice = advise(policy, queries, newcomer, 9)
    assert (float(advice.before), float(advice.adds), advice.fits) == (6.5, 5.0, False)
    assert advice.fitting_period == 2
    assert advice.stretch == policy.cost([*queries, newcomer]) / 9
    assert "1.28 times as long; every 2 updates it would fit" in str(advice)
    assert advise(policy, queries, newcomer, 12).fits
    hopeless = advise(policy, queries, newcomer, 6)
    assert hopeless.fitting_period is None
    assert "too high, too" in str(hopeless)


def test_what_makes_no_sense_is_refused() -> None:
    deadlines = Deadlines()
    query = ScheduledQuery("Q", "A", 2, 1)
    deadlines.register(query)
    with pytest.raises(InvalidSetting, match="scheduled already"):
        deadlines.register(query)
    with pytest.raises(InvalidSetting, match="no query 'P'"):
        deadlines.remove("P")
    with pytest.raises(InvalidSetting, match="every refresh"):
        deadlines.register(ScheduledQuery("E", "A", 2, 1, overload=Overload.EVERY))
    with pytest.raises(InvalidSetting, match="a period of 0 updates"):
        ScheduledQuery("Q", "A", 0, 1)
    with pytest.raises(InvalidSetting, match="use edf, no-s, aggressive"):
        policy_named("fifo")
    with pytest.raises(InvalidSetting, match="a capacity of 0"):
        advise(policy_named("edf"), [], query, 0)
    assert deadlines.policy.name == "late-pending"
