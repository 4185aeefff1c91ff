"""The extremes of many small groups: a short list of values each, scanned when it is asked.

Idea: where no group has more than a handful of values, ranking them costs more than looking at all.
Each group's values lie in one list; what comes is appended, what goes is replaced by the last one.
Invariant: the list holds the values alive. Cost: at most ``SMALL`` comparisons per event.
"""

from __future__ import annotations

import numpy as np

from mayfly.kernels.sorting import stable_order
from mayfly.windows.domain import Int64s
from mayfly.windows.nodes import jit

SMALL = 32


def are_small(owner: Int64s, group: Int64s, size: int) -> bool:
    """Whether no group has more values than a list takes, whatever comes and goes."""
    most = np.bincount(owner, minlength=size) + np.bincount(group, minlength=size)
    return int(most.max(initial=0)) <= SMALL


def play_extremes(
    before: Int64s, owner: Int64s, keys: Int64s, sign: Int64s, marks: tuple[Int64s, Int64s],
    size: int, largest: bool,
) -> tuple[Int64s, np.ndarray]:  # fmt: skip
    """The smallest or largest key of each version, and where there is one.

    ``before`` are the keys alive at first, by group ``owner``; an event of sign 0 changes nothing.
    """
    order = stable_order(owner)
    starts = np.searchsorted(owner[order], np.arange(size + 1))
    answers, filled = np.zeros(len(marks[0]), np.int64), np.zeros(len(marks[0]), np.bool_)
    _play(before[order], starts, keys, sign, marks[0], marks[1], largest, answers, filled)
    return answers, filled


@jit
def _play(
    before: Int64s, starts: Int64s, keys: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    largest: bool, answers: Int64s, filled: np.ndarray,
) -> None:  # fmt: skip
    held = np.empty(SMALL, np.int64)
    event, current, size = 0, -1, 0
    for version in range(len(last)):
        if group[version] != current:
            current, size = group[version], 0
            for i in range(starts[current], starts[current + 1]):
                held[size] = before[i]
                size += 1
        while event <= last[version]:
            if sign[event] > 0:
                held[size] = keys[event]
                size += 1
            elif sign[event] < 0:
                place = 0
                while held[place] != keys[event]:
                    place += 1
                size -= 1
                held[place] = held[size]
            event += 1
        filled[version] = size > 0
        if size:
            best = held[0]
            for i in range(1, size):
                if (held[i] > best) == largest and held[i] != best:
                    best = held[i]
            answers[version] = best
