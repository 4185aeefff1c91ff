"""The schemes that throw a constituent away when all of its days have expired.

Idea: new days join the youngest constituent; when the oldest has nothing left to show, it is
dropped whole and begins anew with the new day. WATA lets expired days linger until then. RATA
swaps the oldest constituent every day for a temporary T_d that was prepared without them.
Invariant: WATA holds at most W + ⌈(W−1)/(n−1)⌉ − 1 days; RATA exactly the last W; T_d is
ready before day d.
Cost: one day indexed on arrival; RATA indexes Y − 1 more in each cycle of Y = ⌈(W−1)/(n−1)⌉
days, all at its start or one a day. wave-indices-1997, 3.5 and 3.6.
"""

from __future__ import annotations

from itertools import pairwise

from mayfly.archive.layouts.operations import (
    AddIndex,
    AddToIndex,
    BuildIndex,
    CopyIndex,
    CreateIndex,
    Days,
    DropIndex,
    Operation,
    RenameIndex,
    WaveState,
)


def wait_and_throw_away(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """WATA."""
    oldest, today = state.oldest(), frozenset({day})
    if max(state.constituents[oldest]) > day - window:
        return (AddToIndex(today, state.youngest()),)
    return (
        DropIndex(oldest),
        CreateIndex(oldest),
        AddToIndex(today, oldest),
        AddIndex(oldest),
    )


def swap_and_throw_away(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """RATA on arrival."""
    arrival = wait_and_throw_away(state, day, window)
    oldest = state.oldest()
    if arrival[0] == DropIndex(oldest):
        return arrival
    return (*arrival, DropIndex(oldest), RenameIndex(_temporary(day), oldest), AddIndex(oldest))


def prepare_at_once(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """RATA afterwards: whatever the oldest constituent is still to be replaced by."""
    steps = _missing_steps(state, state.oldest(), window)
    return tuple(operation for step in steps for operation in step)


def prepare_spread(state: WaveState, day: int, window: int) -> tuple[Operation, ...]:
    """RATA afterwards, one step a day, for the constituent that will be the oldest next.

    With n ≥ 3 that constituent is complete when the cycle begins, and its Y − 1 steps fit into
    the cycle: a day indexes its own data and at most one step more.
    """
    if day < window:
        return _one_step(state, state.oldest(), window)
    due = prepare_at_once(state, day, window)
    if due or len(state.constituents[state.youngest()]) == 1:
        return due
    by_age = sorted(state.constituents, key=lambda name: min(state.constituents[name]))
    return _one_step(state, by_age[1], window)


def _one_step(state: WaveState, name: str, window: int) -> tuple[Operation, ...]:
    if name == state.youngest():
        return ()
    steps = _missing_steps(state, name, window)
    return steps[0] if steps else ()


def _missing_steps(state: WaveState, name: str, window: int) -> tuple[tuple[Operation, ...], ...]:
    """What makes each missing temporary of a constituent, smallest first; each indexes a day."""
    ladder = _ladder(state.constituents[name], window)
    steps: list[tuple[Operation, ...]] = []
    for (smaller, _), (temporary, added) in pairwise([("", 0), *ladder]):
        today = frozenset({added})
        if temporary in state.temporaries:
            continue
        if not smaller:
            steps.append((BuildIndex(today, temporary),))
        else:
            steps.append((CopyIndex(smaller, temporary), AddToIndex(today, temporary)))
    return tuple(steps)


def _ladder(cluster: Days, window: int) -> list[tuple[str, int]]:
    """The temporaries of a cluster, smallest first, each with the day it adds to the one before.

    Day x leaves on day x + W; from then on the constituent is the cluster after x.
    """
    latest_first = sorted(cluster, reverse=True)
    return [(_temporary(gone + window), added) for added, gone in pairwise(latest_first)]


def _temporary(day: int) -> str:
    return f"T{day}"


def later_name(temporary: str, days: int) -> str:
    """What the temporary that plays the same part so many days later is called."""
    return _temporary(int(temporary.removeprefix("T")) + days)
