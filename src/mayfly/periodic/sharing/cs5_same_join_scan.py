"""CS5: queries with any windows over one basic interval join synopsis scan it once.

Q1: SUM from A over 8 and 8 panes          →     A, youngest first, once; Q2 leaves the scan
Q2: SUM from A over 6 and 8 panes                at depth 6 and adds 2 values of its own side
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    SCANNED_JOIN,
    Combine,
    ComputationRule,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return reading.synopsis.kind == SCANNED_JOIN and not either(reading, other, Combine)


CS5 = ComputationRule("CS5", "one scan of a join for any windows", together)
