"""Joins of three or more inputs on one common key, without intermediate state (thesis 5.2).

Idea: only the inputs are kept. A new tuple looks up the others one after the other, in an order of
its own input that is chosen by cost (thesis 5.3) from rates and values measured while running.
Algorithms 2 and 3 (eager) let every new tuple probe by itself, in the order of generation; 4 and 5
(lazy) probe once per group of new tuples with one value. Algorithm 2 removes what has expired
before each probe, 3 when the step ends; 4 drops at once what dies before the next refresh; 5 keeps
what may still make a short-lived result. Negative tuples (cuts) stamp the tuple with its end, and
the results it took part in are looked up by the same probes and cut.
A step is exact, so all four give the same answers; they differ in what they cost, and within a
step nothing is reported earlier than at its end. What no-restore loses is decided by SLIDE, which
rounds lifetimes before they get here. Unlike the thesis's, every algorithm tests
max(ts) < min(exp) over all members.
Invariant: every combination is found once, at its member of the highest rank.
Cost: tuples scanned along the probe orders, as in ``optimizer.join_order``; state is the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    SEEN,
    SEEN_END,
    Delta,
    column_name,
    concatenated,
    mixed_ids,
    taken,
    with_numbers,
)
from mayfly.kernels.evaluation import Evaluation, Inputs, Ordering, as_given, blank, distinct_codes
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept import Kept, Shape
from mayfly.kernels.meeting import (
    Condition,
    joined_identities,
    joined_spread,
    kept_inputs,
    partition_codes,
    same_key,
)
from mayfly.kernels.operator import Holding, Key, Operator, plain_key
from mayfly.kernels.probing import KEPT, Effort, Probes, Side, partners
from mayfly.kernels.rows import CODE, Bools, chosen, numbers
from mayfly.kernels.sorting import Int64s, stable_order
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.plan.expressions import Expression
from mayfly.plan.spread import Spread
from mayfly.plan.text import expression_text
from mayfly.plan.types import DataType, arrow_type
from mayfly.plan.windows import Slide
from mayfly.storage.segment import EXP, TS

PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class SharedKey:
    """One list of key expressions per input; results agree in all of them."""

    of_inputs: tuple[tuple[Expression, ...], ...]
    types: tuple[DataType, ...]
    exact: bool
    """Whether equal codes mean equal keys."""

    def condition(self, member: int) -> Condition:
        keys = self.of_inputs[member]
        return Condition((keys, keys), self.types, self.exact)

    def columns(self, rows: pa.Table, member: int) -> list[pa.Array]:
        return [
            values_of(key, rows, arrow_type(kind))
            for key, kind in zip(self.of_inputs[member], self.types, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Search:
    """Where the probes of one step look: a side per input, and the rows that probe."""

    sides: list[Side]
    rows: list[pa.Table]
    probes: list[Probes]
    every: int | None
    collisions: bool
    order: tuple[int, ...]
    effort: Effort

    def tables(self, origin: int) -> list[pa.Table]:
        """What the positions in a partial result refer to."""
        tables = [side.rows for side in self.sides]
        tables[origin] = self.rows[origin]
        return tables


@dataclass(frozen=True, slots=True)
class MultiwayJoin(Operator):
    """The join of n inputs: a result is one row of each, alive together."""

    name: str
    key: SharedKey
    residual: tuple[Expression, ...]
    columns: tuple[pa.Schema, ...]
    shapes: tuple[Shape, ...]
    evaluation: Evaluation
    ordering: Ordering = as_given
    """The global probe order for what was measured; it may differ from step to step."""
    strict: bool = False
    """Whether an input may be cut."""
    slide: Slide | None = None
    """When results are asked for, if only at refreshes: rows of all inputs begin and end then."""
    dual: bool = False

    def __post_init__(self) -> None:
        if self.strict and not self.evaluation.allows_cuts:
            raise InvalidSetting(
                f"{self.evaluation.algorithm.value!r} needs to know when tuples expire, "
                "but an input of the join has negative tuples",
                "use 'eager', 'lazy' or 'lazy-restore' (thesis 5.2.3)",
            )

    def state(self) -> Inputs:
        return blank(self.shapes)

    @property
    def title(self) -> str:
        return "Multi-way join"

    @property
    def detail(self) -> str:
        sides = (self.key_words(side) for side in range(len(self.columns)))
        equal = [" = ".join(each) for each in zip(*sides, strict=True)]
        return " AND ".join([*equal, *map(expression_text, self.residual)])

    @property
    def reason(self) -> str:
        return "matching tuples meet in one bucket"

    def holdings(self) -> tuple[Holding, ...]:
        return kept_inputs(self, [f"kept{n}" for n in range(len(self.shapes))], self.shapes)

    @property
    def keyed(self) -> bool:
        return True

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.key.of_inputs[side], self.key.types)

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return tuple(map(expression_text, self.key.of_inputs[side]))

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return joined_spread(self, kept)

    def identities(self, state: Inputs) -> Int64s:
        return joined_identities(self, state.kept)

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        """The code by which rows may be spread over buckets, None if they may not."""
        return partition_codes(self.key.condition(side), rows, 0)

    def nothing(self) -> Delta:
        columns = pa.schema([one for each in self.columns for one in each])
        return Delta.empty(columns, dual=self.dual)

    def step(
        self, state: Inputs, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Inputs, Delta]:
        nothing, horizon = self.nothing(), self._horizon(interval)
        new = [self._coded(one.born, member) for member, one in enumerate(inputs)]
        fresh = [chosen(rows, numbers(rows, EXP) > horizon) for rows in new]
        if not any(one.rows for one in inputs):
            return state.after(state.kept, fresh, horizon), nothing
        cuts = [self._coded(one.cut, member) for member, one in enumerate(inputs)]
        kept = [one.cut(rows) for one, rows in zip(state.kept, cuts, strict=True)]
        order, effort = self.ordering(state.measures()), Effort()
        born = list(self._born(kept, new, order, effort))
        cut = list(self._cut(state.kept, kept, cuts, order, effort))
        state = state.measured([rows.num_rows for rows in new], effort)
        return state.after(kept, fresh, horizon), Delta(
            concatenated([nothing.born, *born]), concatenated([nothing.cut, *cut])
        )

    def _coded(self, rows: pa.Table, member: int) -> pa.Table:
        return self.key.condition(member).coded(rows, 0)

    def _horizon(self, interval: Interval) -> int:
        """No row of a later step begins before this instant."""
        period = self.slide.period if self.slide else None
        if not period or self.strict or not self.evaluation.drops_early:
            return interval.clock
        assert self.slide is not None
        return interval.clock + (self.slide.origin - interval.clock) % period

    # ── what is born ──────────────────────────────────────────────────────────────────────

    def _born(
        self, kept: Sequence[Kept], new: list[pa.Table], order: tuple[int, ...], effort: Effort
    ) -> Iterator[pa.Table]:
        tables, new = self._touched(kept, new, order)
        if not any(rows.num_rows for rows in new):
            return
        arrivals = self._arrivals(new)
        search = self._search(tables, arrivals, self.evaluation.expiring, order, effort)
        for origin in range(len(new)):
            for found in self._found(search, origin):
                yield self._results(found, search.tables(origin), found.exp)

    def _touched(
        self, kept: Sequence[Kept], new: list[pa.Table], order: tuple[int, ...]
    ) -> tuple[list[list[pa.Table]], list[pa.Table]]:
        """The kept rows whose values new rows bring, and the new rows that may find partners.

        A value that is missing in one input is not looked up in those after it.
        """
        if self.evaluation.buckets is not None:
            return [[run.load() for run in one.runs] for one in kept], new
        wanted = distinct_codes(numbers(rows, CODE) for rows in new)
        found: list[list[pa.Table]] = [[] for _ in kept]
        for member in order:
            found[member] = kept[member].of_codes(wanted)
            present = distinct_codes(numbers(t, CODE) for t in (*found[member], new[member]))
            wanted = wanted[_among(wanted, present)]
        return found, [chosen(rows, _among(numbers(rows, CODE), wanted)) for rows in new]

    def _arrivals(self, new: Sequence[pa.Table]) -> list[tuple[pa.Table, Probes]]:
        """New rows as probes: by generation each, or by value together."""
        if self.evaluation.eager:
            ts = np.concatenate([numbers(rows, TS) for rows in new])
            ranks = np.empty(len(ts), np.int64)
            ranks[np.argsort(ts, kind="stable")] = np.arange(len(ts))
            ends = np.cumsum([rows.num_rows for rows in new])
            return [
                _in_turn(rows, member, mine)
                for member, (rows, mine) in enumerate(
                    zip(new, np.split(ranks, ends[:-1]), strict=True)
                )
            ]
        every, inputs = self.evaluation.every, len(new)
        first = min(int(numbers(rows, TS).min(initial=2**63 - 1)) for rows in new)
        return [_by_value(rows, member, inputs, every, first) for member, rows in enumerate(new)]

    # ── what is cut ───────────────────────────────────────────────────────────────────────

    def _cut(
        self,
        before: Sequence[Kept],
        after: Sequence[Kept],
        cuts: Sequence[pa.Table],
        order: tuple[int, ...],
        effort: Effort,
    ) -> Iterator[pa.Table]:
        """Results met in earlier steps one of whose members is cut: cut rows probe like new."""
        if not any(rows.num_rows for rows in cuts):
            return
        wanted = distinct_codes(numbers(rows, CODE) for rows in cuts)
        whole, shortened = [], []
        for member, (old, new) in enumerate(zip(before, after, strict=True)):
            rows = _with_ends(old.of_codes(wanted), new.of_codes(wanted), cuts[member])
            ended = numbers(rows, END) < numbers(rows, EXP)
            whole.append([chosen(rows, ~ended)])
            shortened.append(_by_value(chosen(rows, ended), member, len(cuts), None, 0))
        search = self._search(whole, shortened, None, order, effort)
        for origin in range(len(cuts)):
            for found in self._found(search, origin):
                tables = search.tables(origin)
                ends = [numbers(rows, END)[found.members[m]] for m, rows in enumerate(tables)]
                end = np.minimum.reduce(ends)
                earlier = np.flatnonzero(end < found.exp)
                found = found.chosen(earlier)
                yield self._shortened(found, tables, end[earlier])

    def _shortened(self, found: Probes, tables: list[pa.Table], end: Int64s) -> pa.Table:
        table = with_numbers(self._results(found, tables, found.exp), **{END: end})
        if self.dual:
            seen = [numbers(rows, SEEN_END)[found.members[m]] for m, rows in enumerate(tables)]
            table = with_numbers(table, **{SEEN_END: np.minimum.reduce(seen)})
        return table

    # ── probing ───────────────────────────────────────────────────────────────────────────

    def _search(
        self,
        kept: Sequence[Sequence[pa.Table]],
        arrivals: Sequence[tuple[pa.Table, Probes]],
        every: int | None,
        order: tuple[int, ...],
        effort: Effort,
    ) -> _Search:
        sides = []
        for tables, (new, arrived) in zip(kept, arrivals, strict=True):
            ranks = [np.full(table.num_rows, KEPT) for table in tables]
            sides.append(Side.of([*tables, new], [*ranks, arrived.ranks], self.evaluation.buckets))
        collisions = not self.key.exact and self._collide(sides)
        rows, probes = map(list, zip(*arrivals, strict=True))
        return _Search(sides, rows, probes, every, collisions, order, effort)

    def _collide(self, sides: Sequence[Side]) -> bool:
        """Whether rows with one code have different keys: then pairs are compared by key."""
        codes = np.concatenate([numbers(side.rows, CODE) for side in sides])
        order = np.argsort(codes, kind="stable")
        same = np.flatnonzero(np.diff(codes[order]) == 0)
        listed = [self.key.columns(side.rows, member) for member, side in enumerate(sides)]
        for columns in zip(*listed, strict=True):
            values = pa.concat_arrays(columns)
            one, other = (values.take(pa.array(order[at])) for at in (same, same + 1))
            if not same_key(one, other).to_numpy(zero_copy_only=False).all():
                return True
        return False

    def _found(self, search: _Search, origin: int) -> Iterator[Probes]:
        """The complete results that rows of one input bring about."""
        rest = [member for member in search.order if member != origin]
        if len(search.probes[origin].codes):
            yield from self._followed(search, origin, search.probes[origin], rest)

    def _followed(
        self, search: _Search, origin: int, probes: Probes, rest: Sequence[int]
    ) -> Iterator[Probes]:
        """The results that grow out of partial ones by probing the rest of the inputs in turn."""
        if not rest:
            yield probes
            return
        member, *others = rest
        side = search.sides[member]
        for pairs in partners(probes, side, search.every, PAIRS_AT_ONCE, search.effort):
            joined = probes.joined(side, member, pairs, self.evaluation.eager)
            joined = self._holding(search, origin, joined, member)
            if len(joined.codes):
                yield from self._followed(search, origin, joined, others)

    def _holding(self, search: _Search, origin: int, probes: Probes, member: int) -> Probes:
        """The partial results for which every condition that can be checked is true."""
        tables = search.tables(origin)
        if search.collisions:
            here = tables[origin].take(pa.array(probes.members[origin]))
            there = tables[member].take(pa.array(probes.members[member]))
            keys = zip(self.key.columns(here, origin), self.key.columns(there, member), strict=True)
            equal = np.ones(len(probes.codes), dtype=bool)
            for one, other in keys:
                equal &= same_key(one, other).to_numpy(zero_copy_only=False)
            probes = probes.chosen(np.flatnonzero(equal))
        for term in self.residual:
            reads = self._reads(term)
            if member in reads and reads <= probes.members.keys() and len(probes.codes):
                marks = satisfying(term, self._read(term, probes, tables, reads))
                probes = probes.chosen(np.flatnonzero(marks))
        return probes

    def _reads(self, term: Expression) -> set[int]:
        """The inputs whose columns a condition reads."""
        names = {column_name(column) for column in term.columns()}
        return {m for m, columns in enumerate(self.columns) if names & set(columns.names)}

    def _read(
        self, term: Expression, probes: Probes, tables: Sequence[pa.Table], reads: set[int]
    ) -> pa.Table:
        wanted = {column_name(column) for column in term.columns()}
        columns = {}
        for member in reads:
            names = [name for name in self.columns[member].names if name in wanted]
            rows = tables[member].select(names).take(pa.array(probes.members[member]))
            columns.update(dict(zip(names, rows.columns, strict=True)))
        return pa.table(columns)

    def _results(self, found: Probes, tables: Sequence[pa.Table], exp: Int64s) -> pa.Table:
        arrays: list[pa.ChunkedArray | pa.Array] = []
        for member, columns in enumerate(self.columns):
            if columns.names:
                at = pa.array(found.members[member])
                arrays += tables[member].select(columns.names).take(at).columns
        ids = numbers(tables[0], ID)[found.members[0]]
        for member in range(1, len(tables)):
            ids = mixed_ids(ids, numbers(tables[member], ID)[found.members[member]])
        life = [found.ts, exp, ids]
        if self.dual:
            seen = [numbers(rows, SEEN)[found.members[m]] for m, rows in enumerate(tables)]
            life.append(np.minimum.reduce(seen))
        fields = [one for columns in self.columns for one in columns]
        fields += [pa.field(name, pa.int64()) for name in (*LIFE, SEEN)[: len(life)]]
        return pa.table([*arrays, *map(pa.array, life)], schema=pa.schema(fields))


def _in_turn(rows: pa.Table, member: int, ranks: Int64s) -> tuple[pa.Table, Probes]:
    """Every row a unit, in the order of generation."""
    order = stable_order(ranks)
    rows, ranks = taken(rows, order), ranks[order]
    return rows, _probes(rows, member, ranks, numbers(rows, TS), np.arange(len(order) + 1))


def _by_value(
    rows: pa.Table, member: int, inputs: int, every: int | None, first: int
) -> tuple[pa.Table, Probes]:
    """Rows of one value, generated between two evaluations, are a unit."""
    ts = numbers(rows, TS)
    if every is None:
        rounds, now = np.zeros(len(ts), np.int64), np.full(len(ts), first)
    else:
        order = stable_order(ts // every, numbers(rows, CODE))
        rows, ts = taken(rows, order), ts[order]
        rounds, now = ts // every - first // every, ts // every * every
    codes = numbers(rows, CODE)
    changes = (np.diff(rounds, prepend=-1) != 0) | (np.diff(codes, prepend=codes[:1]) != 0)
    units = np.append(np.flatnonzero(changes), len(codes))
    return rows, _probes(rows, member, rounds * inputs + member, now, units)


def _probes(rows: pa.Table, member: int, ranks: Int64s, now: Int64s, units: Int64s) -> Probes:
    codes, ts, exp = (numbers(rows, name) for name in (CODE, TS, EXP))
    return Probes({member: np.arange(len(codes))}, codes, ts, exp, ranks, now, units)


def _with_ends(old: list[pa.Table], new: list[pa.Table], nothing: pa.Table) -> pa.Table:
    """Rows with their lifetimes before this step, and how they end after it."""
    blank_row = with_numbers(nothing.slice(0, 0), **{END: np.empty(0, np.int64)})
    tables = []
    for before, after in zip(old, new, strict=True):
        ends = {END: numbers(after, EXP)}
        if SEEN in before.schema.names:
            ends[SEEN_END] = numbers(after, SEEN)
        tables.append(with_numbers(before, **ends).select(blank_row.schema.names))
    return concatenated([blank_row, *tables])


def _among(codes: Int64s, present: Int64s) -> Bools:
    """Which codes are among those present (sorted)."""
    if not len(present):
        return np.zeros(len(codes), dtype=bool)
    at = np.minimum(np.searchsorted(present, codes), len(present) - 1)
    found: Bools = present[at] == codes
    return found
