"""What a server keeps of one input: a ring of panes, as rows or as summaries of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.lifetime_rows import chosen
from mayfly.periodic.isolation import IsolationPolicy, PaneTransactions, ScanHistory
from mayfly.periodic.isolation.transactions import PaneReading
from mayfly.periodic.predicate import EVERYTHING, Predicate, mask_of, text_of
from mayfly.periodic.query import PeriodicQuery
from mayfly.synopses.contents import Content, Keys, TableAlgebra, content_for


class RowTables:
    """Rows of neighbouring panes are all of them."""

    def __init__(self, rows: pa.Schema) -> None:
        self.zero = rows.empty_table()

    def merge(self, parts: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(parts) if parts else self.zero

    def subtract(self, whole: pa.Table, part: pa.Table) -> pa.Table:
        raise InvalidSetting("rows cannot be subtracted", "subtract their summaries")


def summarized(rows: pa.Table, algebra: TableAlgebra, where: Predicate) -> pa.Table:
    """What is merged of a pane: the content over the rows that are selected."""
    return algebra.content.summarize(chosen(rows, mask_of(where, rows)), algebra.keys)


class PaneInput:
    """Rows, or the summaries of a content, in a ring with transactions."""

    def __init__(
        self,
        name: str,
        algebra: TableAlgebra | RowTables,
        isolation: IsolationPolicy,
        updates: int,
        where: Predicate = EVERYTHING,
    ) -> None:
        self.name, self.algebra, self.where = name, algebra, where
        self.transactions: PaneTransactions[Any] = PaneTransactions(
            algebra, 1, isolation, first=updates + 1
        )

    @property
    def content(self) -> Content | None:
        return self.algebra.content if isinstance(self.algebra, TableAlgebra) else None

    @property
    def keys(self) -> Keys:
        return self.algebra.keys if isinstance(self.algebra, TableAlgebra) else ()

    def update(self, rows: pa.Table) -> None:
        """A pane is complete."""
        self.transactions.update(rows if self.content is None else self.summary(rows))

    def summary(self, rows: pa.Table) -> pa.Table:
        if not isinstance(self.algebra, TableAlgebra):
            raise InvalidSetting(f"{self.name} keeps rows", "summarize them for a query")
        return summarized(rows, self.algebra, self.where)

    def answers(self, query: PeriodicQuery) -> bool:
        """Whether a query can be answered from what is kept, windows apart."""
        return (
            self.content is not None
            and self.where == query.where
            and self.keys == query.keys
            and self.content.can_answer(query.call)
        )

    def __str__(self) -> str:
        panes = f"{self.transactions.ring.size} panes"
        if self.content is None:
            return f"{self.name}: rows of {panes}"
        by = f" by {', '.join(self.keys)}" if self.keys else ""
        what = f"{type(self.content).__name__}({self.content.argument or '*'})"
        return f"{self.name}: {what}{by} where {text_of(self.where)}, {panes}"


class PaneInputs:
    """All inputs of a server; rows are called "rows". ``watch`` is called with an input and each
    version written to it."""

    def __init__(
        self,
        rows: pa.Schema,
        isolation: IsolationPolicy,
        record: bool,
        watch: Callable[[PaneInput, int], None],
    ) -> None:
        self.rows, self.isolation, self.record, self.watch = rows, isolation, record, watch
        self._inputs: dict[str, PaneInput] = {}
        self._updates = 0

    def update(self, rows: pa.Table) -> None:
        """A pane is complete, in every input."""
        self._updates += 1
        for source in self._inputs.values():
            source.update(rows)

    def synopsis(self, query: PeriodicQuery, size: int) -> PaneInput:
        """Summaries that answer a query, of so many panes at least."""
        source = self.answering(query)
        if source is None:
            algebra = TableAlgebra(content_for(query.call, self.rows), query.keys, self.rows)
            numbers = (f"S{number}" for number in count(1))
            name = next(name for name in numbers if name not in self._inputs)
            source = self._add(PaneInput(name, algebra, self.isolation, self._updates, query.where))
        return self._grown(source, size)

    def of_rows(self, size: int) -> PaneInput:
        """Rows of so many panes at least."""
        source = self._inputs.get("rows")
        if source is None:
            panes = RowTables(self.rows)
            source = self._add(PaneInput("rows", panes, self.isolation, self._updates))
        return self._grown(source, size)

    def answering(self, query: PeriodicQuery) -> PaneInput | None:
        return next((source for source in self._inputs.values() if source.answers(query)), None)

    def source(self, query: PeriodicQuery, panes: int) -> tuple[PaneInput, QuerySummary | None]:
        """What a one-time query can be answered from now, and how rows are summarized for it."""
        ready = [i for i in self._inputs.values() if i.transactions.ring.size >= panes]
        for source in ready:
            if source.answers(query):
                return source, None
        for source in ready:
            if source.content is None:
                return source, QuerySummary(query, self.rows)
        present = "; ".join(map(str, self._inputs.values())) or "nothing"
        raise InvalidSetting(
            f"{query.name}: no panes are kept that answer {query}",
            f"keep rows of {panes} panes, or ask for what is there: {present}",
        )

    def reserve(self, names: Container[str]) -> tuple[PaneInput, PaneReading[Any]] | None:
        """The next read of some queries, in any input."""
        for source in self._inputs.values():
            reading = source.transactions.reserve(names)
            if reading is not None:
                return source, reading
        return None

    def shrink(self, need: Mapping[str, int]) -> None:
        """Hold no more panes than are needed, and nothing of inputs that are not."""
        self._inputs = {name: source for name, source in self._inputs.items() if name in need}
        for name, source in self._inputs.items():
            if need[name] < source.transactions.ring.size:
                source.transactions.resize(need[name])

    def all(self) -> list[PaneInput]:
        return list(self._inputs.values())

    @property
    def idle(self) -> bool:
        return all(source.transactions.idle for source in self._inputs.values())

    def histories(self) -> Mapping[str, ScanHistory]:
        return {name: source.transactions.history for name, source in self._inputs.items()}

    def _add(self, source: PaneInput) -> PaneInput:
        source.transactions.history.recording = self.record
        source.transactions.watch = lambda version: self.watch(source, version)
        self._inputs[source.name] = source
        return source

    def _grown(self, source: PaneInput, size: int) -> PaneInput:
        if size > source.transactions.ring.size:
            source.transactions.resize(size)
        return source


class QuerySummary:
    """Makes of raw panes what one query merges: its content over the rows that it selects."""

    def __init__(self, query: PeriodicQuery, rows: pa.Schema) -> None:
        self.query = query
        self.algebra = TableAlgebra(content_for(query.call, rows), query.keys, rows)

    def __call__(self, rows: pa.Table) -> pa.Table:
        return summarized(rows, self.algebra, self.query.where)
