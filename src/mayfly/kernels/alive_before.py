"""The rows of touched groups that were alive before a step, group by group.

Idea: runs are sorted by code, as the touched groups are, so one pass over each finds its rows and
whose they are; a counting sort brings those of a group together. A column is read when an
aggregate asks for it. Of groups that an earlier step left something of (resident.py) no row is
read. Cost: O(log gap) per touched group and run, and the rows of the touched groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import unsigned_zeros
from mayfly.kernels.join_pairs import first_at_least
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, RowRun, numbers, whole
from mayfly.kernels.resident import Part, Parts
from mayfly.lifetime import MIN_TIME
from mayfly.storage.segment import EXP


@dataclass(frozen=True)
class Before:
    """The rows of groups before the step, and whose they are.

    ``left`` is what the groups that are worth it (``large``) leave for the next step.
    """

    runs: tuple[RowRun, ...]
    places: tuple[Int64s, ...]
    """Which rows of each run."""
    order: Int64s
    """In which order the rows of all runs stand group by group."""
    starts: Int64s
    """Where the rows of each group begin, and the end."""
    summaries: Mapping[int, Parts]
    large: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    weights: Int64s | None = None
    """For how many values each row stands, if not for one."""
    left: dict[int, dict[Hashable, Part]] = field(default_factory=dict)
    laid_out: dict[Hashable, Any] = field(default_factory=dict)
    """Several aggregates may ask about the values of one argument."""

    @staticmethod
    def of(members: KeptRows, codes: Int64s, began: int, resident: Mapping[int, Parts]) -> Before:
        """The members of groups (by sorted code) that were alive when the step began."""
        resident_parts, groups = dict[int, Parts](), np.arange(len(codes))
        if resident:
            sought = np.fromiter(resident, np.int64, len(resident))
            is_known = np.isin(codes, sought)
            resident_parts = {
                int(group): resident[int(codes[group])] for group in np.flatnonzero(is_known)
            }
            groups = np.flatnonzero(~is_known)
        pairs = [
            _alive(numbers(table, CODE), numbers(table, EXP), codes, groups, began)
            for table in (run.load() for run in members.runs)
        ]
        owners = np.concatenate([groups[:0], *(owner for _, owner in pairs)])
        order, starts = _by_group(owners, len(codes))
        return Before(
            members.runs, tuple(places for places, _ in pairs), order, starts, resident_parts
        )

    @property
    def rows(self) -> int:
        return len(self.order)

    @cached_property
    def owner(self) -> Int64s:
        """The group of each row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def values(self, argument: str, kind: pa.DataType) -> pa.Array:
        """A column of the rows."""
        parts = [
            whole(run.load().column(argument)).take(pa.array(places))
            for run, places in zip(self.runs, self.places, strict=True)
            if len(places)
        ]
        if not parts:
            return pa.array([], kind)
        return unsigned_zeros(pa.concat_arrays(parts).take(pa.array(self.order)))

    def present(self, argument: str, kind: pa.DataType) -> tuple[pa.Array, Int64s]:
        """The values of a column that are not NULL, and where those of each group begin."""
        values = self.values(argument, kind)
        if not values.null_count:
            return values, self.starts
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        starts: Int64s = np.append(0, np.cumsum(valid))[self.starts]
        return values.filter(pa.array(valid)), starts

    def part(self, name: Hashable) -> dict[int, Part]:
        """What is known of groups by one name."""
        return {group: parts[name] for group, parts in self.summaries.items()}

    def passed_on(self, resident_parts: Mapping[int, Parts], codes: Int64s) -> Mapping[int, Parts]:
        """By code: what is left of the touched groups, and what is known of others."""
        if not resident_parts and not self.left:
            return resident_parts
        touched = {int(codes[group]) for group in self.summaries}
        others = {code: parts for code, parts in resident_parts.items() if code not in touched}
        return others | {int(codes[group]): parts for group, parts in self.left.items()}

    def leave(self, name: Hashable, parts: Mapping[int, Part]) -> None:
        for group, part in parts.items():
            self.left.setdefault(group, {})[name] = part


@compiled(plain=True)
def _alive(
    stored: Int64s, exp: Int64s, codes: Int64s, groups: Int64s, began: int
) -> tuple[Int64s, Int64s]:
    """Where the rows of some groups are among stored ones (sorted by code) that live on to
    ``began``, and whose they are."""
    places, owner = np.empty(len(stored), np.int64), np.empty(len(stored), np.int64)
    position = size = 0
    for i in range(len(groups)):
        code = codes[groups[i]]
        position = first_at_least(stored, position, len(stored), code)
        while position < len(stored) and stored[position] == code:
            if exp[position] >= began and exp[position] != MIN_TIME:
                places[size], owner[size] = position, groups[i]
                size += 1
            position += 1
    return places[:size].copy(), owner[:size].copy()


@compiled(plain=True)
def _by_group(owner: Int64s, groups: int) -> tuple[Int64s, Int64s]:
    """The stable order by group, and where each group begins."""
    starts = np.zeros(groups + 1, np.int64)
    for i in range(len(owner)):
        starts[owner[i] + 1] += 1
    for group in range(groups):
        starts[group + 1] += starts[group]
    ahead, order = starts.copy(), np.empty(len(owner), np.int64)
    for i in range(len(owner)):
        order[ahead[owner[i]]] = i
        ahead[owner[i]] += 1
    return order, starts
