"""GROUP BY over the panes of other predicates: added where these cover it, less what is too much.

Idea (thesis 8.3.3, SS4): panes of tcp and of udp are, together, those of tcp or udp; those of tcp
or udp without those of udp are those of tcp. What the queries that keep these have just found for
an equal window is taken from them (CS6); extremes are put together of what they have scanned (CS7,
cover_extremes.py). Rows to be taken out again have their totals below zero; a
group is there while its rows, counted so, are more than none.
Invariant: results are those of panes of its own. Cost: as in pane_groups.py, for each of the panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.aggregate_steps import Aggregator
from mayfly.kernels.cover_extremes import CoverExtreme, Prefixes
from mayfly.kernels.delta import Delta, concatenated, taken
from mayfly.kernels.dominance import EXTREMES
from mayfly.kernels.group_events import Events
from mayfly.kernels.lifetime_rows import CODE, numbers, whole
from mayfly.kernels.operator import StateKey
from mayfly.kernels.pane_groups import Extent, PaneGroups
from mayfly.kernels.pane_store import PaneRows
from mayfly.lifetime import MIN_TIME
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.window_kinds import Cumulative
from mayfly.storage.segment import EXP, TS

_ROWS = "_rows"
"""The column with the number of rows that a pane stands for."""


@dataclass(frozen=True)
class CoveredGroups(PaneGroups):
    """``plus`` of the inputs are merged; what the others have is taken out again, by the column
    ``rows`` that counts them."""

    plus: int = 1
    rows: Column | None = None
    prefixes: Prefixes | None = field(default=None, compare=False)
    """In a step: what its extremes are put together of."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prefixes is not None:
            made = tuple(map(self._of_prefixes, self._aggregators))
            object.__setattr__(self, "_aggregators", made)

    def _of_prefixes(self, made: Aggregator) -> Aggregator:
        if made.call.function not in EXTREMES:
            return made
        return CoverExtreme(made.call, True, (), prefixes=self.prefixes)

    @staticmethod
    def of(groups: PaneGroups, plus: int, rows: Column | None) -> CoveredGroups:
        own = {part.name: getattr(groups, part.name) for part in fields(groups) if part.init}
        return CoveredGroups(**own, plus=plus, rows=rows)

    def state_key(self) -> StateKey:
        return StateKey("CoveredGroups", (*super().state_key().parts, ("plus", self.plus)))

    @property
    def answers_alone(self) -> bool:
        return False

    @property
    def is_covered(self) -> bool:
        return True

    @property
    def apart_because(self) -> str:
        return "it puts panes of several predicates together"

    # ── steps ─────────────────────────────────────────────────────────────────────────────

    def _reading(self, extent: Extent, inputs: Sequence[Delta], events: Events) -> PaneGroups:
        """Extremes of what others have scanned, if that is less than all panes of the window."""
        panes = tuple(part for part in inputs[: self.plus] if isinstance(part, PaneRows))
        if not self.is_combined or not all(part.scans for part in panes):
            return self
        held = sum(part.count_between(*extent.shown_before) for part in panes)
        depth = 1 + held // (len(panes) * len(events.codes))
        blocks = len(panes) * len(events.last_of_instant) * 2 * depth.bit_length()
        if blocks >= held:
            return self
        return replace(self, prefixes=Prefixes(panes, self._range.duration, extent.floor(MIN_TIME)))

    @property
    def is_combined(self) -> bool:
        asked = any(call.function in EXTREMES for call in self.calls)
        return asked and self.saves_prefixes and not isinstance(self.window, Cumulative)

    @property
    def _lays_out(self) -> bool:
        plays = (made for made in self._aggregators if not isinstance(made, CoverExtreme))
        return any(made.way.play for made in plays)

    def _changes(self, extent: Extent, inputs: Sequence[Delta]) -> tuple[pa.Table, pa.Table]:
        parts = [super(CoveredGroups, self)._changes(extent, [panes]) for panes in inputs]
        fresh, due = (self._together([part[n] for part in parts]) for n in (0, 1))
        return fresh, due

    def _before(self, extent: Extent, inputs: Sequence[Delta]) -> pa.Table:
        return self._together([super(CoveredGroups, self)._before(extent, [p]) for p in inputs])

    def _next_change(self, extent: Extent, inputs: Sequence[Delta]) -> int | None:
        instants = [super(CoveredGroups, self)._next_change(extent, [p]) for p in inputs]
        return min((instant for instant in instants if instant is not None), default=None)

    def _together(self, parts: Sequence[pa.Table]) -> pa.Table:
        rows = concatenated([*parts[: self.plus], *map(self._negated, parts[self.plus :])])
        if not rows.num_rows:
            return rows
        times = numbers(rows, TS), numbers(rows, EXP)
        return taken(rows, stable_order(numbers(rows, CODE), *times)).combine_chunks()

    def _negated(self, rows: pa.Table) -> pa.Table:
        for name, _ in self._arguments:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, pc.negate(whole(rows.column(name))))
        return rows

    def presence(self, events: Events) -> Int64s:
        if self.rows is None:
            return super().presence(events)
        return np.ascontiguousarray(
            pc.fill_null(events.values(_ROWS), 0).to_numpy(zero_copy_only=False)
        )

    @cached_property
    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        counted = () if self.rows is None else ((_ROWS, self.rows),)
        return (*counted, *super()._arguments)
