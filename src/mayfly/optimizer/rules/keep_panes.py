"""Let aggregates over a window with SLIDE keep partial values of panes (thesis 2.3.4, 8.2).

    every row of the window   →   one row for each group and pane, with its count, sum, extremes

Q1: [ROWS 10 SLIDE 5 ROWS], Q2: [ROWS 1000 SLIDE 10 ROWS]   →   one row for each group and 5 rows

The plan does not change, only what the aggregation keeps; functions that need every value keep
rows, whether the rule is on or off.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

PANES = Rule("panes", "keep partial values of panes where a window has SLIDE")
ROW_PANES = Rule("row-panes", "one state of panes of rows for windows over the n latest, for any n")
