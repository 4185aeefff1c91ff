"""Rows that can no longer be among the first of their partition: enough better ones outlive them.

Idea: going from the last row to expire to the first, the best rows seen so far of a partition are
those that outlive the next; one that as many of them precede as may be first will never be first
(the k-skyband; of LIMIT, top_rows.py). Invariant: the first rows of a partition are never left out,
so numbers up to the limit are right, and all others are larger than it. Cost: O(rows · log).
"""

from __future__ import annotations

import numpy as np

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.lifetime_rows import Bools


def may_be_first(
    partition: Int64s, position: Int64s, exp: Int64s, most: int, *, distinct: bool
) -> Bools:
    """Which rows fewer than ``most`` better ones of their partition outlive; of ``distinct``
    positions (DENSE_RANK) equal ones count once."""
    order = stable_order(partition, ~exp, position)
    return _undominated(partition, position, order, most, distinct)


@compiled(plain=True)
def _undominated(
    partition: Int64s, position: Int64s, order: Int64s, most: int, distinct: bool
) -> Bools:
    stays = np.ones(len(order), np.bool_)
    best = np.empty(most, np.int64)
    size = 0
    for i in range(len(order)):
        row = order[i]
        if i == 0 or partition[row] != partition[order[i - 1]]:
            size = 0
        if size == most and best[most - 1] < position[row]:
            stays[row] = False
            continue
        place = np.searchsorted(best[:size], position[row])
        if distinct and place < size and best[place] == position[row]:
            continue
        if size < most:
            size += 1
        for j in range(size - 1, place, -1):
            best[j] = best[j - 1]
        if place < size:
            best[place] = position[row]
    return stays
