"""What reading and keeping a synopsis costs, in merges, and which kind of synopsis is cheapest.

Not the thesis's b / log2 b: that compares with aligned windows only. A basic interval synopsis
merges max j − 1 times for all windows together, an interval one M(j) − 1 in the mean for each
length; the basic one keeps half as much, so it is taken on ties.
"""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from mayfly.synopses.contents import Content
from mayfly.synopses.pieces import mean_reads, power_of_two


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


def kind_for(content: Content, lengths: Collection[int]) -> str:
    """The cheapest kind of synopsis for windows of these numbers of panes."""
    if content.running:
        return "running"
    basic, interval = (probe_merges(kind, lengths) for kind in ("basic interval", "interval"))
    return "basic interval" if basic <= interval else "interval"
