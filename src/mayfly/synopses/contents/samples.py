"""Samples: k rows of each group, every choice of k equally likely, mergeable.

Idea: each row draws a number, and the k rows with the smallest numbers stay: a reservoir that is
merged by keeping the k smallest of all. The numbers come from a generator of the content's seed.
Cost: one sort by group and number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.kernels.lifetime_rows import whole
from mayfly.synopses.contents.partial_values import VALUE, Aggregate, Content, Groups, Keys, plain

SAMPLED, DRAWN = "_value", "_drawn"


@dataclass(frozen=True)
class Sample(Content):
    """A sample of the values of each group, NULL included."""

    size: int = 100
    seed: int = 1
    functions = frozenset({"SAMPLE"})
    _generator: np.random.Generator = field(
        default_factory=lambda: np.random.default_rng(1), compare=False, repr=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def summarize(self, rows: pa.Table, keys: Keys) -> pa.Table:
        columns = plain(rows, keys, self.argument, SAMPLED)
        drawn = pa.array(self._generator.random(rows.num_rows))
        return self.merge(columns.append_column(DRAWN, drawn), keys)

    def merge(self, summaries: pa.Table, keys: Keys) -> pa.Table:
        groups = Groups.of(summaries, keys)
        drawn = whole(summaries.column(DRAWN)).to_numpy(zero_copy_only=False)
        order = np.lexsort((drawn, groups.number))
        sizes = np.bincount(groups.number, minlength=len(groups))
        starts = np.cumsum(sizes) - sizes
        position = np.arange(len(order)) - starts[groups.number[order]]
        return summaries.take(pa.array(order[position < self.size]))

    def answer(self, summary: pa.Table, keys: Keys, call: Aggregate) -> pa.Table:
        groups = Groups.of(summary, keys)
        order = np.argsort(groups.number, kind="stable")
        values = whole(summary.column(SAMPLED)).take(pa.array(order))
        ends = np.cumsum(np.bincount(groups.number, minlength=len(groups)))
        lists = pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32()), values)
        return groups.table(summary, keys, {VALUE: lists})

    def of_nothing(self, call: Aggregate) -> Any:
        return []
