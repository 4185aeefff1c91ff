"""One slide of each ring, tuple by tuple: the compiled loops behind rings.py.

``tally`` counts walks (tuples reached over links) and writes (links, pointers of nodes, bits).
"""

from __future__ import annotations

import numpy as np

from mayfly.windows.domain import Int64s
from mayfly.windows.nodes import Int32s, jit

WALK, WRITES = 0, 1
CUT = np.int64(-(2**62))
"""The link of a tuple that is in no chain."""


# ── walks ─────────────────────────────────────────────────────────────────────────────────


@jit
def _length(start: int, stop: int, link: Int64s) -> int:
    size, cell = 0, start
    while cell >= 0:
        size += 1
        if cell == stop:
            break
        cell = link[cell]
    return size


@jit
def forward(start: int, stop: int, link: Int64s, tally: Int64s) -> Int64s:
    """The cells of a chain from ``start`` on, up to ``stop``."""
    cells = np.empty(_length(start, stop, link), np.int64)
    cell = start
    for i in range(len(cells)):
        cells[i] = cell
        cell = link[cell]
    tally[WALK] += len(cells)
    return cells


@jit
def backward(start: int, link: Int64s, tally: Int64s) -> Int64s:
    """The cells of a chain from its newest one to its oldest."""
    return forward(start, -1, link, tally)


@jit
def numbered(start: int, low: int, link: Int64s, tally: Int64s) -> Int64s:
    """The stream numbers of a value that are not below ``low``, the newest first."""
    size, number, mask = 0, start, len(link) - 1
    while number >= low and number >= 0:
        size += 1
        number = link[number & mask]
    numbers = np.empty(size, np.int64)
    number = start
    for i in range(size):
        numbers[i] = number
        number = link[number & mask]
    tally[WALK] += size
    return numbers


# ── plain ─────────────────────────────────────────────────────────────────────────────────


@jit
def _last(cell: int, link: Int64s, tally: Int64s) -> int:
    """The last cell of a chain, walking on from one of its cells."""
    while link[cell] >= 0:
        cell = link[cell]
        tally[WALK] += 1
    return cell


@jit
def arrive_plain(cells: Int64s, node: Int32s, first: Int64s, link: Int64s, tally: Int64s) -> None:
    """Put new tuples at the end of their chains, found by walking from the first one."""
    for cell in cells:
        owner = node[cell]
        if first[owner] < 0:
            first[owner] = cell
        else:
            tally[WALK] += 1
            link[_last(first[owner], link, tally)] = cell
        link[cell] = ~owner
        tally[WRITES] += 2


