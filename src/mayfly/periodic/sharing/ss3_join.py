"""SS3: queries over one join whose windows differ a little read one generalized synopsis.

    Q1: COUNT over a join, 8 and 8 panes, synopsis A (spread 2)     →     Q1, Q2: A
    Q2: COUNT over the join, 6 and 8 panes, synopsis B

Same join, WHERE, GROUP BY and argument; lengths of both windows within what A keeps, and apart from
each other by no more than its spread.
"""

from __future__ import annotations

from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.sharing_rule import Board, Probe, StateRule


def share(query: PeriodicQuery, board: Board) -> Probe | None:
    if len(query.lengths) < 2:
        return None
    apart = max(query.lengths) - min(query.lengths)
    for plan in board.candidates(query, query.call):
        if plan.where == query.where and apart <= plan.spread:
            return Probe(plan.name)
    return None


SS3 = StateRule("SS3", "one synopsis of a join for windows that differ", share)
