"""From the versions of groups to their results: what is born, what is cut, what is kept.

Idea: each version stands behind the one before it of its group, the first one behind the result
that is kept. Equal versions in a row are one result; it is born for ever and cut when the next one
replaces it (an array by group, thesis 3.5.2).
Invariant: at most one result per group and instant. Cost: O(versions).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, places_in
from mayfly.kernels.codes import adjacent_equal
from mayfly.kernels.delta import (
    END,
    ID,
    LIFE,
    SEEN,
    SEEN_END,
    SHOWN,
    Delta,
    concatenated,
    mixed_ids,
    taken,
    with_numbers,
)
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, Bools, chosen, numbers, whole
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.storage.segment import EXP, TS

COUNT = "_count"


@dataclass(frozen=True)
class GroupResults:
    """The results of groups: ``keys`` columns that name the group, then its aggregates."""

    columns: pa.Schema
    keys: int
    is_global: bool
    dual: bool

    @property
    def nothing(self) -> Delta:
        return Delta.empty(self.columns, dual=self.dual)

    def replace(
        self,
        kept: KeptRows,
        last_results: pa.Table,
        table: pa.Table,
        versions: Int64s,
        codes: Int64s,
    ) -> tuple[KeptRows, Delta]:
        """The versions in ``table`` (of these groups) against the last results, which are known."""
        previous = places_in(codes, numbers(last_results, CODE))
        # A result keeps the identity that it was born with.
        fresh = with_numbers(table, **{ID: mixed_ids(numbers(table, CODE), numbers(table, TS))})
        rows = concatenated([last_results.select(table.schema.names), fresh])
        order = _each_before(previous, versions)
        group = np.concatenate([previous, versions])[order]
        old = order < len(previous)
        starts = self._changes(rows, order, group) & ~old
        pieces = _Pieces(rows, order, group, old, starts)
        latest = self._latest(pieces)
        return kept.without(codes).after(latest, MIN_TIME), self._delta(pieces)

    def _changes(self, rows: pa.Table, order: Int64s, group: Int64s) -> Bools:
        """Where a version differs from the one before it."""
        changed = np.ones(len(group), dtype=bool)
        if len(group) > 1:
            shown = numbers(rows, SHOWN)[order]
            equal = np.ones(len(group) - 1, dtype=bool)
            for name in self.columns.names[self.keys :]:
                equal &= adjacent_equal(whole(rows.column(name)).take(pa.array(order)))
            hidden = (shown[1:] == 0) & (shown[:-1] == 0)
            same = hidden | ((shown[1:] == shown[:-1]) & equal)
            changed[1:] = ~(same & (group[1:] == group[:-1]))
        return changed

    def _delta(self, pieces: _Pieces) -> Delta:
        """Each result from where it begins to where the next one of its group does."""
        rows, heads = pieces.rows, pieces.heads
        following = pieces.following
        shown = numbers(rows, SHOWN)[pieces.order[heads]] == 1
        life = [*self.columns.names, *LIFE]
        fresh = pieces.starts[heads] & shown
        born = taken(rows.select(life), pieces.order[heads[fresh]])
        born = with_numbers(born, **{EXP: following[fresh]})
        gone = pieces.old[heads] & shown & (following != NEVER)
        cut = taken(rows.select(life), pieces.order[heads[gone]])
        return self._seen(born, with_numbers(cut, **{END: following[gone]}))

    def _latest(self, pieces: _Pieces) -> pa.Table:
        """The row to keep per group: totals of its last version, since when its result holds."""
        rows, order, group = pieces.rows, pieces.order, pieces.group
        last = np.flatnonzero(np.append(group[1:] != group[:-1], True)) if len(group) else group
        if not self.is_global:
            last = last[numbers(rows, COUNT)[order[last]] > 0]
        since = order[pieces.heads[pieces.head_of[last]]]
        life = {TS: numbers(rows, TS)[since], EXP: np.full(len(since), NEVER)}
        return with_numbers(taken(rows, order[last]), **life, **{ID: numbers(rows, ID)[since]})

    def append(
        self, groups: KeptRows, table: pa.Table, versions: Int64s, codes: Int64s
    ) -> tuple[KeptRows, Delta]:
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
        cut = with_numbers(born.slice(0, 0), **{END: np.empty(0, np.int64)})
        return groups.without(codes).after(kept, MIN_TIME), self._seen(born, cut)

    def _seen(self, born: pa.Table, cut: pa.Table) -> Delta:
        nothing = self.nothing
        if self.dual:
            born = with_numbers(born, **{SEEN: numbers(born, EXP)})
            cut = with_numbers(cut, **{SEEN: numbers(cut, EXP), SEEN_END: numbers(cut, END)})
        return Delta(born.select(nothing.born.schema.names), cut.select(nothing.cut.schema.names))


@dataclass(frozen=True)
class _Pieces:
    """Kept results and versions (``rows``), to be read in an ``order``: by group and instant.

    ``old`` tells which are kept results, ``starts`` which versions differ from the one before.
    """

    rows: pa.Table
    order: Int64s
    group: Int64s
    old: Bools
    starts: Bools

    @cached_property
    def heads(self) -> Int64s:
        """Where a result begins."""
        heads: Int64s = np.flatnonzero(self.starts | self.old)
        return heads

    @cached_property
    def head_of(self) -> Int64s:
        """Which head each belongs to."""
        return np.cumsum(self.starts | self.old) - 1

    @cached_property
    def following(self) -> Int64s:
        """When each result is replaced by the next one of its group."""
        ts, group = numbers(self.rows, TS)[self.order[self.heads]], self.group[self.heads]
        following = np.full(len(group), NEVER, np.int64)
        np.copyto(following[:-1], ts[1:], where=group[1:] == group[:-1])
        return following


@compiled(f"{WRITE}({READ}, {READ})", plain=True)
def _each_before(few: Int64s, many: Int64s) -> Int64s:
    """The order of few and many (both sorted) in which one of the few precedes its group; each of
    the few has some of the many."""
    order, slot, before = np.empty(len(few) + len(many), np.int64), 0, 0
    for i in range(len(many)):
        if before < len(few) and few[before] == many[i]:
            order[slot] = before
            before += 1
            slot += 1
        order[slot] = len(few) + i
        slot += 1
    return order
