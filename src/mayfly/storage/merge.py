"""Geometric merging: few segments, each row rewritten a bounded number of times.

Idea: ``fan_in`` neighbours of one level become one of the next level, as long as the expirations
of the result span at most ``cap``. A stretch that its successor no longer fits into is finished and
becomes one segment. If more than ``limit`` remain (say, because single runs already span more than
the cap), the pair whose younger member is largest in proportion to the older one is merged, which
keeps sizes geometric. Only such a merge, or one of at most ``small`` rows, may exceed the cap.
Invariants: order is kept; while the limit is not reached, a merged segment dies at most ``cap``
after its first row, any two finished neighbours span more than ``cap`` together, and the others
number at most (fan_in − 1) per level: fewer than 2·window/cap + (fan_in − 1)·levels + 2 in all,
with levels = log_fan_in(batches per cap) + 1.
Cost: a row is written once on arrival, once per level, and once when its stretch is finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from mayfly.errors import InvalidSetting
from mayfly.storage.bounds import Bounds

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


class _Shelf(NamedTuple, Generic[M]):
    """Neighbouring runs that will be one."""

    level: int
    runs: tuple[M, ...]
    rows: int
    low: int
    high: int

    @staticmethod
    def of(run: M) -> _Shelf[M]:
        return _Shelf(run.level, (run,), run.rows, run.exp.low, run.exp.high)


def _joined(shelves: Sequence[_Shelf[M]], level: int) -> _Shelf[M]:
    return _Shelf(
        level,
        tuple(run for shelf in shelves for run in shelf.runs),
        sum(shelf.rows for shelf in shelves),
        min(shelf.low for shelf in shelves),
        max(shelf.high for shelf in shelves),
    )


def plan_merge(
    runs: Sequence[M], *, cap: int, fan_in: int = FAN_IN, limit: int = LIMIT, small: int = 0
) -> list[tuple[int, list[M]]]:
    """Which neighbours to merge now: (new level, members) per merge, cascades already folded.

    ``runs`` are in the order in which they were generated, and results keep their place.
    """
    if fan_in < 2 or limit < 1:
        raise InvalidSetting(
            f"merging {fan_in} at a time into at most {limit} segments is not possible",
            "use a fan-in of 2 or more and a limit of 1 or more",
        )
    shelves = _finished(
        _geometric([_Shelf.of(run) for run in runs], cap, fan_in, small), cap, small
    )
    while len(shelves) > limit:
        _merge_most_alike(shelves)
    return [(shelf.level, list(shelf.runs)) for shelf in shelves if len(shelf.runs) > 1]


def _geometric(shelves: list[_Shelf[M]], cap: int, fan_in: int, small: int) -> list[_Shelf[M]]:
    start = 0
    while start + fan_in <= len(shelves):
        level = shelves[start].level
        window = shelves[start : start + fan_in]
        if all(shelf.level == level for shelf in window) and (
            _span(window) <= cap or sum(shelf.rows for shelf in window) <= small
        ):
            shelves[start : start + fan_in] = [_joined(window, level + 1)]
            start = max(0, start - fan_in + 1)
        else:
            start += 1
    return shelves


def _finished(shelves: Iterable[_Shelf[M]], cap: int, small: int) -> list[_Shelf[M]]:
    """Join each stretch that fits the cap and has a successor that does not fit into it."""
    done: list[_Shelf[M]] = []
    stretch: list[_Shelf[M]] = []
    low = high = rows = 0
    for shelf in shelves:
        wide = max(high, shelf.high) - min(low, shelf.low) > cap
        if stretch and wide and rows + shelf.rows > small:
            done.append(_united(stretch))
            stretch, rows = [], 0
        low = min(low, shelf.low) if stretch else shelf.low
        high = max(high, shelf.high) if stretch else shelf.high
        rows += shelf.rows
        stretch.append(shelf)
    return done + stretch


def _united(stretch: list[_Shelf[M]]) -> _Shelf[M]:
    if len(stretch) == 1:
        return stretch[0]
    return _joined(stretch, max(shelf.level for shelf in stretch) + 1)


def _merge_most_alike(shelves: list[_Shelf[M]]) -> None:
    position = max(
        range(len(shelves) - 1), key=lambda i: shelves[i + 1].rows / max(1, shelves[i].rows)
    )
    pair = shelves[position : position + 2]
    shelves[position : position + 2] = [_joined(pair, max(shelf.level for shelf in pair))]


def _span(shelves: Sequence[_Shelf[M]]) -> int:
    return max(shelf.high for shelf in shelves) - min(shelf.low for shelf in shelves)
