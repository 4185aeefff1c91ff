"""SS2: AVG(x) from one synopsis of SUM(x) and one of COUNT(x).

    Q1: SUM(x), synopsis A                     →     Q3: A / B, NULL where B is 0
    Q2: COUNT(x), synopsis B
    Q3: AVG(x), synopsis C

Of COUNT(x), not COUNT(*): rows without x count for nothing in an average. Any kinds of synopses.
"""

from __future__ import annotations

from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.sharing_rule import Board, Divide, StateRule
from mayfly.synopses.contents import Aggregate


def share(query: PeriodicQuery, board: Board) -> Divide | None:
    if query.call.function != "AVG" or len(query.lengths) > 1:
        return None
    candidates = {
        function: [
            plan.name
            for plan in board.candidates(query, Aggregate(function, query.call.argument))
            if plan.where == query.where
        ]
        for function in ("SUM", "COUNT")
    }
    counts = [name for name in candidates["COUNT"] if name not in candidates["SUM"]]
    return Divide(candidates["SUM"][0], counts[0]) if candidates["SUM"] and counts else None


SS2 = StateRule("SS2", "an average from a sum and a count", share)
