"""MIN and MAX: the extreme of each group, NULL where it has no value; NaN is the largest number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.kernels.lifetime_rows import whole
from mayfly.synopses.contents.partial_values import VALUE, Aggregate, Content, Keys, plain
from mayfly.windows.domain import of_ranks, ranks

EXTREME = "_extreme"


@dataclass(frozen=True)
class Minimum(Content):
    """The smallest value."""

    functions = frozenset({"MIN"})
    insensitive = True
    _way = "min"

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        return self.merge(plain(rows, keys, self.argument, EXTREME), keys)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        if not summaries.num_rows:
            return summaries
        kind = summaries.schema.field(EXTREME).type
        place = summaries.schema.get_field_index(EXTREME)
        table = summaries.set_column(place, EXTREME, _ordered(summaries.column(EXTREME)))
        best = table.group_by(list(keys), use_threads=False).aggregate([(EXTREME, self._way)])
        best = best.rename_columns([*keys, EXTREME])
        return best.set_column(len(keys), EXTREME, _restored(best.column(EXTREME), kind))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        return summary.rename_columns([*keys, VALUE])

    def of_nothing(self, call: Aggregate) -> Any:
        return None


@dataclass(frozen=True)
class Maximum(Minimum):
    """The largest value."""

    functions = frozenset({"MAX"})
    _way = "max"


def _ordered(column: pa.ChunkedArray) -> pa.Array:
    """Values in an order that Arrow keeps: it leaves NaN out."""
    values = whole(column)
    if not pa.types.is_floating(values.type):
        return values
    return pa.array(ranks(values), mask=pc.is_null(values).to_numpy(zero_copy_only=False))


def _restored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    values = whole(column)
    if not pa.types.is_floating(kind):
        return values
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    return of_ranks(values.fill_null(0).to_numpy(), missing, kind)
