"""Window join queries as values, their clocks, and the in-process runner."""

from mayfly.pipeline.clocks import Clocks
from mayfly.pipeline.inprocess import InProcessRun
from mayfly.pipeline.query import JoinQuery, Stream, WallClock, Windowed

__all__ = ["Clocks", "InProcessRun", "JoinQuery", "Stream", "WallClock", "Windowed"]
