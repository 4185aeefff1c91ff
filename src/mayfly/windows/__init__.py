"""Sliding windows in memory: value indexes, rings and frequent items, without a session."""

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
