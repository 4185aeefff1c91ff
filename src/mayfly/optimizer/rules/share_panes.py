"""Let queries answer from panes that others keep (thesis 8.3, spec/periodic 4).

    SS1   Q1: SUM over 10 min, panes A; Q2: MAX over 1 hour, panes B   →   Q1, Q2: panes A
    CS1   Q1: SUM, Q2: MAX over the same 10 min, each finds its panes  →   they are found once
    CS2   Q1: SUM over 10 min, Q2: SUM over 1 hour, each reads panes   →   one pass answers both
    CS7   Q1: MAX of tcp, Q2: MAX of udp, Q3: MAX of both reads panes  →   Q3: what these have read
    CS8   Q1: MAX of 1 hour every minute, Q2: the same every 5 minutes →   Q2 is given what Q1 read

    SS3   Q1: SUM over a [1 h] ⋈ b [1 h], Q2: MAX over a [1 min] ⋈ b [1 min], b.v > 5
          →   one join of 1 h, Q2 puts b.v > 5 on its results
    CS4   Q1, Q2 over equal windows, each looks what comes and goes    →   it is looked for once
    CS5   Q1, Q2 over windows of other lengths, each lays values out   →   one scan serves both

SS1, CS1 and CS2 need the same stream, WHERE and GROUP BY; SS3 the same streams and equalities of a
join; CS4 and CS5 in addition the same conditions and GROUP BY. None changes a query alone.
"""

from __future__ import annotations

from mayfly.optimizer.rule import Rule
from mayfly.optimizer.rules.first_last import FIRST_LAST
from mayfly.optimizer.rules.keep_panes import PANES, ROW_PANES

SS1 = Rule("SS1", "one state of panes for windows of any length, and for all their functions")
CS1 = Rule("CS1", "panes that come and go in equal windows are looked for once")
CS2 = Rule("CS2", "windows of any length over the same panes are answered in one pass")
CS7 = Rule("CS7", "extremes over panes of others are put together of what these have scanned")
CS8 = Rule("CS8", "what a window shows is not read again for one of its length and a longer period")
SS4 = Rule("SS4", "the panes of other predicates, added and subtracted, in the place of own ones")
JOIN_PANES = Rule(
    "join-panes", "keep values of join results by expiration where windows have SLIDE"
)
SS3 = Rule("SS3", "one join for windows of other lengths and for other conditions on its results")
CS4 = Rule("CS4", "join results that come and go in equal windows are looked for once")
CS5 = Rule("CS5", "values of join results are laid out once for windows of any length")
SKETCHES = Rule("sketches", "sketches of panes answer APPROX_ forms, not counters of all values")
JOINED = frozenset({JOIN_PANES.name, SS3.name, CS4.name, CS5.name})
"""Those of aggregates over joins."""
_OF_PANES = frozenset({SS1.name, CS1.name, CS2.name, CS7.name, CS8.name, SS4.name})
SHARING = _OF_PANES | JOINED | {SKETCHES.name, FIRST_LAST.name, ROW_PANES.name}
_LATER = (
    (),
    (JOIN_PANES.name,),
    (FIRST_LAST.name,),
    (JOIN_PANES.name, FIRST_LAST.name),
    (PANES.name, JOIN_PANES.name, FIRST_LAST.name),
    (SS1.name, JOIN_PANES.name, FIRST_LAST.name),
)
LATER_RULES = (*_LATER, *((*names, ROW_PANES.name) for names in _LATER))
"""Rules that checkpoints of earlier versions were begun without."""
