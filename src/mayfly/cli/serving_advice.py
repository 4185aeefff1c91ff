"""What served queries of a file ask of a server: panes read per update, alone and together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from mayfly.cli.file_queries import Query
from mayfly.lifetime import format_micros
from mayfly.periodic.scheduling import ScheduledQuery, policy_named
from mayfly.plan.catalog import Catalog
from mayfly.serving.periodic.stored_query import StoredQuery, bound_query


def advice(queries: Iterable[Query], catalog: Catalog) -> Iterator[str]:
    """A line for each served query, and one for those whose panes are updated together."""
    boards: dict[tuple[str, int, int], list[tuple[StoredQuery, ScheduledQuery]]] = defaultdict(list)
    for query in queries:
        if query.plan.serve is None:
            continue
        stored = bound_query(query.name, query.plan, catalog)
        pane = stored.pane
        panes, period = stored.length // pane, stored.period // pane
        alone = stored.serve.scan.of_rows or stored.serve.scan.incremental
        group = stored.name if alone else f"{stored.states[0]} {stored.serve.isolation.value}"
        cost = min(panes, 2 * period) if stored.serve.scan.incremental else panes
        scheduled = ScheduledQuery(query.name, group, period, cost)
        boards[stored.stream, pane, stored.origin % pane].append((stored, scheduled))
    policy = policy_named("late-pending")
    for (stream, pane, _), members in boards.items():
        listed: list[ScheduledQuery] = []
        for stored, scheduled in members:
            before = float(policy.cost(listed)) if listed else 0.0
            listed.append(scheduled)
            added = float(policy.cost(listed)) - before
            yield (
                f"{stored.name} is served: {stored.length // pane} panes of {format_micros(pane)}, "
                f"every {format_micros(stored.period)}; adds {added:.2f} reads per pane"
            )
        yield (
            f"served over panes of {format_micros(pane)} of {stream}: "
            f"{float(policy.cost(listed)):.2f} reads in each {format_micros(pane)}, by late-pending"
        )
