"""Thesis Figures 7.8 to 7.14 (isolation) and 8.7 to 8.10 (schedules), on clocks that work drives.

    python -m experiments.serving_figures.run [isolation schedules rate] [--out DIR] [--small]

The schedulers, policies and the checker are those of the server. A read of a sub-window, or a
merge, takes a unit of time, so the figures are the same on every machine; benchmarks/served.py
times real runs.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.measure import commit
from experiments.serving_figures.scans import POLICIES, ScanRun
from experiments.serving_figures.schedules import measured, measured_at_one_rate
from experiments.serving_figures.trends import isolation_trends, schedule_trends

HERE = Path(__file__).parent
MEASURES = ("aborted share", "staleness", "between executions", "throughput")
ONE_TIME = ("one-time response", "one-time staleness", "staleness")


def isolation(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Every policy, window and load, without and with one-time queries; means of some runs."""
    points = []
    for load in config["loads"]:
        for one_time in (False, True):
            if one_time and load["t"] == min(other["t"] for other in config["loads"]):
                continue  # the thesis has them at the longer interval
            for size in config["windows"]:
                for policy in POLICIES:
                    runs = [
                        ScanRun(
                            policy, size, load["t"], load["groups"], config["read"],
                            Random(config["seed"] + seed),
                            config["one_time_gap"] if one_time else None,
                        ).measured()
                        for seed in range(config["runs"])
                    ]  # fmt: skip
                    figures = {
                        name: sum(run[name] for run in runs) / len(runs)
                        for name in runs[0]
                        if all(name in run for run in runs)
                    }
                    about = {"policy": policy, "size": size, "t": load["t"], "one_time": one_time}
                    points.append({**about, **figures})
    return points


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Thesis Figures 7.8 to 7.14 and 8.7 to 8.10")
    parser.add_argument("parts", nargs="*", default=["isolation", "schedules", "rate"])
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--small", action="store_true", help="Few windows and updates, one run.")
    options = parser.parse_args(arguments)
    config = tomllib.loads((HERE / "config.toml").read_text())
    if options.small:
        config["isolation"] |= {"windows": [10, 40], "runs": 1}
        config["schedules"] |= {"queries": [5, 10], "updates": 300}
        config["rate"] |= {"queries": [5, 10], "updates": 100}
    options.out.mkdir(parents=True, exist_ok=True)
    if "isolation" in options.parts:
        points = isolation(config["isolation"])
        record(options.out, "isolation", config, points, isolation_trends(points))
        if not options.no_plots:
            from experiments.serving_figures.plots import draw

            for load in config["isolation"]["loads"]:
                own = [p for p in points if p["t"] == load["t"] and not p["one_time"]]
                name = f"figures_7.8_to_7.11_t{load['t']}"
                draw(name, own, "size", MEASURES, options.out)
            busy = [p for p in points if p["one_time"]]
            draw("figures_7.12_to_7.14", busy, "size", ONE_TIME, options.out)
    for rate, factor in (("low", 1), ("high", 2)) if "schedules" in options.parts else ():
        scheduled = config["schedules"]
        points = [p for each in scheduled["queries"] for p in measured(scheduled, each, factor)]
        record(options.out, f"schedules_{rate}", config, points, schedule_trends(points, rate))
        if not options.no_plots:
            from experiments.serving_figures.plots import draw

            name = "figures_8.7_8.8" if rate == "low" else "figures_8.9_8.10"
            draw(name, points, "queries", ("throughput", "latency"), options.out)
    for rate, factor in (("low", 1), ("high", 2)) if "rate" in options.parts else ():
        points, trends = [], []
        for passes in (False, True):
            own = measured_at_one_rate(config["rate"], factor, passes=passes)
            suffix = ", with a pass over the counters of each window" if passes else ""
            trends += [
                {**trend, "claim": trend["claim"] + suffix} for trend in schedule_trends(own, rate)
            ]
            points += own
        record(options.out, f"rate_{rate}", config, points, trends)
        if not options.no_plots:
            from experiments.serving_figures.plots import draw

            merging = [point for point in points if not point["passes"]]
            name = f"figures_{'8.7_8.8' if rate == 'low' else '8.9_8.10'}_at_one_rate"
            draw(name, merging, "queries", ("throughput", "latency"), options.out)


def record(
    out: Path,
    name: str,
    config: dict[str, Any],
    points: list[dict[str, Any]],
    trends: list[dict[str, Any]],
) -> None:
    content = {
        "experiment": f"serving_figures: {name}",
        "commit": commit(),
        "configuration": config,
        "trends": trends,
        "points": points,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (out / f"{name}.json").write_text(text, encoding="utf-8")
    for trend in trends:
        verdict = "holds" if trend["holds"] else "DIFFERS"
        print(f"{verdict}  {trend['claim']}: {trend['found']}", flush=True)


if __name__ == "__main__":
    main()
