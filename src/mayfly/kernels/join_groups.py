"""GROUP BY over the values of join results that panes of their members tell apart.

Idea: as over panes of one stream (pane_groups.py), with lifetimes from two panes: a row comes at
the refresh behind its youngest member and goes at the first that no longer shows one of them.
Results that lie together now may have come apart, so a group counts results and not rows.
Invariant: the answer is that of the joined rows. Cost: as in pane_groups.py, by the rows kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import Delta, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_panes import JoinPaneRows, JoinWindows
from mayfly.kernels.lifetime_rows import Bools, chosen, numbers
from mayfly.kernels.operator import StateKey
from mayfly.kernels.pane_groups import Extent, PaneGroups, stored_name
from mayfly.kernels.pane_readers import PaneReaders
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column
from mayfly.plan.window_kinds import Range
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class JoinGroups(PaneGroups):
    """One result per group, from join results whose members are in ``windows``.

    ``results`` is the column that says for how many of them a row stands.
    """

    windows: JoinWindows | None = None
    results: Column | None = None
    one_scan: bool = field(default=True, compare=False)
    """Whether what is kept is laid out once for readers of all lengths (CS5)."""

    def state_key(self) -> StateKey:
        parts = {name: part for name, part in super().state_key().parts if name != "counts"}
        own = (("second", self.pair.second), ("results", self.results))
        return StateKey("JoinGroups", (*parts.items(), *own))

    @property
    def pair(self) -> JoinWindows:
        assert self.windows is not None
        return self.windows

    @property
    def reads(self) -> tuple[Range, ...]:
        # Rows of its streams are in the join: that says from when on answers are whole.
        return ()

    @property
    def reads_join(self) -> JoinWindows | None:
        return self.windows

    @property
    def lag(self) -> int:
        return self.pair.slide.period or 0

    @property
    def answers_alone(self) -> bool:
        return False

    def joint(self, windows: tuple[Range, ...]) -> PaneReaders | None:
        return None

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def _changes(self, extent: Extent, inputs: Sequence[Delta]) -> tuple[pa.Table, pa.Table]:
        panes = _rows(inputs)
        if not self.finds_once:
            fresh, due = self._coming_and_going(extent.interval, panes)
        else:
            if self.pair not in panes.windows:
                panes.windows[self.pair] = self._coming_and_going(extent.interval, panes)
            fresh, due = panes.windows[self.pair]
        return self._kept(fresh), self._kept(due)

    def _coming_and_going(
        self, interval: Interval, panes: JoinPaneRows
    ) -> tuple[pa.Table, pa.Table]:
        rows, start, end = self._lived(panes)
        fresh = (start >= interval.began) & (start < interval.clock)
        due = (start < interval.began) & (end >= interval.began) & (end < interval.clock)
        return chosen(rows, fresh), chosen(rows, due)

    def _before(self, extent: Extent, inputs: Sequence[Delta]) -> pa.Table:
        rows, start, end = self._lived(_rows(inputs))
        return self._kept(chosen(rows, shown_before(start, end, extent.interval.began)))

    def _next_change(self, extent: Extent, inputs: Sequence[Delta]) -> int | None:
        clock = extent.interval.clock
        if clock <= MIN_TIME + self.pair.reach or clock >= NEVER:
            return None
        _, start, end = self._lived(_rows(inputs))
        instants = np.concatenate([start, end])
        coming = instants[(instants >= clock) & (instants < NEVER)]
        return int(coming.min()) if len(coming) else None

    def _lived(self, panes: JoinPaneRows) -> tuple[pa.Table, Int64s, Int64s]:
        rows, members = panes.scanned(self.one_scan)
        start, end = self.pair.lives(members)
        rows = with_numbers(rows, **{TS: start, EXP: end})
        mask = start < end
        return chosen(rows, mask), start[mask], end[mask]

    def _members_at(self, rows: pa.Table, parts: Sequence[Int64s], order: Int64s) -> Int64s:
        assert self.results is not None
        counted: Int64s = numbers(rows, stored_name(self.results))[order]
        return counted

    @property
    def numbers_read(self) -> tuple[str, ...]:
        assert self.results is not None
        return tuple(dict.fromkeys((*super().numbers_read, stored_name(self.results))))


def shown_before(start: Int64s, end: Int64s, began: int) -> Bools:
    """What the last refresh before an instant shows."""
    mask: Bools = (start < began) & (end >= began)
    return mask


def _rows(inputs: Sequence[Delta]) -> JoinPaneRows:
    (panes,) = inputs
    assert isinstance(panes, JoinPaneRows)
    return panes
