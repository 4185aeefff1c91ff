"""One picture per figure, a line for each way: beside CPU time the tuples touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_LABELS = {
    "milliseconds": "CPU ms per 1000 connections",
    "touched": "tuples touched per 1000 connections",
    "state_rows": "rows of state",
}
_LOGARITHMIC = {"touched", "state_rows"}


def draw(figure: dict[str, Any], points: Sequence[dict[str, Any]], out: Path) -> None:
    measures = (
        ["milliseconds", "touched"] if figure["measure"] == "milliseconds" else ["state_rows"]
    )
    shown, axes = plt.subplots(
        1, len(measures), figsize=(5.5 * len(measures), 4), layout="constrained", squeeze=False
    )
    own = [p for p in points if p["query"] == figure["query"]]
    for axis, measure in zip(axes[0], measures, strict=True):
        _draw_lines(axis, own, measure)
    shown.suptitle(f"Figure {figure['number']}: {figure['title']}")
    shown.savefig(out / f"figure_{figure['number']}.png", dpi=90)
    plt.close(shown)


def _draw_lines(axis: Axes, points: Sequence[dict[str, Any]], measure: str) -> None:
    for way in dict.fromkeys(p["way"] for p in points):
        line = sorted((p for p in points if p["way"] == way), key=lambda p: p["window"])
        axis.plot([p["window"] for p in line], [p[measure] for p in line], marker="o", label=way)
    axis.set_xscale("log")
    if measure in _LOGARITHMIC:
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set_xlabel("window, connections per link")
    axis.set_ylabel(_LABELS[measure])
    axis.legend()
