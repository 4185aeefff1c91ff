"""COUNT, SUM and AVG: totals that add up, exact for whole numbers, decimals and floats.

Whole numbers and decimals are summed in a wider decimal, floating-point numbers as fixed-point
numbers that hold every double (kernels/exact_sums.py) and are rounded once, when answered. Only
these last ones are not subtracted: a partial value that Spark makes of doubles is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mayfly.arrays.order import Int64s
from mayfly.errors import BadInput
from mayfly.kernels.exact_sums import SUM_WIDTH, Matrix, merge_sums, round_sums, sum_values
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.synopses.contents.partial_values import (
    ROWS,
    VALUE,
    Aggregate,
    Content,
    Groups,
    Keys,
    grouped,
    plain,
)

ARGUMENT, COUNT, TOTAL = "_argument", "_count", "_total"


@dataclass(frozen=True)
class Count(Content):
    """Rows, and those whose argument is not NULL.

    Also the way of all totals: their columns add up, and a part is subtracted by adding what is
    opposite to it; a group that has no row left is gone.
    """

    functions = frozenset({"COUNT"})
    subtractable = running = True

    @property
    def sums(self) -> tuple[str, ...]:
        return (ROWS, COUNT)

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, ARGUMENT)
        ones = pa.array(np.ones(rows.num_rows, np.int64))
        counts = {ROWS: ones, COUNT: ones}
        if self.argument is not None:
            argument = whole(columns.column(ARGUMENT))
            counts[COUNT] = argument.is_valid().cast(pa.int64())
            counts |= self._amounts(argument)
        named = {name: columns.column(name) for name in keys}
        return self.merge(pa.table(named | counts), keys)

    def _amounts(self, argument: pa.Array) -> dict[str, pa.Array]:
        return {}

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        return grouped(summaries, keys, self.sums)

    def subtract(self, whole: pa.Table, part: pa.Table, keys: Keys) -> pa.Table:
        opposite = pa.table(
            {
                name: pc.negate(part.column(name)) if name in self.sums else part.column(name)
                for name in part.schema.names
            },
            schema=part.schema,
        )
        rest = self.merge(pa.concat_tables([whole, opposite]).combine_chunks(), keys)
        return rest.filter(pc.greater(rest.column(ROWS), 0))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        values = summary.column(COUNT) if call.function == "COUNT" else self._value(summary, call)
        return summary.select(list(keys)).append_column(VALUE, values)

    def _value(self, summary: pa.Table, call: Aggregate) -> pa.ChunkedArray | pa.Array:
        raise NotImplementedError(call.function)

    def of_nothing(self, call: Aggregate) -> Any:
        return 0 if call.function == "COUNT" else None


@dataclass(frozen=True)
class Total(Count):
    """A sum of whole numbers or decimals, with the number of values in it."""

    functions = frozenset({"COUNT", "SUM", "AVG"})

    @property
    def sums(self) -> tuple[str, ...]:
        return (ROWS, COUNT, TOTAL)

    def _amounts(self, argument: pa.Array) -> dict[str, pa.Array]:
        wide = _wider(argument.type, self.argument)
        return {TOTAL: argument.cast(wide).fill_null(pa.scalar(0).cast(wide))}

    def _value(self, summary: pa.Table, call: Aggregate) -> pa.Array:
        totals, counts = whole(summary.column(TOTAL)), whole(summary.column(COUNT))
        empty = pc.equal(counts, 0)
        if call.function == "AVG":
            means = pc.divide(totals.cast(pa.float64()), counts.cast(pa.float64()))
            return pc.if_else(empty, pa.scalar(None, pa.float64()), means)
        narrow = _narrower(totals.type)
        try:
            values = totals.cast(narrow)
        except pa.ArrowInvalid:
            raise BadInput(
                f"SUM of {self.argument} does not fit {narrow}",
                "cast the aggregate's argument to DOUBLE or a wider DECIMAL",
            ) from None
        return pc.if_else(empty, pa.scalar(None, narrow), values)


@dataclass(frozen=True)
class FloatTotal(Count):
    """A sum of floating-point numbers as digits, with the number of values in it."""

    functions = frozenset({"COUNT", "SUM", "AVG"})
    subtractable = running = False

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, ARGUMENT)
        groups = Groups.of(columns, keys)
        argument = whole(columns.column(ARGUMENT))
        valid = argument.is_valid().to_numpy(zero_copy_only=False)
        values = argument.drop_null().cast(pa.float64()).to_numpy(zero_copy_only=False)
        sums = sum_values(values, groups.number[valid], len(groups))
        return self._table(columns, keys, groups, np.ones(len(valid), np.int64), valid, sums)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups = Groups.of(summaries, keys)
        sums = merge_sums(_matrix(summaries), groups.number, len(groups))
        rows, count = numbers(summaries, ROWS), numbers(summaries, COUNT)
        return self._table(summaries, keys, groups, rows, count, sums)

    def _table(
        self, table: pa.Table, keys: Keys, groups: Groups, rows: Int64s, count: Int64s, sums: Matrix
    ) -> pa.Table:
        digits = pa.FixedSizeListArray.from_arrays(pa.array(sums.ravel()), SUM_WIDTH)
        counts = {ROWS: pa.array(groups.sums(rows)), COUNT: pa.array(groups.sums(count))}
        return groups.table(table, keys, counts | {TOTAL: digits})

    def _value(self, summary: pa.Table, call: Aggregate) -> pa.Array:
        counts = whole(summary.column(COUNT)).to_numpy(zero_copy_only=False)
        sums = round_sums(_matrix(summary))
        if call.function == "AVG":
            sums = sums / np.maximum(counts, 1)
        return pa.array(sums, mask=counts == 0)


def _matrix(summaries: pa.Table) -> Matrix:
    digits: Matrix = whole(summaries.column(TOTAL)).flatten().to_numpy(zero_copy_only=False)
    return digits.reshape(-1, SUM_WIDTH)


def _wider(kind: pa.DataType, argument: str | None) -> pa.DataType:
    """A type in which no sum of values of a type overflows."""
    if pa.types.is_integer(kind):
        return pa.decimal128(38, 0)
    if pa.types.is_decimal(kind):
        return pa.decimal256(76, kind.scale)
    raise BadInput(f"{argument} is {kind}, which has no sum", "give a column of numbers")


def _narrower(kind: pa.DataType) -> pa.DataType:
    """The type of the answer: BIGINT for whole numbers, the widest DECIMAL for decimals."""
    return pa.int64() if pa.types.is_decimal128(kind) else pa.decimal128(38, kind.scale)
