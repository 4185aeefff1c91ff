"""The extremes of groups that are not worth ranking: a heap of what came, and one of what went.

Idea: ranking the values of a group costs a sort; finding the best one costs a look, and a heap is
made of them only when that one goes. What else goes is put into a second heap, and leaves the first
one with it when both have it on top.
Invariant: what is in the first heap and not in the second is alive. Cost: O(log rows) per event.
"""

from __future__ import annotations

import numpy as np

from mayfly.arrays.compilation import compiled
from mayfly.windows.domain import Int64s


def play_extremes(
    before: Int64s, starts: Int64s, keys: Int64s, sign: Int64s, marks: tuple[Int64s, Int64s],
    largest: bool,
) -> tuple[Int64s, np.ndarray]:  # fmt: skip
    """The smallest or largest key of each version, and where there is one.

    ``before`` are the keys alive at first, those of a group from its ``starts`` on; an event of
    sign 0 changes nothing.
    """
    answers, filled = np.zeros(len(marks[0]), np.int64), np.zeros(len(marks[0]), np.bool_)
    # With all bits turned the smallest key is the largest.
    turn = 0 if largest else -1
    _play(before, starts, keys, sign, marks[0], marks[1], turn, answers, filled)
    return answers, filled


@compiled(plain=True)
def _play(
    before: Int64s, starts: Int64s, keys: Int64s, sign: Int64s, last: Int64s, group: Int64s,
    turn: int, answers: Int64s, filled: np.ndarray,
) -> None:  # fmt: skip
    came, went = np.empty(64, np.int64), np.empty(64, np.int64)
    event, current, size, gone, best, ordered = 0, -1, 0, 0, 0, False
    for version in range(len(last)):
        if group[version] != current:
            current, gone, ordered = group[version], 0, False
            start, size = starts[current], starts[current + 1] - starts[current]
            came = _room(came, size)
            for i in range(size):
                came[i] = before[start + i] ^ turn
                best = came[i] if i == 0 else max(best, came[i])
        while event <= last[version]:
            key = keys[event] ^ turn
            if sign[event] > 0:
                came = _room(came, size + 1)
                best = key if size == 0 else max(best, key)
                if ordered:
                    size = _push(came, size, key)
                else:
                    came[size] = key
                    size += 1
            elif sign[event] < 0 and key == best:
                if not ordered:
                    _order(came, size)
                    ordered = True
                size = _pop(came, size)
                while gone and went[0] == came[0]:
                    size, gone = _pop(came, size), _pop(went, gone)
                best = came[0]
            elif sign[event] < 0:
                went = _room(went, gone + 1)
                gone = _push(went, gone, key)
            event += 1
        filled[version] = size > 0
        if size:
            answers[version] = best ^ turn


@compiled(plain=True)
def _order(heap: Int64s, size: int) -> None:
    for i in range(size // 2 - 1, -1, -1):
        _sink(heap, size, i)


@compiled(plain=True)
def _room(heap: Int64s, size: int) -> Int64s:
    if size <= len(heap):
        return heap
    grown = np.empty(2 * size, np.int64)
    grown[: len(heap)] = heap
    return grown


@compiled(plain=True)
def _push(heap: Int64s, size: int, key: int) -> int:
    slot = size
    while slot and heap[(slot - 1) // 2] < key:
        heap[slot] = heap[(slot - 1) // 2]
        slot = (slot - 1) // 2
    heap[slot] = key
    return size + 1


@compiled(plain=True)
def _pop(heap: Int64s, size: int) -> int:
    heap[0] = heap[size - 1]
    _sink(heap, size - 1, 0)
    return size - 1


@compiled(plain=True)
def _sink(heap: Int64s, size: int, slot: int) -> None:
    key = heap[slot]
    while 2 * slot + 1 < size:
        child = 2 * slot + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[slot] = heap[child]
        slot = child
    if slot < size:
        heap[slot] = key
