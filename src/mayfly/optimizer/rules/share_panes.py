"""Let queries answer from panes that others keep (thesis 8.3, spec/periodic 4).

    SS1   Q1: SUM over 10 min, panes A; Q2: MAX over 1 hour, panes B   →   Q1, Q2: panes A
    CS1   Q1: SUM, Q2: MAX over the same 10 min, each finds its panes  →   they are found once
    CS2   Q1: SUM over 10 min, Q2: SUM over 1 hour, each reads panes   →   one pass answers both

All need the same stream, WHERE and GROUP BY, and change no plan of a query alone.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule

SS1 = Rule("SS1", "one state of panes for windows of any length, and for all their functions")
CS1 = Rule("CS1", "panes that come and go in equal windows are looked for once")
CS2 = Rule("CS2", "windows of any length over the same panes are answered in one pass")
SS4 = Rule("SS4", "the panes of other predicates, added and subtracted, in the place of own ones")
SKETCHES = Rule("sketches", "sketches of panes answer APPROX_ forms, not counters of all values")
SHARING = frozenset({SS1.name, CS1.name, CS2.name, SS4.name, SKETCHES.name})
