"""Operator state: which rows of a window live together, and when they go."""

from mayfly.state.calendar import CalendarQueue
from mayfly.state.fifo import FifoQueue
from mayfly.state.ranges import TimeRanges

__all__ = ["CalendarQueue", "FifoQueue", "TimeRanges"]
