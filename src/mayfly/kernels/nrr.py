"""Joins with an NRR, a relation whose changes concern later rows only (thesis 3.3.1).

Idea: a result reflects the relation at its own ``_ts``: a change at τ concerns rows with _ts > τ.
So versions of the relation are kept, and rows only pass. Under NT results wait for their row's cut.
Invariant: no change of the relation changes a result. Cost: O(new rows · log + candidates).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    SEEN,
    SEEN_END,
    Delta,
    concatenated,
    mixed_ids,
    with_numbers,
)
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_pairs import matching_pairs
from mayfly.kernels.kept_rows import KeptRows, Shape
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers
from mayfly.kernels.operator import (
    NO_IDS,
    Holding,
    Key,
    Lying,
    Moving,
    Operator,
    StateKey,
    plain_key,
)
from mayfly.kernels.window_join import PAIRS_AT_ONCE, Condition, keys_of, no_rows
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class NrrState:
    """The NRR's versions that later rows may meet, and results that await their cut (NT)."""

    relation: KeptRows
    results: KeptRows

    @property
    def rows(self) -> int:
        return self.relation.rows + self.results.rows

    @property
    def bytes(self) -> int:
        return self.relation.bytes + self.results.bytes


@dataclass(frozen=True, slots=True)
class NrrJoinRows(Operator):
    """Rows joined with the NRR as it was just before each of them (thesis 3.3.1).

    ``cuts`` says that the input may be cut (NT): then results are remembered by their row.
    """

    name: str
    condition: Condition
    columns: tuple[pa.Schema, pa.Schema]
    cuts: bool = False
    dual: bool = False
    padded: bool = False
    """Whether a row without a partner is a result, with NULLs (LEFT JOIN)."""

    def state(self) -> NrrState:
        return NrrState(KeptRows(Shape()), KeptRows(Shape(Structure.HASH)))

    def state_key(self) -> StateKey:
        parts: tuple[tuple[str, object], ...] = (
            ("condition", self.condition),
            ("columns", self.columns),
            ("cuts", self.cuts),
            ("dual", self.dual),
        )
        return StateKey("NrrJoinRows", (*parts, ("padded", True)) if self.padded else parts)

    @property
    def title(self) -> str:
        return "NRR left join" if self.padded else "NRR join"

    @property
    def detail(self) -> str:
        return self.condition.text or "(every pair)"

    def holdings(self) -> tuple[Holding, ...]:
        words, reason = self.condition.words(1), "rows meet the version before them"
        held: tuple[Holding, ...] = (Holding("relation", Structure.APPEND, "", 1, words, reason),)
        if self.cuts:
            held += (Holding("results", Structure.HASH, "results to cut", None, ("its row",)),)
        return held

    @property
    def moving(self) -> Moving:
        return Moving.NEAR

    def key_of(self, side: int = 0) -> Key:
        return plain_key(self.condition.keys[side], self.condition.types)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        first = kept[0] or Spread()
        if not first.has(self.key_of()):
            return first
        return first | Spread.by(self.key_of(), self.key_of(1))

    @property
    def momentary(self) -> bool:
        return True

    @property
    def lying(self) -> Lying:
        return Lying.COPIED

    def identities(self, state: NrrState) -> Int64s:
        return np.concatenate([NO_IDS, *state.results.column(ID)])

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.condition.codes(rows, 1) if part == "relation" else None

    def step(
        self, state: NrrState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[NrrState, Delta]:
        """Each new row with the relation as it was before it."""
        child, changes = inputs
        rows = self.condition.coded(child.born, 0)
        inserted = self.condition.coded(_effective(changes.born), 1)
        relation = state.relation.cut(self.condition.coded(_effective(changes.cut), 1))
        born = [self._nothing().born]
        lonely = np.ones(rows.num_rows, bool)
        for table in (*(run.load() for run in relation.runs), inserted):
            born += self._met(rows, table, lonely)
        if self.padded:
            # Rows whose key is NULL meet nothing, and have no code.
            met = np.isin(numbers(child.born, ID), numbers(rows, ID)[~lonely])
            born.append(self._alone(chosen(child.born, ~met)))
        delta = Delta(concatenated(born), self._nothing().cut)
        if self.cuts:
            state, delta = self._remembered(state, delta, child.cut, interval)
        fresh = chosen(inserted, numbers(inserted, EXP) > interval.clock)
        return NrrState(relation.after(fresh, interval.clock), state.results), delta

    def _met(
        self, rows: pa.Table, versions: pa.Table, lonely: npt.NDArray[np.bool_]
    ) -> Iterator[pa.Table]:
        """Rows with versions; those that meet one are lonely no more."""
        if not rows.num_rows or not versions.num_rows:
            return
        codes, ts = numbers(rows, CODE), numbers(rows, TS)
        for pairs in matching_pairs((codes, ts, ts + 1), keys_of(versions), PAIRS_AT_ONCE):
            pairs = self.condition.kept(rows, versions, pairs)
            lonely[pairs[0]] = False
            mine, other = (pa.array(places) for places in pairs)
            payload = rows.select(self.columns[0].names).take(mine).columns
            payload = [*payload, *versions.select(self.columns[1].names).take(other).columns]
            carried = [*LIFE, *((SEEN,) if self.dual else ())]
            life = {name: numbers(rows, name)[pairs[0]] for name in carried}
            life[ID] = mixed_ids(life[ID], numbers(versions, ID)[pairs[1]])
            yield self._results(payload, life, numbers(rows, ID)[pairs[0]])

    def _alone(self, rows: pa.Table) -> pa.Table:
        """Rows with NULLs for the relation's columns."""
        nulls = [pa.nulls(rows.num_rows, field.type) for field in self.columns[1]]
        payload = [*rows.select(self.columns[0].names).columns, *nulls]
        carried = [*LIFE, *((SEEN,) if self.dual else ())]
        life = {name: numbers(rows, name) for name in carried}
        return self._results(payload, life, numbers(rows, ID))

    def _results(
        self, payload: Sequence[pa.ChunkedArray], life: dict[str, Int64s], origins: Int64s
    ) -> pa.Table:
        fields = [*self.columns[0], *self.columns[1]]
        fields += [pa.field(name, pa.int64()) for name in life]
        arrays = [*payload, *(pa.array(numbers) for numbers in life.values())]
        table = pa.table(arrays, schema=pa.schema(fields))
        return with_numbers(table, **{CODE: origins}) if self.cuts else table

    def _remembered(
        self, state: NrrState, delta: Delta, cut: pa.Table, interval: Interval
    ) -> tuple[NrrState, Delta]:
        nothing = self._nothing()
        ids = np.unique(numbers(cut, ID))
        results = concatenated(
            [with_numbers(nothing.born, **{CODE: ids[:0]}), *state.results.of_codes(ids)]
        )
        ends = np.empty(0, np.int64)
        if results.num_rows:
            order = np.argsort(numbers(cut, ID))
            positions = np.searchsorted(numbers(cut, ID)[order], numbers(results, CODE))
            ends = numbers(cut, END)[order][positions]
        dying = with_numbers(results, **{END: ends})
        if self.dual:
            dying = with_numbers(dying, **{SEEN_END: np.minimum(numbers(dying, SEEN), ends)})
        born = delta.born
        lasting = chosen(born, numbers(born, EXP) > interval.clock) if born.num_rows else None
        kept = state.results.without(ids)
        if lasting is not None and lasting.num_rows:
            kept = kept.after(clustered(lasting), interval.clock)
        else:
            kept = kept.after(no_rows(), interval.clock)
        return NrrState(state.relation, kept), Delta(
            born.select(nothing.born.schema.names), dying.select(nothing.cut.schema.names)
        )

    def _nothing(self) -> Delta:
        return Delta.empty(pa.schema([*self.columns[0], *self.columns[1]]), dual=self.dual)


def _effective(changes: pa.Table) -> pa.Table:
    """A change at τ concerns the rows after τ: both ends of a version move by one instant."""

    def after(name: str) -> Int64s:
        times = numbers(changes, name)
        fixed = (times == NEVER) | (times == MIN_TIME)
        moved: Int64s = np.where(fixed, times, times + 1)
        return moved

    names = [name for name in (TS, EXP, END) if name in changes.schema.names]
    return with_numbers(changes, **{name: after(name) for name in names})
