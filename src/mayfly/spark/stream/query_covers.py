"""Queries that read the panes of others in the place of their own, as a checkpoint has them (SS4).

A checkpoint remembers the texts of the queries whose predicates one took; those that are new to it
choose among the panes that are there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mayfly.optimizer.rules.share_panes import SS4
from mayfly.periodic.sharing.pane_covers import (
    NO_COVER,
    OwnPanes,
    PaneCover,
    choose_covers,
    covered,
)
from mayfly.spark.stream.query_checkpoint import COVER, TEXT

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


def as_begun(query: CqlQuery, stored: Mapping[str, Any] | None) -> CqlQuery:
    """The query as a checkpoint was begun with it, with the panes that it read there."""
    cover = PaneCover.from_json((stored or {}).get(COVER))
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
    return {name: reading(query, covers.get(name, NO_COVER)) for name, query in queries.items()}
