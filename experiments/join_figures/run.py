"""Thesis Figures 5.2 to 5.4: join orders and join algorithms, predicted, counted and timed.

    python -m experiments.join_figures.run [5.2 5.3 5.4] [--out DIR] [--no-plots]

All algorithms join the same generated tuples. Tuples scanned are counted exactly; times include
making the results, of which there are many, and the rest of the step.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import commit, machine
from experiments.join_figures.joining import Streams, measure
from experiments.join_figures.trends import check_trends
from mayfly.kernels.evaluation import Algorithm
from mayfly.optimizer.join_order import JoinInput, order_cost

HERE = Path(__file__).parent
FIGURES = ("5.2", "5.3", "5.4")
Points = list[dict[str, Any]]


def orders(streams: Streams, config: dict[str, Any]) -> Points:
    """Figure 5.2: four orders under eight algorithms."""
    figure, points = config["figure_5_2"], []
    for order in map(tuple, figure["orders"]):
        for buckets in figure["buckets"]:
            for algorithm in Algorithm:
                every = 0 if algorithm is Algorithm.EAGER else figure["every"]
                point = measure(streams, algorithm, buckets, every, order, config)
                predicted = predicted_cost(streams, order, buckets)
                points.append({"figure": "5.2", "predicted": predicted, **point.as_dict()})
    return points


def predicted_cost(streams: Streams, order: tuple[int, ...], buckets: int) -> float:
    inputs = [
        JoinInput.windowed(rate, length, values, buckets)
        for rate, length, values in zip(streams.rates, streams.lengths, streams.values, strict=True)
    ]
    return order_cost(inputs, tuple(number - 1 for number in order))


def algorithms(streams: Streams, config: dict[str, Any], number: str) -> Points:
    """Figures 5.3 and 5.4: the best order, by how often tuples expire or the join is evaluated."""
    figure, points = config[f"figure_{number.replace('.', '_')}"], []
    order = tuple(figure["order"])
    for buckets in figure["buckets"]:
        for every in figure["every"]:
            later = (Algorithm.LAZY_EXPIRATION, Algorithm.LAZY, Algorithm.LAZY_RESTORE)
            for algorithm in later if every else (Algorithm.EAGER,):
                point = measure(streams, algorithm, buckets, every, order, config)
                points.append({"figure": number, **point.as_dict()})
    return points


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Thesis Figures 5.2 to 5.4")
    parser.add_argument("figures", nargs="*", default=FIGURES)
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    streams = Streams(*(tuple(config[name]) for name in ("rates", "lengths", "values")))
    options.out.mkdir(parents=True, exist_ok=True)
    measure(streams, Algorithm.LAZY, 2, 10, (1, 2, 3, 4), {**config, "repetitions": 1})
    for number in options.figures:
        points = orders(streams, config) if number == "5.2" else algorithms(streams, config, number)
        record(options.out, number, config, points)
        if not options.no_plots:
            from experiments.join_figures.plots import draw

            draw(number, points, options.out)
        for one in check_trends(points):
            verdict = "holds" if one["holds"] else "DIFFERS"
            print(f"{verdict}  figure {number}: {one['claim']}: {one['found']}", flush=True)


def record(out: Path, number: str, config: dict[str, Any], points: Points) -> None:
    content = {
        "experiment": f"join_figures: {number}",
        "commit": commit(),
        "machine": machine(),
        "configuration": config,
        "trends": check_trends(points),
        "points": points,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (out / f"figure_{number}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
