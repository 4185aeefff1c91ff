"""Another number of buckets: the states of a program's tasks, spread anew.

Idea: a row belongs to the bucket of its code under the route by which it once came, so a state is
taken apart row by row and put together again. Where a task keeps rows under the code of their key,
that says it; others tell the columns; windows over streams find it by their route; rows that no one
will look for (they are never cut) may stay anywhere. Results in the log must lie where the task
that may cut them now runs: it is asked which results it still knows, by identity
(``known_results``). Tasks that need everything in one place stay as they are.
Invariant: the rows of all buckets together are the same, and every later step finds in its bucket
what it would have found there from the beginning.
Cost: every row of a spread state is read and written once; joins that can be cut are joined again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.checkpoint.open_results import known_results, sent_results
from mayfly.checkpoint.operator_state import parts_of
from mayfly.kernels.codes import NULL_CODE, buckets
from mayfly.kernels.delta import ID, concatenated
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, gathered, numbers
from mayfly.kernels.operator import Lying
from mayfly.lifetime import MIN_TIME
from mayfly.physical.stages import (
    IDENTITIES,
    NumberKey,
    OperatorKey,
    Route,
    StagedAnswer,
    StagedProgram,
    StagedTask,
    ValueKey,
)
from mayfly.storage.segment import EXP, TS

Placing = Callable[[pa.Table, int], Int64s]
"""The new bucket of every row of a table from an old bucket; -1 for a row to leave out."""
_NOTHING = pa.table({})


class Repartition:
    """The states of one program on their way from ``before`` buckets to ``after``."""

    def __init__(
        self,
        program: StagedProgram,
        before: int,
        after: int,
        *,
        cells: bool = True,
        copies: bool = True,
    ) -> None:
        """``cells`` says whether the places of runs in calendar queues still hold, ``copies``
        whether rows of relations are in buckets other than their own."""
        self.program, self.before, self.after, self.cells = program, before, after, cells
        self.copies = copies
        self._placed: dict[int, list[Any]] = {}
        """Per task: its new states, for what comes after it."""
        self._ways = {
            Lying.BY_KEY: self._keyed,
            Lying.AS_ARRIVED: self._window,
            Lying.BESIDE_INPUT: self._beside_input,
            Lying.BESIDE_LEFT: self._by_identity,
            Lying.COPIED: self._beside_relation,
        }

    def task(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        """The states of a spread task, given by old bucket, by new bucket."""
        placement = self._placed[staged.number] = self._ways[staged.operator.lying](staged, states)
        return placement

    def place_single(self, staged: StagedTask, state: Any) -> None:
        """Note the state of a task that stays in one place."""
        blanks = [staged.operator.state() for _ in range(1, self.after)]
        self._placed[staged.number] = [state, *blanks]

    def sent(self, answer: StagedAnswer, states: Sequence[Any]) -> list[Any]:
        """The states of an output that is spread by value."""
        place = self._by_columns(answer.place)
        return self._spread(states, dict.fromkeys(parts_of(states[0]), place))

    def log(self, answer: StagedAnswer, logs: Sequence[KeptRows]) -> list[KeptRows]:
        """The kept results of a view, where the task that may cut them runs now."""
        place = self._by_result(answer.task, ID)
        return [part["kept"] for part in self._parts(logs, {"kept": place})]

    # ── where rows belong ─────────────────────────────────────────────────────────────────

    def _by_code(self, rows: pa.Table, bucket: int) -> Int64s:
        """By the code they are kept under; a relation's rows have copies in other buckets."""
        codes = numbers(rows, CODE)
        where = buckets(codes, self.after)
        return np.where(buckets(codes, self.before) == bucket, where, -1) if self.copies else where

    def _by_columns(self, names: tuple[str, ...]) -> Placing:
        return self._by_route(Route(ValueKey(names)))

    def _by_route(self, route: Route | None) -> Placing:
        def place(rows: pa.Table, bucket: int) -> Int64s:
            return (route or Route()).buckets(rows, self.after)

        return place

    def _by_owner(
        self, placed: Sequence[Iterable[pa.Table]], column: str, *, alone: bool
    ) -> Placing:
        """Where the row of that identity is; without it anywhere, or nowhere if not ``alone``."""
        owners = _Places(
            [
                np.concatenate([np.empty(0, np.int64), *(numbers(table, ID) for table in tables)])
                for tables in placed
            ]
        )

        def place(rows: pa.Table, bucket: int) -> Int64s:
            otherwise = _all(rows, bucket % self.after if alone else -1)
            return owners.of(numbers(rows, column), otherwise)

        return place

    def _by_companion(self, held: Sequence[KeptRows], place: Placing) -> Placing:
        """Where rows of the same code are."""
        codes: list[list[Int64s]] = [[np.empty(0, np.int64)] for _ in range(self.after)]
        for bucket, rows in enumerate(held):
            for table in (run.load() for run in rows.runs):
                where = place(table, bucket)
                for target in np.unique(where[where >= 0]).tolist():
                    codes[target].append(numbers(table, CODE)[where == target])
        owners = _Places([np.concatenate(listed) for listed in codes])

        def beside(rows: pa.Table, bucket: int) -> Int64s:
            return owners.of(numbers(rows, CODE), _all(rows, bucket % self.after))

        return beside

    def _by_result(self, task: int, column: str) -> Placing:
        """Where the task is that may cut the result of that identity."""
        identities = [
            known_results(self.program, task, self._placed, bucket) for bucket in range(self.after)
        ]
        places = _Places([share.ids for share in identities])
        sent = sent_results(self.program, task, self._placed)

        def place(rows: pa.Table, bucket: int) -> Int64s:
            otherwise, ids = _all(rows, bucket % self.after), numbers(rows, column)
            if identities[0].keyless:
                otherwise = buckets(_all(rows, int(NULL_CODE)), self.after)
            by_time = buckets(numbers(rows, TS).copy(), self.after)
            return places.of(ids, np.where(np.isin(ids, sent), by_time, otherwise))

        return place

    def _route_to(self, staged: StagedTask, side: int = 0) -> Route | None:
        """How the rows of an input find their bucket; None if they are already there."""
        for feed in self.program.feeds:
            if feed.task == staged.number:
                return feed.route
        return next((link.route for link in self.program.links_to(staged, side)), None)

    # ── states ────────────────────────────────────────────────────────────────────────────

    def _keyed(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        place = self._by_code if lies_by_code(staged) else self._by_columns(staged.place)
        places = dict.fromkeys(parts_of(states[0]), place)
        for part, owner in staged.operator.companions.items():
            places[part] = self._by_companion([parts_of(s)[owner] for s in states], place)
        return self._spread(states, places)

    def _window(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        window = staged.operator.opens
        assert window is not None
        route = self._by_route(self._route_to(staged))
        if staged.place:
            route = self._by_columns(staged.place)
        window_states = self._spread(states, {"waiting": route, "held": route, "pending": route})
        if window.counts_rows:
            held = [() if state.held is None else (state.held,) for state in window_states]
            leaving = self._by_owner(held, ID, alone=True)
        else:
            leaving = route
        left = self._parts([state.leaving for state in states], {"kept": leaving})
        # Every bucket goes on in a range of identities that none has used.
        unused = 1 + max(state.number >> IDENTITIES for state in states)
        return [
            replace(state, leaving=part["kept"], number=(unused + bucket) << IDENTITIES)
            for bucket, (state, part) in enumerate(zip(window_states, left, strict=True))
        ]

    def _beside_input(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        """Copies of results: where columns say, or where these are that may be cut."""
        source = self.program.source(staged, 0)
        assert source is not None
        place = self._by_columns(staged.place) if staged.place else self._by_result(source, ID)
        return self._spread(states, dict.fromkeys(parts_of(states[0]), place))

    def _by_identity(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        """Left rows by the route they came on, what covers them beside them."""
        pairs = staged.local[1]
        route = Route(NumberKey(ID))
        if pairs is not None:
            route = Route(OperatorKey(self.program.tasks[pairs].operator))
        left = self._parts([state.left for state in states], {"kept": self._by_route(route)})
        rows = [[run.load() for run in part["kept"].runs] for part in left]
        owner = self._by_owner(rows, CODE, alone=False)
        rest = self._spread(states, {"covers": owner, "right": owner})
        return [replace(state, left=part["kept"]) for state, part in zip(rest, left, strict=True)]

    def _beside_relation(self, staged: StagedTask, states: Sequence[Any]) -> list[Any]:
        """The relation everywhere, results where the row is that they would be cut with."""
        assert staged.local[0] is not None
        place = self._by_result(staged.local[0], CODE)
        shared = states[0].relation
        copies = [
            replace(shared, runs=tuple(RowRun.of(r.load(), level=r.level) for r in shared.runs))
            for _ in range(self.after)
        ]
        parts = self._parts(states, {"results": place})
        return [
            replace(states[0], relation=relation, results=part["results"])
            for relation, part in zip(copies, parts, strict=True)
        ]

    def _spread(self, states: Sequence[Any], placing: Mapping[str, Placing]) -> list[Any]:
        parts = self._parts(states, placing)
        if isinstance(states[0], KeptRows):
            return [bucket_part["kept"] for bucket_part in parts]
        held = {name: [parts_of(state)[name] for state in states] for name in parts_of(states[0])}
        shares = _shared(held, self.after)
        return [
            replace(states[0], **part, **share) for part, share in zip(parts, shares, strict=True)
        ]

    def _parts(self, states: Sequence[Any], placing: Mapping[str, Placing]) -> list[dict[str, Any]]:
        """The collections and tables that ``placing`` names, by new bucket."""
        bucket_parts: list[dict[str, Any]] = [{} for _ in range(self.after)]
        for name, place in placing.items():
            held = [parts_of(state)[name] for state in states]
            for bucket, part in enumerate(self._part(held, place)):
                if part is not None:
                    bucket_parts[bucket][name] = part
        return bucket_parts

    def _part(self, held: Sequence[Any], place: Placing) -> list[Any]:
        first = next((part for part in held if part is not None), None)
        if isinstance(first, KeptRows):
            runs = self._runs([part.runs for part in held], place)
            return [replace(first, runs=listed).after(_NOTHING, MIN_TIME) for listed in runs]
        if isinstance(first, tuple):
            waiting = self._runs(held, place)
            tables = [[run.load() for run in listed] for listed in waiting]
            return [(RowRun.of(gathered(pieces, TS)),) if pieces else () for pieces in tables]
        if isinstance(first, pa.Table):
            return self._tables(held, place)
        return [None] * self.after

    def _runs(self, held: Sequence[tuple[RowRun, ...]], place: Placing) -> list[tuple[RowRun, ...]]:
        """Every run taken apart; those of each old bucket stay in their order."""
        runs_by_target: list[list[list[RowRun]]] = [[[] for _ in held] for _ in range(self.after)]
        for bucket, runs in enumerate(held):
            for run in runs:
                table = run.load()
                where = place(table, bucket)
                where = np.where(numbers(table, EXP) == MIN_TIME, -1, where)
                for target in np.unique(where[where >= 0]).tolist():
                    rows = chosen(table, where == target).combine_chunks()
                    own = RowRun.of(rows, level=run.level, cell=run.cell if self.cells else None)
                    runs_by_target[target][bucket].append(own)
        return [tuple(heapq.merge(*lists, key=lambda run: run.ts.low)) for lists in runs_by_target]

    def _tables(self, held: Sequence[pa.Table | None], place: Placing) -> list[pa.Table | None]:
        parts: list[list[pa.Table]] = [[] for _ in range(self.after)]
        for bucket, table in enumerate(held):
            if table is not None:
                where = place(table, bucket)
                for target in range(self.after):
                    parts[target].append(chosen(table, where == target))
        return [concatenated(tables) if tables else None for tables in parts]


def lies_by_code(staged: StagedTask) -> bool:
    """Whether the code that its rows are kept under is that of their place."""
    return staged.operator.lying is Lying.BY_KEY and not staged.place


class _Places:
    """Which bucket each identity is in."""

    def __init__(self, ids: Sequence[Int64s]) -> None:
        where = np.repeat(np.arange(len(ids)), [len(array) for array in ids])
        every = np.concatenate(ids)
        order = np.argsort(every, kind="stable")
        self._ids, self._where = every[order], where[order]

    def of(self, ids: Int64s, otherwise: Int64s) -> Int64s:
        if not len(self._ids):
            return otherwise
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[positions] == ids, self._where[positions], otherwise)


def _shared(held: Mapping[str, Sequence[Any]], after: int) -> list[dict[str, Any]]:
    """Counts divided among the buckets; the first instant, whether one has begun, and how many
    rows came so far, which orders those to come, for all."""
    shares: list[dict[str, Any]] = [{} for _ in range(after)]
    for name, values in held.items():
        if not all(value is None or isinstance(value, int) for value in values):
            continue
        figures = [value for value in values if value is not None]
        if not figures:
            continue
        for bucket, own in enumerate(shares):
            if name in ("first", "next_refresh"):
                own[name] = min(figures)
            elif name in ("count", "number") or any(isinstance(figure, bool) for figure in figures):
                own[name] = max(figures)
            else:
                own[name] = (sum(figures) + after - 1 - bucket) // after
    return shares


def _all(rows: pa.Table, bucket: int) -> Int64s:
    return np.full(rows.num_rows, bucket, np.int64)
