"""SS4: a query reads the synopses of queries with other predicates.

    Q1: SUM where tcp, synopsis A              →     Q3: A + B
    Q2: SUM where udp, synopsis B
    Q3: SUM where tcp or udp, synopsis C

    Q3: SUM where tcp or udp, synopsis C       →     Q1: C − B
    Q2: SUM where udp, synopsis B
    Q1: SUM where tcp, synopsis A

Which synopses: see relevant.py. It trades time for space, so only where merging them at every
refresh costs less than an own synopsis would: making its partial values, and its slides.
"""

from __future__ import annotations

from mayfly.periodic.cost import kind_for, probe_merges, slide_merges
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing.relevant import relevant
from mayfly.periodic.sharing.sharing_rule import Board, Combine, StateRule


def share(query: PeriodicQuery, board: Board) -> Combine | None:
    content = board.content_of(query)
    synopses = {
        plan.name: plan.where
        for plan in board.candidates(query, query.call)
        if plan.content == content and max(query.lengths) - min(query.lengths) <= plan.spread
    }
    sets = relevant(query.where, synopses, content)
    return sets if sets is not None and pays(query, sets, board) else None


def pays(query: PeriodicQuery, sets: Combine, board: Board) -> bool:
    """Whether merging costs less than keeping, in merges per pane."""
    panes, every = board.panes_of(query), board.panes_between(query)
    kinds = [board.synopses[name].kind for name in sets.synopses]
    merging = sum(probe_merges(kind, [panes]) + 1 for kind in kinds) - 1
    own = kind_for(board.content_of(query), [[panes]])
    return merging / every < slide_merges(own, panes) + board.rows_per_pane


SS4 = StateRule("SS4", "the synopses of other predicates, added and subtracted", share)
