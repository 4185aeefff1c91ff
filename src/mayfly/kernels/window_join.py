"""Joins of rows with lifetimes: windows with windows, and with relations.

Idea: a result lives in ``[max(_ts), min(_exp))`` over its members, if that is not empty (thesis
5.2; the only test). A step meets new rows with kept ones and with each other, using the lifetimes
after this step's cuts; then it looks up what a cut row had met before, and cuts those results.
A retroactive relation is a side whose rows live from their insertion to their deletion.
Invariant: each pair is found once, whatever the cut of the input into steps.
Cost: O(groups · log + candidates) per pair of runs; state by update pattern, see ``kept``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import group_codes, key_codes
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    OWNER,
    SEEN,
    SEEN_END,
    Delta,
    payload_names,
    united,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_pairs import lives_together, matching_pairs
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, RowRun, chosen, clustered, numbers
from mayfly.kernels.operator import (
    NO_IDS,
    Copy,
    Forgetting,
    Holding,
    Key,
    Operator,
    StateKey,
    Working,
    plain_key,
)
from mayfly.kernels.stateless import satisfying, values_of
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Expression, conjuncts
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.types import DataType, arrow_type
from mayfly.storage.segment import EXP, TS

PAIRS_AT_ONCE = 1 << 17
Pairs = tuple[Int64s, Int64s]


@dataclass(frozen=True, slots=True)
class Condition:
    """When two rows match: equal keys (one expression per side and type) and the residual."""

    keys: tuple[tuple[Expression, ...], tuple[Expression, ...]]
    types: tuple[DataType, ...]
    exact: bool
    residual: Expression | None = None

    @property
    def text(self) -> str:
        """In the words of the language."""
        pairs = [" = ".join(both) for both in zip(self.words(0), self.words(1), strict=True)]
        rest = [expression_text(self.residual)] if self.residual is not None else []
        return " AND ".join([*pairs, *rest])

    @property
    def workings(self) -> tuple[Working, ...]:
        """How partners are found, where that is not by their key."""
        return ()

    def words(self, side: int) -> tuple[str, ...]:
        return tuple(map(expression_text, self.keys[side]))

    def _key(self, rows: pa.Table, side: int) -> list[pa.Array]:
        typed = zip(self.keys[side], self.types, strict=True)
        return [values_of(key, rows, arrow_type(kind)) for key, kind in typed]

    def codes(self, rows: pa.Table, side: int) -> Int64s:
        """The code of each row, NULLs included: where it goes, and what it is kept under."""
        return group_codes(self._key(rows, side), rows.num_rows)

    def coded(self, rows: pa.Table, side: int) -> pa.Table:
        """The rows that have a key, with its code, clustered."""
        rows = self.with_codes(rows, side)
        return clustered(rows) if rows.num_rows else rows

    def with_codes(self, rows: pa.Table, side: int) -> pa.Table:
        """The rows that have a key, with its code, as they come."""
        if not self.types:
            codes = np.zeros(rows.num_rows, np.int64)
        else:
            keys = [pa.chunked_array([key]) for key in self._key(rows, side)]
            coded = key_codes(keys, self.types)
            if coded.null_count:
                mask = pc.is_valid(coded).to_numpy(zero_copy_only=False)
                rows, coded = chosen(rows, mask), coded.drop_null()
            codes = coded.to_numpy(zero_copy_only=False)
        return with_code(rows, codes)

    def candidates(self, left: pa.Table, right: pa.Table) -> Iterator[Pairs]:
        """Positions of pairs with equal codes that are ever alive together, in pieces."""
        return matching_pairs(keys_of(left), keys_of(right), PAIRS_AT_ONCE)

    def keyless(self, rows: pa.Table, side: int) -> int:
        """How many rows have no key, because a part of it is NULL: they have no partners."""
        keys = self._key(rows, side)
        missing = [pc.is_null(key).to_numpy(zero_copy_only=False) for key in keys if key.null_count]
        return int(np.count_nonzero(np.logical_or.reduce(missing))) if missing else 0

    def kept(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> Pairs:
        """The pairs of positions for which everything beyond the codes holds."""
        if not self.exact:
            pairs = self._really_equal(left, right, pairs)
        for term in conjuncts(self.residual):
            if len(pairs[0]):
                marks = satisfying(term, _side_by_side(left, right, pairs))
                pairs = pairs[0][marks], pairs[1][marks]
        return pairs

    def _really_equal(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> Pairs:
        """Different keys may share a hash."""
        keep = np.ones(len(pairs[0]), dtype=bool)
        sides = [left.take(pa.array(pairs[0])), right.take(pa.array(pairs[1]))]
        for *both, kind in zip(*self.keys, self.types, strict=True):
            values, other = (
                values_of(key, rows, arrow_type(kind))
                for key, rows in zip(both, sides, strict=True)
            )
            keep &= same_key(values, other).to_numpy(zero_copy_only=False)
        return pairs[0][keep], pairs[1][keep]


def with_code(rows: pa.Table, codes: Int64s) -> pa.Table:
    """The rows under their codes."""
    return with_numbers(rows.combine_chunks(), **{CODE: np.ascontiguousarray(codes)})


def _side_by_side(left: pa.Table, right: pa.Table, pairs: Pairs) -> pa.Table:
    """The payload of both members of every pair."""
    columns = {}
    for table, positions in zip((left, right), pairs, strict=True):
        taken = table.select(payload_names(table)).take(pa.array(positions))
        columns.update(dict(zip(taken.schema.names, taken.columns, strict=True)))
    if not columns:
        return pa.table({"_": pa.nulls(len(pairs[0]))})
    return pa.table(columns)


@dataclass(frozen=True, slots=True)
class BothKept:
    """What the two sides of a join remember."""

    left: KeptRows
    right: KeptRows

    @property
    def kept(self) -> tuple[KeptRows, KeptRows]:
        return self.left, self.right

    @property
    def rows(self) -> int:
        return self.left.rows + self.right.rows

    @property
    def bytes(self) -> int:
        return self.left.bytes + self.right.bytes


@dataclass(frozen=True, slots=True)
class JoinRows(Operator):
    """The join of two inputs: a result is a pair that is alive together."""

    name: str
    condition: Condition
    columns: tuple[pa.Schema, pa.Schema]
    shapes: tuple[Shape, Shape]
    dual: bool = False
    owned: bool = False
    """Whether results say which left row they belong to."""

    def state(self) -> BothKept:
        return BothKept(KeptRows(self.shapes[0]), KeptRows(self.shapes[1]))

    def state_key(self) -> StateKey:
        return StateKey(
            "JoinRows",
            (
                ("condition", self.condition),
                ("columns", self.columns),
                ("shapes", self.shapes),
                ("dual", self.dual),
                ("owned", self.owned),
            ),
        )

    @property
    def title(self) -> str:
        return "Join"

    @property
    def detail(self) -> str:
        return self.condition.text or "(every pair)"

    @property
    def reason(self) -> str:
        return "matching tuples meet in one bucket"

    def holdings(self) -> tuple[Holding, ...]:
        return kept_inputs(self, ("left", "right"), self.shapes)

    def workings(self) -> tuple[Working, ...]:
        return self.condition.workings

    @property
    def keyed(self) -> bool:
        return bool(self.condition.types)

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.condition.keys[side], self.condition.types)

    def key_words(self, side: int = 0) -> tuple[str, ...]:
        return self.condition.words(side)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return joined_spread(self, kept)

    def identities(self, state: BothKept) -> Int64s:
        return joined_identities(self, (state.left, state.right))

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        """The code by which rows may be spread over buckets, None if they may not."""
        return partition_codes(self.condition, rows, side)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.condition.codes(rows, 0 if part == "left" else 1)

    def copy(self, side: int) -> Copy | None:
        return Copy(("left", "right")[side], None, self.condition.keys[side], behind=1)

    def forgets(self) -> tuple[Forgetting, ...]:
        """A side's rows are of no use when no partner comes from the other one."""
        if self.dual:
            return ()
        pairs = zip(self.key_of(0), self.key_of(1), strict=True)
        equal = [(left, right) for left, right in pairs if left is not None and right is not None]
        turned = tuple((right, left) for left, right in equal)
        return Forgetting(("left",), {1: turned}), Forgetting(("right",), {0: tuple(equal)})

    def step(
        self, state: BothKept, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[BothKept, Delta]:
        after, pieces = self.pieces(state, inputs, interval)
        return after, united(pieces, self.nothing())

    @property
    def quiet(self) -> bool:
        return True

    @property
    def combines(self) -> bool:
        return True

    def coded(self, rows: pa.Table, side: int) -> pa.Table:
        return self.condition.coded(rows, side)

    def keyless(self, rows: pa.Table, side: int) -> int:
        return self.condition.keyless(rows, side)

    def pieces(
        self, state: BothKept, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[BothKept, Iterator[Delta]]:
        """Results in pieces of bounded size, made when they are drawn."""
        if not any(delta.rows for delta in inputs):
            return self._advanced(state, (None, None), interval.clock), iter(())
        new = [self.condition.coded(delta.born, side) for side, delta in enumerate(inputs)]
        cuts = [self.condition.coded(delta.cut, side) for side, delta in enumerate(inputs)]
        after = BothKept(state.left.cut(cuts[0]), state.right.cut(cuts[1]))
        fresh = tuple(chosen(rows, numbers(rows, EXP) > interval.clock) for rows in new)
        nothing = self.nothing()
        born = (Delta(rows, nothing.cut) for rows in self._born(new[0], new[1], after))
        cut = (Delta(nothing.born, rows) for rows in self._cut(state, after, cuts[0], cuts[1]))
        return self._advanced(after, (fresh[0], fresh[1]), interval.clock), chain(born, cut)

    def giving(self, names: Collection[str]) -> JoinRows:
        left, right = (
            pa.schema([column for column in columns if column.name in names])
            for columns in self.columns
        )
        return replace(self, columns=(left, right))

    def nothing(self) -> Delta:
        owner = [(OWNER, pa.int64())] if self.owned else []
        columns = pa.schema([*self.columns[0], *self.columns[1], *owner])
        return Delta.empty(columns, dual=self.dual)

    def _advanced(
        self, state: BothKept, fresh: tuple[pa.Table | None, pa.Table | None], clock: int
    ) -> BothKept:
        left, right = (
            kept.after(no_rows() if rows is None else rows, clock)
            for kept, rows in zip((state.left, state.right), fresh, strict=True)
        )
        return BothKept(left, right)

    def _born(self, left: pa.Table, right: pa.Table, kept: BothKept) -> Iterator[pa.Table]:
        """New × kept, kept × new, new × new."""
        meetings = [
            *((left, run.load()) for run in kept.right.runs if _may_meet(left, run)),
            *((run.load(), right) for run in kept.left.runs if _may_meet(right, run)),
            (left, right),
        ]
        for table, other in meetings:
            for pairs in self._pairs(table, other):
                yield self._results(table, other, pairs)

    def _pairs(self, left: pa.Table, right: pa.Table) -> Iterator[Pairs]:
        if not left.num_rows or not right.num_rows:
            return
        for pairs in self.condition.candidates(left, right):
            pairs = self.condition.kept(left, right, pairs)
            if len(pairs[0]):
                yield pairs

    def _results(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> pa.Table:
        table = self._members(left, right, pairs)
        if self.dual:
            seen = [
                numbers(rows, SEEN)[positions]
                for rows, positions in zip((left, right), pairs, strict=True)
            ]
            table = with_numbers(table, **{SEEN: np.minimum(*seen)})
        return table

    def _members(self, left: pa.Table, right: pa.Table, pairs: Pairs) -> pa.Table:
        arrays: list[pa.ChunkedArray] = []
        for rows, positions, columns in zip((left, right), pairs, self.columns, strict=True):
            if columns.names:
                arrays += rows.select(columns.names).take(pa.array(positions)).columns
        mine, other = (
            (numbers(rows, TS), numbers(rows, EXP), numbers(rows, ID)) for rows in (left, right)
        )
        arrays += [pa.array(numbers(left, ID)[pairs[0]])] if self.owned else []
        arrays += map(pa.array, lives_together(mine, other, pairs))
        names = [*((OWNER,) if self.owned else ()), *LIFE]
        fields = [*self.columns[0], *self.columns[1], *((name, pa.int64()) for name in names)]
        return pa.table(arrays, schema=pa.schema(fields))

    def _cut(
        self, before: BothKept, after: BothKept, left: pa.Table, right: pa.Table
    ) -> Iterator[pa.Table]:
        """What the cut rows had met before: cut × kept, then (kept and not cut) × cut."""
        if left.num_rows:
            for old, new in zip(before.right.runs, after.right.runs, strict=True):
                yield from self._shortened(left, _with_new_ends(old, new))
        if right.num_rows:
            for old, new in zip(before.left.runs, after.left.runs, strict=True):
                rows = _with_new_ends(old, new)
                uncut = numbers(rows, END) == numbers(rows, EXP)
                yield from self._shortened(chosen(rows, uncut), right)

    def _shortened(self, left: pa.Table, right: pa.Table) -> Iterator[pa.Table]:
        for pairs in self._pairs(left, right):
            both = tuple(zip((left, right), pairs, strict=True))
            end = np.minimum(*(numbers(rows, END)[positions] for rows, positions in both))
            table = self._members(left, right, pairs)
            if self.dual:
                seen = np.minimum(*(numbers(rows, SEEN)[positions] for rows, positions in both))
                table = with_numbers(table, **{SEEN: seen})
            table = with_numbers(table, **{END: end})
            if self.dual:
                seen_end = np.minimum(
                    *(numbers(rows, SEEN_END)[positions] for rows, positions in both)
                )
                table = with_numbers(table, **{SEEN_END: seen_end})
            yield chosen(table, end < numbers(table, EXP))


def kept_inputs(
    operator: Operator, parts: Sequence[str], shapes: Sequence[Shape]
) -> tuple[Holding, ...]:
    """Every input kept whole, by its key."""
    return tuple(
        Holding(part, shape.form, "", side, operator.key_words(side), "", shape.ranges)
        for side, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    )


def joined_spread(operator: Operator, kept: Sequence[Spread | None]) -> Spread:
    """Results lie where their key sends them, and where any of their members was."""
    result = Spread.by(*(operator.key_of(side) for side in range(len(kept))))
    for spread in kept:
        result |= spread or Spread()
    return result


def joined_identities(operator: Operator, kept: Sequence[KeptRows]) -> Int64s:
    """The operator's own step over what it keeps, as if all of it came now."""
    inputs = []
    for store in kept:
        if not store.runs:
            return NO_IDS
        rows = pa.concat_tables([run.load() for run in store.runs]).combine_chunks()
        inputs.append(Delta(rows, rows.slice(0, 0)))
    _, delta = operator.step(operator.state(), inputs, Interval(MIN_TIME + 1, NEVER))
    return numbers(delta.born, ID)


def same_key(left: pa.Array, right: pa.Array) -> pa.Array:
    """Equality of join keys as in Spark: NaN equals NaN, and -0.0 equals 0.0."""
    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return pc.fill_null(same, False)


def partition_codes(condition: Condition, rows: pa.Table, side: int) -> Int64s | None:
    return condition.codes(rows, side) if condition.types else None


def no_rows() -> pa.Table:
    return pa.table({name: pa.array([], pa.int64()) for name in (CODE, TS, EXP, ID)})


def _may_meet(rows: pa.Table, run: RowRun) -> bool:
    if not rows.num_rows:
        return False
    ts, exp = numbers(rows, TS), numbers(rows, EXP)
    return bool(ts.min() < run.exp.high and run.ts.low < exp.max())


def keys_of(rows: pa.Table) -> tuple[Int64s, Int64s, Int64s]:
    return numbers(rows, CODE), numbers(rows, TS), numbers(rows, EXP)


def _with_new_ends(old: RowRun, new: RowRun) -> pa.Table:
    """The rows with their lifetimes before this step, and how they end after it."""
    changed = new.load()
    table = with_numbers(old.load(), **{END: numbers(changed, EXP)})
    if SEEN in table.schema.names:
        table = with_numbers(table, **{SEEN_END: numbers(changed, SEEN)})
    return table
