"""Queries that read the panes of others, or share a join, as a checkpoint has them (SS4, SS3).

A checkpoint remembers the texts of the queries whose predicates one took, and of those with which
it shares a join; those that are new to it choose among the panes that are there, and share a join
with each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mayfly.optimizer.rules.share_panes import SS3, SS4
from mayfly.periodic.sharing.pane_covers import (
    NO_COVER,
    OwnPanes,
    PaneCover,
    choose_covers,
    covered,
)
from mayfly.periodic.sharing.shared_joins import choose_joins
from mayfly.spark.stream.query_checkpoint import COVER, JOINED, TEXT

if TYPE_CHECKING:
    from mayfly.spark.api.queries import CqlQuery


def reading(query: CqlQuery, cover: PaneCover) -> CqlQuery:
    """The query with panes of others in the place of its own, where it has some."""
    if not cover.plus or OwnPanes.of(query.text, query.program) is None:
        return query
    program = covered(
        query.text, query.program, cover, lambda text: query.session.query(text).program
    )
    return replace(query, program=program, cover=cover)


def sharing_join(query: CqlQuery, texts: Sequence[str]) -> CqlQuery:
    """The query with the join of some, of which it is one, in the place of its own."""
    return type(query).of(
        query.session, query.text, query.bound, query.program.strategy, query.without,
        query.joining, texts,
    )  # fmt: skip


def as_read(query: CqlQuery, begun: CqlQuery) -> CqlQuery:
    """The query with the panes of others, or the join, that it has as it was begun."""
    if begun.joined_with:
        return sharing_join(query, begun.joined_with)
    return reading(query, begun.cover)


def as_begun(query: CqlQuery, stored: Mapping[str, Any] | None) -> CqlQuery:
    """The query as a checkpoint was begun with it, with the panes that it read there."""
    cover = PaneCover.from_json((stored or {}).get(COVER))
    if stored is not None and stored.get(JOINED):
        return sharing_join(query, stored[JOINED])
    return reading(query, cover) if cover.plus else query.as_begun(stored)


def all_as_begun(
    queries: Mapping[str, CqlQuery], stored_queries: Mapping[str, Any], anew: Collection[str]
) -> dict[str, CqlQuery]:
    """Those of a checkpoint as they are there, but the ones in ``anew`` whose names stood for
    others; the rest as newcomers to it."""
    remembered = {
        name: stored
        for name, stored in stored_queries.items()
        if name in queries and (name not in anew or stored[TEXT] == queries[name].text)
    }
    begun = {name: as_begun(query, remembered.get(name)) for name, query in queries.items()}
    return with_covers(begun, remembered)


def with_covers(
    queries: Mapping[str, CqlQuery], remembered: Collection[str] = ()
) -> dict[str, CqlQuery]:
    """With panes of others in the place of own ones, where these are there already; those that are
    remembered read what they read before, and come first, as they came."""
    order = dict.fromkeys([*remembered, *queries])
    newcomers = [n for n in order if n not in remembered and SS4.name not in queries[n].without]
    programs = {name: (queries[name].text, queries[name].program) for name in order}
    covers = choose_covers(programs, newcomers)
    joins = choose_joins(
        programs, [n for n in order if n not in remembered and SS3.name not in queries[n].without]
    )
    return {
        name: sharing_join(query, joins[name])
        if name in joins
        else reading(query, covers.get(name, NO_COVER))
        for name, query in queries.items()
    }
