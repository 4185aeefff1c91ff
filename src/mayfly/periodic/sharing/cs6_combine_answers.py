"""CS6: a query over the synopses of others combines what those have just probed.

    Q1: SUM where tcp from A over 8 panes      →     A and B over 8 panes, once each
    Q2: SUM where udp from B over 8 panes            Q1: A, Q2: B, Q3: A + B
    Q3: SUM where tcp or udp, A + B over 8 panes

For queries by SS4 over running or interval synopses, of streams or joins, and equal windows.
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    PROBED,
    PROBED_JOINS,
    Combine,
    ComputationRule,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return (
        reading.synopsis.kind in PROBED + PROBED_JOINS
        and reading.panes == other.panes
        and either(reading, other, Combine)
    )


CS6 = ComputationRule("CS6", "answers of others combined", together)
