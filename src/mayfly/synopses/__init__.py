"""Synopses: partial answers per interval of a window, from which many lengths are answered."""

from mayfly.synopses.basic_interval import BasicInterval
from mayfly.synopses.dyadic_intervals import DyadicIntervals
from mayfly.synopses.join import BasicIntervalJoin, IntervalJoin, JoinSynopsis, RunningJoin
from mayfly.synopses.running import Running
from mayfly.synopses.synopsis import Algebra, Entry, Synopsis

__all__ = [
    "Algebra",
    "BasicInterval",
    "BasicIntervalJoin",
    "DyadicIntervals",
    "Entry",
    "IntervalJoin",
    "JoinSynopsis",
    "Running",
    "RunningJoin",
    "Synopsis",
]
