"""CS1: queries with equal windows over one running or interval synopsis probe it once.

    Q1: MAX from A over 8 panes                →     A over 8 panes, once
    Q2: COUNT DISTINCT from A over 8 panes           Q1, Q2: each its function of that

Right since the merged content is identical. Other lengths share nothing there.
"""

from __future__ import annotations

from mayfly.periodic.sharing.sharing_rule import PROBED, ComputationRule, Probe, SynopsisReading


def together(reading: SynopsisReading, other: SynopsisReading) -> bool:
    return (
        reading.synopsis.kind in PROBED
        and reading.panes == other.panes
        and isinstance(reading.access, Probe)
        and isinstance(other.access, Probe)
    )


CS1 = ComputationRule("CS1", "one probe for equal windows", together)
