"""What groups keep of their rows: code, keys, arguments of aggregates and lifetime.

From members follow the events of a step: a member that comes, one whose life ends. Refreshes at
which every group has a version add events that change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.codes import group_codes, unsigned_zeros
from mayfly.kernels.delta import END, ID, LIFE, SEEN, SEEN_END, concatenated, taken, with_numbers
from mayfly.kernels.group_events import Events
from mayfly.kernels.interval import Interval
from mayfly.kernels.kept_rows import KeptRows
from mayfly.kernels.lifetime_rows import CODE, chosen, clustered, numbers
from mayfly.kernels.stateless import values_of
from mayfly.lifetime import MIN_TIME
from mayfly.plan.expressions import Expression
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS


@dataclass(frozen=True)
class GroupMembers:
    """Which columns members have, and what they bring about."""

    keys: tuple[Expression, ...]
    key_columns: pa.Schema
    arguments: tuple[tuple[str, Expression], ...]
    dual: bool

    @cached_property
    def key_names(self) -> list[str]:
        return list(self.key_columns.names)

    @cached_property
    def none(self) -> pa.Table:
        """No members."""
        kinds = dict(zip(self.key_names, self.key_columns.types, strict=True))
        for name, argument in self.arguments:
            kinds[name] = arrow_type(argument.type)
        life = (*LIFE, *((SEEN,) if self.dual else ()), CODE)
        return pa.schema([*kinds.items(), *((name, pa.int64()) for name in life)]).empty_table()

    def of(self, rows: pa.Table) -> pa.Table:
        """What is kept of rows, by code."""
        keys = self.key_arrays(rows)
        arrays = dict(zip(self.key_names, keys, strict=True))
        for name, argument in self.arguments:
            arrays[name] = values_of(argument, rows, arrow_type(argument.type))
        for name in (TS, EXP, ID, END, SEEN, SEEN_END):
            if name in rows.schema.names:
                arrays[name] = rows.column(name)
        table = with_numbers(pa.table(arrays), **{CODE: group_codes(keys, rows.num_rows)})
        return clustered(table) if table.num_rows else table

    def key_arrays(self, rows: pa.Table) -> list[pa.Array]:
        return [
            unsigned_zeros(values_of(key, rows, kind))
            for key, kind in zip(self.keys, self.key_columns.types, strict=True)
        ]

    def events(self, fresh: pa.Table, due: Sequence[pa.Table], interval: Interval) -> Events:
        """Arrivals, and the ends of lives inside the step; sorted by group and instant."""
        ended = [chosen(fresh, numbers(fresh, EXP) < interval.clock), *due]
        parts = [fresh, *ended]
        times = [numbers(fresh, TS), *(numbers(part, EXP) for part in ended)]
        signs = np.ones(sum(map(len, times)), np.int64)
        signs[fresh.num_rows :] = -1
        return Events.sorted(
            np.concatenate([numbers(part, CODE) for part in parts]),
            np.concatenate(times),
            signs,
            concatenated([part.select(self._event_names) for part in parts]),
            self.key_names,
        )

    @cached_property
    def _event_names(self) -> list[str]:
        return [name for name in self.none.schema.names if name not in (*LIFE, SEEN, CODE)]

    def refreshed(self, groups: KeptRows, events: Events, instants: Int64s) -> Events:
        """With an event that changes nothing per refresh and group, so that each gets a version."""
        names = [*self.key_names, CODE]
        group_tables = [
            chosen(table.select(names), numbers(table, EXP) != MIN_TIME)
            for table in (run.load() for run in groups.runs)
        ]
        touched = self.none.select(names)
        if len(events.code):
            keys = events.keys(events.first_of_group)
            arrays = dict(zip(keys.schema.names, keys.columns, strict=True))
            touched = pa.table({**arrays, CODE: events.codes})
        every = concatenated([touched, *group_tables])
        _, sample = np.unique(numbers(every, CODE), return_index=True)
        return events.with_versions(taken(every, sample), instants)
