"""What travels between operators in one step: rows that are born, and lives that are cut short.

Idea: a step closes the instants from ``began`` to ``clock``, so every operator knows all that
happens in them. A row is *born* once, with a lifetime ``[_ts, _exp)`` that is exact if it ends
before the clock and a forecast otherwise. The forecast of an earlier row may only shrink: its
*cut* names the row again (same values, ``_ts``, ``_exp`` and ``_id``) and the instant ``_end``
inside the step at which it really ends. A cut is the negative tuple of the thesis (2.3.3); edges
with the patterns MON, WKS and WK never carry one.
Invariants: ``began <= _ts < clock`` and ``_ts < _exp`` for what is born; ``began <= _end < clock``
and ``_end < _exp`` for what is cut; a row is never born and cut in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.arrays.compilation import compiled
from mayfly.arrays.order import Int64s
from mayfly.kernels.lifetime_rows import chosen
from mayfly.plan.expressions import Column
from mayfly.plan.logical_operators import Schema
from mayfly.plan.types import arrow_type
from mayfly.storage.segment import EXP, TS

ID = "_id"
END = "_end"
SEEN = "_seen"
SEEN_END = "_seen_end"
OWNER = "_owner"
SHOWN = "_shown"
LIFE = (TS, EXP, ID)
_ANY = "Array(int64, 1, 'A', readonly=True)"
_INTERNAL = {"_ts", "_exp", "_id", "_end", "_code", "_seen", "_seen_end", "_owner"}


def column_name(column: Column) -> str:
    """The name under which a plan's column travels."""
    return f"{column.relation}.{column.name}"


def payload(schema: Schema) -> pa.Schema:
    """The columns of a plan node as Arrow fields."""
    return pa.schema([(column_name(column), arrow_type(column.type)) for column in schema])


def payload_names(table: pa.Table) -> list[str]:
    return [name for name in table.schema.names if name not in _INTERNAL]


@dataclass(frozen=True, slots=True)
class Delta:
    """The rows of one edge in one step."""

    born: pa.Table
    cut: pa.Table

    @staticmethod
    def empty(columns: pa.Schema, *, dual: bool = False) -> Delta:
        """No rows; ``dual`` edges also say how long a row is seen (INTERNAL windows)."""
        return _nothing(columns, dual)

    @property
    def rows(self) -> int:
        return int(self.born.num_rows + self.cut.num_rows)

    def map(self, change: Callable[[pa.Table], pa.Table]) -> Delta:
        return Delta(change(self.born), change(self.cut))

    def where(self, keep: Callable[[pa.Table], np.ndarray]) -> Delta:
        return self.map(lambda rows: chosen(rows, keep(rows)) if rows.num_rows else rows)


@lru_cache(maxsize=1024)
def _nothing(columns: pa.Schema, dual: bool) -> Delta:
    fields = [pa.field(name, pa.int64()) for name in (*LIFE, *((SEEN,) if dual else ()))]
    ends = [pa.field(name, pa.int64()) for name in (END, *((SEEN_END,) if dual else ()))]
    born = pa.schema([*columns, *fields])
    return Delta(born.empty_table(), pa.schema([*born, *ends]).empty_table())


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows in one chunk per column; the tables have the same columns in the same order."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        return tables[0]
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled).combine_chunks()


def united(parts: Iterable[Delta], nothing: Delta) -> Delta:
    """Several deltas of one edge as one."""
    listed = list(parts)
    return Delta(
        concatenated([nothing.born, *(part.born for part in listed)]),
        concatenated([nothing.cut, *(part.cut for part in listed)]),
    )


@compiled("int64(int64, int64)", plain=True)
def mixed_id(left: int, right: int) -> Any:
    """One identity from two, well spread: identities of results are those of all their members."""
    first = np.uint64(left) * np.uint64(0x9E3779B97F4A7C15)
    second = np.uint64(right) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = first ^ ((second << np.uint64(31)) | (second >> np.uint64(33)))
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed)


@compiled(f"int64[::1]({_ANY}, {_ANY})", plain=True)
def mixed_ids(left: Int64s, right: Int64s) -> Int64s:
    """One identity for each pair of two arrays, in one pass."""
    mixed = np.empty(len(left), np.int64)
    for place in range(len(left)):
        mixed[place] = mixed_id(left[place], right[place])
    return mixed


def with_numbers(table: pa.Table, **columns: Int64s) -> pa.Table:
    """The table with int64 columns added or replaced."""
    for name, values in columns.items():
        array = pa.array(values, pa.int64())
        index = table.schema.get_field_index(name)
        table = (
            table.append_column(name, array) if index < 0 else table.set_column(index, name, array)
        )
    return table


def taken(table: pa.Table, positions: Int64s) -> pa.Table:
    """The rows at the positions, in one chunk."""
    if table.num_rows == 0 or len(positions) == 0:
        return table.slice(0, 0)
    return table.combine_chunks().take(pa.array(positions)).combine_chunks()
