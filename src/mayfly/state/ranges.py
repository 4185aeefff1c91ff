"""Equal ranges of time, counted from the epoch: what FIFO and calendar queues have in common.

Update u covers the instants ((u−1)·interval, u·interval]; a group covers ``updates_per_group``
updates in a row. Groups have absolute numbers, so a number is never used again for other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mayfly.errors import InvalidSetting
from mayfly.lifetime import NEVER, format_micros

DEFAULT_PARTITIONS = 10


@dataclass(frozen=True, slots=True)
class TimeRanges:
    """The longest ``lifetime`` (µs) cut into at most ``partitions`` ranges of whole updates.

    ``interval`` is the width of an update in µs. State that is updated at arbitrary instants
    leaves it at 1: the ranges are then as equal as microseconds allow.
    """

    lifetime: int
    partitions: int = DEFAULT_PARTITIONS
    interval: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.lifetime < NEVER:
            raise InvalidSetting(
                f"a queue over the lifetime {self.lifetime} µs has no ranges",
                "give the longest lifetime of its rows; rows that never expire need no queue",
            )
        if self.partitions < 1:
            raise InvalidSetting(
                f"{self.partitions} partitions cannot hold anything", "use 1 or more (default 10)"
            )
        if not 0 < self.interval <= self.lifetime:
            raise InvalidSetting(
                f"an update every {self.interval} µs does not fit "
                f"a lifetime of {format_micros(self.lifetime)}",
                "update at least once per lifetime",
            )

    @property
    def span(self) -> int:
        """The longest lifetime in updates, rounded up."""
        return -(-self.lifetime // self.interval)

    @property
    def updates_per_group(self) -> int:
        return -(-self.span // self.partitions)

    @property
    def width(self) -> int:
        """Microseconds that one group covers."""
        return self.updates_per_group * self.interval

    def group_at(self, update: int) -> int:
        """The group whose range holds an update."""
        return (update - 1) // self.updates_per_group

    def ranges_of(self, times: np.ndarray) -> np.ndarray:
        """Group g covers the instants (g·width, (g+1)·width]; ``times`` are int64 µs."""
        return (times - 1) // np.int64(self.width)
