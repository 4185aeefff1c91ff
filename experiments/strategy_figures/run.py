"""Thesis Figures 3.8 to 3.15: Queries 1 to 4 by UPA, NT and DIRECT, by window size.

    python -m experiments.strategy_figures.run [3.8 …] [--minutes M] [--again] [--out D]

Generated connections of up to three links fill the windows, then rounds of steps are measured: CPU
time, tuples that operators touched, rows of state. All ways of a query must send the same rows.
Each point is recorded as JSON as soon as it is measured, beside the trends the thesis reports with
the ratio measured for each. A run goes on where the last one of the same configuration ended, so
that all of it can be measured in parts.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import monotonic, process_time
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
    commit: str
    load_average: float
    """Of the last minute, when the point had been measured."""


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
        run._sending.rows, sent, commit(), round(os.getloadavg()[0], 1),
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


def missing(figures: Sequence[dict[str, Any]], points: Points) -> list[tuple[Way, str, int, int]]:
    """What is left to measure, each figure's small windows first: way, query, window, sources."""
    left = {
        (figure["query"], way.name, window): (way, figure["query"], window, figure["sources"])
        for figure in figures
        for window in figure["windows"]
        for way in ways(figure["query"])
    }
    return [task for place, task in left.items() if place not in points]


def require_same_rows(points: Points, query: str, window: int) -> None:
    sent = {p.sent_rows for p in points.values() if (p.query, p.window) == (query, window)}
    assert len(sent) == 1, f"{query} at {window} sends {sent} rows"


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
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing later")
    parser.add_argument("--again", action="store_true", help="also what is recorded")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    listed = config.pop("figure")
    figures = [f for f in listed if not options.figures or f["number"] in options.figures]
    options.out.mkdir(parents=True, exist_ok=True)
    points = Points() if options.again else recorded(options.out, figures, config)
    tasks = missing(figures, points)
    warm_up([f for f in figures if f["query"] in {query for _, query, _, _ in tasks}], config)
    began = monotonic()
    for way, query, window, sources in tasks:
        if monotonic() - began > 60 * options.minutes:
            print(f"{len(missing(figures, points))} points are left for the next run", flush=True)
            break
        points[query, way.name, window] = measure(query, way, window, sources, config)
        require_same_rows(points, query, window)
        record(options.out, query, config, points)
        print(f"{query}, {way.name}, {window}: measured", flush=True)
    show(figures, points, None if options.no_plots else options.out)


def show(figures: Sequence[dict[str, Any]], points: Points, pictures: Path | None) -> None:
    listed = [asdict(point) for point in points.values()]
    if pictures is not None:
        from experiments.strategy_figures.plots import draw

        for figure in figures:
            draw(figure, listed, pictures)
    for outcome in check_trends(listed):
        verdict = "holds" if outcome["holds"] else "DIFFERS"
        print(f"{verdict}  figure {outcome['figure']}: {outcome['claim']}: {outcome['found']}")


def described(query: str, config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "cql": QUERIES[query]}


def recorded(out: Path, figures: Sequence[dict[str, Any]], config: dict[str, Any]) -> Points:
    """Points that earlier runs measured for the same configuration."""
    points, names = Points(), {field.name for field in fields(Point)}
    for figure in figures:
        query, path = figure["query"], out / f"{figure['query']}.json"
        content = json.loads(path.read_text("utf-8")) if path.exists() else {}
        if content.get("configuration") != described(query, config):
            continue
        for point in content["points"]:
            place = (query, point["way"], point["window"])
            if point.keys() == names and point["window"] in figure["windows"]:
                points[place] = Point(**point)
    return points


def record(out: Path, query: str, config: dict[str, Any], points: Points) -> None:
    own = sorted(
        (asdict(point) for point in points.values() if point.query == query),
        key=lambda point: (point["way"], point["window"]),
    )
    content = {
        "experiment": f"strategy_figures: {query}",
        "machine": machine(),
        "configuration": described(query, config),
        "trends": check_trends(own),
        "points": own,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (out / f"{query}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
