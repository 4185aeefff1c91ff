"""Draws the figures: update, probe and scan against n, and bars for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from experiments.lifetime_figures.measured import Point

LOOKS = {
    "Rebuild": ("#0072b2", "o"),
    "NoRebuild": ("#d55e00", "s"),
    "chronological Rebuild": ("#56b4e9", "v"),
    "LazyRebuild": ("#009e73", "D"),
    "LazyNoRebuild": ("#e69f00", "X"),
    "R-ins": ("#555555", "^"),
    "D-ins": ("#999999", "<"),
    "WATA": ("#cc79a7", ">"),
}
MEASURES = {
    "update_seconds": ("update, ms", 1e3),
    "update_bytes": ("moved by an update, MB", 1e-6),
    "probe_seconds": ("probe, ms", 1e3),
    "scan_seconds": ("scan, ms", 1e3),
}
TITLES = {
    "small": "figures_V6-V8_R10-R12",
    "large": "figures_V10-V12_R14-R16",
    "shape": "figure_V5_R9",
    "fluctuating": "figure_V9_R13",
    "unindexed": "unindexed",
    "invalidated": "invalidated",
    "count": "figure_R17",
}


def draw(points: Mapping[str, Sequence[Point]], out: Path) -> None:
    for sweep, found in points.items():
        if sweep == "variants":
            continue  # drawn with what they are variants of
        if sweep in ("small", "large"):
            variants = points.get("variants", ()) if sweep == "small" else ()
            _lines([*found, *variants], out / f"{TITLES[sweep]}.png")
        elif sweep == "count":
            _bars(found, out / f"{TITLES[sweep]}.png", relative=False)
        elif sweep == "shape":
            _bars(found, out / f"{TITLES[sweep]}.png", relative=True)
        else:
            plain = [one for one in points.get("small", ()) if one.layout in _names(found)]
            _bars([*plain, *found], out / f"{TITLES[sweep]}.png", relative=False)


def _names(points: Sequence[Point]) -> set[str]:
    return {point.layout.partition(",")[0] for point in points}


def _kind(point: Point) -> str:
    return point.layout.rstrip("0123456789x").strip()


def _lines(points: Sequence[Point], path: Path) -> None:
    figure, axes = plt.subplots(1, len(MEASURES), figsize=(19, 4.4), layout="constrained")
    for axis, (name, (label, factor)) in zip(axes, MEASURES.items(), strict=True):
        for kind, (colour, mark) in LOOKS.items():
            own = [point for point in points if _kind(point) == kind]
            if own:
                y = [getattr(point, name) * factor for point in own]
                x = [point.sub_indices for point in own]
                axis.plot(x, y, color=colour, marker=mark, label=kind)
        axis.set_xlabel("sub-indices n")
        axis.set_title(label, fontsize=10)
        axis.set_xticks([4, 9, 16, 25])
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _bars(points: Sequence[Point], path: Path, *, relative: bool) -> None:
    figure, axes = plt.subplots(1, len(MEASURES), figsize=(19, 3.6), layout="constrained")
    labels = [
        point.layout + (" ~" if point.fluctuating else "") + (" –" if point.invalidated else "")
        for point in points
    ]
    for axis, (name, (label, factor)) in zip(axes, MEASURES.items(), strict=True):
        values = [getattr(point, name) for point in points]
        scale = 1 / max(values) if relative else factor
        axis.barh(labels, [value * scale for value in values], color="#0072b2")
        axis.invert_yaxis()
        axis.set_title(label.partition(",")[0] + ", relative" if relative else label, fontsize=10)
    figure.savefig(path, dpi=90)
    plt.close(figure)
