"""What a content is: the partial value of an aggregate over an interval, for every group.

A *summary* is an Arrow table with the key columns and the columns of the content: one row per group
(counters and value sets: one per group and value). It is made from rows, merged with others by
grouping again, and answered from; a group without rows has no row. Rows whose argument is NULL keep
their group alive and change nothing else.
Two traits decide who may share (thesis 8.3): ``insensitive`` — merging overlapping inputs does no
harm; ``subtractable`` — a part can be taken away again, exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mayfly.arrays.order import Int64s, stable_order
from mayfly.errors import BadInput, InvalidSetting
from mayfly.kernels.codes import check_codes, group_codes, unsigned_zeros
from mayfly.kernels.lifetime_rows import whole

Keys = tuple[str, ...]
ROWS, VALUE, LOW, HIGH = "_rows", "value", "low", "high"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function, its argument (a column; None for COUNT(*)) and its parameter."""

    function: str
    argument: str | None = None
    parameter: float | str | int | None = None

    def __str__(self) -> str:
        parameter = "" if self.parameter is None else f", {self.parameter}"
        return f"{self.function}({self.argument or '*'}{parameter})"


@dataclass(frozen=True)
class Content(ABC):
    """The partial values of aggregates of one argument."""

    argument: str | None = None

    functions: ClassVar[frozenset[str]]
    """What can be answered from it."""
    insensitive: ClassVar[bool] = False
    subtractable: ClassVar[bool] = False
    running: ClassVar[bool] = False
    """Whether totals since the beginning stay small, so that a running synopsis may keep them."""

    @abstractmethod
    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        """The summary of rows."""

    @abstractmethod
    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        """One summary of the rows of several."""

    def subtract(self, whole: pa.Table, part: pa.Table, keys: Keys) -> pa.Table:
        """The summary of the rows of one without those of another."""
        raise InvalidSetting(
            f"{type(self).__name__} of {self.argument} cannot be subtracted",
            "use an interval or basic interval synopsis",
        )

    @abstractmethod
    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        """The keys of each group and the ``value`` of a call; ``low`` and ``high`` where it is
        approximate."""

    @abstractmethod
    def of_nothing(self, call: Aggregate) -> Any:
        """The answer where there is no row at all."""

    def can_answer(self, call: Aggregate) -> bool:
        return call.function in self.functions and call.argument == self.argument


@dataclass(frozen=True)
class Groups:
    """Rows numbered by the group they are in."""

    first: Int64s
    """A row of each group."""
    number: Int64s
    """The group of each row."""

    @staticmethod
    def of(rows: pa.Table, columns: Sequence[str]) -> Groups:
        arrays = [whole(rows.column(name)) for name in columns]
        codes = group_codes(arrays, rows.num_rows)
        order = stable_order(codes)
        ordered = codes[order]
        check_codes(ordered, [array.take(pa.array(order)) for array in arrays])
        begins = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
        number = np.empty(len(codes), np.int64)
        number[order] = np.cumsum(begins) - 1
        return Groups(order[begins], number)

    def __len__(self) -> int:
        return len(self.first)

    def sums(self, amounts: Int64s) -> Int64s:
        """An amount of each row, summed up by group."""
        sums = np.zeros(len(self), np.int64)
        np.add.at(sums, self.number, amounts)
        return sums

    def table(self, rows: pa.Table, keys: Sequence[str], columns: dict[str, Any]) -> pa.Table:
        """The keys of each group, and columns with a value for each."""
        first = pa.array(self.first)
        named = {name: whole(rows.column(name)).take(first) for name in keys}
        return pa.table(named | columns)


def plain(rows: pa.Table, keys: Keys, argument: str | None, name: str) -> pa.Table:
    """The keys and the argument under a name of its own, as it may be a key, too; with equal
    values that look equal (no -0.0)."""
    columns = dict(zip(keys, keys, strict=True)) | ({name: argument} if argument else {})
    for column in columns.values():
        if column not in rows.schema.names:
            raise BadInput(
                f"the rows have no column {column!r}; there are {', '.join(rows.schema.names)}",
                "name one of them, or give the rows that column",
            )
    arrays = {name: unsigned_zeros(whole(rows.column(c))) for name, c in columns.items()}
    return pa.table(arrays)


def grouped(table: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """One row for each group, with sums of columns; none where there is no row."""
    if not table.num_rows:
        return table
    totals = table.group_by(list(keys), use_threads=False).aggregate([(n, "sum") for n in sums])
    renamed = totals.rename_columns([*keys, *sums])
    types = {name: table.schema.field(name).type for name in (*keys, *sums)}
    return renamed.cast(pa.schema(list(types.items())))


class TableAlgebra:
    """Merges and subtracts the summaries of one content, for rows of a schema."""

    def __init__(self, content: Content, keys: Keys, rows: pa.Schema) -> None:
        self.content, self.keys = content, keys
        self.zero = content.summarize(rows.empty_table(), keys)

    def merge(self, parts: Sequence[pa.Table]) -> pa.Table:
        filled = [part for part in parts if part.num_rows]
        if len(filled) < 2:
            return filled[0] if filled else self.zero
        return self.content.merge(pa.concat_tables(filled).combine_chunks(), self.keys)

    def subtract(self, whole: pa.Table, part: pa.Table) -> pa.Table:
        return self.content.subtract(whole, part, self.keys) if part.num_rows else whole
