"""SS1: queries of one input with windows of any length read one synopsis.

    Q1: SUM(x) over 10 minutes, synopsis A     →     Q1: A
    Q2: AVG(x) over 5 minutes, synopsis B            Q2: A, with its own number of panes

Same streams, WHERE, GROUP BY and argument; the function is computable from A's content, and the
window is not longer than what A keeps. Right since panes are disjoint and contents merge.
"""

from __future__ import annotations

from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.sharing_rule import Board, Probe, StateRule


def share(query: PeriodicQuery, board: Board) -> Probe | None:
    if len(query.lengths) > 1:
        return None
    for plan in board.candidates(query, query.call):
        if plan.where == query.where:
            return Probe(plan.name)
    return None


SS1 = StateRule("SS1", "one synopsis for windows of any length", share)
