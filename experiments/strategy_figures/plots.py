"""One picture per figure: a line for each way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_LABELS = {"milliseconds": "ms per 1000 connections", "state_rows": "rows of state"}


def draw(figure: dict[str, Any], points: Sequence[dict[str, Any]], out: Path) -> None:
    measure = figure["measure"]
    shown, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    own = [p for p in points if p["query"] == figure["query"]]
    for way in dict.fromkeys(p["way"] for p in own):
        line = [p for p in own if p["way"] == way]
        axis.plot([p["window"] for p in line], [p[measure] for p in line], marker="o", label=way)
    axis.set_xscale("log")
    if measure == "state_rows":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.set_xlabel("window, connections per link")
    axis.set_ylabel(_LABELS[measure])
    axis.set_title(f"Figure {figure['number']}: {figure['title']}")
    axis.legend()
    shown.savefig(out / f"figure_{figure['number']}.png", dpi=90)
    plt.close(shown)
