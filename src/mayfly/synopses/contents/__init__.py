"""Contents of synopses: partial values of aggregates, per group."""

from __future__ import annotations

import pyarrow as pa

from mayfly.errors import InvalidSetting
from mayfly.synopses.contents.count_min import CountMin
from mayfly.synopses.contents.counters import Counters, ValueSet
from mayfly.synopses.contents.extreme_values import Maximum, Minimum
from mayfly.synopses.contents.moments import Moments
from mayfly.synopses.contents.partial_values import Aggregate, Content, Keys, TableAlgebra
from mayfly.synopses.contents.samples import Sample
from mayfly.synopses.contents.sketches import DistinctSketch, FrequentSketch, QuantileSketch
from mayfly.synopses.contents.totals import Count, FloatTotal, Total

__all__ = [
    "Aggregate",
    "Content",
    "Count",
    "CountMin",
    "Counters",
    "DistinctSketch",
    "FloatTotal",
    "FrequentSketch",
    "Keys",
    "Maximum",
    "Minimum",
    "Moments",
    "QuantileSketch",
    "Sample",
    "TableAlgebra",
    "Total",
    "ValueSet",
    "content_for",
]

CONTENTS: tuple[type[Content], ...] = (
    Count, Total, Minimum, Maximum, Moments, ValueSet, Counters,
    DistinctSketch, QuantileSketch, FrequentSketch, CountMin, Sample,
)  # fmt: skip
"""In the order in which one is looked for: those that take least first."""


def content_for(call: Aggregate, rows: pa.Schema) -> Content:
    """The smallest content from which a call can be answered over rows of a schema."""
    if call.argument is not None and call.argument not in rows.names:
        raise InvalidSetting(
            f"{call}: there is no column {call.argument!r}",
            f"name one of {', '.join(rows.names)}",
        )
    if call.argument is None and call.function != "COUNT":
        raise InvalidSetting(f"{call.function} needs an argument", "name a column")
    if call.function in ("SUM", "AVG") and pa.types.is_floating(rows.field(call.argument).type):
        return FloatTotal(call.argument)
    for kind in CONTENTS:
        if call.function in kind.functions:
            return kind(call.argument)
    names = sorted(frozenset.union(*(kind.functions for kind in CONTENTS)))
    raise InvalidSetting(f"no synopsis answers {call.function}", f"use one of {', '.join(names)}")
