"""The schemes that replace the expired day within its own constituent.

Idea: day d − W leaves, day d takes its place in the same constituent. DEL deletes and adds;
REINDEX builds that constituent anew; REINDEX+ keeps the new days of the cluster in Temp, so
that they are indexed once; REINDEX++ prepares a ladder of temporaries, so that on arrival only
the new day is added to the top rung.
Invariant: the constituents hold exactly the last W days (a hard window).
Cost per day, in days indexed, with X = W/n: DEL 1 (and 1 deleted); REINDEX X;
REINDEX+ about X/2; REINDEX++ 1 on arrival and about X/2 afterwards, up to X on one day, or
at most X/2 + 2 if spread. wave-indices-1997, 3.1 to 3.4.
"""

from __future__ import annotations

from collections.abc import Callable

from mayfly.archive.layouts.operations import (
    NO_DAYS,
    AddIndex,
    AddToIndex,
    BuildIndex,
    CopyIndex,
    CreateIndex,
    Days,
    DeleteFromIndex,
    DropIndex,
    Operation,
    RenameIndex,
    WaveState,
)

TEMP = "Temp"


def delete_and_add(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """DEL."""
    expired = day - window
    target = state.holder_of(expired)
    return (
        DeleteFromIndex(frozenset({expired}), target),
        AddToIndex(frozenset({day}), target),
    )


def rebuild(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX."""
    expired = day - window
    target = state.holder_of(expired)
    return (BuildIndex(state.constituents[target] - {expired} | {day}, target),)


def rebuild_on_temp(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX+: Temp collects the cluster's new days; the constituent is Temp and old days."""
    expired, today = day - window, frozenset({day})
    target = state.holder_of(expired)
    temp_days = state.temporaries.get(TEMP, NO_DAYS)
    old = state.constituents[target] - temp_days - {expired}
    extend: Operation = AddToIndex(today, TEMP) if temp_days else BuildIndex(today, TEMP)
    if old:
        return (extend, CopyIndex(TEMP, target), AddToIndex(old, target))
    return (extend, DropIndex(target), RenameIndex(TEMP, target), AddIndex(target))


def add_to_top_rung(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX++ on arrival: the top rung misses only the new day."""
    target = state.holder_of(day - window)
    top = _rungs(state)[-1]
    return (
        AddToIndex(frozenset({day}), top),
        DropIndex(target),
        RenameIndex(top, target),
        AddIndex(target),
    )


def climb(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX++ afterwards: the new day joins the other rungs, or a new ladder is set up."""
    if state.temporaries:
        return tuple(AddToIndex(frozenset({day}), rung) for rung in state.temporaries)
    steps = _ladder(state, state.constituents[state.oldest()], _rung)
    return (CreateIndex(_rung(0)), *(operation for step in steps for operation in step))


def climb_spread(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX++ afterwards, with the work of a cluster divided evenly over its days.

    Rungs catch up with the new days in the order in which they are needed, half the cluster's
    length a day; the next ladder, of a cluster that is complete where n ≥ 2, gets a rung a day on
    the last days before it is needed, and takes the place of the old one when that is used up.
    """
    rungs, oldest = _rungs(state), state.oldest()
    by_age = sorted(state.constituents, key=lambda name: min(state.constituents[name]))
    following = by_age[:2][-1] if rungs else oldest
    days_left = len(rungs) + 1 if day >= window else window - day + 1
    steps = _ladder(state, state.constituents[following], _next_rung)
    due = steps[: max(0, len(steps) - days_left + 1)]
    operations = [*_catch_up(state, rungs, oldest), *(op for step in due for op in step)]
    if rungs or day < window:
        return tuple(operations)
    heights = range(1, len(state.constituents[oldest]))
    operations += [RenameIndex(_next_rung(height), _rung(height)) for height in heights]
    return (*operations, CreateIndex(_rung(0)))


def _catch_up(state: WaveState, rungs: list[str], target: str) -> list[Operation]:
    """New days for the rungs, the one needed tomorrow first: that one gets all it lacks."""
    cluster = sorted(state.constituents[target])
    new = frozenset(cluster[len(rungs) :]) if rungs else NO_DAYS
    allowed = (len(cluster) + 1) // 2
    operations: list[Operation] = []
    for rung in reversed(rungs):
        missing = sorted(new - state.temporaries[rung])
        added = frozenset(missing if rung == rungs[-1] else missing[:allowed])
        if added:
            operations.append(AddToIndex(added, rung))
        allowed = max(0, allowed - len(added))
    return operations


def _ladder(
    state: WaveState, cluster: Days, name: Callable[[int], str]
) -> list[tuple[Operation, ...]]:
    """What makes each missing rung above T0: the first holds the last day, each rung one more."""
    steps: list[tuple[Operation, ...]] = []
    for height, day in enumerate(sorted(cluster, reverse=True)[:-1], start=1):
        rung, today = name(height), frozenset({day})
        if rung in state.temporaries:
            continue
        if height == 1:
            steps.append((BuildIndex(today, rung),))
        else:
            steps.append((CopyIndex(name(height - 1), rung), AddToIndex(today, rung)))
    return steps


def _rungs(state: WaveState) -> list[str]:
    """The rungs in use, the lowest first."""
    return [
        _rung(height)
        for height in range(len(state.temporaries))
        if _rung(height) in state.temporaries
    ]


def _rung(height: int) -> str:
    return f"T{height}"


def _next_rung(height: int) -> str:
    """Of the ladder that is being set up for the cluster after this one."""
    return f"N{height}"
