"""Groupings of one-time queries that the panes of periodic queries answer (spec/periodic 9).

Before: GroupAggregate src: SUM(bytes) over link1 [RANGE 10 min], whose rows are not kept.
After: a table of the groups, made of the panes that ``CREATE QUERY busy AS SELECT src, SUM(bytes)
FROM link1 [RANGE 30 min SLIDE 1 min] GROUP BY src`` keeps.
Panes fit if they are of the same stream, differ by all keys and DISTINCT values that are
asked for, and have the numbers; conditions beyond theirs may be over these keys. Invariant: the
operator that answers periodic queries answers here, too, from the same panes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import Delta, column_name
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, numbers
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.pane_store import PaneStore
from mayfly.kernels.stateless import satisfying
from mayfly.lifetime import MIN_TIME, format_micros, instant_text
from mayfly.optimizer.optimize import optimize
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.compiler import compile_plan
from mayfly.physical.pane_limits import obstacle
from mayfly.physical.pane_plan import PanePlan
from mayfly.physical.shared_program import canonical
from mayfly.plan.catalog import Catalog, ColumnDefinition
from mayfly.plan.expressions import Column, Expression, conjunction
from mayfly.plan.logical_operators import (
    GroupAggregate,
    Node,
    Output,
    Project,
    RelationScan,
    Select,
    StreamScan,
)
from mayfly.plan.types import arrow_type
from mayfly.plan.window_kinds import Range, Slide
from mayfly.runtime.table_sources import Keys
from mayfly.serving.stored_panes import StoredPanes, window_words
from mayfly.serving.tables import rows_left_out
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class PaneTable:
    """The groups of a one-time query at an instant, from panes."""

    name: str
    node: GroupAggregate
    """As the query has it."""
    asked: PanePlan
    panes: StoredPanes
    catalog: Catalog

    kind = "synopsis"

    @property
    def sharing(self) -> frozenset[str]:
        """The rules by which the operators are made."""
        return frozenset(SHARING)

    @property
    def columns(self) -> tuple[ColumnDefinition, ...]:
        return tuple(
            ColumnDefinition(column.name, column.type, column.nullable)
            for column in self.node.schema
        )

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.asked.store.stream,)

    @property
    def duration(self) -> int:
        return self.asked.window.duration

    def latest(self) -> int | None:
        return self.edge(self.panes.clock - 1)

    def edge(self, instant: int) -> int | None:
        """The last one up to an instant at which its window is whole panes."""
        return self.panes.edge(self.duration, instant)

    def access(self, keys: Keys) -> str:
        queries = ", ".join(self.panes.names)
        return f"panes that {queries} keeps ({window_words(self.panes)})"

    def missing(self, instant: int) -> Iterator[str]:
        low, stream = instant - self.duration, self.asked.store.stream
        first = self.panes.first
        needed = low if first is None else max(low, first - 1)
        since = self.panes.known_since(self._numbers)
        if since > needed + 1:
            yield f"the panes of {stream} have all rows since {instant_text(since)} only"
        yield from rows_left_out(self.panes.view.manifest, self.streams)

    @cached_property
    def _numbers(self) -> tuple[str, ...]:
        return tuple(f".{number.column.name}" for number in self.asked.store.contents)

    def rows(self, instant: int, columns: Sequence[str], keys: Keys) -> pa.Table:
        if self.edge(instant) != instant:
            raise self._not_cut(instant)
        return self.at_edge(instant, columns)

    def at_edge(self, instant: int, columns: Sequence[str]) -> pa.Table:
        """The groups of a window that ends at an edge of panes."""
        panes = self._selected(self.panes.between(instant - self.duration, instant))
        store, groups = self._operators(instant)
        interval = Interval(MIN_TIME, instant + 1, self.panes.first)
        came = Delta(self._under_names_of(store, panes), store.no_input())
        _, shown = store.step(store.state(), [came], interval)
        _, delta = groups.step(groups.state(), [shown], interval)
        born = delta.born
        alive = (numbers(born, TS) <= instant) & (numbers(born, EXP) > instant)
        results = chosen(born, alive)
        shown_columns = {
            column.name: results.column(number).cast(arrow_type(column.type))
            for number, column in enumerate(self.node.schema)
        }
        return pa.table(shown_columns).select(list(columns))

    def _under_names_of(self, store: PaneStore, panes: pa.Table) -> pa.Table:
        """What is a key of one may be a value that tells rows apart of the other."""
        stored = {part: name for name, part in self._told_apart}
        parts = [stored[part] for part in (*store.keys, *store.values)]
        names = [*parts, *(field.name for field in list(store.columns)[len(parts) :]), TS]
        arrays = [panes.column(name) for name in names]
        return pa.table(arrays, names=[*store.columns.names, TS])

    @cached_property
    def _told_apart(self) -> tuple[tuple[str, Expression], ...]:
        store = self.panes.store
        return tuple(zip(store.key_columns.names, (*store.keys, *store.values), strict=True))

    def _not_cut(self, instant: int) -> InvalidSetting:
        edge, panes = self.edge(instant), self.panes
        stream, length = self.asked.store.stream, format_micros(self.duration)
        nearest = "leave as_of out" if edge is None else f"ask as of {instant_text(edge)}"
        return InvalidSetting(
            f"the panes of {stream} are not cut at {instant_text(instant)} or {length} before it",
            f"{nearest}; keep the rows of the stream (KEEP) to ask at any instant "
            f"(panes: {window_words(panes)})",
        )

    def _selected(self, panes: pa.Table) -> pa.Table:
        """By the conditions that the panes do not have."""
        further = self._further
        if not further or not panes.num_rows:
            return panes
        own = {
            column_name(part): panes.column(name)
            for name, part in self._told_apart
            if isinstance(part, Column)
        }
        condition = conjunction(further)
        assert condition is not None
        return panes.filter(pa.array(satisfying(condition, pa.table(own))))

    @cached_property
    def _further(self) -> tuple[Expression, ...]:
        return further_conditions(self.asked.store, self.panes.store)

    def _operators(self, instant: int) -> tuple[PaneStore, PaneGroups]:
        """As they would be compiled for a query that refreshes at this instant."""
        slide = Slide(period=self.duration, origin=instant)

        def refreshed(node: Node) -> Node:
            if isinstance(node, StreamScan):
                return replace(node, window=Range(duration=self.duration, slide=slide))
            return node

        plan = optimize(Output(self.asked.node)).plan.transform(refreshed)
        assert isinstance(plan, Output)
        program = compile_plan(canonical(plan), self.catalog, sharing=self.sharing)
        (store,) = (task.operator for task in program.tasks() if task.operator.is_standing)
        return cast(PaneStore, store), cast(PaneGroups, program.answer.operator)


def further_conditions(asked: PaneStore, kept: PaneStore) -> tuple[Expression, ...]:
    """What is asked beyond the conditions that panes have."""
    return tuple(term for term in asked.conditions if term not in kept.conditions)


@dataclass(frozen=True, order=True)
class Misfit:
    """Why panes do not answer a grouping; those of a larger rank were nearer to it."""

    rank: int
    words: str


def misfit(asked: PaneStore, kept: PaneStore) -> Misfit | None:
    """None if they do, at some edges."""
    told_apart = (*kept.keys, *kept.values)
    if any(part not in told_apart for part in (*asked.keys, *asked.values)):
        return Misfit(0, "they are grouped otherwise")
    if any(term not in asked.conditions for term in kept.conditions):
        return Misfit(1, "they leave out rows that are asked for")
    for term in further_conditions(asked, kept):
        if any(column not in told_apart for column in term.columns()):
            return Misfit(1, f"they do not tell apart what {term.sql()} asks")
    numbers_kept = {number.column.name for number in kept.contents}
    lacking = [number for number in asked.contents if number.column.name not in numbers_kept]
    return Misfit(2, f"they have no {lacking[0].words}") if lacking else None


@dataclass
class PaneTables:
    """Puts panes in the place of groupings, as far as a checkpoint has them."""

    panes_of: Callable[[str], list[StoredPanes]]
    """Of a stream."""
    catalog: Catalog
    row_panes_of: Callable[[str], Sequence[StoredPanes]] = lambda stream: ()
    """The panes of rows of a stream whose rows are not kept."""
    tables: dict[str, PaneTable] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    """By stream: why panes do not answer."""

    def substituted(self, plan: Output) -> Output:
        """The plan with a table for each grouping that panes answer."""
        changed = plan.transform(self._table_for)
        assert isinstance(changed, Output)
        return changed

    def _table_for(self, node: Node) -> Node:
        if not isinstance(node, GroupAggregate):
            return node
        window = plain_window(node)
        if window is None:
            return self._of_rows(node)
        asked_window = replace(window[1], slide=Slide(period=window[1].duration))
        if why := obstacle(node, asked_window):
            self.refusals[window[0]] = why
            return node
        asked = _plan_of(node, asked_window)
        panes = None if asked is None else self._fitting(asked)
        if asked is None or panes is None:
            return node
        name = f"{window[0]} panes {len(self.tables) + 1}"
        return self._scan(PaneTable(name, node, asked, panes, self.catalog))

    def _scan(self, table: PaneTable) -> Node:
        self.tables[table.name] = table
        node = table.node
        return RelationScan(
            table.name, node.alias, node.schema, retroactive=True, position=node.position
        )

    def _of_rows(self, node: GroupAggregate) -> Node:
        """A table of the latest rows."""
        # Here: few one-time queries ask for these.
        from mayfly.serving.row_pane_tables import (
            RowPaneTable,
            StoredRowPanes,
            in_numbers,
            rows_asked,
        )

        window = rows_asked(node)
        if window is None:
            return node
        stream, rows = window
        listed = [p for p in self.row_panes_of(stream) if isinstance(p, StoredRowPanes)]
        if not listed:
            return node
        over = in_numbers(rows)
        if why := obstacle(node, over):
            self.refusals[stream] = why
            return node
        asked = _plan_of(node, over, sketches=False)
        if asked is None:
            return node
        fitting, reasons = list[tuple[int, StoredRowPanes]](), list[tuple[Misfit, StoredRowPanes]]()
        for panes in listed:
            why_not = misfit(asked.store, panes.store)
            end = None if why_not else panes.end(rows)
            if end is None:
                nearest = why_not or Misfit(3, f"no {rows.cql()} is whole panes")
                reasons.append((nearest, panes))
            else:
                fitting.append((end, panes))
        if not fitting:
            nearest, panes = max(reasons, key=lambda pair: pair[0].rank)
            names = ", ".join(panes.names)
            self.refusals[stream] = (
                f"there are panes of rows of {names} ({panes.words}), but {nearest.words}"
            )
            return node
        end, panes = max(fitting, key=lambda pair: pair[0])
        name = f"{stream} panes {len(self.tables) + 1}"
        return self._scan(
            RowPaneTable(name, node, asked, panes, self.catalog, rows_window=rows, end=end)
        )

    def _fitting(self, asked: PanePlan) -> StoredPanes | None:
        """Those with the latest edge."""
        stream, duration = asked.store.stream, asked.window.duration
        fitting: list[tuple[int, StoredPanes]] = []
        nearest: tuple[Misfit, StoredPanes] | None = None
        for panes in self.panes_of(stream):
            why = misfit(asked.store, panes.store)
            edge = None if why else panes.edge(duration, panes.clock - 1)
            if edge is not None:
                fitting.append((edge, panes))
                continue
            why = why or Misfit(3, f"no window of {format_micros(duration)} ends at their edges")
            if nearest is None or nearest[0].rank < why.rank:
                nearest = why, panes
        if nearest is not None:
            why, panes = nearest
            self.refusals[stream] = (
                f"there are panes of {', '.join(panes.names)} ({window_words(panes)}), but "
                f"{why.words}"
            )
        return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def _plan_of(node: GroupAggregate, window: Range, *, sketches: bool = True) -> PanePlan | None:
    """Which panes would answer a grouping."""
    grouped = optimize(Output(node)).plan
    assert isinstance(grouped, Output)
    if not isinstance(grouped.child, GroupAggregate):
        return None
    return PanePlan.of(grouped.child, window, sketches=sketches)


def plain_window(node: GroupAggregate) -> tuple[str, Range] | None:
    """The stream and the window of a grouping over one stream, if that has no slide."""
    below: Node = node.child
    while isinstance(below, Select | Project):
        below = below.child
    if not isinstance(below, StreamScan) or not isinstance(below.window, Range):
        return None
    window = below.window
    return None if window.slide is not None or window.internal else (below.stream, window)
