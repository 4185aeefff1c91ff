"""MIN and MAX over the panes of other predicates, from what their readers have scanned (CS7).

Idea (thesis 8.3.3): the queries that keep the panes have read them to at least this depth in the
same step, so the extreme of each of them is that of a few blocks of rows they have made; the
extremes of all are put together. What none of them has read is read here.
Invariant: results are those of playing all panes of the window.
Cost: two binary searches and O(log panes) blocks for each result and each of the panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.aggregate_steps import Aggregator
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import AggregateUpkeep, Versions
from mayfly.kernels.pane_store import PaneRows
from mayfly.kernels.pane_stretches import SortedPanes, first_behind
from mayfly.kernels.room import touch
from mayfly.lifetime import MIN_TIME
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import AggregateCall
from mayfly.windows.domain import keys_in_order


@dataclass(frozen=True)
class Prefixes:
    """Where a window over some panes begins: its length, and the instant up to which no row is
    known."""

    panes: tuple[PaneRows, ...]
    duration: int
    floor: int


@dataclass(frozen=True)
class CoverExtreme(Aggregator):
    """MIN or MAX over several panes."""

    prefixes: Prefixes | None = field(default=None, compare=False)

    @property
    def way(self) -> AggregateUpkeep:
        why = "the queries that keep the panes have scanned them to this depth"
        return AggregateUpkeep("extremes of others' scans", why, self._play)

    def _play(
        self, call: AggregateCall, events: Events, versions: Versions, argument: str
    ) -> pa.Array:
        assert self.prefixes is not None
        assert isinstance(call.argument, Column)
        name, largest = f".{call.argument.name}", call.function == "max"
        parts = [
            _extremes(self._rows(panes, versions, name), versions, self.prefixes, name, largest)
            for panes in self.prefixes.panes
        ]
        return _best_of(parts, largest)

    def _rows(self, panes: PaneRows, versions: Versions, name: str) -> SortedPanes:
        """Those of a scan that goes back far enough; if there is none, what it would read."""
        assert self.prefixes is not None
        codes, times = np.unique(versions.code), versions.time[versions.time > MIN_TIME]
        first, high = (int(times.min()), int(times.max())) if len(times) else (MIN_TIME, MIN_TIME)
        length, floor = self.prefixes.duration, self.prefixes.floor
        low = max(floor, first - length if first > MIN_TIME + length else MIN_TIME)
        for scan in panes.scans:
            if scan.has(low, high, codes) and name in scan.rows.columns:
                return scan.rows
        rows = panes.of_groups(codes, low, high)
        touch(rows.num_rows)
        return SortedPanes.of(rows, (name,), ())


def _extremes(
    rows: SortedPanes, versions: Versions, prefixes: Prefixes, name: str, largest: bool
) -> pa.Array:
    """The extreme of what each version has of some panes."""
    codes = rows.codes_of_groups
    group = np.searchsorted(codes, versions.code)
    present = group < len(codes)
    present[present] = codes[group[present]] == versions.code[present]
    group = np.where(present, group, len(codes))
    places = (rows.heads, rows.times, group, versions.time)
    low, high = _stretches(*places, prefixes.duration, prefixes.floor).reshape(2, -1)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    best = rows.best(name, low, high, largest=largest)
    return rows.values(name).take(pa.array(best, mask=best < 0))


def _best_of(parts: Sequence[pa.Array], largest: bool) -> pa.Array:
    """The best value of several columns, row by row."""
    values = pa.concat_arrays(parts)
    ranks = np.asarray(keys_in_order(values)).reshape(len(parts), -1)
    there = pc.is_valid(values).to_numpy(zero_copy_only=False).reshape(len(parts), -1)
    size = ranks.shape[1]
    best, some = np.zeros(size, np.int64), there[0].copy()
    for part in range(1, len(parts)):
        kept = ranks[best, np.arange(size)]
        better = (ranks[part] > kept) if largest else (ranks[part] < kept)
        best = np.where(there[part] & (better | ~some), part, best)
        some |= there[part]
    return values.take(pa.array(best * size + np.arange(size), mask=~some))


@compiled(f"{WRITE}({READ}, {READ}, {READ}, {READ}, int64, int64)")
def _stretches(
    heads: Int64s, times: Int64s, group: Int64s, instants: Int64s, length: int, floor: int
) -> Int64s:
    """The rows of groups that a window holds at instants: where they begin, then where they end."""
    size = len(group)
    flat = np.zeros(2 * size, np.int64)
    for i in range(size):
        if group[i] >= len(heads) - 1 or instants[i] == MIN_TIME:
            continue
        start, stop = heads[group[i]], heads[group[i] + 1]
        left = instants[i] - length if instants[i] > MIN_TIME + length else MIN_TIME
        flat[i] = first_behind(times, start, stop, max(left, floor))
        flat[size + i] = max(flat[i], first_behind(times, start, stop, instants[i]))
    return flat
