"""Thesis Figures 3.8 to 3.15: Queries 1 to 4 by UPA, NT and DIRECT, by window size.

    python -m experiments.strategy_figures.run [3.8 3.9 …] [--out DIR] [--no-plots]

Generated connections of up to three links fill the windows, then rounds of steps are measured: CPU
time, tuples that operators touched, rows of state. All ways of a query must send the same rows.
Results are recorded as JSON beside the trends the thesis reports, with the ratio measured for each.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import pyarrow as pa

from benchmarks.measure import commit, machine, median
from experiments.strategy_figures.queries import QUERIES, Way, start, ways
from experiments.strategy_figures.trends import check_trends
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.connections import tcp_connections

HERE = Path(__file__).parent
FILL = 100_000
"""Connections per link and step while windows fill up, at the most."""


@dataclass(frozen=True)
class Point:
    """One way at one window size; CPU time and tuples touched by operators are per 1000 connections
    of all links together."""

    query: str
    way: str
    window: int
    milliseconds: float
    repetitions: list[float]
    touched: float
    state_rows: int
    state_bytes: int
    answer_rows: int
    sent_rows: int


def connections(links: Sequence[str], rows: int, sources: int, seed: int) -> dict[str, pa.Table]:
    return {
        name: tcp_connections(rows, seed=3 * seed + number, sources=sources)
        for number, name in enumerate(links)
    }


def measure(query: str, way: Way, window: int, sources: int, config: dict[str, Any]) -> Point:
    batch, steps, rounds = config["batch"], config["steps"], config["repetitions"]
    run = start(query, window, way)
    links = tuple(run.clocks.streams)
    fill = window + 2 * batch
    rows = connections(links, fill + rounds * steps * batch, sources, config["seed"])
    feed(run, rows, 0, fill, min(FILL, max(batch, window // 4)))
    before, per_thousand = touched(run), 1000 / (steps * batch * len(links))
    times, sent = [], 0
    for low in range(fill, fill + rounds * steps * batch, steps * batch):
        began = process_time()
        sent += feed(run, rows, low, low + steps * batch, batch)
        times.append((process_time() - began) * 1000 * per_thousand)
    reports = run.reports()
    return Point(
        query, way.name, window, median(times), times,
        (touched(run) - before) * per_thousand / rounds,
        sum(report.state_rows for report in reports), sum(report.state_bytes for report in reports),
        run._sending.rows, sent,
    )  # fmt: skip


def touched(run: ContinuousRun) -> int:
    return sum(report.rows_touched for report in run.reports())


def feed(run: ContinuousRun, rows: dict[str, pa.Table], low: int, high: int, size: int) -> int:
    sent = 0
    for first in range(low, high, size):
        length = min(size, high - first)
        sent += run.feed(
            {name: table.slice(first, length) for name, table in rows.items()}
        ).num_rows
    return sent


Points = dict[tuple[str, str, int], Point]


def measured(figure: dict[str, Any], config: dict[str, Any], points: Points) -> list[Point]:
    """The points of a figure's query; what another figure measured is not measured again."""
    query = figure["query"]
    for window in figure["windows"]:
        for way in ways(query):
            place = (query, way.name, window)
            if place not in points:
                points[place] = measure(query, way, window, figure["sources"], config)
        sent = {p.sent_rows for p in points.values() if (p.query, p.window) == (query, window)}
        assert len(sent) == 1, f"{query} at {window} sends {sent} rows"
    print(f"figure {figure['number']}: measured", flush=True)
    return [point for point in points.values() if point.query == query]


def warm_up(figures: Sequence[dict[str, Any]], config: dict[str, Any]) -> None:
    """Compiled loops are loaded before anything is timed."""
    for query in {figure["query"] for figure in figures}:
        for way in ways(query):
            measure(query, way, 1000, 200, {**config, "repetitions": 1, "steps": 1})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Thesis Figures 3.8 to 3.15")
    parser.add_argument("figures", nargs="*", help="numbers, by default all")
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    listed = config.pop("figure")
    figures = [f for f in listed if not options.figures or f["number"] in options.figures]
    options.out.mkdir(parents=True, exist_ok=True)
    every: Points = {}
    warm_up(figures, config)
    for figure in figures:
        points = [asdict(point) for point in measured(figure, config, every)]
        record(options.out, figure["query"], config, points)
        if not options.no_plots:
            from experiments.strategy_figures.plots import draw

            draw(figure, points, options.out)
    for outcome in check_trends([asdict(point) for point in every.values()]):
        verdict = "holds" if outcome["holds"] else "DIFFERS"
        print(f"{verdict}  figure {outcome['figure']}: {outcome['claim']}: {outcome['found']}")


def record(out: Path, query: str, config: dict[str, Any], points: list[dict[str, Any]]) -> None:
    content = {
        "experiment": f"strategy_figures: {query}",
        "commit": commit(),
        "machine": machine(),
        "configuration": {**config, "cql": QUERIES[query]},
        "trends": check_trends(points),
        "points": points,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (out / f"{query}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
