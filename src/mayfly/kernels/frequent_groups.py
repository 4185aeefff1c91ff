"""FREQUENT beside other aggregates: groups whose members are summaries of sub-windows, not rows.

Summaries come from all buckets (summaries.py) and are merged as they enter and as they leave; what
they say at each instant is played by frequent_items.py. Raw rows are members too if other
aggregates of the query need them; each aggregate ignores the rows of the others, as they have
no argument for it. Invariant: k + 1 members per group, sub-window and call, whatever it counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.delta import Delta, column_name, concatenated
from mayfly.kernels.group_by import GroupRows, GroupState
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import chosen, whole
from mayfly.kernels.operator import Forgetting, Holding, StateKey
from mayfly.kernels.summaries import merged
from mayfly.lifetime import NEVER
from mayfly.plan.expressions import Column
from mayfly.plan.frequent_call import Frequency
from mayfly.plan.window_kinds import Slide


@dataclass(frozen=True)
class FrequentRows(GroupRows):
    """One result per group, from the summaries that its calls of FREQUENT read.

    ``entering`` are the columns of the members as they come, ``range`` and ``moves`` the length and
    slide of a time window, from which follows when it is first full.
    """

    entering: pa.Schema | None = None
    range: int | None = None
    moves: Slide | None = None

    def forgets(self) -> tuple[Forgetting, ...]:
        return ()

    def state_key(self) -> StateKey:
        own = (("entering", self.entering), ("range", self.range), ("moves", self.moves))
        return StateKey("FrequentRows", (*super().state_key().parts, *own))

    def holdings(self) -> tuple[Holding, ...]:
        members, groups = super().holdings()
        k = " + ".join(str(Frequency.of(call).k) for call in self.calls if Frequency.is_asked(call))
        rows = "" if all(map(Frequency.is_asked, self.calls)) else ", and rows"
        holds = f"{k} counts per sub-window{rows}"
        return Holding("members", members.structure, holds, None, members.keyed_by), groups

    def step(
        self, state: GroupState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[GroupState, Delta]:
        return super().step(state, [inputs[0].map(self._merged)], interval)

    def _merged(self, rows: pa.Table) -> pa.Table:
        """One summary of each sub-window from those of all buckets; other rows as they are."""
        if not rows.num_rows:
            return rows
        assert self.entering is not None
        parts, rest = [rows.slice(0, 0)], np.ones(rows.num_rows, bool)
        for call in filter(Frequency.is_asked, self.calls):
            assert isinstance(call.argument, Column)
            name = column_name(call.argument)
            mine = pc.is_valid(whole(rows.column(name))).to_numpy(zero_copy_only=False)
            rest &= ~mine
            if mine.any():
                summaries = chosen(rows, mine).combine_chunks()
                summary = merged(
                    summaries, self.entering, len(self.keys), name, Frequency.of(call).k
                )
                parts.append(summary.select(rows.schema.names))
        return concatenated([*parts, chosen(rows, rest)])

    # ── a window that is not full yet ─────────────────────────────────────────────────────

    def full_from(self, interval: Interval) -> int:
        if self.range is None or self.moves is None or interval.first is None:
            return NEVER
        period = self.moves.period or 1
        return self.moves.at_or_after(interval.first) + (self.range - 1) // period * period

    def _is_idle(self, state: GroupState, interval: Interval) -> bool:
        return super()._is_idle(state, interval) and not len(self._answered(interval))

    def _answered(self, interval: Interval) -> Int64s:
        """The instant at which the window becomes full, if it does."""
        instant = self.full_from(interval)
        due = interval.began <= instant < interval.clock
        return np.array([instant] if due else [], np.int64)
