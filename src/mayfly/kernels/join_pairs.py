"""Pairs of rows that meet: the inner loop of every window join.

Idea: both sides are sorted by (code, ts); equal codes are found by galloping, and inside a group
the lifetimes decide: ``max(ts) < min(exp)``. Rows already dead for a left row are dead for all
later ones of its group, so a group's scan starts at a moving lower end and stops at the first
right row generated after the left one expires. Cost: O(groups · log gap + candidates), and output
is handed over in bounded pieces, so that one hot key cannot exhaust memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import mixed_id
from mayfly.kernels.room import touch

FEW, GROWTH = 4, 8
"""Pairs of a row that there is room for at first, and how much larger the next arrays are."""


@compiled(f"int64({READ}, int64, int64, int64)", plain=True)
def first_at_least(codes: Int64s, start: int, stop: int, code: int) -> int:
    """The first position from ``start`` to ``stop`` whose code is ``code`` or larger."""
    if start >= stop or codes[start] >= code:
        return start
    low, step = start, 1
    while low + step < stop and codes[low + step] < code:
        low += step
        step *= 2
    high = min(low + step, stop)
    while high - low > 1:
        middle = (low + high) // 2
        if codes[middle] < code:
            low = middle
        else:
            high = middle
    return high


@compiled(
    f"int64({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {WRITE}, {WRITE}, {WRITE})", plain=True
)
def _fill(
    left_code: Int64s,
    left_ts: Int64s,
    left_exp: Int64s,
    right_code: Int64s,
    right_ts: Int64s,
    right_exp: Int64s,
    cursor: Int64s,
    out_left: Int64s,
    out_right: Int64s,
) -> int:
    """Write the next pairs into the output arrays; ``cursor`` remembers where to go on."""
    row, low, high, candidate = cursor[0], cursor[1], cursor[2], cursor[3]
    count = 0
    rows, others, room = len(left_code), len(right_code), len(out_left)
    while row < rows:
        ts, exp = left_ts[row], left_exp[row]
        if candidate < 0:
            code = left_code[row]
            if high == 0 or right_code[high - 1] != code:
                low = first_at_least(right_code, high, others, code)
                if low == others:
                    row = rows
                    break
                high = low
                if right_code[low] != code:
                    row = first_at_least(left_code, row, rows, right_code[low])
                    continue
                while high < others and right_code[high] == code:
                    high += 1
            while low < high and right_exp[low] <= ts:
                low += 1
            candidate = low
        while candidate < high and right_ts[candidate] < exp:
            if right_exp[candidate] > ts:
                if count == room:
                    cursor[0], cursor[1], cursor[2], cursor[3] = row, low, high, candidate
                    return count
                out_left[count] = row
                out_right[count] = candidate
                count += 1
            candidate += 1
        row += 1
        candidate = -1
    cursor[0], cursor[1], cursor[2], cursor[3] = row, low, high, candidate
    return count


def matching_pairs(
    left: tuple[Int64s, Int64s, Int64s],
    right: tuple[Int64s, Int64s, Int64s],
    room: int,
) -> Iterator[tuple[Int64s, Int64s]]:
    """Positions (left, right) of all pairs with equal codes that are ever alive together.

    Each side is (code, ts, exp), sorted by (code, ts). At most ``room`` pairs come at a time, in
    arrays that are overwritten when the next ones are asked for: fresh memory would cost more than
    finding the pairs. These are as large as rows that meet a few times need, and grow when full.
    """
    room = min(room, len(left[0]) * len(right[0]))
    size = min(room, FEW * max(len(left[0]), len(right[0])))
    cursor = np.array([0, 0, 0, -1], dtype=np.int64)
    out_left, out_right = np.empty(size, np.int64), np.empty(size, np.int64)
    while room and cursor[0] < len(left[0]):
        count = _fill(*left, *right, cursor, out_left, out_right)
        if count:
            touch(count)
            yield out_left[:count], out_right[:count]
        if count == size < room:
            size = min(room, GROWTH * size)
            out_left, out_right = np.empty(size, np.int64), np.empty(size, np.int64)


def lives_together(
    left: tuple[Int64s, Int64s, Int64s],
    right: tuple[Int64s, Int64s, Int64s],
    pairs: tuple[Int64s, Int64s],
) -> tuple[Int64s, Int64s, Int64s]:
    """Of the pairs at these positions: when they begin, when they end, and their identities.

    Each side is (ts, exp, id).
    """
    size = len(pairs[0])
    ts, exp, ids = (np.empty(size, np.int64) for _ in range(3))
    _unite(*left, *right, *pairs, ts, exp, ids)
    return ts, exp, ids


@compiled(
    f"void({READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {READ}, {READ}, "
    f"{WRITE}, {WRITE}, {WRITE})",
    plain=True,
)
def _unite(
    left_ts: Int64s,
    left_exp: Int64s,
    left_id: Int64s,
    right_ts: Int64s,
    right_exp: Int64s,
    right_id: Int64s,
    at_left: Int64s,
    at_right: Int64s,
    ts: Int64s,
    exp: Int64s,
    ids: Int64s,
) -> None:
    for pair in range(len(at_left)):
        mine, other = at_left[pair], at_right[pair]
        ts[pair] = max(left_ts[mine], right_ts[other])
        exp[pair] = min(left_exp[mine], right_exp[other])
        ids[pair] = mixed_id(left_id[mine], right_id[other])
