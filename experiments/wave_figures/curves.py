"""The figures as data: what each shows, and its curves.

A curve is one scheme's measure at the values of the figure's axis, from one source. The cost
model is one source; curves measured on archives are another and come from a file of the same
shape (see ``read_curves``).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mayfly.archive.advice.cost_parameters import BUILT_IN_CASES
from mayfly.archive.advice.wave_cost import wave_cost
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme

MODEL = "model"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the configuration."""

    number: int
    title: str
    case: str
    technique: str
    measure: str
    along: str
    values: tuple[float, ...]
    window: int = 0
    constituents: int = 0
    probes: float | None = None
    variant: str = ""
    highest: float | None = None
    """Where the drawing is cut off; the figures are not."""

    @property
    def name(self) -> str:
        return f"{self.number} ({self.variant})" if self.variant else str(self.number)

    @property
    def file_stem(self) -> str:
        variant = "".join(c if c.isalnum() else "-" for c in self.variant)
        return f"figure_{self.number}" + (f"_{variant}" if variant else "")


@dataclass(frozen=True, slots=True)
class Curve:
    """A scheme's measure along the axis of a figure; only where the scheme exists."""

    figure: str
    scheme: str
    points: Mapping[float, float]
    source: str = MODEL


def read_figures(path: Path) -> list[Figure]:
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["figure"]
    return [Figure(**{**entry, "values": tuple(entry["values"])}) for entry in entries]


def model_curves(figures: Iterable[Figure]) -> list[Curve]:
    """The curves that the cost model predicts."""
    return [
        Curve(figure.name, scheme, _model_points(figure, scheme))
        for figure in figures
        for scheme in WaveScheme
    ]


def _model_points(figure: Figure, scheme: WaveScheme) -> dict[float, float]:
    points = {}
    for value in figure.values:
        window = int(value) if figure.along == "window" else figure.window
        constituents = int(value) if figure.along == "constituents" else figure.constituents
        if constituents < scheme.fewest_constituents:
            continue
        parameters = BUILT_IN_CASES[figure.case]
        if figure.probes is not None:
            parameters = replace(parameters, probes=figure.probes)
        if figure.along == "scale":
            parameters = parameters.scaled(value)
        layout = WaveLayout(scheme, window, constituents)
        cost = wave_cost(layout, UpdateTechnique(figure.technique), parameters)
        points[value] = getattr(cost, figure.measure)
    return points


def write_curves(curves: Iterable[Curve]) -> list[dict[str, Any]]:
    """Curves as JSON values; points become pairs."""
    return [{**asdict(curve), "points": list(curve.points.items())} for curve in curves]


def read_curves(path: Path) -> list[Curve]:
    """Curves from a JSON file with a list under "curves", such as one measured on archives."""
    entries = json.loads(path.read_text(encoding="utf-8"))["curves"]
    return [Curve(**{**entry, "points": dict(entry["points"])}) for entry in entries]
