"""Thesis Figures 3.8 to 3.15: Queries 1 to 4 by UPA, NT and DIRECT, time and space by window size.

    python -m experiments.strategy_figures.run [3.8 3.9 …] [--out DIR] [--no-plots]

Generated connections of up to three links fill the windows, then some steps are timed. All ways of
a query must send the same rows. Results are recorded as JSON beside the trends the thesis reports,
with what was found for each.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

from benchmarks.measure import commit, machine, median
from experiments.strategy_figures.queries import QUERIES, Way, start, ways
from experiments.strategy_figures.trends import check_trends
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.connections import tcp_connections

HERE = Path(__file__).parent
FILL = 20_000
"""Connections per link and step while windows fill up."""


@dataclass(frozen=True)
class Point:
    """One way at one window size; times are per 1000 connections of all links together."""

    query: str
    way: str
    window: int
    milliseconds: float
    repetitions: list[float]
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
    batch, steps, times = config["batch"], config["steps"], []
    for repetition in range(config["repetitions"]):
        run = start(query, window, way)
        links = tuple(run.clocks.streams)
        fill = window + 2 * batch
        rows = connections(links, fill + steps * batch, sources, config["seed"] + repetition)
        feed(run, rows, 0, fill, min(FILL, max(batch, window // 4)))
        began, sent = perf_counter(), 0
        for at in range(fill, fill + steps * batch, batch):
            sent += feed(run, rows, at, at + batch, batch)
        times.append((perf_counter() - began) * 1e6 / (steps * batch * len(links)))
    reports = run.reports()
    return Point(
        query, way.name, window, median(times), times,
        sum(one.state_rows for one in reports), sum(one.state_bytes for one in reports),
        run._sending.rows, sent,
    )  # fmt: skip


def feed(run: ContinuousRun, rows: dict[str, pa.Table], low: int, high: int, size: int) -> int:
    sent = 0
    for at in range(low, high, size):
        length = min(size, high - at)
        sent += run.feed({name: table.slice(at, length) for name, table in rows.items()}).num_rows
    return sent


Known = dict[tuple[str, str, int], Point]


def measured(figure: dict[str, Any], config: dict[str, Any], known: Known) -> list[Point]:
    """The points of a figure's query; what another figure measured is not measured again."""
    query = figure["query"]
    for window in figure["windows"]:
        for way in ways(query):
            at = (query, way.name, window)
            if at not in known:
                known[at] = measure(query, way, window, figure["sources"], config)
        sent = {p.sent_rows for p in known.values() if (p.query, p.window) == (query, window)}
        assert len(sent) == 1, f"{query} at {window} sends {sent} rows"
    print(f"figure {figure['number']}: measured", flush=True)
    return [point for point in known.values() if point.query == query]


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
    figures = [one for one in listed if not options.figures or one["number"] in options.figures]
    options.out.mkdir(parents=True, exist_ok=True)
    known: Known = {}
    warm_up(figures, config)
    for figure in figures:
        points = [asdict(one) for one in measured(figure, config, known)]
        record(options.out, figure["query"], config, points)
        if not options.no_plots:
            from experiments.strategy_figures.plots import draw

            draw(figure, points, options.out)
    for outcome in check_trends([asdict(one) for one in known.values()]):
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
