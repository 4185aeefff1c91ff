"""What reading and keeping a synopsis costs, in merges, and which kind of synopsis is cheapest.

Not the thesis's b / log2 b: that compares with aligned windows only. A basic interval synopsis
merges max j − 1 times for all windows together, an interval one M(j) − 1 in the mean for each
length; the basic one keeps half as much, so it is taken on ties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction

from mayfly.synopses.contents import Content
from mayfly.synopses.pieces import mean_reads, power_of_two

LOOKED_AT, MOST_REFRESHES = 4, 100
"""How many of the longest period, and of each query, tell which queries are due together."""


def probe_merges(kind: str, lengths: Collection[int]) -> Fraction:
    """The merges of one joint execution for windows of these numbers of panes."""
    if kind.startswith("running"):
        return Fraction(len(set(lengths)))
    if kind.startswith("basic"):
        return Fraction(max(lengths) - 1)
    return sum((mean_reads(panes) - 1 for panes in set(lengths)), Fraction(0))


def slide_merges(kind: str, panes: int) -> Fraction:
    """The merges of a slide, in the mean."""
    if kind.startswith("running"):
        return Fraction(1)
    if kind.startswith("basic"):
        return Fraction(0)
    return 1 - Fraction(1, power_of_two(panes))


def kind_for(content: Content, groups: Iterable[Collection[int]]) -> str:
    """The cheapest kind of synopsis for groups of windows, in panes, that are read together."""
    if content.running:
        return "running"
    groups = list(groups)
    basic, interval = (
        sum((probe_merges(kind, lengths) for lengths in groups), Fraction(0))
        for kind in ("basic interval", "interval")
    )
    return "basic interval" if basic <= interval else "interval"


def joint_groups(windows: Iterable[tuple[int, int, int]]) -> list[list[int]]:
    """The windows that are due together, as far as refreshes are looked at: of (panes, period,
    origin), for a few times the longest period."""
    windows = list(windows)
    span = LOOKED_AT * max(period for _, period, _ in windows)
    due: dict[int, list[int]] = {}
    for panes, period, origin in windows:
        for refresh in range(origin % period, span, period)[:MOST_REFRESHES]:
            due.setdefault(refresh, []).append(panes)
    return list(due.values())
