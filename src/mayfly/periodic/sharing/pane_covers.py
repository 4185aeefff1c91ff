"""SS4 in running queries: a query answers from the panes of other predicates.

    Q1: SUM where tcp, panes A; Q2: SUM where udp, panes B; Q3: SUM where tcp or udp
    →   Q3: A + B, no panes of its own

Which panes: relevant.py. They have to be there already: with the numbers that the query needs, cut
at its edges, for as long as its window. The query then asks for them itself, so they stay when the
queries that brought them go. Which texts it took the predicates from is remembered with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from mayfly.kernels.cover_groups import CoveredGroups
from mayfly.kernels.dominance import EXTREMES
from mayfly.kernels.pane_edges import contains, families_of, period_of, reach_of
from mayfly.kernels.pane_groups import PaneGroups
from mayfly.kernels.pane_partials import PaneNumber
from mayfly.kernels.pane_store import PaneStore
from mayfly.optimizer.rules.share_panes import SS3, SS4
from mayfly.periodic.predicate import EVERYTHING, Opaque, Predicate, Term
from mayfly.periodic.sharing.relevant import relevant
from mayfly.periodic.sharing.shared_joins import choose_joins
from mayfly.physical.explain.sharing import (
    Sharing,
    blocks_of,
    density,
    reads_of,
    rows_of,
    sharing_of,
)
from mayfly.physical.pane_plan import pane_number, pane_task
from mayfly.physical.plan_programs import programs_of_plans
from mayfly.physical.program import Program, StreamInput, Task
from mayfly.physical.shared_program import described
from mayfly.plan.catalog import Catalog
from mayfly.plan.expressions import Column, Compare, Expression, InList, Literal, Or
from mayfly.plan.logical_operators import Output
from mayfly.plan.pane_functions import COUNT, HLL, MAX, MIN, ROWS, SUM
from mayfly.plan.strategy import Strategy
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Range

ROWS_IN_A_PANE = 10
"""Rows of a group that a pane is taken to stand for, as long as these are not counted."""


@dataclass(frozen=True)
class PaneCover:
    """Texts of queries: the panes of the first ones are merged, those of the others taken out."""

    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()

    def to_json(self) -> list[list[str]]:
        return [list(self.plus), list(self.minus)]

    @staticmethod
    def from_json(stored: Any) -> PaneCover:
        plus, minus = stored or ((), ())
        return PaneCover(tuple(plus), tuple(minus))


NO_COVER = PaneCover()


@dataclass(frozen=True)
class OwnPanes:
    """A query with panes of its own: its text, what groups them and what keeps them."""

    text: str
    groups: PaneGroups
    store: PaneStore
    source: StreamInput

    @staticmethod
    def of(text: str, program: Program) -> OwnPanes | None:
        readers = [task for task in program.tasks() if task.operator.reads]
        if len(readers) != 1 or not readers[0].operator.answers_alone:
            return None
        (kept,) = readers[0].inputs
        assert isinstance(kept, Task)
        (source,) = kept.inputs
        assert isinstance(source, StreamInput)
        groups, store = cast(PaneGroups, readers[0].operator), cast(PaneStore, kept.operator)
        return OwnPanes(text, groups, store, source)

    @property
    def window(self) -> Range:
        assert self.groups.window is not None
        return self.groups.window

    @property
    def place(self) -> tuple[object, ...]:
        """What is equal where only predicates differ."""
        store = self.store
        return store.stream, store.keys, store.values, store.alone


@dataclass(frozen=True)
class _PaneKind:
    """How the contents of some panes merge."""

    insensitive: bool
    subtractable: bool


def cover_of(query: OwnPanes, others: Sequence[OwnPanes]) -> PaneCover | None:
    """Whose panes a query had better read than keep its own; None if it keeps its own."""
    kept: dict[tuple[Expression, ...], list[OwnPanes]] = {}
    for other in others:
        if other.place == query.place and not other.store.alone:
            kept.setdefault(other.store.conditions, []).append(other)
    if query.store.conditions in kept or not query.store.conditions:
        return None  # SS1, or everything
    contents, fixed = query.store.contents, bool(query.store.values)
    kind = _PaneKind(
        not fixed and all(content.function in (MIN, MAX, HLL) for content in contents),
        not fixed and all(content.adds for content in contents),
    )
    for minus_too in (False, True):
        needed = _counted(query).store.contents if minus_too else contents
        fitting = {
            owners[0].text: predicate_of(conditions)
            for conditions, owners in kept.items()
            if _serves(owners, query.window, needed)
        }
        way = replace(kind, subtractable=kind.subtractable and minus_too)
        sets = relevant(predicate_of(query.store.conditions), fitting, way)
        if sets is not None and _pays(query, len(sets.plus) + len(sets.minus)):
            return PaneCover(sets.plus, sets.minus)
    return None


def _serves(owners: Sequence[OwnPanes], window: Range, needed: Sequence[PaneNumber]) -> bool:
    """Whether panes have the numbers, the edges and the age that a window needs."""
    names = {content.column.name for owner in owners for content in owner.store.contents}
    if not all(content.column.name in names for content in needed):
        return False
    finer = [
        family
        for owner in owners
        if reach_of(owner.window) >= reach_of(window)
        for family in families_of(owner.window)
    ]
    return all(any(contains(f, family) for f in finer) for family in families_of(window))


def _pays(query: OwnPanes, panes: int) -> bool:
    """Whether reading so many panes in the place of one costs less than to make and keep these, in
    values per microsecond (spec/periodic 4)."""
    alone = each = reads_of(query.groups, [query.window])
    if _is_scanned(query.groups):
        each = min(alone, blocks_of(rows_of([query.window], query.window.duration)))
    more = (panes * each - alone) / period_of(query.window)
    return more < density([query.window]) * (1 + ROWS_IN_A_PANE)


def _is_scanned(groups: PaneGroups) -> bool:
    """Whether others have scanned what it would read, as it has nothing but extremes and totals
    (CS7)."""
    if not (groups.saves_prefixes and groups.scans_once):
        return False
    plays = [made.call for made in groups.aggregators if made.way.play is not None]
    return bool(plays) and all(call.function in EXTREMES for call in plays)


def _counted(query: OwnPanes) -> OwnPanes:
    """With the numbers that tell whether anything is left where something is taken out."""
    rows = pane_number(ROWS, None, BIGINT)
    counts = {
        number.column.name: pane_number(COUNT, number.argument, BIGINT)
        for number in query.store.contents
        if number.function == SUM
    }
    contents = {n.column.name: n for n in (*query.store.contents, rows, *counts.values())}
    weights = tuple(
        counts[call.argument.name].column
        if isinstance(call.argument, Column) and call.argument.name in counts
        else weight
        for call, weight in zip(query.groups.calls, query.groups.weights, strict=True)
    )
    store = replace(query.store, contents=tuple(contents.values()))
    return replace(query, store=store, groups=replace(query.groups, weights=weights))


def covered(
    text: str, program: Program, cover: PaneCover, compiled: Callable[[str], Program]
) -> Program:
    """The program of a query that reads the panes of others, whose texts are ``compiled``."""
    query = OwnPanes.of(text, program)
    assert query is not None
    conditions = []
    for other in (*cover.plus, *cover.minus):
        part = OwnPanes.of(other, compiled(other))
        assert part is not None
        conditions.append(part.store.conditions)
    query = _counted(query) if cover.minus else query
    rows = pane_number(ROWS, None, BIGINT).column if cover.minus else None
    groups = CoveredGroups.of(query.groups, len(cover.plus), rows)
    kept = [pane_task(replace(query.store, conditions=terms), query.source) for terms in conditions]

    def changed(task: Task) -> Task:
        if task.operator.reads:
            below = task.inputs[0]
            assert isinstance(below, Task)
            stores = tuple(replace(store, node=below.node, label=below.label) for store in kept)
            return replace(task, operator=groups, inputs=stores)
        inputs = tuple(changed(s) if isinstance(s, Task) else s for s in task.inputs)
        return replace(task, inputs=inputs)

    return replace(program, answer=changed(program.answer))


def choose_covers(
    programs: Mapping[str, tuple[str, Program]], newcomers: Collection[str]
) -> dict[str, PaneCover]:
    """Whose panes newcomers had better read; queries by name, with text and program, in the order
    in which they came."""
    others: list[OwnPanes] = []
    covers: dict[str, PaneCover] = {}
    for name, (text, program) in programs.items():
        query = OwnPanes.of(text, program)
        if query is None:
            continue
        cover = cover_of(query, others) if name in newcomers else None
        if cover is None:
            others.append(query)
        else:
            covers[name] = cover
    return covers


def sharing_with_covers(
    plans: Mapping[str, Output],
    catalog: Catalog,
    strategy: Strategy = Strategy.UPA,
    without: Sequence[str] = (),
) -> Sharing:
    """What queries share when they run together, by their logical plans."""
    programs = programs_of_plans(plans, catalog, strategy, without)
    if SS3.name not in without:
        # Queries of one text are one member of a shared join: here names stand for texts.
        joins = choose_joins({name: (name, p) for name, p in programs.items()}, programs)
        peers = {name: [programs[other].plan for other in joins[name]] for name in joins}
        programs = programs_of_plans(plans, catalog, strategy, without, peers)
    covers: dict[str, PaneCover] = {}
    if SS4.name not in without:
        covers = choose_covers({name: (name, p) for name, p in programs.items()}, programs)
    read = {
        name: covered(name, program, covers[name], programs.__getitem__)
        if name in covers
        else program
        for name, program in programs.items()
    }
    return sharing_of(read)


# ── predicates ────────────────────────────────────────────────────────────────────────────


def predicate_of(conditions: tuple[Expression, ...]) -> Predicate:
    """WHERE as a set of terms of which one has to hold."""
    if not conditions:
        return EVERYTHING
    if len(conditions) > 1:
        return frozenset({_opaque(conditions)})
    (condition,) = conditions
    parts = condition.terms if isinstance(condition, Or) else (condition,)
    return frozenset(term for part in parts for term in _terms(part))


_OPERATORS = {"=": "=", "<>": "!=", "<": "<", ">": ">"}


def _terms(part: Expression) -> Iterator[Term | Opaque]:
    if isinstance(part, Compare) and part.op in _OPERATORS:
        column, value = part.left, part.right
        if isinstance(column, Column) and isinstance(value, Literal) and value.value is not None:
            yield Term(column.name, _OPERATORS[part.op], value.value)
            return
    if isinstance(part, InList) and isinstance(part.child, Column):
        values = [choice.value for choice in part.choices if isinstance(choice, Literal)]
        if len(values) == len(part.choices) and None not in values:
            yield from (Term(part.child.name, "=", value) for value in values)
            return
    yield _opaque(part)


def _opaque(condition: object) -> Opaque:
    def unread(rows: Any) -> Any:
        raise AssertionError("panes are made by the conditions of their store")

    return Opaque(described(condition), unread)
