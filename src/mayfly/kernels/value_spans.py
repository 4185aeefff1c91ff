"""The first and the last row of each value and pane, in the place of all rows of a window.

Idea: who asks only which values are there (DISTINCT, COUNT(DISTINCT x), MIN, MAX) need not see
every row. Rows of one value that are less than a window's length d apart keep it in the window from
the time of the first until d after that of the last. So of those between two neighbouring edges, no
further apart than d, two rows tell all (spec/periodic 9). With SLIDE rows between two edges come
and go together: the last one is enough.
Invariant: at every instant the values in the window are those that all rows would give, however
rows are cut into batches; how often each is there, and when its rows came, is not.
Cost: a sort of the rows of a step; on Spark, one more grouping of the aggregation of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import Delta, column_name, taken
from mayfly.kernels.interval import Interval
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.kernels.operator import StateKey
from mayfly.kernels.pane_edges import edges, next_edges, period_of
from mayfly.kernels.stateless import Nothing, Passing
from mayfly.lifetime import format_micros
from mayfly.plan.expressions import Column
from mayfly.plan.plan_text import expression_text
from mayfly.plan.spread import Spread
from mayfly.plan.window_kinds import Range
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True, slots=True)
class ValueSpans(Passing):
    """Of rows with equal ``columns`` in one pane, the first and the last; where ``is_slid`` the
    last one. ``panes`` is a window at whose edges panes are cut."""

    name: str
    columns: tuple[Column, ...]
    panes_of: Range
    is_slid: bool

    def state_key(self) -> StateKey:
        return StateKey("ValueSpans", (("columns", self.columns),))

    @property
    def title(self) -> str:
        return "Last" if self.is_slid else "First and last"

    @property
    def detail(self) -> str:
        listed = ", ".join(map(expression_text, self.columns))
        length = "" if self.is_slid else f" of {format_micros(period_of(self.panes_of))}"
        return f"row of each {listed} and pane{length}"

    @property
    def spans(self) -> ValueSpans:
        return self

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return kept[0] or Spread()

    def chosen(self, rows: pa.Table) -> Int64s:
        """The places of the rows that are left, in their order."""
        if not rows.num_rows:
            return np.empty(0, np.int64)
        values = [unsigned_zeros(whole(rows.column(column_name(c)))) for c in self.columns]
        codes = group_codes(values, rows.num_rows)
        instants = numbers(rows, TS)
        ends = next_edges(instants, edges([self.panes_of]))
        until = numbers(rows, EXP) if EXP in rows.schema.names else instants
        order = stable_order(codes, ends, instants, until)
        codes, ends = codes[order], ends[order]
        check_codes(codes, [column.take(pa.array(order)) for column in values])
        borders = (codes[1:] != codes[:-1]) | (ends[1:] != ends[:-1])
        left = np.append(borders, True)
        if not self.is_slid:
            left |= np.append(True, borders)
        places: Int64s = np.sort(order[left])
        return places

    def prepared(self, rows: pa.Table) -> pa.Table:
        places = self.chosen(rows)
        return rows if len(places) == rows.num_rows else taken(rows, places)

    def step(
        self, state: Nothing, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[Nothing, Delta]:
        return state, Delta(self.prepared(inputs[0].born), inputs[0].cut)


def every_row_words(because: str) -> str:
    """Why not only the first and last row of each value and pane are read."""
    return f"reads every row: {because}" if because else ""
