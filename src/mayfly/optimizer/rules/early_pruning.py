"""Let MIN and MAX forget rows that can never be their answer again (thesis 2.2.2).

    every row of the window   →   rows that no other one outlives with a value at least as good

The plan does not change, only what the aggregation keeps. Over negative tuples and beside other
aggregates all rows stay, whether the rule is on or off.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

EARLY_PRUNING = Rule("early-pruning", "keep only rows that may still be a MIN or MAX")
