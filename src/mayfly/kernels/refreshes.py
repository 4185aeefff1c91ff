"""Refreshes: the instants at which windows with SLIDE move."""

from __future__ import annotations

import numpy as np

from mayfly.kernels.interval import Interval
from mayfly.kernels.sorting import Int64s
from mayfly.lifetime import NEVER
from mayfly.plan.windows import Slide


def rounded(times: Int64s, slide: Slide | None) -> Int64s:
    """Instants rounded up to the next refresh; "never" stays."""
    if slide is None or not slide.period:
        return times
    period, origin = np.int64(slide.period), np.int64(slide.origin)
    up = -((origin - times) // period) * period + origin
    never = times == NEVER
    return np.where(never, NEVER, up) if never.any() else up


def refreshes(slide: Slide, first: int | None, interval: Interval) -> Int64s:
    """The multiples of the slide in the step, from the first row on."""
    period = slide.period or 1
    if first is None:
        return np.empty(0, np.int64)
    low = max(first, interval.began)
    start = -((slide.origin - low) // period) * period + slide.origin
    return np.arange(start, interval.clock, period, dtype=np.int64)
