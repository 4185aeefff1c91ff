"""Use δ* for DISTINCT wherever expirations are predictable (thesis 3.5.2).

    strict δ: counts per value over negative tuples   →   δ*: the output and one spare per value

The plan does not change, only the operator that runs: STR on its output becomes WK. On STR input
strict δ remains, whether the rule is on or off.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

WEAK_DISTINCT = Rule("weak-distinct", "use δ* where expirations are predictable")
