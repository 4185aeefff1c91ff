"""Figure 5.2 as bars by algorithm, 5.3 and 5.4 as lines over Δ: counted and timed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_LABELS = {"scanned": "tuples scanned", "milliseconds": "ms"}


def draw(number: str, points: Sequence[dict[str, Any]], out: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
    for axis, measure in zip(axes, _LABELS, strict=True):
        (_bars if number == "5.2" else _lines)(axis, points, measure)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
    figure.suptitle(f"Figure {number}")
    figure.savefig(out / f"figure_{number}.png", dpi=90)
    plt.close(figure)


def _bars(axis: Any, points: Sequence[dict[str, Any]], measure: str) -> None:
    ways = list(dict.fromkeys((p["algorithm"], p["buckets"]) for p in points))
    orders = list(dict.fromkeys(p["order"] for p in points))
    best = {(p["algorithm"], p["buckets"]): p[measure] for p in points if p["order"] == orders[0]}
    predicted = {p["order"]: p["predicted"] for p in points if p["buckets"] == 1}
    for place, order in enumerate(orders):
        own = {(p["algorithm"], p["buckets"]): p[measure] for p in points if p["order"] == order}
        heights = [predicted[order] / predicted[orders[0]], *(own[w] / best[w] for w in ways)]
        at = [n + 0.2 * place for n in range(len(heights))]
        axis.bar(at, heights, width=0.2, label=order)
    labels = ["predicted", *(f"{a}\n{'loops' if b == 1 else f'{b} buckets'}" for a, b in ways)]
    axis.set_xticks([n + 0.3 for n in range(len(labels))], labels, fontsize=6)
    axis.set_ylabel(f"{_LABELS[measure]}, times those of {orders[0]}")


def _lines(axis: Any, points: Sequence[dict[str, Any]], measure: str) -> None:
    names = {"eager": "eager", "lazy-expiration": "eager"}
    for buckets in dict.fromkeys(p["buckets"] for p in points):
        for way in ("eager", "lazy", "lazy-restore"):
            own = [p for p in points if p["buckets"] == buckets]
            own = [p for p in own if names.get(p["algorithm"], p["algorithm"]) == way]
            label = way if buckets == 1 else f"{way}, {buckets} buckets"
            axis.plot([p["every"] for p in own], [p[measure] for p in own], "o-", label=label)
    axis.set_xlabel("Δ, time units")
    axis.set_ylabel(f"{_LABELS[measure]} per 1000 tuples")
