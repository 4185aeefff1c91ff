"""Count-Min: how often a value occurs, at most εN too often, from a small matrix per group.

Each of ``depth`` rows counts every value in one of ``width`` cells; the smallest of its cells is
the answer. ε = e / width, with probability 1 − e^−depth. Matrices of one content have the same
shape and hashes, so they add up, and a part can be subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.arrays.order import Int64s
from mayfly.kernels.functions.xxhash64 import folded
from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.synopses.contents.partial_values import (
    HIGH,
    LOW,
    ROWS,
    VALUE,
    Aggregate,
    Content,
    Groups,
    Keys,
    plain,
)

ARGUMENT, CELLS, COUNT = "_argument", "_cells", "_count"


@dataclass(frozen=True)
class CountMin(Content):
    """The parameter of a call is the value that is asked about."""

    width: int = 272
    depth: int = 5
    functions = frozenset({"APPROX COUNT"})
    subtractable = True

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, ARGUMENT)
        groups = Groups.of(columns, keys)
        argument = whole(columns.column(ARGUMENT))
        valid = argument.is_valid().to_numpy(zero_copy_only=False)
        cells = np.zeros((len(groups), self.depth, self.width), np.int64)
        places = self._places(argument.drop_null())
        for row in range(self.depth):
            np.add.at(cells, (groups.number[valid], row, places[row]), 1)
        return self._table(columns, keys, groups, np.ones(len(valid), np.int64), valid, cells)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups = Groups.of(summaries, keys)
        cells = np.zeros((len(groups), self.depth, self.width), np.int64)
        np.add.at(cells, groups.number, self._cells(summaries))
        rows, count = numbers(summaries, ROWS), numbers(summaries, COUNT)
        return self._table(summaries, keys, groups, rows, count, cells)

    def subtract(self, whole: pa.Table, part: pa.Table, keys: Keys) -> pa.Table:
        groups = Groups.of(part, keys)
        rows, count = -numbers(part, ROWS), -numbers(part, COUNT)
        cells = -self._cells(part)[groups.first]
        opposite = self._table(part, keys, groups, rows, count, cells)
        rest = self.merge(pa.concat_tables([whole, opposite]).combine_chunks(), keys)
        return rest.filter(pa.array(numbers(rest, ROWS) > 0))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        sought = pa.array([call.parameter])
        places = self._places(sought)[:, 0]
        cells = self._cells(summary)
        counts = np.stack([cells[:, row, places[row]] for row in range(self.depth)]).min(axis=0)
        surplus = np.ceil(numbers(summary, COUNT) * e / self.width).astype(np.int64)
        answers = summary.select(list(keys)).append_column(VALUE, pa.array(counts))
        low = pa.array(np.maximum(counts - surplus, 0))
        return answers.append_column(LOW, low).append_column(HIGH, pa.array(counts))

    def of_nothing(self, call: Aggregate) -> Any:
        return 0

    def _places(self, values: pa.Array) -> Int64s:
        """The cell of each value in each row."""
        if not len(values):
            return np.zeros((self.depth, 0), np.int64)
        seeds = (np.full(len(values), row + 1, np.uint64) for row in range(self.depth))
        hashes = [folded(_widened(values), seed) for seed in seeds]
        return (np.stack(hashes) % np.uint64(self.width)).astype(np.int64)

    def _cells(self, summaries: pa.Table) -> npt.NDArray[np.int64]:
        flat = whole(summaries.column(CELLS)).flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat).reshape(-1, self.depth, self.width)

    def _table(
        self, table: pa.Table, keys: Keys, groups: Groups, rows: Int64s, count: Int64s,
        cells: npt.NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        flat = pa.FixedSizeListArray.from_arrays(pa.array(cells.ravel()), self.width * self.depth)
        counts = {ROWS: pa.array(groups.sums(rows)), COUNT: pa.array(groups.sums(count))}
        return groups.table(table, keys, counts | {CELLS: flat})


def _widened(values: pa.Array) -> pa.Array:
    """Equal numbers of different widths have one hash."""
    kind = values.type
    if pa.types.is_integer(kind):
        return values.cast(pa.int64())
    return values.cast(pa.float64()) if pa.types.is_floating(kind) else values
