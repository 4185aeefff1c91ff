"""VAR and STDDEV: count, mean and the sum of squared distances to it (M2), of each group.

Merging: the mean of all is the weighted one, and each part adds how far its own mean is from that.
Results hold to rounding, as the order in which parts are merged is not fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.kernels.lifetime_rows import numbers, whole
from mayfly.synopses.contents.partial_values import VALUE, Aggregate, Content, Groups, Keys, plain

COUNT, MEAN, SQUARES = "_count", "_mean", "_squares"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moments(Content):
    """Of the sample: NULL below two values."""

    functions = frozenset({"VAR", "STDDEV"})

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, MEAN)
        argument = whole(columns.column(MEAN))
        count = argument.is_valid().to_numpy(zero_copy_only=False).astype(np.float64)
        values = argument.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return _merged(columns, keys, count, values, np.zeros(len(values)))

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        count = numbers(summaries, COUNT).astype(np.float64)
        return _merged(
            summaries, keys, count, _floats(summaries, MEAN), _floats(summaries, SQUARES)
        )

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        count = numbers(summary, COUNT)
        values = _floats(summary, SQUARES) / np.maximum(count - 1, 1)
        if call.function == "STDDEV":
            values = np.sqrt(values)
        answers = pa.array(values, mask=count < 2)
        return summary.select(list(keys)).append_column(VALUE, answers)

    def of_nothing(self, call: Aggregate) -> Any:
        return None


def _merged(table: pa.Table, keys: Keys, count: Floats, mean: Floats, squares: Floats) -> pa.Table:
    groups = Groups.of(table, keys)

    def summed(amounts: Floats) -> Floats:
        return np.bincount(groups.number, amounts, len(groups)).astype(np.float64)

    total = summed(count)
    with np.errstate(invalid="ignore", over="ignore"):
        # Distances to one of the means are small where values are large and close together.
        base = np.zeros(len(groups))
        base[groups.number[count > 0]] = mean[count > 0]
        away = np.where(count > 0, mean - base[groups.number], 0.0)
        centre = summed(count * away) / np.maximum(total, 1)
        distances = summed(squares + count * (away - centre[groups.number]) ** 2)
    named = {
        COUNT: pa.array(total.astype(np.int64)),
        MEAN: pa.array(base + centre),
        SQUARES: pa.array(distances),
    }
    return groups.table(table, keys, named)


def _floats(table: pa.Table, name: str) -> Floats:
    values: Floats = whole(table.column(name)).to_numpy(zero_copy_only=False)
    return values
