"""GROUP BY over panes: the members of a group are partial values, not rows (spec/periodic 1, 8).

A basic interval synopsis: a row per group and pane, which leaves with its pane. Totals go on from
refresh to refresh by what comes and goes (incremental synopsis scan); extremes and distinct values
are played over the panes that a group has. Parts of a pane that came in several batches are merged
when it enters. Invariant: the answer is that of the rows. Cost: as in group_by.py, by panes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays import compute as pc
from mayfly.arrays.order import Int64s
from mayfly.kernels.aggregate_steps import Aggregator, aggregator
from mayfly.kernels.delta import Delta
from mayfly.kernels.group_by import GroupRows, GroupState
from mayfly.kernels.group_events import Events
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import numbers
from mayfly.kernels.operator import Copy, Holding, StateKey, Working
from mayfly.kernels.pane_partials import PanePartials
from mayfly.lifetime import format_micros
from mayfly.plan.expressions import Column, Expression
from mayfly.plan.logical_operators import AggregateCall
from mayfly.plan.plan_text import aggregate_text
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class PaneAggregator(Aggregator):
    """COUNT, and AVG of whole numbers, over partial values: each stands for many.

    ``weight`` names the column that says for how many, if that is not the argument itself.
    """

    weight: str | None = None

    def weights(self, events: Events, argument: str) -> Int64s:
        counts = pc.fill_null(events.values(self.weight or argument), 0)
        return np.ascontiguousarray(counts.to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class PaneGroups(GroupRows):
    """One result per group, from the partial values of its panes.

    ``calls`` read columns of ``partials``, ``weights`` are the counts beside them, and ``asked``
    the calls of the query.
    """

    partials: PanePartials | None = None
    weights: tuple[Column | None, ...] = ()
    asked: tuple[AggregateCall, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        made: list[Aggregator] = []
        for number, (call, weight) in enumerate(zip(self.calls, self.weights, strict=True)):
            plain = aggregator(call)
            if call.function == "count" and not call.distinct:
                made.append(PaneAggregator(call, False, ("",)))
            elif weight is not None:
                made.append(PaneAggregator(call, False, plain.kept, weight=_weight(number)))
            else:
                made.append(plain)
        object.__setattr__(self, "_aggregators", tuple(made))

    def state_key(self) -> StateKey:
        assert self.partials is not None
        own = (("weights", self.weights), ("partials", self.partials.state_key()))
        return StateKey("PaneGroups", (*super().state_key().parts, *own))

    @property
    def detail(self) -> str:
        return aggregate_text(self.keys, self.asked, self.having)

    def holdings(self) -> tuple[Holding, ...]:
        members, groups = super().holdings()
        return (
            Holding(
                "members",
                members.structure,
                f"synopsis of {self._panes[1]}",
                0,
                members.keyed_by,
                "basic interval synopsis: a row per group and pane, dropped with the pane; "
                "no row of the stream is kept",
                members.partitions,
                note=members.note if self.prunes else "",
                per_result=None if self._again.values else self._panes[0] + 1,
            ),
            groups,
        )

    @cached_property
    def _panes(self) -> tuple[int, str]:
        """How many a window has, and in words."""
        window = self._again.window
        assert window.slide is not None
        assert window.slide.period
        count, rest = divmod(window.duration, window.slide.period)
        if not rest:
            return count, f"{count} panes of {format_micros(window.slide.period)}"
        count, parts = 2 * count + 1, sorted((rest, window.slide.period - rest))
        words = " and ".join(format_micros(part) for part in dict.fromkeys(parts))
        return count, f"{count} panes of {words}"

    def workings(self) -> tuple[Working, ...]:
        return tuple(
            Working(aggregate_text((), [call], None), made.way.structure, made.way.why)
            for call, made in zip(self.asked, self._aggregators, strict=True)
        )

    def copy(self, side: int) -> Copy | None:
        return None

    def step(
        self, state: GroupState, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[GroupState, Delta]:
        return super().step(state, [Delta(self._whole(inputs[0].born), inputs[0].cut)], interval)

    def _whole(self, born: pa.Table) -> pa.Table:
        """One row of the parts of a pane."""
        if not born.num_rows:
            return born
        merged = self._again.merged(born, numbers(born, TS), numbers(born, EXP))
        return merged.select(born.schema.names)

    @cached_property
    def _again(self) -> PanePartials:
        assert self.partials is not None
        return self.partials.again

    @cached_property
    def _arguments(self) -> tuple[tuple[str, Expression], ...]:
        weights = (
            (_weight(n), weight) for n, weight in enumerate(self.weights) if weight is not None
        )
        return (*super()._arguments, *weights)


def _weight(number: int) -> str:
    return f"_weight{number}"
