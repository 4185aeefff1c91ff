"""Lines over the length of the window, or the number of queries, one for each policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw(
    name: str, points: Sequence[dict[str, Any]], x: str, measures: Sequence[str], out: Path
) -> None:
    figure, axes = plt.subplots(
        1, len(measures), figsize=(5 * len(measures), 4), layout="constrained", squeeze=False
    )
    for axis, measure in zip(axes[0], measures, strict=True):
        for policy in dict.fromkeys(p["policy"] for p in points):
            own = [p for p in points if p["policy"] == policy and measure in p]
            axis.plot([p[x] for p in own], [p[measure] for p in own], "o-", label=policy)
        axis.set_xlabel(x)
        axis.set_ylabel(measure)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="small")
    figure.suptitle(name)
    figure.savefig(out / f"{name}.png", dpi=80)
    plt.close(figure)
