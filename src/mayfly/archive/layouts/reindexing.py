"""The schemes that replace the expired day within its own constituent.

Idea: day d − W leaves, day d takes its place in the same constituent. DEL deletes and adds;
REINDEX builds that constituent anew; REINDEX+ keeps the new days of the cluster in Temp, so
that they are indexed once; REINDEX++ prepares a ladder of temporaries, so that on arrival only
the new day is added to the top rung.
Invariant: the constituents hold exactly the last W days (a hard window).
Cost per day, in days indexed, with X = W/n: DEL 1 (and 1 deleted); REINDEX X;
REINDEX+ about X/2; REINDEX++ 1 on arrival and about X/2 afterwards.
wave-indices-1997, 3.1 to 3.4.
"""

from __future__ import annotations

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
    known = state.temporaries.get(TEMP, NO_DAYS)
    old = state.constituents[target] - known - {expired}
    extend: Operation = AddToIndex(today, TEMP) if known else BuildIndex(today, TEMP)
    if old:
        return (extend, CopyIndex(TEMP, target), AddToIndex(old, target))
    return (extend, DropIndex(target), RenameIndex(TEMP, target), AddIndex(target))


def add_to_top_rung(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """REINDEX++ on arrival: the top rung misses only the new day."""
    target = state.holder_of(day - window)
    top = _rung(len(state.temporaries) - 1)
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
    return _ladder(state.constituents[state.oldest()])


def _ladder(cluster: Days) -> tuple[Operation, ...]:
    """T0 is empty, T1 holds the last day of the cluster, and each rung one day more."""
    operations: list[Operation] = [CreateIndex(_rung(0))]
    for rung, day in enumerate(sorted(cluster, reverse=True)[:-1], start=1):
        if rung == 1:
            operations.append(BuildIndex(frozenset({day}), _rung(1)))
        else:
            operations.append(CopyIndex(_rung(rung - 1), _rung(rung)))
            operations.append(AddToIndex(frozenset({day}), _rung(rung)))
    return tuple(operations)


def _rung(number: int) -> str:
    return f"T{number}"
