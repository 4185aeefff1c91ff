"""The sketches that panes have, by the name of the content."""

from __future__ import annotations

from collections.abc import Mapping

from mayfly.kernels.count_min_sketch import CountMinSketch
from mayfly.kernels.value_sketches import HllSketch, ItemsSketch, KllSketch, ValueSketch
from mayfly.plan.pane_functions import COUNT_MIN, HLL, ITEMS, KLL

SKETCHES: Mapping[str, ValueSketch] = {
    HLL: HllSketch(), KLL: KllSketch(), ITEMS: ItemsSketch(), COUNT_MIN: CountMinSketch(),
}  # fmt: skip