@jit
def expire_plain(
    old: Int64s, node: Int32s, first: Int64s, end: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Take old tuples from the front of their chains."""
    for cell in old:
        owner = node[cell]
        _last(cell, link, tally)
        first[owner] = link[cell] if link[cell] >= 0 else -1
        if end[owner] == cell:
            end[owner] = -1
            tally[WRITES] += 1
        link[cell] = CUT
        tally[WRITES] += 2


@jit
def attach_plain(
    new: Int64s, node: Int32s, first: Int64s, end: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Let answers reach the tuples that came since the last slide."""
    for cell in new:
        owner = node[cell]
        # Once per value: after the first of its tuples, the end is the chain's last cell.
        if end[owner] >= 0 and link[end[owner]] < 0:
            continue
        start = link[end[owner]] if end[owner] >= 0 else first[owner]
        tally[WALK] += 1
        end[owner] = _last(start, link, tally)
        tally[WRITES] += 1


# ── AUX ───────────────────────────────────────────────────────────────────────────────────


@jit
def arrive_aux(
    cells: Int64s, node: Int32s, oldest: Int64s, youngest: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Put new tuples into chains of their own, which answers do not reach yet."""
    for cell in cells:
        owner = node[cell]
        if oldest[owner] < 0:
            oldest[owner] = cell
        else:
            link[youngest[owner]] = cell
            tally[WRITES] += 1
        youngest[owner] = cell


@jit
def expire_aux(
    old: Int64s, node: Int32s, first: Int64s, end: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Take old tuples from the front of their chains, and forget the end of empty ones."""
    for cell in old:
        owner = node[cell]
        _last(cell, link, tally)
        if link[cell] >= 0:
            first[owner] = link[cell]
        else:
            first[owner] = end[owner] = -1
            tally[WRITES] += 1
        link[cell] = CUT
        tally[WRITES] += 2


@jit
def attach_aux(
    new: Int64s,
    node: Int32s,
    first: Int64s,
    end: Int64s,
    oldest: Int64s,
    youngest: Int64s,
    link: Int64s,
    tally: Int64s,
) -> None:
    """Put the chains of new tuples behind those that are visible."""
    for cell in new:
        owner = node[cell]
        if oldest[owner] < 0:
            continue
        if first[owner] < 0:
            first[owner] = oldest[owner]
        else:
            link[end[owner]] = oldest[owner]
        end[owner] = youngest[owner]
        link[youngest[owner]] = ~np.int64(owner)
        oldest[owner] = youngest[owner] = -1
        tally[WRITES] += 3


# ── BW and DB ─────────────────────────────────────────────────────────────────────────────


@jit
def arrive_backward(
    cells: Int64s, node: Int32s, oldest: Int64s, youngest: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Put new tuples into chains of their own that lead from young to old."""
    for cell in cells:
        owner = node[cell]
        if oldest[owner] < 0:
            oldest[owner] = cell
        else:
            link[cell] = youngest[owner]
            tally[WRITES] += 1
        youngest[owner] = cell


@jit
def expire_backward(old: Int64s, node: Int32s, newest: Int64s, link: Int64s, tally: Int64s) -> None:
    """Cut the old end off each chain, found by walking from its newest tuple."""
    for i in range(len(old) - 1, -1, -1):
        cell = old[i]
        if link[cell] == CUT:
            continue
        owner, older = node[cell], cell
        while older >= 0:
            after = link[older]
            link[older] = CUT
            tally[WRITES] += 1
            if after >= 0:
                tally[WALK] += 1
            older = after
        tally[WRITES] += 1
        if newest[owner] == cell:
            newest[owner] = -1
            continue
        younger = newest[owner]
        tally[WALK] += 1
        while link[younger] != cell:
            younger = link[younger]
            tally[WALK] += 1
        link[younger] = ~np.int64(owner)


@jit
def attach_backward(
    new: Int64s,
    node: Int32s,
    newest: Int64s,
    oldest: Int64s,
    youngest: Int64s,
    link: Int64s,
    tally: Int64s,
) -> None:
    """Put the chains of new tuples before those that are visible."""
    for cell in new:
        owner = node[cell]
        if oldest[owner] < 0:
            continue
        link[oldest[owner]] = newest[owner] if newest[owner] >= 0 else ~np.int64(owner)
        newest[owner] = youngest[owner]
        oldest[owner] = youngest[owner] = -1
        tally[WRITES] += 2


@jit
def dirty_expire(
    old: Int64s,
    node: Int32s,
    stale: Int64s,
    dirty: Int64s,
    stamp: Int64s,
    slide: int,
    link: Int64s,
    tally: Int64s,
    freed: Int64s,
) -> int:
    """Mark the end of each chain dirty instead of walking to it. How many cells are free again."""
    count = 0
    for i in range(len(old) - 1, -1, -1):
        cell = old[i]
        owner = node[cell]
        if stamp[owner] == slide:
            freed[count] = cell
            count += 1
            continue
        stamp[owner] = slide
        link[cell] = ~np.int64(owner)
        dirty[owner] = 1
        tally[WRITES] += 2
        if stale[owner] >= 0:
            freed[count] = stale[owner]
            count += 1
        stale[owner] = cell
    return count


# ── numbered ──────────────────────────────────────────────────────────────────────────────


@jit
def arrive_numbered(
    numbers: Int64s, node: Int32s, oldest: Int64s, youngest: Int64s, link: Int64s, tally: Int64s
) -> None:
    """Put new tuples into chains of their own, by their stream numbers."""
    mask = len(link) - 1
    for number in numbers:
        owner = node[number & mask]
        if oldest[owner] < 0:
            oldest[owner] = number
        else:
            link[number & mask] = youngest[owner]
            tally[WRITES] += 1
        youngest[owner] = number


@jit
def attach_numbered(
    new: Int64s,
    node: Int32s,
    newest: Int64s,
    oldest: Int64s,
    youngest: Int64s,
    link: Int64s,
    tally: Int64s,
) -> None:
    """Put the chains of new tuples before those that are visible."""
    mask = len(link) - 1
    for number in new:
        owner = node[number & mask]
        if oldest[owner] < 0:
            continue
        link[oldest[owner] & mask] = newest[owner]
        newest[owner] = youngest[owner]
        oldest[owner] = youngest[owner] = -1
        tally[WRITES] += 2
