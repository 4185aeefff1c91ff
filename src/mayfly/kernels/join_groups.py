"""GROUP BY over the values of join results that panes of their members tell apart.

Idea: as over panes of one stream (pane_groups.py), with lifetimes from two panes: a row comes at
the refresh behind its youngest member and goes at the first that no longer shows one of them.
Results that lie together now may have come apart, so a group counts results and not rows.
Invariant: the answer is that of the joined rows. Cost: as in pane_groups.py, by the rows kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.aggregate_steps import Aggregator
from mayfly.kernels.delta import Delta, with_numbers
from mayfly.kernels.group_events import Events
from mayfly.kernels.holistic import AggregateUpkeep, Versions
from mayfly.kernels.interval import Interval
from mayfly.kernels.join_panes import JoinPaneRows, JoinWindows
from mayfly.kernels.lifetime_rows import Bools, chosen, numbers
from mayfly.kernels.moment_parts import MomentParts, PartSlots
from mayfly.kernels.operator import StateKey
from mayfly.kernels.pane_aggregates import ROUNDED, PaneSpread, spread_values
from mayfly.kernels.pane_groups import Extent, PaneGroups, stored_name
from mayfly.kernels.pane_readers import PaneReaders
from mayfly.lifetime import MIN_TIME, NEVER
from mayfly.plan.expressions import Column, Expression, Literal
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.types import BIGINT
from mayfly.plan.window_kinds import Range
from mayfly.storage.segment import EXP, TS

LEAVES = "_leaves"
"""When a row leaves, where that is asked for."""


@dataclass(frozen=True)
class JoinGroups(PaneGroups):
    """One result per group, from join results whose members are in ``windows``.

    ``results`` is the column that says for how many of them a row stands.
    """

    windows: JoinWindows | None = None
    results: Column | None = None
    one_scan: bool = field(default=True, compare=False)
    """Whether what is kept is laid out once for readers of all lengths (CS5)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        made = (LeavingSpread(m.call, True, ()) if isinstance(m, PaneSpread) else m
                for m in self._aggregators)  # fmt: skip
        object.__setattr__(self, "_aggregators", tuple(made))

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

    def joint(self) -> PaneReaders | None:
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

    def _counted(self, rows: pa.Table, parts: Sequence[Int64s], order: Int64s) -> dict[str, Int64s]:
        leaves = {LEAVES: parts[2]} if self._spreads else {}
        return super()._counted(rows, parts, order) | leaves

    @property
    def _spreads(self) -> bool:
        return any(isinstance(made, LeavingSpread) for made in self._aggregators)

    @cached_property
    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        leaves = ((LEAVES, Literal(1, BIGINT)),) if self._spreads else ()
        return (*leaves, *super()._arguments)

    @property
    def numbers_read(self) -> tuple[str, ...]:
        assert self.results is not None
        return tuple(dict.fromkeys((*super().numbers_read, stored_name(self.results))))


@dataclass(frozen=True)
class LeavingSpread(Aggregator):
    """VAR and STDDEV of join results, which do not leave in the order in which they come."""

    @property
    def way(self) -> AggregateUpkeep:
        why = "of results that leave together moments are merged, and those of all in a tree"
        return AggregateUpkeep("moments by when they leave", f"{why}; {ROUNDED}", _play_leaving)


def _play_leaving(
    call: AggregateCall, events: Events, versions: Versions, argument: str
) -> pa.Array:
    before, group = versions.alive_before, events.group_of_event
    fresh = events.values(argument)
    held = MomentParts.of_structs(before.values(argument, fresh.type))
    leaves = _numbers(before.values(LEAVES, pa.int64())), _numbers(events.values(LEAVES))
    slots = PartSlots.of(before.owner, leaves[0], group, leaves[1], len(events.codes))
    parts = MomentParts.of_structs(fresh)
    return spread_values(call, held.until(slots, parts, events.sign, events.last_of_instant))


def _numbers(values: pa.Array) -> Int64s:
    filled: Int64s = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(filled)


def shown_before(start: Int64s, end: Int64s, began: int) -> Bools:
    """What the last refresh before an instant shows."""
    mask: Bools = (start < began) & (end >= began)
    return mask


def _rows(inputs: Sequence[Delta]) -> JoinPaneRows:
    (panes,) = inputs
    assert isinstance(panes, JoinPaneRows)
    return panes
