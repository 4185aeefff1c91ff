"""Let aggregates over a window with SLIDE keep partial values of panes (thesis 2.3.4, 8.2).

    every row of the window   →   one row for each group and pane, with its count, sum, extremes

The plan does not change, only what the aggregation keeps; functions that need every value keep
rows, whether the rule is on or off.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

PANES = Rule("panes", "keep partial values of panes where a window has SLIDE")
