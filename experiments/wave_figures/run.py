"""Figures 2 to 9 of the wave index study, from the cost model.

    python -m experiments.wave_figures.run [--out DIR] [--no-plots] [--measured FILE]

Writes the curves and the outcome of every trend as JSON, and one picture per figure. Curves
measured on archives can be laid over the model's: --measured takes a file with the same
"curves" list and another "source".
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import commit, machine
from experiments.wave_figures.curves import (
    Curve,
    Figure,
    model_curves,
    read_curves,
    read_figures,
    write_curves,
)
from experiments.wave_figures.trends import Outcome, check_trends

HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> list[Outcome]:
    """Run the experiment; the outcomes are also printed."""
    options = _options(arguments)
    figures = read_figures(options.config)
    curves = model_curves(figures)
    outcomes = check_trends(curves)
    if options.measured:
        curves += read_curves(options.measured)
    options.out.mkdir(parents=True, exist_ok=True)
    _record(options.out / "wave_figures.json", figures, curves, outcomes)
    if not options.no_plots:
        _draw(options.out, figures, curves)
    for outcome in outcomes:
        verdict = "holds" if outcome.holds else "FAILS"
        print(f"{outcome.name:>3} {verdict}  figure {outcome.figure}: {outcome.claim}")
        print(f"             {outcome.evidence}")
    failing = [outcome.name for outcome in outcomes if not outcome.holds]
    print(f"{len(outcomes) - len(failing)} trends hold, {len(failing)} fail: {', '.join(failing)}")
    return outcomes


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Figures 2 to 9 of the wave index study")
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true", help="write only the JSON file")
    parser.add_argument("--measured", type=Path, help="JSON file with measured curves")
    return parser.parse_args(arguments)


def _record(
    path: Path, figures: Sequence[Figure], curves: Sequence[Curve], outcomes: Sequence[Outcome]
) -> None:
    content = {
        "experiment": "wave_figures",
        "commit": commit(),
        "machine": machine(),
        "configuration": [asdict(figure) for figure in figures],
        "trends": [asdict(outcome) for outcome in outcomes],
        "curves": write_curves(curves),
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _draw(out: Path, figures: Sequence[Figure], curves: Sequence[Curve]) -> None:
    from experiments.wave_figures.plots import draw  # drawing is optional, like its library

    for figure in figures:
        shown = [curve for curve in curves if curve.figure == figure.name]
        draw(figure, shown, out / f"{figure.file_stem}.png")


if __name__ == "__main__":
    main()
