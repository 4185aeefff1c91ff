"""VAR and STDDEV: count, mean and the sum of squared distances to it (M2), of each group.

Merging: the mean of all is the weighted one, and each part adds how far its own mean is from that.
Results hold to rounding, as the order in which parts are merged is not fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.kernels.lifetime_rows import whole
from mayfly.kernels.moment_parts import MomentParts
from mayfly.synopses.contents.partial_values import VALUE, Aggregate, Content, Groups, Keys, plain

COUNT, MEAN, SQUARES = "_count", "_mean", "_squares"


@dataclass(frozen=True)
class Moments(Content):
    """Of the sample: NULL below two values."""

    functions = frozenset({"VAR", "STDDEV"})

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, MEAN)
        return _merged(columns, keys, MomentParts.of_values(whole(columns.column(MEAN))))

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        return _merged(summaries, keys, _parts(summaries))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        answers = _parts(summary).spreads(call.function == "STDDEV", 1)
        return summary.select(list(keys)).append_column(VALUE, answers)

    def of_nothing(self, call: Aggregate) -> Any:
        return None


def _merged(table: pa.Table, keys: Keys, parts: MomentParts) -> pa.Table:
    groups = Groups.of(table, keys)
    merged = parts.merged(groups.number, len(groups))
    named = {
        COUNT: pa.array(merged.count.astype(np.int64)),
        MEAN: pa.array(merged.mean),
        SQUARES: pa.array(merged.squares),
    }
    return groups.table(table, keys, named)


def _parts(table: pa.Table) -> MomentParts:
    count, mean, squares = (
        whole(table.column(name)).to_numpy(zero_copy_only=False).astype(np.float64)
        for name in (COUNT, MEAN, SQUARES)
    )
    return MomentParts(count, mean, squares)
