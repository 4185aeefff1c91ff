"""From the versions of groups to their results: what is born, what is cut, what is kept.

Idea: each version stands behind the one before it of its group, the first one behind the result
that is kept. Equal versions in a row are one result; it is born for ever and cut when the next one
replaces it (an array by group, thesis 3.5.2).
Invariant: at most one result per group and instant. Cost: O(versions).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.kernels.codes import adjacent_equal
from mayfly.kernels.delta import (
    END,
    ID,
    SEEN,
    SEEN_END,
    Delta,
    concatenated,
    mixed_ids,
    taken,
    with_numbers,
)
from mayfly.kernels.kept import Kept
from mayfly.kernels.rows import CODE, Bools, chosen, numbers, whole
from mayfly.kernels.sorting import Int64s, places_in
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage.segment import EXP, TS

COUNT = "_count"
SHOWN = "_shown"


@dataclass(frozen=True)
class Results:
    """The results of groups: ``keys`` columns that name the group, then its aggregates."""

    columns: pa.Schema
    keys: int
    is_global: bool
    dual: bool

    @property
    def nothing(self) -> Delta:
        return Delta.empty(self.columns, dual=self.dual)

    def replace(
        self, kept: Kept, known: pa.Table, table: pa.Table, versions: Int64s, codes: Int64s
    ) -> tuple[Kept, Delta]:
        """The versions in ``table`` (of these groups) against the last results, which are known."""
        previous = places_in(codes, numbers(known, CODE))
        sequence = concatenated([known.select(table.schema.names), table])
        order = _each_before(previous, versions, len(codes))
        sequence = taken(sequence, order)
        group = np.concatenate([previous, versions])[order]
        old = order < len(previous)
        starts = self._changes(sequence, group) & ~old
        return self._pieces(kept, sequence, group, old, starts, codes)

    def _changes(self, sequence: pa.Table, group: Int64s) -> Bools:
        """Where a version differs from the one before it."""
        changed = np.ones(len(group), dtype=bool)
        if len(group) > 1:
            same = group[1:] == group[:-1]
            shown = numbers(sequence, SHOWN)
            equal = np.ones(len(same), dtype=bool)
            for name in self.columns.names[self.keys :]:
                equal &= adjacent_equal(whole(sequence.column(name)))
            hidden = (shown[1:] == 0) & (shown[:-1] == 0)
            changed[1:] = ~(same & (hidden | ((shown[1:] == shown[:-1]) & equal)))
        return changed

    def _pieces(
        self,
        groups: Kept,
        sequence: pa.Table,
        group: Int64s,
        old: Bools,
        starts: Bools,
        codes: Int64s,
    ) -> tuple[Kept, Delta]:
        """Each result from where it begins to where the next one of its group does."""
        ts, shown = numbers(sequence, TS).copy(), numbers(sequence, SHOWN) == 1
        # A result keeps the identity that it was born with.
        ids = np.where(old, numbers(sequence, ID), mixed_ids(numbers(sequence, CODE), ts))
        sequence = with_numbers(sequence, **{ID: ids})
        heads = np.flatnonzero(starts | old)
        following = np.full(len(heads), NEVER, dtype=np.int64)
        if len(heads) > 1:
            joined = group[heads[1:]] == group[heads[:-1]]
            following[:-1][joined] = ts[heads[1:]][joined]
        born_at = starts[heads] & shown[heads]
        born = taken(sequence, heads[born_at])
        born = with_numbers(born, **{EXP: following[born_at]})
        cut_at = old[heads] & shown[heads] & (following != NEVER)
        cut = with_numbers(taken(sequence, heads[cut_at]), **{END: following[cut_at]})
        kept = self._latest(sequence, group, heads)
        groups = groups.without(codes).after(kept, MIN_TIME)
        return groups, self._delta(born, cut)

    def _latest(self, sequence: pa.Table, group: Int64s, heads: Int64s) -> pa.Table:
        """The row to keep per group: totals of its last version, since when its result holds."""
        last = np.flatnonzero(np.append(group[1:] != group[:-1], True)) if len(group) else group
        at = np.searchsorted(heads, last, side="right") - 1
        since, ids = (numbers(sequence, name)[heads[at]] for name in (TS, ID))
        life = {TS: since, EXP: np.full(len(since), NEVER), ID: ids}
        rows = with_numbers(taken(sequence, last), **life)
        if self.is_global:
            return rows
        return chosen(rows, numbers(rows, COUNT) > 0)

    def append(
        self, groups: Kept, table: pa.Table, versions: Int64s, codes: Int64s
    ) -> tuple[Kept, Delta]:
        """INTERNAL: every version is a result that stays."""
        shown = numbers(table, SHOWN) == 1
        ts = numbers(table, TS)
        visible = chosen(table, shown & (ts > MIN_TIME))
        times = numbers(visible, TS)
        never = np.full(len(times), NEVER)
        born = with_numbers(visible, **{EXP: never, ID: mixed_ids(numbers(visible, CODE), times)})
        last = np.flatnonzero(np.append(versions[1:] != versions[:-1], True))
        kept = taken(table, last)
        if not self.is_global:
            kept = chosen(kept, numbers(kept, COUNT) > 0)
        return groups.without(codes).after(kept, MIN_TIME), self._delta(
            born, with_numbers(born.slice(0, 0), **{END: np.empty(0, np.int64)})
        )

    def _delta(self, born: pa.Table, cut: pa.Table) -> Delta:
        nothing = self.nothing
        if self.dual:
            born = with_numbers(born, **{SEEN: numbers(born, EXP)})
            cut = with_numbers(cut, **{SEEN: numbers(cut, EXP), SEEN_END: numbers(cut, END)})
        return Delta(born.select(nothing.born.schema.names), cut.select(nothing.cut.schema.names))


def _each_before(few: Int64s, many: Int64s, groups: int) -> Int64s:
    """The order of few and many (both sorted) in which one of the few precedes its group."""
    present = np.zeros(groups, np.int64)
    present[few] = 1
    place = np.arange(len(many)) + np.cumsum(present)[many]
    first = np.ones(len(few) + len(many), dtype=bool)
    first[place] = False
    order = np.empty(len(first), np.int64)
    order[place] = np.arange(len(few), len(first))
    order[first] = np.arange(len(few))
    return order
