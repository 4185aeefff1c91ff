"""Sliding windows in memory: value indexes, rings and frequent items, without a session."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayfly.windows.basic import Watch
    from mayfly.windows.content import Visits
    from mayfly.windows.frequent import (
        ApproximateFrequent,
        Frequent,
        FrequentItem,
        FrequentItems,
    )
    from mayfly.windows.groups import RangeCount, RangeIntersection, ValueRange
    from mayfly.windows.pace import Refresh, Rows, Span
    from mayfly.windows.partitions import Partition, PartitionedWindow
    from mayfly.windows.window import SlidingWindow, over_range

__all__ = [
    "ApproximateFrequent",
    "Frequent",
    "FrequentItem",
    "FrequentItems",
    "Partition",
    "PartitionedWindow",
    "RangeCount",
    "RangeIntersection",
    "Refresh",
    "Rows",
    "SlidingWindow",
    "Span",
    "ValueRange",
    "Visits",
    "Watch",
    "over_range",
]
_PLACES = {
    "ApproximateFrequent": "frequent",
    "Frequent": "frequent",
    "FrequentItem": "frequent",
    "FrequentItems": "frequent",
    "Partition": "partitions",
    "PartitionedWindow": "partitions",
    "RangeCount": "groups",
    "RangeIntersection": "groups",
    "Refresh": "pace",
    "Rows": "pace",
    "SlidingWindow": "window",
    "Span": "pace",
    "ValueRange": "groups",
    "Visits": "content",
    "Watch": "basic",
    "over_range": "window",
}
"""Imported when they are asked for: a query that counts needs only the ranks of values."""


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"mayfly.windows.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'mayfly.windows' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
