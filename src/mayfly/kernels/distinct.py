"""δ*: weak duplicate elimination, for inputs whose expirations are known (thesis 3.5.2).

Idea: per value, the output row and the largest expiration among its later duplicates. A newcomer
that dies sooner than both is dropped; when the output row dies, the value is issued again with
what is left of the kept one. Invariant: at every instant one output row per alive value, and its
expiration is known when it is issued (WK). State: one row per output row, with one number for the
duplicate, so at most twice the output. (Strict δ is a grouping without aggregates.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import READ, WRITE, compiled
from mayfly.arrays.order import Int64s, distinct_of, places_in
from mayfly.kernels.codes import are_exact, check_codes, group_codes, unsigned_zeros
from mayfly.kernels.delta import ID, Delta, concatenated, mixed_ids, taken, with_numbers
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows, Shape, rows_with
from mayfly.kernels.lifetime_rows import CODE, clustered, numbers, whole
from mayfly.kernels.operator import Alone, Forgetting, Holding, StateKey
from mayfly.kernels.value_spans import every_row_words
from mayfly.lifetime import MIN_TIME
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Structure
from mayfly.storage.segment import EXP, TS

NEXT = "_next"
_PIECES = f"UniTuple({WRITE}, 3)"


@dataclass(frozen=True, slots=True)
class WeakDistinct(Alone):
    """One alive row per value."""

    name: str
    columns: pa.Schema
    shape: Shape
    every_row_because: str = field(default="", compare=False)
    """Why it reads every row, and not the first and last of each value and pane."""

    def state(self) -> KeptRows:
        return KeptRows(self.shape)

    def state_key(self) -> StateKey:
        return StateKey(
            "WeakDistinct",
            (
                ("columns", self.columns),
                ("shape", self.shape),
            ),
        )

    @property
    def title(self) -> str:
        return "δ*"

    @property
    def reason(self) -> str:
        return "equal rows meet in one bucket"

    def holdings(self) -> tuple[Holding, ...]:
        lasting = self.shape.form is Structure.APPEND
        holds = "output" if lasting else "output and one spare per value"
        return (
            Holding(
                "kept", self.shape.form, holds, None, self.key_words(), "",
                self.shape.ranges, 1.0 if lasting else 2.0, every_row_words(self.every_row_because),
            ),
        )  # fmt: skip

    @property
    def keyed(self) -> bool:
        return True

    def key_of(self, side: int = 0) -> tuple[str, ...]:
        return tuple(self.columns.names)

    def spread_after(self, kept: Sequence[Spread | None]) -> Spread:
        return Spread.by(self.key_of()) if kept[0] is None else kept[0].only(self.key_of())

    def spread_by(self, rows: pa.Table, side: int) -> Int64s | None:
        return group_codes([whole(rows.column(n)) for n in self.columns.names], rows.num_rows)

    def forgets(self) -> tuple[Forgetting, ...]:
        return (Forgetting(("kept",), {0: tuple((name, name) for name in self.columns.names)}),)

    def stored_codes(self, part: str, rows: pa.Table) -> Int64s | None:
        return self._codes(rows)

    def step(
        self, state: KeptRows, inputs: Sequence[Delta], interval: Interval
    ) -> tuple[KeptRows, Delta]:
        """A representative for each new value, and a successor where one expires."""
        nothing = Delta.empty(self.columns)
        rows = inputs[0].born.select([*self.columns.names, TS, EXP])
        for index, name in enumerate(self.columns.names):
            rows = rows.set_column(index, name, unsigned_zeros(whole(rows.column(name))))
        rows = with_numbers(rows, **{CODE: self._codes(rows)})
        rows = clustered(rows) if rows.num_rows else rows
        blank = with_numbers(rows.slice(0, 0), **{NEXT: np.empty(0, np.int64)})
        due = state.due(interval.began, interval.clock)
        codes = distinct_of(*(numbers(table, CODE) for table in (rows, *due)))
        if not len(codes):
            return state.after(blank, interval.clock - 1), nothing
        tables = state.of_codes(codes)
        representatives = rows_with(tables, blank)
        representatives = clustered(representatives) if len(tables) > 1 else representatives
        self._check(representatives, rows)
        issued, kept = self._issued(codes, representatives, rows, interval.clock)
        state = state.without(codes).after(kept, interval.clock - 1)
        return state, Delta(issued, nothing.cut)

    def _issued(
        self, codes: Int64s, representatives: pa.Table, rows: pa.Table, clock: int
    ) -> tuple[pa.Table, pa.Table]:
        """The rows to issue, and the state of the touched values."""
        size = len(codes)
        current, later, since = (np.full(size, MIN_TIME) for _ in range(3))
        place = places_in(codes, numbers(representatives, CODE))
        current[place], later[place] = numbers(representatives, EXP), numbers(representatives, NEXT)
        since[place] = numbers(representatives, TS)
        positions = places_in(codes, numbers(rows, CODE))
        pieces = _issue(
            positions, numbers(rows, TS), numbers(rows, EXP), current, later, since, clock
        )
        values = concatenated(
            [representatives.select(self.columns.names), rows.select(self.columns.names)]
        )
        sample = np.empty(size, np.int64)
        sample[positions[::-1]] = np.arange(
            representatives.num_rows, representatives.num_rows + rows.num_rows
        )[::-1]
        sample[place] = np.arange(representatives.num_rows)
        which, ts, exp = pieces
        issued = with_numbers(
            taken(values, sample[which]),
            **{TS: ts, EXP: exp, ID: mixed_ids(codes[which], ts)},
        )
        alive = np.flatnonzero(current >= clock)
        kept = with_numbers(
            taken(values, sample[alive]),
            **{
                TS: since[alive],
                EXP: current[alive],
                ID: mixed_ids(codes[alive], since[alive]),
                CODE: codes[alive],
                NEXT: later[alive],
            },
        )
        return issued, kept

    def _codes(self, rows: pa.Table) -> Int64s:
        columns = [whole(rows.column(name)) for name in self.columns.names]
        return group_codes(columns, rows.num_rows)

    def _check(self, representatives: pa.Table, rows: pa.Table) -> None:
        if are_exact(self.columns.types):
            return
        names = [*self.columns.names, CODE]
        both = concatenated([representatives.select(names), rows.select(names)])
        both = taken(both, np.argsort(numbers(both, CODE), kind="stable"))
        columns = [whole(both.column(name)) for name in self.columns.names]
        check_codes(numbers(both, CODE), columns)


@compiled(f"{_PIECES}({READ}, {READ}, {READ}, {WRITE}, {WRITE}, {WRITE}, int64)", plain=True)
def _issue(
    values: Int64s,
    ts: Int64s,
    exp: Int64s,
    current: Int64s,
    later: Int64s,
    since: Int64s,
    clock: int,
) -> tuple[Int64s, Int64s, Int64s]:
    """Walk the rows (sorted by value, then ts); ``current``, ``later``, ``since`` are updated.

    ``current`` is the expiration of a value's output row, MIN_TIME if there is none; ``later``
    that of the kept duplicate, if larger.
    """
    room = len(values) + 2 * len(current)
    which, start, stop = (
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
    )
    count = row = 0
    rows = len(values)
    for value in range(len(current)):
        while True:
            fresh = row < rows and values[row] == value
            until = ts[row] if fresh else clock - 1
            # Expirations come before arrivals of the same instant.
            while current[value] != MIN_TIME and current[value] <= until:
                gone = current[value]
                if later[value] > gone:
                    which[count], start[count], stop[count] = value, gone, later[value]
                    count += 1
                    current[value], since[value] = later[value], gone
                else:
                    current[value] = MIN_TIME
                later[value] = MIN_TIME
            if not fresh:
                break
            if current[value] == MIN_TIME:
                which[count], start[count], stop[count] = value, ts[row], exp[row]
                count += 1
                current[value], since[value] = exp[row], ts[row]
            elif exp[row] > current[value] and exp[row] > later[value]:
                later[value] = exp[row]
            row += 1
    return which[:count], start[:count], stop[:count]
