"""CS3: AVG divides what SUM and COUNT of the same window have just found.

    Q1: SUM from A over 8 panes                →     A and B over 8 panes, once each
    Q2: COUNT from B over 8 panes                    Q1: A, Q2: B, Q3: A / B
    Q3: AVG from A and B over 8 panes

For averages by SS2, and windows of equal length.
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    Combine,
    ComputationRule,
    Divide,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return (
        reading.panes == other.panes
        and either(reading, other, Divide)
        and not either(reading, other, Combine)
    )


CS3 = ComputationRule("CS3", "an average after its sum and count", together)
