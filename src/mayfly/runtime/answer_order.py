"""ORDER BY, LIMIT and OFFSET of an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mayfly.kernels.delta import taken
from mayfly.kernels.row_order import exact_ranks, order_parts
from mayfly.plan.logical_operators import Sort


def ordered(rows: pa.Table, sort: Sort) -> pa.Table:
    """The rows that a query asks for, in its order."""
    names = [f".{name}" for name in rows.column_names]
    parts = order_parts(rows.rename_columns(names), sort.keys, names)
    ranks = [rank for part in parts for rank in exact_ranks(part)]
    listed = taken(rows, np.lexsort(ranks[::-1])) if ranks else rows
    return listed.select([column.name for column in sort.schema]).slice(sort.offset, sort.limit)
