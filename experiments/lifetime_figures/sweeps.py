"""What is measured for which figure: sweeps of points, each a layout under a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.lifetime_figures.loads import Load

SIDES = (2, 3, 4, 5)
SHAPES = ("Rebuild 4x4", "Rebuild 2x8", "Rebuild 8x2")
COMPARED = (
    *(f"{kind} {s}x{s}" for kind in ("Rebuild", "NoRebuild") for s in SIDES),
    *(f"{kind}{s * s}" for kind in ("R-ins", "D-ins") for s in SIDES),
)
VARIANTS = (
    *(f"chronological Rebuild {s}x{s}" for s in SIDES),
    *(f"{kind} {s}x{s}" for kind in ("LazyRebuild", "LazyNoRebuild") for s in SIDES[1:]),
    *(f"WATA{s * s}" for s in SIDES),
)
UNINDEXED = ("Rebuild 4x4", "chronological Rebuild 4x4")
FLUCTUATING = (
    *(f"{kind} {s}x{s}" for kind in ("Rebuild", "NoRebuild") for s in (2, 4)),
    *(f"{kind}{n}" for kind in ("R-ins", "D-ins") for n in (4, 16)),
)
COUNTED = (
    *(f"CountRebuild {shape}" for shape in ("2x2", "4x4", "8x2", "2x8")),
    *(f"CountNoRebuild {shape}" for shape in ("2x2", "4x4", "8x2", "2x8")),
    *FLUCTUATING,
)
INVALIDATED = ("Rebuild 4x4", "NoRebuild 4x4")
SWEEPS = ("shape", "small", "variants", "unindexed", "fluctuating", "invalidated", "count", "large")
VOID_SHARE = 0.02
"""Of each update's rows are declared void as soon as they are stored."""


@dataclass(frozen=True)
class Wanted:
    """One point of a sweep."""

    sweep: str
    layout: str
    load: Load
    clustered: bool = True
    invalidated: int = 0

    @property
    def name(self) -> str:
        """By which a point is found again; the same for sweeps that share it."""
        load, parts = self.load, [self.layout, f"{self.load.megabytes:g} MB"]
        parts += ["fluctuating"] if load.fluctuating else []
        parts += ["counted"] if load.counted else []
        parts += [] if self.clustered else ["unindexed"]
        parts += [f"{self.invalidated} void"] if self.invalidated else []
        return ", ".join(parts)


def points_of(sweep: str, megabytes: float, large: float | None) -> list[Wanted]:
    """The points of a sweep in the order in which they are measured."""
    load = Load(megabytes)
    layouts: tuple[str, ...]
    more: dict[str, Any] = {}
    match sweep:
        case "shape":
            layouts = SHAPES
        case "small":
            layouts = COMPARED
        case "variants":
            layouts = VARIANTS
        case "unindexed":
            layouts, more = UNINDEXED, {"clustered": False}
        case "fluctuating":
            layouts, load = FLUCTUATING, Load(megabytes, fluctuating=True)
        case "invalidated":
            layouts, more = INVALIDATED, {"invalidated": max(1, round(VOID_SHARE * load.counts[0]))}
        case "count":
            layouts, load = COUNTED, Load(megabytes, fluctuating=True, counted=True)
        case "large":
            layouts, load = (COMPARED if large else ()), Load(large or 0.0)
        case _:
            raise SystemExit(f"there is no sweep {sweep}; there are: {', '.join(SWEEPS)}")
    return [Wanted(sweep, layout, load, **more) for layout in layouts]
