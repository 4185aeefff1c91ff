"""Where a new query gets its answers from: what the first rule finds, else a synopsis of its own.

The order is that of the rules (answers of another query, a synopsis, two of them, a relevant set),
then a synopsis of its input that would have to grow, then one of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mayfly.periodic.cost import kind_for
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.sharing import STATE_RULES
from mayfly.periodic.sharing.sharing_rule import Access, Board, Probe, SynopsisPlan


@dataclass(frozen=True)
class Placement:
    """How a query is answered, by which rule, and the synopsis that is new or grows for it."""

    access: Access
    rule: str
    synopsis: SynopsisPlan | None = None


def place(query: PeriodicQuery, board: Board, rules: Collection[str]) -> Placement:
    """The cheapest way that the rules which are on know."""
    for rule in STATE_RULES:
        if rule.name in rules and (access := rule.share(query, board)) is not None:
            return Placement(access, rule.name)
    return _grown(query, board, rules) or _own(query, board)


def _grown(query: PeriodicQuery, board: Board, rules: Collection[str]) -> Placement | None:
    """A synopsis that SS1 or SS3 would give if it covered longer windows."""
    for plan in board.synopses.values():
        longer = replace(plan, length=max(plan.length, query.length))
        grown = replace(board, synopses={plan.name: longer})
        for rule in STATE_RULES:
            if rule.name in ("SS1", "SS3") and rule.name in rules:
                access = rule.share(query, grown)
                if isinstance(access, Probe):
                    return Placement(access, f"{rule.name}, grown", longer)
    return None


def _own(query: PeriodicQuery, board: Board) -> Placement:
    content = board.content_of(query)
    number = 1
    while (name := f"S{number}") in board.synopses:
        number += 1
    join = " join" if len(query.lengths) > 1 else ""
    plan = SynopsisPlan(
        name=name,
        kind=kind_for(content, [[board.panes_of(query)]]) + join,
        content=content,
        keys=query.keys,
        where=query.where,
        length=query.length,
        spread=max(query.lengths) - min(query.lengths),
    )
    return Placement(Probe(name), "own synopsis", plan)
