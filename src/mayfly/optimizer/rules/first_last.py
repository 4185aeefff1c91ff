"""Let DISTINCT see the first and last row of each value and pane only (spec/periodic 9).

    δ* ← every row of [RANGE d]   →   δ* ← of equal rows in a pane of length d, the first and last

Rows of one value that are less than d apart keep it in the window from the first to d after the
last. The plan does not change, only what is read of a stream. DISTINCT over joins and ROWS, and
below what asks when rows came, reads every row, whether the rule is on or off.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

FIRST_LAST = Rule("first-last", "DISTINCT reads the first and last row of each value and pane")
