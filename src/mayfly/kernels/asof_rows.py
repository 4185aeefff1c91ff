"""ASOF JOIN as an append-only stream: each row with the latest row of its key before it.

Idea: over streams that never expire, compared by their own times, the partner of a row is there
when the instant of the row is closed. Of what came before the clock only the last right row of each
key can still be a partner. Invariant: one right row per key is kept.
Cost: O(new rows · log) and the kept rows of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.asof_terms import AsofTerms, OfClosest, closest
from mayfly.kernels.codes import check_codes
from mayfly.kernels.delta import ID, LIFE, Delta, concatenated, mixed_ids, taken
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers, whole
from mayfly.kernels.operator import Holding, StateKey
from mayfly.kernels.room import touch
from mayfly.lifetime import MIN_TIME
from mayfly.plan.strategy import Structure


@dataclass(frozen=True, slots=True)
class AsofState:
    """The last right row of each key."""

    latest: KeptRows

    @property
    def rows(self) -> int:
        return self.latest.rows

    @property
    def bytes(self) -> int:
        return self.latest.bytes


@dataclass(frozen=True)
class AsofRows(OfClosest):
    """Left rows with their partners; ``padded`` keeps those without."""

    name: str
    columns: tuple[pa.Schema, pa.Schema]
    terms: AsofTerms
    padded: bool
    because: str = ""

    def state(self) -> AsofState:
        return AsofState(KeptRows(Shape(Structure.GROUPS)))

    def state_key(self) -> StateKey:
        return StateKey(
            "AsofRows",
            (
                ("columns", self.columns),
                *self.terms.state_parts,
                ("padded", self.padded),
            ),
        )

    @property
    def detail(self) -> str:
        return f"{self.terms.text}; append-only: {self.because}"

    def holdings(self) -> tuple[Holding, ...]:
        words, what = self.terms.words(1), "the last row of each key"
        reason = "a later row takes the place of an earlier one"
        keys = self.terms.keys[1]
        return (Holding("latest", Structure.GROUPS, what, 1, words, reason, per_key=1, keys=keys),)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self.terms.stored_codes(rows, 1)

    @property
    def quiet(self) -> bool:
        return True

    # ── a step ────────────────────────────────────────────────────────────────────────────

    def step(
        self, state: AsofState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[AsofState, Delta]:
        """Results of the left rows whose instants are closed now."""
        left, fresh = inputs[0].born, self._right(inputs[1].born)
        nothing = Delta.empty(self._results)
        if not left.num_rows and not fresh.num_rows:
            return state, nothing
        own = self.terms.codes(left, 0)
        codes = np.unique(np.concatenate([own, numbers(fresh, CODE)]))
        stored = rows_with(state.latest.of_codes(codes), fresh.slice(0, 0))
        touch(stored.num_rows + left.num_rows + fresh.num_rows)
        right = concatenated([stored, fresh])
        moments, times = self.terms.moments(left, right)
        ties = self.terms.tie_columns(right)
        order = stable_order(numbers(right, CODE), times, *ties, numbers(right, ID))
        right, times = taken(right, order), times[order]
        code = numbers(right, CODE)
        check_codes(code, [whole(right.column(name)) for name in self.terms.key_names(1)])
        match = self.terms.match
        partner = closest(own, moments, code, times, match.backward, match.inclusive)
        partner[~self.terms.is_able(left, 0)] = -1
        results = self._joined(left, right, partner)
        ends = np.flatnonzero(np.append(code[1:] != code[:-1], True)) if len(code) else code
        last = clustered(taken(right, ends)) if len(code) else right
        touched = np.unique(numbers(fresh, CODE))
        last = chosen(last, np.isin(numbers(last, CODE), touched))
        return AsofState(state.latest.without(touched).after(last, MIN_TIME)), Delta(
            results, nothing.cut
        )

    @cached_property
    def _results(self) -> pa.Schema:
        return pa.schema([*self.columns[0], *self.columns[1]])

    def _right(self, rows: pa.Table) -> pa.Table:
        """Rows that may be a partner, with their key."""
        coded = self.terms.coded(rows, self.columns[1], 1)
        return chosen(coded, self.terms.is_able(coded, 1)) if coded.num_rows else coded

    def _joined(self, left: pa.Table, right: pa.Table, partner: Int64s) -> pa.Table:
        met = partner >= 0
        places = np.arange(left.num_rows) if self.padded else np.flatnonzero(met)
        left, partner = taken(left, places), partner[places]
        beside = right.select(self.columns[1].names)
        if right.num_rows:
            beside = beside.take(pa.array(partner, mask=partner < 0))
        else:
            nulls = [pa.nulls(len(partner), field.type) for field in self.columns[1]]
            beside = pa.table(nulls, schema=self.columns[1])
        ids = np.zeros(len(partner), np.int64)
        if right.num_rows:
            ids = np.where(partner < 0, 0, numbers(right, ID)[partner])
        life = {name: numbers(left, name) for name in LIFE}
        life[ID] = mixed_ids(life[ID], ids)
        arrays = [*left.select(self.columns[0].names).columns, *beside.columns]
        schema = Delta.empty(self._results).born.schema
        return pa.table([*arrays, *map(pa.array, life.values())], schema=schema)
