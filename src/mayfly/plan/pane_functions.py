"""What panes hold of the rows of a group, by name: numbers, and sketches of values."""

from __future__ import annotations

from mayfly.plan.types import DataType

ROWS, COUNT, SUM, MIN, MAX, MOMENTS = "rows", "count", "sum", "min", "max", "moments"
HLL, KLL, ITEMS, COUNT_MIN = "hll", "kll", "items", "count_min"


def sketch_name(function: str, kind: DataType) -> str | None:
    """Which sketch answers an approximate call over values of a type; None if a counter for each
    value has to."""
    if function == "count":
        return HLL if kind.is_integral or kind.name == "string" else None
    if function == "quantile":
        return KLL if kind.is_integral or kind.name in ("float", "double") else None
    is_text = kind.is_integral or kind.name == "string"
    return {"top": ITEMS, "frequency": COUNT_MIN}.get(function) if is_text else None
