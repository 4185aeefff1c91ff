"""Figures 7 to 11 as bars over settings on a logarithmic axis, 6.3 as lines over k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_FREQUENT = {
    "delta_percent": "(a) δ, % of the window",
    "over": "(b) truly over δ",
    "reported": "(c) reported",
    "share": "(d) share found",
    "stored": "(e) pairs and counters",
    "error_percent": "(f) error of counts, %",
}


def draw(figure: str, points: Sequence[dict[str, Any]], out: Path) -> None:
    (_lines if figure == "6.3" else _bars)(figure, points, out)


def _bars(figure: str, points: Sequence[dict[str, Any]], out: Path) -> None:
    panels = list(dict.fromkeys((p["figure"], p["spread"]) for p in points))
    drawing, axes = plt.subplots(
        len(panels), 1, figsize=(12, 4.2 * len(panels)), layout="constrained", squeeze=False
    )
    for axis, (part, spread) in zip(axes[:, 0], panels, strict=True):
        own = [p for p in points if (p["figure"], p["spread"]) == (part, spread)]
        structures = list(dict.fromkeys(p["structure"] for p in own))
        places = list(dict.fromkeys((p["n"], p["values"]) for p in own))
        width = 0.8 / len(structures)
        for number, structure in enumerate(structures):
            heights = [p["seconds"] for p in own if p["structure"] == structure]
            at = [place + number * width for place in range(len(places))]
            axis.bar(at, heights, width=width, label=structure)
        labels = [f"{n} basic windows\n{values:,} values" for n, values in places]
        axis.set_xticks([place + 0.4 for place in range(len(places))], labels, fontsize=8)
        axis.set_yscale("log")
        axis.set_ylabel("CPU seconds per 100,000 tuples")
        axis.set_title(f"Figure {part}, {spread}")
        axis.legend(fontsize="x-small", ncols=4)
    drawing.savefig(out / f"figure_{figure}.png", dpi=80)
    plt.close(drawing)


def _lines(figure: str, points: Sequence[dict[str, Any]], out: Path) -> None:
    drawing, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    for axis, (measure, label) in zip(axes.flat, _FREQUENT.items(), strict=True):
        for basic in dict.fromkeys(p["b"] for p in points):
            own = [p for p in points if p["b"] == basic]
            axis.plot([p["k"] for p in own], [p[measure] for p in own], "o-", label=f"b = {basic}")
        axis.set_xlabel("k")
        axis.set_title(label)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
    drawing.suptitle("Figure 6.3")
    drawing.savefig(out / f"figure_{figure}.png", dpi=80)
    plt.close(drawing)
