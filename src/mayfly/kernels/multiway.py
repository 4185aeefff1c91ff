"""Joins of three or more inputs on one common key, without intermediate state (thesis 5.2).

Idea: only the inputs are kept. New tuples look up the others one after the other, in an order that
is chosen by cost (thesis 5.3) from rates and values measured while running; all that come in one
step at once (``combination``), or as one of Algorithms 2 to 5 says (``search``). Negative tuples
(cuts) stamp the tuple with its end, and the results it took part in are looked up in the same way
and cut. A step is exact, so all ways give the same answers; what no-restore loses is decided by
SLIDE, which rounds lifetimes before they get here.
Invariant: every combination is found once; unlike the thesis's, every algorithm tests
max(ts) < min(exp) over all members.
Cost: tuples scanned along the probe orders, as in ``optimizer.join_order``; state is the inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, common_of, distinct_of
from mayfly.errors import InvalidSetting
from mayfly.kernels.combination import AtOnce, Sorted, SortedSide
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
    united,
    with_numbers,
)
from mayfly.kernels.evaluation import Evaluation, Inputs, Ordering, as_given, blank
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers
from mayfly.kernels.multiway_probe import Check, Effort, Held, Partial
from mayfly.kernels.operator import Copy, Forgetting, Holding, Key, Operator, StateKey, plain_key
from mayfly.kernels.search import Search, arrivals
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.kernels.window_join import (
    Condition,
    joined_identities,
    joined_spread,
    kept_inputs,
    partition_codes,
    same_key,
)
from mayfly.plan.expressions import Expression
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import DataType, arrow_type
from mayfly.plan.window_kinds import Slide
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
class MultiwayJoin(Operator):
    """The join of n inputs: a result is one row of each, alive together."""

    name: str
    key: SharedKey
    residual: tuple[Expression, ...]
    columns: tuple[pa.Schema, ...]
    shapes: tuple[Shape, ...]
    evaluation: Evaluation = field(compare=False)
    """What is kept is the same whichever it is."""
    ordering: Ordering = field(default=as_given, compare=False)
    """The global probe order for what was measured; it may differ from step to step."""
    strict: bool = False
    """Whether an input may be cut."""
    slide: Slide | None = None
    """When results are asked for, if only at refreshes: rows of all inputs begin and end then."""
    dual: bool = False
    needed: tuple[pa.Schema, ...] | None = field(default=None, compare=False)
    """The columns that results have of each input, if not all."""

    def __post_init__(self) -> None:
        if self.strict and not self.evaluation.allows_cuts:
            raise InvalidSetting(
                f"{self.evaluation.algorithm.value!r} needs to know when tuples expire, "
                "but an input of the join has negative tuples",
                "use 'eager', 'lazy' or 'lazy-restore' (thesis 5.2.3)",
            )

    def state(self) -> Inputs:
        return blank(self.shapes)

    def state_key(self) -> StateKey:
        return StateKey(
            "MultiwayJoin",
            (
                ("key", self.key),
                ("residual", self.residual),
                ("columns", self.columns),
                ("shapes", self.shapes),
                ("strict", self.strict),
                ("slide", self.slide),
                ("dual", self.dual),
            ),
        )

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

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.key.condition(int(part.removeprefix("kept"))).codes(rows, 0)

    def nothing(self) -> Delta:
        columns = pa.schema([column for each in self.result_columns for column in each])
        return Delta.empty(columns, dual=self.dual)

    def forgets(self) -> tuple[Forgetting, ...]:
        """The rows of an input are of no use when no partner comes from any of the others."""
        if self.dual:
            return ()
        keys = {side: self.key_of(side) for side in range(len(self.columns))}
        forgetting = []
        for member, own in keys.items():
            others = {side: key for side, key in keys.items() if side != member}
            pairs = {side: zip(key, own, strict=True) for side, key in others.items()}
            columns = {side: tuple((t, o) for t, o in p if t and o) for side, p in pairs.items()}
            forgetting.append(Forgetting((f"kept{member}",), columns))
        return tuple(forgetting)

    @property
    def quiet(self) -> bool:
        return True

    @property
    def combines(self) -> bool:
        return True

    def copy(self, side: int) -> Copy | None:
        return Copy(f"kept{side}", None, self.key.of_inputs[side], behind=1)

    def coded(self, rows: pa.Table, side: int) -> pa.Table:
        return self.key.condition(side).coded(rows, 0)

    def keyless(self, rows: pa.Table, side: int) -> int:
        return self.key.condition(side).keyless(rows, 0)

    def giving(self, names: Collection[str]) -> MultiwayJoin:
        schemas = (pa.schema([c for c in own if c.name in names]) for own in self.columns)
        return replace(self, needed=tuple(schemas))

    @property
    def result_columns(self) -> tuple[pa.Schema, ...]:
        return self.columns if self.needed is None else self.needed

    def step(
        self, state: Inputs, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Inputs, Delta]:
        effort = Effort()
        after, pieces = self._stepped(state, inputs, interval, effort)
        delta = united(pieces, self.nothing())
        return after.counted(effort), delta

    def pieces(
        self, state: Inputs, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Inputs, Iterator[Delta]]:
        return self._stepped(state, inputs, interval, Effort())

    def _stepped(
        self, state: Inputs, inputs: Sequence[Delta], interval: Interval, effort: Effort
    ) -> tuple[Inputs, Iterator[Delta]]:
        nothing, horizon = self.nothing(), self._horizon(interval)
        conditions = [self.key.condition(member) for member in range(len(inputs))]
        both = list(zip(conditions, inputs, strict=True))
        new = [condition.with_codes(delta.born, 0) for condition, delta in both]
        fresh = [_clustered(chosen(rows, numbers(rows, EXP) > horizon)) for rows in new]
        if not any(delta.rows for delta in inputs):
            return state.after(state.kept, fresh, horizon), iter(())
        cuts = [condition.coded(delta.cut, 0) for condition, delta in both]
        kept = [part.cut(rows) for part, rows in zip(state.kept, cuts, strict=True)]
        order = self.ordering(state.measures())
        after = state.measured([rows.num_rows for rows in new]).after(kept, fresh, horizon)
        born = (Delta(rows, nothing.cut) for rows in self._born(kept, new, order, effort))
        cut = (
            Delta(nothing.born, rows) for rows in self._cut(state.kept, kept, cuts, order, effort)
        )
        return after, chain(born, cut)

    def _horizon(self, interval: Interval) -> int:
        """No row of a later step begins before this instant."""
        period = self.slide.period if self.slide else None
        if not period or self.strict or not self.evaluation.drops_early:
            return interval.clock
        assert self.slide is not None
        return interval.clock + (self.slide.origin - interval.clock) % period

    # ── what is born ──────────────────────────────────────────────────────────────────────

    def _born(
        self, kept: Sequence[KeptRows], new: list[pa.Table], order: tuple[int, ...], effort: Effort
    ) -> Iterator[pa.Table]:
        search: Search | AtOnce
        if self.evaluation.at_once:
            search = self._at_once(kept, new, order)
        else:
            new = [_clustered(rows) for rows in new]
            tables = [[run.load() for run in part.runs] for part in kept]
            if self.evaluation.buckets is None:
                tables, codes = _touched(kept, [numbers(rows, CODE) for rows in new], order)
                new = [chosen(rows, np.isin(numbers(rows, CODE), codes)) for rows in new]
            if not any(rows.num_rows for rows in new):
                return
            search = Search.among(
                tables, arrivals(new, self.evaluation), self.evaluation, self.evaluation.expiring,
                order,
            )  # fmt: skip
        check = self._check(search)
        for origin in range(len(new)):
            for combinations in search.results(origin, check, PAIRS_AT_ONCE, effort):
                yield self._results(combinations, search.tables(origin), combinations.exp)

    def _at_once(
        self, kept: Sequence[KeptRows], new: Sequence[pa.Table], order: tuple[int, ...]
    ) -> AtOnce:
        came = [Sorted.of_new(*(numbers(rows, n) for n in (CODE, TS, EXP))) for rows in new]
        touched, _ = _touched(kept, [newcomers.codes for newcomers in came], order)
        return self._merged(touched, new, came, order)

    def _merged(
        self,
        kept: Sequence[Sequence[pa.Table]],
        new: Sequence[pa.Table],
        came: Sequence[Sorted],
        order: tuple[int, ...],
    ) -> AtOnce:
        sides, rows = [], []
        for tables, fresh, newcomers in zip(kept, new, came, strict=True):
            names = fresh.schema.names
            old = pa.concat_tables([fresh.slice(0, 0), *(table.select(names) for table in tables)])
            sides.append(SortedSide(Sorted.of(old), newcomers.moved(old.num_rows)))
            rows.append(pa.concat_tables([old, fresh]))
        return AtOnce(sides, rows, order, self._halts)

    # ── what is cut ───────────────────────────────────────────────────────────────────────

    def _cut(
        self,
        before: Sequence[KeptRows],
        after: Sequence[KeptRows],
        cuts: Sequence[pa.Table],
        order: tuple[int, ...],
        effort: Effort,
    ) -> Iterator[pa.Table]:
        """Results met in earlier steps one of whose members is cut: cut rows probe like new."""
        if not any(rows.num_rows for rows in cuts):
            return
        codes = distinct_of(*(numbers(rows, CODE) for rows in cuts))
        whole, shortened = [], []
        for member, (old, new) in enumerate(zip(before, after, strict=True)):
            rows = _with_ends(old.of_codes(codes), new.of_codes(codes), cuts[member])
            ended = numbers(rows, END) < numbers(rows, EXP)
            whole.append([chosen(rows, ~ended)])
            shortened.append(chosen(rows, ended))
        search = self._merged(whole, shortened, [Sorted.of(rows) for rows in shortened], order)
        check = self._check(search)
        for origin in range(len(cuts)):
            for combinations in search.results(origin, check, PAIRS_AT_ONCE, effort):
                tables = search.tables(origin)
                ends = [
                    numbers(rows, END)[combinations.members[m]] for m, rows in enumerate(tables)
                ]
                end = np.minimum.reduce(ends)
                earlier = np.flatnonzero(end < combinations.exp)
                combinations = combinations.chosen(earlier)
                yield self._shortened(combinations, tables, end[earlier])

    def _shortened(
        self, combinations: Partial, tables: Sequence[pa.Table], end: Int64s
    ) -> pa.Table:
        table = with_numbers(self._results(combinations, tables, combinations.exp), **{END: end})
        if self.dual:
            seen = [
                numbers(rows, SEEN_END)[combinations.members[m]] for m, rows in enumerate(tables)
            ]
            table = with_numbers(table, **{SEEN_END: np.minimum.reduce(seen)})
        return table

    # ── conditions ────────────────────────────────────────────────────────────────────────

    def _halts(self, joined: Collection[int]) -> bool:
        """Whether there is something to check when the last of these inputs has been joined."""
        *_, last = joined
        reads = map(self._reads, self.residual)
        return not self.key.exact or any(last in each and each <= set(joined) for each in reads)

    def _check(self, search: Search | AtOnce) -> Check:
        collisions = not self.key.exact and self._collide(search.rows)

        def holding(
            combinations: Held, tables: Sequence[pa.Table], origin: int, member: int
        ) -> Held:
            if collisions:
                combinations = self._with_one_key(combinations, tables, origin, member)
            for term in self.residual:
                reads = self._reads(term)
                if (
                    member in reads
                    and reads <= combinations.members.keys()
                    and len(combinations.codes)
                ):
                    marks = satisfying(term, self._read(term, combinations, tables, reads))
                    combinations = combinations.chosen(np.flatnonzero(marks))
            return combinations

        return holding

    def _collide(self, rows: Sequence[pa.Table]) -> bool:
        """Whether rows with one code have different keys: then pairs are compared by key."""
        codes = np.concatenate([numbers(table, CODE) for table in rows])
        order = np.argsort(codes, kind="stable")
        same = np.flatnonzero(np.diff(codes[order]) == 0)
        listed = [self.key.columns(table, member) for member, table in enumerate(rows)]
        for columns in zip(*listed, strict=True):
            values = pa.concat_arrays(columns)
            first, other = (values.take(pa.array(order[places])) for places in (same, same + 1))
            if not same_key(first, other).to_numpy(zero_copy_only=False).all():
                return True
        return False

    def _with_one_key(
        self, combinations: Held, tables: Sequence[pa.Table], origin: int, member: int
    ) -> Held:
        here = tables[origin].take(pa.array(combinations.members[origin]))
        there = tables[member].take(pa.array(combinations.members[member]))
        equal = np.ones(len(combinations.codes), dtype=bool)
        keys = self.key.columns(here, origin), self.key.columns(there, member)
        for column, other in zip(*keys, strict=True):
            equal &= same_key(column, other).to_numpy(zero_copy_only=False)
        return combinations.chosen(np.flatnonzero(equal))

    def _reads(self, term: Expression) -> set[int]:
        """The inputs whose columns a condition reads."""
        names = {column_name(column) for column in term.columns()}
        return {m for m, columns in enumerate(self.columns) if names & set(columns.names)}

    def _read(
        self, term: Expression, combinations: Partial, tables: Sequence[pa.Table], reads: set[int]
    ) -> pa.Table:
        column_names = {column_name(column) for column in term.columns()}
        columns = {}
        for member in reads:
            names = [name for name in self.columns[member].names if name in column_names]
            rows = tables[member].select(names).take(pa.array(combinations.members[member]))
            columns.update(dict(zip(names, rows.columns, strict=True)))
        return pa.table(columns)

    def _results(self, combinations: Partial, tables: Sequence[pa.Table], exp: Int64s) -> pa.Table:
        arrays: list[pa.ChunkedArray | pa.Array] = []
        for member, columns in enumerate(self.result_columns):
            if columns.names:
                places = pa.array(combinations.members[member])
                arrays += tables[member].select(columns.names).take(places).columns
        ids = numbers(tables[0], ID)[combinations.members[0]]
        for member in range(1, len(tables)):
            ids = mixed_ids(ids, numbers(tables[member], ID)[combinations.members[member]])
        life = [combinations.ts, exp, ids]
        if self.dual:
            seen = [numbers(rows, SEEN)[combinations.members[m]] for m, rows in enumerate(tables)]
            life.append(np.minimum.reduce(seen))
        fields = [schema_field for columns in self.result_columns for schema_field in columns]
        fields += [pa.field(name, pa.int64()) for name in (*LIFE, SEEN)[: len(life)]]
        return pa.table([*arrays, *map(pa.array, life)], schema=pa.schema(fields))


def _clustered(rows: pa.Table) -> pa.Table:
    return clustered(rows) if rows.num_rows else rows


def _touched(
    kept: Sequence[KeptRows], new: Sequence[Int64s], order: tuple[int, ...]
) -> tuple[list[list[pa.Table]], Int64s]:
    """The kept rows whose codes new rows (of sorted codes) bring, and the codes that every input
    has. One that is missing in an input is not looked up in those after it."""
    codes = distinct_of(*new)
    tables: list[list[pa.Table]] = [[] for _ in kept]
    for member in order:
        tables[member] = kept[member].of_codes(codes)
        present = distinct_of(new[member], *(numbers(table, CODE) for table in tables[member]))
        codes = common_of(codes, present)
    return tables, codes


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
