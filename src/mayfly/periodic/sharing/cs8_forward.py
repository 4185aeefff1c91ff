"""CS8: a query that differs from another by a longer period only is given the other's answers.

    Q1: MAX over 10 minutes every minute       →     Q1 as it was
    Q2: MAX over 10 minutes every 5 minutes          Q2: every fifth answer of Q1

Everything else is equal, the window included. As every refresh is answered at its instant, the
period of the one has to divide that of the other, and the refreshes to meet.
"""

from __future__ import annotations

from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.sharing_rule import Board, Forward, StateRule


def share(query: PeriodicQuery, board: Board) -> Forward | None:
    for name, other in board.queries.items():
        if not isinstance(board.accesses[name], Forward) and serves(other, query):
            return Forward(name)
    return None


def serves(leader: PeriodicQuery, follower: PeriodicQuery) -> bool:
    """Whether every refresh of one query is one of another that asks the same."""
    return (
        leader.call == follower.call
        and leader.same_input(follower)
        and leader.lengths == follower.lengths
        and follower.period % leader.period == 0
        and (follower.origin - leader.origin) % leader.period == 0
    )


CS8 = StateRule("CS8", "the answers of a query with a shorter period", share)
