"""Figures 7 to 11 of the report on indexing sliding windows, and 6.3 of the thesis.

    python -m experiments.window_figures.run [7 8b 9 10 11a 11bc 6.3] [--out DIR] [--no-plots]

Seconds are those of the processor; visits are counted exactly. 8a is drawn from the points of 7.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import commit, machine
from experiments.window_figures import sweeps
from experiments.window_figures.trends import check_trends

HERE = Path(__file__).parent
FIGURES: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "7": sweeps.maintenance,
    "8b": sweeps.groups,
    "9": sweeps.histograms,
    "10": sweeps.intersections,
    "11a": sweeps.deletions,
    "11bc": sweeps.rings,
    "6.3": sweeps.frequent,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Figures 7 to 11 of the report, 6.3 of the thesis")
    parser.add_argument("figures", nargs="*", default=list(FIGURES))
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    options.out.mkdir(parents=True, exist_ok=True)
    pa.set_cpu_count(1)
    for figure in options.figures:
        points = FIGURES[figure](config)
        trends = check_trends(figure, points)
        content = {
            "experiment": f"window_figures: {figure}",
            "commit": commit(),
            "machine": machine(),
            "configuration": config,
            "trends": trends,
            "points": points,
        }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (options.out / f"figure_{figure}.json").write_text(text, encoding="utf-8")
        if not options.no_plots:
            from experiments.window_figures.plots import draw

            draw(figure, points, options.out)
        for one in trends:
            verdict = "holds" if one["holds"] else "DIFFERS"
            print(f"{verdict}  figure {figure}: {one['claim']}: {one['measured']}", flush=True)


if __name__ == "__main__":
    main()
