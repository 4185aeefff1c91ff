"""Draws the figures: one picture each, the same colour and mark for a scheme in all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from experiments.wave_figures.curves import MODEL, Curve, Figure

# Colour, mark and its size: marks of different sizes stay visible where curves coincide.
LOOKS = {
    "DEL": ("#0072b2", "o", 6),
    "REINDEX": ("#d55e00", "s", 6),
    "REINDEX+": ("#e69f00", "^", 6),
    "REINDEX++": ("#cc79a7", "v", 12),
    "WATA": ("#009e73", "D", 8),
    "RATA": ("#56b4e9", "X", 5),
}
AXES = {
    "constituents": "constituents n",
    "window": "window W, days",
    "scale": "data of a day, times SCAM's",
}
MEASURES = {
    "space": "space, MB",
    "transition": "transition, seconds",
    "total_work": "work, seconds a day",
}


def draw(figure: Figure, curves: Iterable[Curve], path: Path) -> None:
    """Lines for the model, dashed lines for every other source."""
    canvas, axes = plt.subplots(figsize=(7, 4.6), dpi=110)
    for curve in curves:
        colour, mark, size = LOOKS[curve.scheme]
        measured = curve.source != MODEL
        axes.plot(
            list(curve.points),
            list(curve.points.values()),
            color=colour,
            marker=mark,
            markersize=size,
            linewidth=1.6,
            linestyle="--" if measured else "-",
            alpha=0.85,
            label=f"{curve.scheme} ({curve.source})" if measured else curve.scheme,
        )
    axes.set_title(f"Figure {figure.number}: {figure.title}", fontsize=10.5, loc="left")
    axes.set_xlabel(AXES[figure.along])
    axes.set_ylabel(MEASURES[figure.measure])
    axes.set_ylim(bottom=0, top=figure.highest)
    if figure.along == "constituents":
        axes.set_xticks([int(value) for value in figure.values])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    if figure.highest:
        note = f"cut off at {figure.highest:,.0f}"
        axes.annotate(note, (0.99, 0.97), xycoords="axes fraction", ha="right", fontsize=8)
    canvas.tight_layout()
    canvas.savefig(path)
    plt.close(canvas)
