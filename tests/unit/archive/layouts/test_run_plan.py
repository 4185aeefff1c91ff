"""Run plans: carried out on rows, they show every row of the window exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from mayfly.archive.layouts import (
    Run,
    RunPlan,
    Source,
    Transition,
    UpdatePlan,
    UpdateTechnique,
    WaveLayout,
    WaveScheme,
    WaveState,
    is_packed,
    plan_gap,
    plan_update,
)

IN_PLACE, SIMPLE, PACKED = UpdateTechnique
Row = tuple[int, int]
"""(day, number)"""
NO_DAYS: frozenset[int] = frozenset()


class Store:
    """Carries plans out on rows in memory, as literally as possible."""

    def __init__(self) -> None:
        self.content: dict[str, list[Row]] = {}
        self.runs: Mapping[str, tuple[Run, ...]] = {}

    def carry_out(self, plan: UpdatePlan, batch: list[Row]) -> None:
        held = {name: {run.id: run for run in runs} for name, runs in self.runs.items()}
        for step in plan.plans:
            before = held.get(step.target, {})
            for write in step.write:
                assert write.id not in self.content, "a run is written twice"
                rows = [row for row in batch if row[0] in write.batch_days]
                for source in write.sources:
                    found = [row for row in self.content[source.run] if row[0] in source.days]
                    assert {row[0] for row in found} == source.days, "a source without rows"
                    rows += found
                self.content[write.id] = rows
            for run in step.keep:
                assert run.id in self.content
                hidden = before[run.id].deleted_days if run.id in before else run.deleted_days
                assert run.deleted_days == hidden | step.mark_deleted.get(run.id, NO_DAYS)
            after = {run.id: run for run in step.runs_after}
            assert set(step.release) == set(before) - set(after)
            held[step.target] = after
        self.runs = plan.runs
        assert {n: tuple(r.values()) for n, r in held.items() if r} == {
            n: r for n, r in plan.runs.items() if r
        }

    def rows(self, index: str) -> Counter[Row]:
        runs = self.runs.get(index, ())
        return Counter(
            row for run in runs for row in self.content[run.id] if row[0] not in run.deleted_days
        )


def check(store: Store, state: WaveState, rows: Counter[Row]) -> None:
    for name, days in [*state.constituents.items(), *state.temporaries.items()]:
        assert store.rows(name) == Counter({r: c for r, c in rows.items() if r[0] in days}), name
        for run in store.runs.get(name, ()):
            assert run.live_days <= days
            assert {row[0] for row in store.content[run.id]} == run.days
    assert set(store.runs) <= set(state.constituents) | set(state.temporaries)


def layouts() -> Iterator[WaveLayout]:
    for scheme in WaveScheme:
        for window, constituents in [(2, 2), (5, 2), (7, 3), (6, 6), (10, 4)]:
            yield WaveLayout(scheme, window, constituents)
        if scheme.fewest_constituents == 1:
            yield WaveLayout(scheme, 1, 1)
            yield WaveLayout(scheme, 6, 1)
    yield WaveLayout(WaveScheme.RATA, 10, 4, spread=True)
    yield WaveLayout(WaveScheme.REINDEX_PLUS_PLUS, 10, 2, spread=True)


@pytest.mark.parametrize("technique", UpdateTechnique)
@pytest.mark.parametrize("layout", list(layouts()), ids=str)
def test_plans_show_each_row_once(layout: WaveLayout, technique: UpdateTechnique) -> None:
    """Days with and without rows, late rows, and gaps that are made up in one commit."""
    chance = random.Random(f"{layout} {technique}")
    store, state, rows = Store(), WaveState(), Counter[Row]()
    while state.day < 4 * layout.window:
        day = state.day + chance.choice([1, 1, 1, 1, 2, 5])
        *missed, before = [state, *(step.after for step in layout.run(state, day - 1))]
        late = [d for d in before.stored_days if d > day - layout.window and chance.random() < 0.2]
        batch = [(d, 1_000 * day + chance.randrange(99)) for d in late]
        if chance.random() < 0.8:
            batch += [(day, number) for number in range(chance.randrange(1, 4))]
        last = layout.transition(before, day, frozenset(late))
        steps = [*layout.run(state, day - 1), last]
        batch_days = frozenset(d for d, _ in batch)
        if missed:
            plan = plan_gap(steps, technique, store.runs, batch_days)
        else:
            plan = plan_update(last, technique, store.runs, batch_days)
        store.carry_out(plan, batch)
        rows += Counter(batch)
        state = last.after
        check(store, state, rows)
        if technique is PACKED:
            assert all(is_packed(runs) for runs in store.runs.values())


def one_step(
    scheme: WaveScheme, technique: UpdateTechnique, until: int, window: int = 10, n: int = 2
) -> tuple[Transition, UpdatePlan, Mapping[str, tuple[Run, ...]]]:
    """The plan of one day after an undisturbed run up to the day before."""
    layout = WaveLayout(scheme, window, n)
    runs: Mapping[str, tuple[Run, ...]] = {}
    for step in layout.run(WaveState(), until):
        before, plan = runs, plan_update(step, technique, runs, frozenset({step.day}))
        runs = plan.runs
    return step, plan, before


def days(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


def test_del_in_place_appends_and_hides_or_drops() -> None:
    _, plan, before = one_step(WaveScheme.DEL, IN_PLACE, 11)
    (change,) = plan.transition
    assert change.read == ()
    assert [write.days for write in change.write] == [days(11)]
    assert change.release == (before["I1"][0].id,)  # day 1 had a run of its own
    assert not change.packed_after

    merged = {"I1": (Run("old", days(1, 2, 3, 4, 5)),), "I2": before["I2"]}
    step = WaveLayout(WaveScheme.DEL, 10, 2).transition(
        WaveState(10, {"I1": days(1, 2, 3, 4, 5), "I2": days(6, 7, 8, 9, 10)}), 11
    )
    (change,) = plan_update(step, IN_PLACE, merged, days(11)).transition
    assert change.mark_deleted == {"old": days(1)}
    assert change.keep == (Run("old", days(1, 2, 3, 4, 5), days(1)),)
    assert change.release == change.read == ()


def test_del_with_a_simple_shadow_copies_each_run_and_appends() -> None:
    _, plan, before = one_step(WaveScheme.DEL, SIMPLE, 11)
    (change,) = plan.transition
    assert change.keep == ()
    assert [write.days for write in change.write] == [days(2), days(3), days(4), days(5), days(11)]
    assert set(change.release) == {run.id for run in before["I1"]}
    assert change.read == tuple(run.id for run in before["I1"][1:])
    assert plan.runs["I2"] == before["I2"]


def test_del_with_a_packed_shadow_reads_and_writes_the_constituent_once() -> None:
    _, plan, before = one_step(WaveScheme.DEL, PACKED, 11)
    (change,) = plan.transition
    (write,) = change.write
    (old,) = before["I1"]
    assert write.sources == (Source(old.id, days(2, 3, 4, 5)),)
    assert (write.batch_days, write.days) == (days(11), days(2, 3, 4, 5, 11))
    assert change.packed_after


@pytest.mark.parametrize("technique", UpdateTechnique)
def test_reindex_builds_one_packed_run_whatever_the_technique(technique: UpdateTechnique) -> None:
    _, plan, before = one_step(WaveScheme.REINDEX, technique, 11)
    (change,) = plan.transition
    assert change.packed_after
    assert change.read == (before["I1"][0].id,)
    assert [write.days for write in change.write] == [days(2, 3, 4, 5, 11)]


def test_reindex_plus_takes_old_days_from_the_constituent_it_replaces() -> None:
    _, plan, before = one_step(WaveScheme.REINDEX_PLUS, PACKED, 12)
    temp, constituent = plan.transition
    assert temp.target == "Temp"
    assert {source.run: source.days for source in constituent.write[0].sources} == {
        temp.write[0].id: days(11, 12),
        before["I1"][0].id: days(3, 4, 5),
    }


@pytest.mark.parametrize("technique", UpdateTechnique)
def test_wata_throws_away_without_reading(technique: UpdateTechnique) -> None:
    _, plan, before = one_step(WaveScheme.WATA, technique, 13, n=4)
    drop, restart = plan.transition
    assert (drop.target, drop.read, drop.write) == ("I1", (), ())
    assert drop.release == tuple(run.id for run in before["I1"])
    assert (restart.read, restart.packed_after) == ((), True)
    assert [write.days for write in restart.write] == [days(13)]


def test_in_place_temporaries_reference_the_run_of_the_new_day() -> None:
    step, plan, _ = one_step(WaveScheme.REINDEX_PLUS_PLUS, IN_PLACE, 11)
    assert len(step.pre_transition) == 4
    (write,) = plan.writes
    for rung in plan.pre_transition:
        assert rung.write == ()
        assert rung.keep[-1] == Run(write.id, days(11))


def test_in_place_ladders_reference_runs_of_single_days_and_copy_days_out_of_others() -> None:
    _, plan, _ = one_step(WaveScheme.RATA, IN_PLACE, 13, n=4)
    assert all(ladder.write == () for ladder in plan.pre_transition)
    state = WaveLayout(WaveScheme.RATA, 10, 4).state_after(12)
    runs = {name: (Run(f"all {name}", held),) for name, held in state.constituents.items()}
    step = WaveLayout(WaveScheme.RATA, 10, 4).transition(state, 13)
    plan = plan_update(step, IN_PLACE, runs, days(13))
    written = [write for ladder in plan.pre_transition for write in ladder.write]
    assert [write.sources for write in written] == [
        (Source("all I2", days(6)),),
        (Source("all I2", days(5)),),
    ]


def test_simple_shadows_copy_copies_but_extend_temporaries_where_they_are() -> None:
    _, plan, before = one_step(WaveScheme.RATA, SIMPLE, 13, n=4)
    smaller, larger = plan.pre_transition
    assert [write.days for write in smaller.write] == [days(6)]
    assert [write.days for write in larger.write] == [days(6), days(5)]
    _, plan, before = one_step(WaveScheme.REINDEX_PLUS, SIMPLE, 12)
    temp, _ = plan.transition
    assert temp.keep == before["Temp"]


def test_an_empty_batch_writes_nothing_in_place() -> None:
    layout = WaveLayout(WaveScheme.DEL, 4, 2)
    runs: Mapping[str, tuple[Run, ...]] = {}
    for step in layout.run(WaveState(), 4):
        runs = plan_update(step, IN_PLACE, runs, days(step.day)).runs
    plan = plan_update(layout.transition(step.after, 5), IN_PLACE, runs, NO_DAYS)
    assert plan.writes == ()
    assert [run.days for run in plan.runs["I1"]] == [days(2)]


def test_a_gap_writes_only_what_is_left_at_its_end() -> None:
    layout = WaveLayout(WaveScheme.REINDEX, 10, 2)
    runs: Mapping[str, tuple[Run, ...]] = {}
    for step in layout.run(WaveState(), 10):
        runs = plan_update(step, PACKED, runs, days(step.day)).runs
    steps = list(layout.run(step.after, 14))
    plan = plan_gap(steps, PACKED, runs, days(14))
    (write,) = plan.writes
    assert write.sources == (Source(runs["I1"][0].id, days(5)),)
    assert write.batch_days == days(14)
    assert plan.transition[0] == RunPlan("I1", write=(write,), release=(runs["I1"][0].id,))

    long_gap = plan_gap(list(layout.run(step.after, 30)), PACKED, runs, NO_DAYS)
    assert long_gap.writes == ()
    assert all(held == () for held in long_gap.runs.values())
