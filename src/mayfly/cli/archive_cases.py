"""A published case on the terminal: its figures by the model, and the study's advice beside it."""

from __future__ import annotations

from typing import Any

import typer

from mayfly.archive.advice.published_cases import PublishedCase
from mayfly.archive.advice.wave_advisor import figure
from mayfly.archive.advice.wave_cost import WaveCost
from mayfly.archive.layouts import WaveScheme
from mayfly.cli.output import print_table


def show_case(case: PublishedCase, window: int) -> None:
    """Tables of the figures, then what the study recommends and what the model does."""
    schemes = [scheme.value for scheme in WaveScheme]
    for plot in case.figures:
        curves = plot.curves(case, window)
        typer.echo(f"\n{plot.title} ({plot.technique}; Figure {plot.number} of the study)")
        counts = sorted({n for points in curves.values() for n in points})
        rows = [
            [str(n), *(figure(p[n]) if n in p else "–" for p in curves.values())] for n in counts
        ]
        print_table(["n", *schemes], rows, right=["n", *schemes])
    typer.echo("\nthe study's advice and the model's choice, seconds of work a day")
    rows = []
    for advice in case.advice:
        cost, choice = advice.cost(case, window), advice.models_choice(case, window)
        work = "–" if cost is None else figure(cost.total_work)
        study = f"{advice.scheme} n={advice.constituents}"
        rows.append([advice.condition, study, work, _layout(choice), figure(choice.total_work)])
    print_table(["if", "study", "work", "model", "work "], rows, right=["work", "work "])


def case_values(case: PublishedCase, window: int) -> dict[str, Any]:
    """The figures and the study's advice as plain values."""
    return {
        "window": window,
        "figures": [
            {
                "figure": plot.number,
                "measure": plot.measure,
                "technique": plot.technique.value,
                "curves": {
                    scheme.value: dict(points)
                    for scheme, points in plot.curves(case, window).items()
                },
            }
            for plot in case.figures
        ],
        "study": [
            {
                "condition": advice.condition,
                "scheme": advice.scheme.value,
                "constituents": advice.constituents,
                "work_seconds": None if cost is None else cost.total_work,
                "model": _layout(choice),
                "model_work_seconds": choice.total_work,
            }
            for advice in case.advice
            for cost, choice in [(advice.cost(case, window), advice.models_choice(case, window))]
        ],
    }


def _layout(cost: WaveCost) -> str:
    return f"{cost.layout.scheme} n={cost.layout.constituents}"
