"""CS4: queries with equal windows over one running or interval join synopsis probe it once.

Q1: SUM from A over 6 and 8 panes          →     A over 6 and 8 panes, once
Q2: AVG from A over 6 and 8 panes                Q1, Q2: each its function of that
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    PROBED_JOINS,
    Combine,
    ComputationRule,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return (
        reading.synopsis.kind in PROBED_JOINS
        and reading.panes == other.panes
        and not either(reading, other, Combine)
    )


CS4 = ComputationRule("CS4", "one probe of a join for equal windows", together)
