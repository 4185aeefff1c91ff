"""CS7: a query over the synopses of others saves what their scans have found on the way.

    Q4: MAX where tcp from A over 10 panes     →     A and B scanned once, to depth 10
    Q5: MAX where user = 'U' from B over 10          both maxima saved at depth 8
    Q6: MAX where either, A and B over 8             Q6: the larger of the saved ones

For queries by SS4 over basic interval synopses, of streams or joins, and any windows.
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import (
    SCANNED,
    SCANNED_JOIN,
    Combine,
    ComputationRule,
    SynopsisReading,
    either,
)


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return reading.synopsis.kind in (SCANNED, SCANNED_JOIN) and either(reading, other, Combine)


CS7 = ComputationRule("CS7", "scans of others saved on the way", together)
