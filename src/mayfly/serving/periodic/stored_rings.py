"""Rings of the panes that a pipeline keeps, and of the rows of its streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.lifetime import format_micros
from mayfly.periodic.server import ServeOptions
from mayfly.periodic.server.pane_input import InputRings, PaneLoad, RingInput
from mayfly.serving.periodic.pane_parts import PaneParts, PartsAlgebra, RowSummary
from mayfly.serving.periodic.stored_query import StoredQuery

ROWS = "rows"
"""The ring of rows."""
NOTHING = PaneParts()
MOST_LOOKED_AT = 64


def ring_name(query: StoredQuery) -> str:
    store, known_from = query.group
    return f"{store}@{known_from}"


class StoredRings(InputRings[RingInput]):
    """Rings are made before their queries are served: these wait for their first whole pane."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[str, int] = {}
        """Rings of queries that are not served yet, and how many panes they hold."""

    @property
    def always(self) -> Mapping[str, int]:
        return self.waiting

    @property
    def nbytes(self) -> int:
        """About: of long rings some panes are looked at."""
        total = 0.0
        for source in self._inputs.values():
            ring = source.transactions.ring
            window = ring.window(ring.size)
            some = window[:: max(1, len(window) // MOST_LOOKED_AT)]
            if some:
                total += sum(ring.read(v).nbytes for v in some) * len(window) / len(some)
        return round(total)

    def prepare(self, query: StoredQuery, size: int, first: int) -> None:
        """A ring for a query, from a pane on."""
        name = ROWS if query.serve.scan.of_rows else ring_name(query)
        source = self._inputs.get(name)
        if source is None:
            algebra = PartsAlgebra(query.store)
            source = self._add(RingInput(name, algebra, self.isolation, first))
        elif name != ROWS:
            source.algebra.store = source.algebra.store.united(query.store)
        self._grown(source, size)
        self.waiting[name] = max(size, self.waiting.get(name, 0))

    def prepare_rows(self, query: StoredQuery, size: int, first: int) -> None:
        """A ring of rows for one-time queries, though no query that is served reads it."""
        algebra = PartsAlgebra(query.store)
        self._grown(self._add(RingInput(ROWS, algebra, self.isolation, first)), size)
        self.waiting[ROWS] = size

    def check(self, pane: Mapping[str, Any], after: int, length: int) -> None:
        """Panes are cut where they are read."""

    def value(self, source: RingInput, pane: Mapping[str, Any]) -> Any:
        return pane.get(source.name, NOTHING)

    def registered(
        self, query: StoredQuery, size: int, options: ServeOptions
    ) -> tuple[RingInput, PaneLoad | None]:
        of_rows = options.way.of_rows
        source = self._inputs[ROWS if of_rows else ring_name(query)]
        alone = of_rows or options.subtracts
        return self._grown(source, size), _OwnParts(query) if alone else None

    def source(self, query: StoredQuery, panes: int) -> tuple[RingInput, PaneLoad | None]:
        source = self.answering(query)
        if source is not None and source.transactions.ring.size >= panes:
            return source, None
        rows = self._inputs.get(ROWS)
        if rows is not None and rows.transactions.ring.size >= panes:
            return rows, _OwnParts(query)
        raise InvalidSetting(
            f"no panes are kept that answer {query.name} over {format_micros(query.length)}",
            "ask for a window, conditions and groups of a served query, or declare KEEP on "
            f"{query.stream}",
        )

    def answering(self, query: StoredQuery) -> RingInput | None:
        store, names = query.states[0], set(query.store.columns.names)
        rings = [
            source
            for name, source in self._inputs.items()
            if name.rpartition("@")[0] == store and names <= set(source.algebra.store.columns.names)
        ]
        return max(rings, key=lambda source: source.transactions.ring.size, default=None)

    def answer(
        self, query: StoredQuery, algebra: PartsAlgebra, value: PaneParts, as_of: int
    ) -> pa.Table:
        return query.answer(algebra.merged(value), as_of)


class _OwnParts:
    """What one query merges, with its own numbers only: rows become summaries, panes are some."""

    def __init__(self, query: StoredQuery) -> None:
        self.algebra: Any = PartsAlgebra(query.store)
        self._summary = RowSummary(self.algebra)

    def __call__(self, pane: Any) -> PaneParts:
        return pane if isinstance(pane, PaneParts) else self._summary(pane)
