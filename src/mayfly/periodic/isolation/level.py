"""How much a query may see of a window that slides while it reads."""

from __future__ import annotations

from enum import Enum
from functools import total_ordering


@total_ordering
class IsolationLevel(Enum):
    """From the weakest on."""

    NONE = "no level"
    """Sub-windows of different states of the window."""
    WINDOW = "window-serializable"
    """The window as of an update before the commit."""
    LATEST = "latest-window-serializable"
    """The window as of the last update before the commit."""

    def __lt__(self, other: IsolationLevel) -> bool:
        order = list(IsolationLevel)
        return order.index(self) < order.index(other)
