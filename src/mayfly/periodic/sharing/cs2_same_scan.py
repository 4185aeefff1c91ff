"""CS2: queries with any windows over one basic interval synopsis scan it once.

    Q1: MAX from A over 10 panes (reads 10)    →     A, youngest first, 10 panes read
    Q2: MAX from A over 6 panes (reads 6)            Q2 answered at depth 6, Q1 at 10

Right since every window is a beginning of the longest scan.
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    SCANNED,
    Combine,
    ComputationRule,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return reading.synopsis.kind == SCANNED and not either(reading, other, Combine)


CS2 = ComputationRule("CS2", "one scan for windows of any length", together)
