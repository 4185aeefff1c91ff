"""Geometric merging: few segments, each row rewritten a bounded number of times.

Idea: ``fan_in`` neighbouring segments of one level become one of the next level, as long as the
result's expirations span no more than ``cap``. Invariants: a merged segment dies at most ``cap``
after its first row; a group holds at most ``window/cap + 1 + (fan_in − 1) · levels`` segments, and
never more than ``limit``. Cost: each row is rewritten once per level, log_fan_in(batches per cap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from mayfly.storage.segment import Bounds

FAN_IN = 4
LIMIT = 32


class Mergeable(Protocol):
    @property
    def level(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def exp(self) -> Bounds: ...


M = TypeVar("M", bound=Mergeable)


def plan_merge(
    runs: Sequence[M], *, cap: int, fan_in: int = FAN_IN, limit: int = LIMIT
) -> list[tuple[int, list[M]]]:
    """Which neighbours to merge now: (new level, members) per merge, cascades already folded.

    ``runs`` are in the order in which they were generated, and results keep their place.
    """
    shelves = [(run.level, [run]) for run in runs]
    at = 0
    while at + fan_in <= len(shelves):
        window = shelves[at : at + fan_in]
        level = window[0][0]
        if all(shelf[0] == level for shelf in window) and _span(window) <= cap:
            shelves[at : at + fan_in] = [(level + 1, [run for shelf in window for run in shelf[1]])]
            at = max(0, at - fan_in + 1)
        else:
            at += 1
    while len(shelves) > limit:
        smallest = min(range(len(shelves) - 1), key=lambda i: _rows(shelves[i : i + 2]))
        pair = shelves[smallest : smallest + 2]
        shelves[smallest : smallest + 2] = [
            (max(shelf[0] for shelf in pair), [run for shelf in pair for run in shelf[1]])
        ]
    return [(level, members) for level, members in shelves if len(members) > 1]


def _span(shelves: Sequence[tuple[int, list[M]]]) -> int:
    runs = [run for _, members in shelves for run in members]
    latest: int = max(run.exp.high for run in runs)
    earliest: int = min(run.exp.low for run in runs)
    return latest - earliest


def _rows(shelves: Sequence[tuple[int, list[M]]]) -> int:
    return sum(run.rows for _, members in shelves for run in members)
