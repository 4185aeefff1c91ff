"""Exponential histogram: COUNT, or SUM of whole numbers from 0 on, of a window within ε.

Idea (Datar et al. 2002): units lie in buckets of 1, 2, 4, … of them, the young ones small; a bucket
knows its youngest unit only, so all that is unsure is how much of the oldest bucket has expired.
Invariant: of every size below the largest there are ⌈1 / 2ε⌉ buckets, or one or two more, so the
middle between both extremes is off by at most ε. Equal buckets of one instant are a *run*.
Cost: O(log(εN) / ε) buckets; amortized O(1) per instant and size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput, InvalidSetting
from mayfly.lifetime import NEVER


@dataclass(frozen=True)
class Bounded:
    """An estimate, and between what the exact value surely lies."""

    value: float
    low: int
    high: int


class ExponentialHistogram:
    """The sum of amounts over the last ``length`` µs.

    >>> histogram = ExponentialHistogram(length=100, error=0.1)
    >>> histogram.add(np.arange(1, 301), np.ones(300, np.int64))
    >>> histogram.answer(300)
    Bounded(value=100.5, low=93, high=108)
    """

    def __init__(self, length: int, error: float) -> None:
        if length < 1 or not 0 < error < 1:
            raise InvalidSetting(
                f"a histogram over {length} µs within {error}",
                "give a time above 0 and an error between 0 and 1",
            )
        self.length, self.error = length, error
        self._fewest = ceil(1 / (2 * error))
        self._sizes: list[deque[list[int]]] = []
        """Of each size: runs of (instant, number), oldest first."""
        self._last: int | None = None

    @staticmethod
    def restored(length: int, error: float, numbers: Sequence[int]) -> ExponentialHistogram:
        """One that goes on from its ``stored_form``."""
        histogram = ExponentialHistogram(length, error)
        for size, instant, number in zip(*(numbers[part::3] for part in range(3)), strict=True):
            while len(histogram._sizes) <= size:
                histogram._sizes.append(deque())
            histogram._sizes[size].append([instant, number])
            histogram._last = max(instant, histogram._last or instant)
        return histogram

    @property
    def stored_form(self) -> list[int]:
        """Size, instant and number of each run, one behind the other."""
        sizes = enumerate(self._sizes)
        return [part for size, runs in sizes for run in runs for part in (size, *run)]

    @property
    def holds_until(self) -> int:
        """When the next bucket leaves, and with it the answer changes."""
        oldest = [runs[0][0] for runs in self._sizes if runs]
        return min(oldest) + self.length if oldest else NEVER

    @property
    def stored(self) -> int:
        """How many runs of buckets are kept."""
        return sum(map(len, self._sizes))

    def add(self, instants: Int64s, amounts: Int64s) -> None:
        """Take in amounts, in the order of their instants."""
        if (len(instants) and (np.diff(instants) < 0).any()) or (amounts < 0).any():
            raise BadInput(
                "instants that fall, or amounts below 0", "sort the rows, and leave negatives out"
            )
        if len(instants) and self._last is not None and instants[0] < self._last:
            raise BadInput(
                f"the instant {instants[0]} after {self._last}", "add rows in the order of time"
            )
        begins = np.flatnonzero(np.append(True, np.diff(instants) > 0)[: len(instants)])
        sums = np.add.reduceat(amounts, begins) if len(begins) else amounts
        for instant, amount in zip(instants[begins].tolist(), sums.tolist(), strict=True):
            # What is merged must not depend on how often somebody looked.
            self._expire(instant)
            self._last = instant
            if amount:
                self._push(0, [[instant, amount]])

    def answer(self, now: int) -> Bounded:
        """The sum over (now − length, now], for a ``now`` that does not fall."""
        self._expire(now)
        total = sum(run[1] << size for size, runs in enumerate(self._sizes) for run in runs)
        filled = [size for size, runs in enumerate(self._sizes) if runs]
        unsure = (1 << filled[-1]) - 1 if filled else 0
        return Bounded(total - unsure / 2, total - unsure, total)

    def _push(self, size: int, runs: list[list[int]]) -> None:
        """More buckets of a size; where there are too many, the oldest become half as many."""
        if size == len(self._sizes):
            self._sizes.append(deque())
        self._sizes[size].extend(runs)
        excess = sum(run[1] for run in self._sizes[size]) - self._fewest - 1
        if excess > 0:
            self._push(size + 1, self._pairs(self._sizes[size], (excess + 1) // 2))

    @staticmethod
    def _pairs(runs: deque[list[int]], pairs: int) -> list[list[int]]:
        """Take the oldest buckets off by pairs, each with the instant of its younger bucket."""
        merged: list[list[int]] = []
        while pairs:
            instant, number = runs[0]
            whole = min(pairs, number // 2)
            if whole:
                merged.append([instant, whole])
                pairs -= whole
                runs[0][1] -= 2 * whole
            elif number:  # one left: it goes with the first of the next run
                merged.append([runs[1][0], 1])
                pairs -= 1
                runs[1][1] -= 1
                runs[0][1] = 0
            if not runs[0][1]:
                runs.popleft()
        return merged

    def _expire(self, now: int) -> None:
        for runs in self._sizes:
            while runs and runs[0][0] <= now - self.length:
                runs.popleft()
