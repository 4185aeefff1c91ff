"""What a server keeps: rings of panes, as rows or as summaries of them.

``InputRings`` is what a server needs to know of them, whatever a query and a pane are;
``PaneInputs`` are those of queries over rows that are fed pane by pane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.lifetime import instant_text
from mayfly.periodic.execution import answer_rows
from mayfly.periodic.isolation import IsolationPolicy, PaneTransactions, ScanHistory
from mayfly.periodic.isolation.transactions import PaneReading
from mayfly.periodic.predicate import EVERYTHING, Predicate, mask_of, text_of
from mayfly.periodic.query import PeriodicQuery
from mayfly.periodic.server.served_answer import ServeOptions
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


class PaneQuery(Protocol):
    """What is answered, once or periodically: lengths are microseconds."""

    @property
    def name(self) -> str: ...
    @property
    def length(self) -> int: ...
    @property
    def period(self) -> int: ...
    @property
    def origin(self) -> int: ...


class PaneLoad(Protocol):
    """Makes of a raw pane what one query merges."""

    algebra: Any

    def __call__(self, rows: Any, /) -> Any: ...


class RingInput:
    """A ring of panes with transactions."""

    def __init__(self, name: str, algebra: Any, isolation: IsolationPolicy, first: int) -> None:
        self.name, self.algebra, self.first = name, algebra, first
        self.transactions: PaneTransactions[Any] = PaneTransactions(
            algebra, 1, isolation, first=first
        )


class PaneInput(RingInput):
    """Rows, or the summaries of a content, in a ring with transactions."""

    def __init__(
        self,
        name: str,
        algebra: TableAlgebra | RowTables,
        isolation: IsolationPolicy,
        updates: int,
        where: Predicate = EVERYTHING,
    ) -> None:
        super().__init__(name, algebra, isolation, updates + 1)
        self.where = where

    @property
    def content(self) -> Content | None:
        return self.algebra.content if isinstance(self.algebra, TableAlgebra) else None

    @property
    def keys(self) -> Keys:
        return self.algebra.keys if isinstance(self.algebra, TableAlgebra) else ()

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


Ring = TypeVar("Ring", bound=RingInput)


class InputRings(ABC, Generic[Ring]):
    """All inputs of a server. ``watch`` is called with an input and each version written to it;
    ``updates`` is how many panes there were before."""

    isolation: IsolationPolicy
    record: bool = False
    watch: Callable[[Any, int], None]

    def __init__(self) -> None:
        self._inputs: dict[str, Ring] = {}
        self.updates = 0

    # ── what differs ──────────────────────────────────────────────────────────────────────

    @abstractmethod
    def check(self, pane: Any, after: int, length: int) -> None:
        """Refuse what is not the pane of a length after an instant."""

    @abstractmethod
    def value(self, source: Ring, pane: Any) -> Any:
        """What is written to a ring when a pane is complete."""

    @abstractmethod
    def registered(
        self, query: Any, size: int, options: ServeOptions
    ) -> tuple[Ring, PaneLoad | None]:
        """What a periodic query reads, with so many panes at least, and how its rows become
        summaries."""

    @abstractmethod
    def source(self, query: Any, panes: int) -> tuple[Ring, PaneLoad | None]:
        """What a one-time query can be answered from now."""

    @abstractmethod
    def answering(self, query: Any) -> Ring | None:
        """An input that is there and answers a query."""

    @abstractmethod
    def answer(self, query: Any, algebra: Any, value: Any, as_of: int) -> pa.Table:
        """The rows of an answer, from what was merged."""

    @property
    def always(self) -> Mapping[str, int]:
        """How many panes inputs hold even if no query reads them."""
        return {}

    # ── what is the same ──────────────────────────────────────────────────────────────────

    def update(self, pane: Any) -> None:
        """A pane is complete, in every input."""
        self.updates += 1
        for source in self._inputs.values():
            if self.updates >= source.first:
                source.transactions.update(self.value(source, pane))

    def reserve(self, names: Container[str]) -> tuple[Ring, PaneReading[Any]] | None:
        """The next read of some queries, in any input."""
        for source in self._inputs.values():
            reading = source.transactions.reserve(names)
            if reading is not None:
                return source, reading
        return None

    def shrink(self, need: Mapping[str, int]) -> None:
        """Hold no more panes than are needed, and nothing of inputs that are not."""
        need = {**self.always, **{n: max(c, self.always.get(n, 1)) for n, c in need.items()}}
        self._inputs = {name: source for name, source in self._inputs.items() if name in need}
        for name, source in self._inputs.items():
            if need[name] < source.transactions.ring.size:
                source.transactions.resize(need[name])

    def all(self) -> list[Ring]:
        return list(self._inputs.values())

    @property
    def idle(self) -> bool:
        return all(source.transactions.idle for source in self._inputs.values())

    def histories(self) -> Mapping[str, ScanHistory]:
        return {name: source.transactions.history for name, source in self._inputs.items()}

    def _add(self, source: Ring) -> Ring:
        source.transactions.history.recording = self.record
        source.transactions.watch = lambda version: self.watch(source, version)
        self._inputs[source.name] = source
        return source

    def _grown(self, source: Ring, size: int) -> Ring:
        if size > source.transactions.ring.size:
            source.transactions.resize(size)
        return source


class PaneInputs(InputRings[PaneInput]):
    """Of queries over rows with a column of times; rows that are kept are called "rows"."""

    def __init__(self, rows: pa.Schema, time: str, keep: int) -> None:
        super().__init__()
        self.rows, self.time, self.keep = rows, time, keep

    @property
    def always(self) -> Mapping[str, int]:
        return {"rows": self.keep} if self.keep else {}

    def check(self, pane: pa.Table, after: int, length: int) -> None:
        if pane.schema != self.rows:
            raise BadInput(
                f"the rows have the columns {pane.schema.names} of other types or names",
                f"give them those of the server: {self.rows.to_string()}",
            )
        instants = numbers(pane, self.time)
        if len(instants) and not after < instants.min() <= instants.max() <= after + length:
            raise BadInput(
                f"rows between {instant_text(int(instants.min()))} and "
                f"{instant_text(int(instants.max()))} in the pane after {instant_text(after)}",
                "feed panes in order, each with its own rows",
            )

    def value(self, source: PaneInput, pane: pa.Table) -> pa.Table:
        return pane if source.content is None else source.summary(pane)

    def registered(
        self, query: PeriodicQuery, size: int, options: ServeOptions
    ) -> tuple[PaneInput, PaneLoad | None]:
        if len(query.lengths) != 1:
            raise InvalidSetting(
                f"{query.name}: {query} is over a join", "serve queries over one window"
            )
        summary = QuerySummary(query, self.rows)
        if options.subtracts and not summary.algebra.content.subtractable:
            raise InvalidSetting(
                f"{query.name}: {query.call} cannot be subtracted",
                "use a synopsis scan or a window scan, without UNDO",
            )
        if options.way.of_rows:
            return self.of_rows(size), summary
        return self.synopsis(query, size), None

    def answer(
        self, query: PeriodicQuery, algebra: TableAlgebra, value: pa.Table, as_of: int
    ) -> pa.Table:
        return answer_rows(algebra.content, value, query.keys, query.call)

    def synopsis(self, query: PeriodicQuery, size: int) -> PaneInput:
        """Summaries that answer a query, of so many panes at least."""
        source = self.answering(query)
        if source is None:
            algebra = TableAlgebra(content_for(query.call, self.rows), query.keys, self.rows)
            numbers = (f"S{number}" for number in count(1))
            name = next(name for name in numbers if name not in self._inputs)
            source = self._add(PaneInput(name, algebra, self.isolation, self.updates, query.where))
        return self._grown(source, size)

    def of_rows(self, size: int) -> PaneInput:
        """Rows of so many panes at least."""
        source = self._inputs.get("rows")
        if source is None:
            panes = RowTables(self.rows)
            source = self._add(PaneInput("rows", panes, self.isolation, self.updates))
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


class QuerySummary:
    """Makes of raw panes what one query merges: its content over the rows that it selects."""

    def __init__(self, query: PeriodicQuery, rows: pa.Schema) -> None:
        self.query = query
        self.algebra = TableAlgebra(content_for(query.call, rows), query.keys, rows)

    def __call__(self, rows: pa.Table) -> pa.Table:
        return summarized(rows, self.algebra, self.query.where)
