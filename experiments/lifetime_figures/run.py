"""The figures of the 2005–06 studies on rows with their own lifetimes, measured on archives.

    python -m experiments.lifetime_figures.run                    # 500 MB a roll-over, hours
    python -m experiments.lifetime_figures.run --megabytes 20     # a small size, minutes
    python -m experiments.lifetime_figures.run --large 5000       # also V10 to V12, at 5 GB
    python -m experiments.lifetime_figures.run --sweep shape --sweep unindexed

Writes every point as soon as it is measured, with the outcome of every trend, as JSON, and one
picture per figure. A point that was measured before with the same sizes and the same code is kept,
so a run that was stopped goes on where it was; ``--any-commit`` keeps points of other code too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.measure import commit, machine
from experiments.lifetime_figures.loads import ROLLOVER
from experiments.lifetime_figures.measured import Point, Stage
from experiments.lifetime_figures.sweeps import SWEEPS, VOID_SHARE, Wanted, points_of
from experiments.lifetime_figures.trends import check_trends

HERE = Path(__file__).parent
MEASURED_CODE = (
    "src/mayfly/archive",
    "src/mayfly/storage",
    "experiments/lifetime_figures/loads.py",
    "experiments/lifetime_figures/measured.py",
)
Recorded = dict[str, dict[str, Any]]
"""Name of a point → the point, when and at which commit it was measured."""


@cache
def measured_code() -> str:
    """A digest of the code that is measured."""
    root, digest = HERE.parents[1], hashlib.sha256()
    for place in MEASURED_CODE:
        files = sorted((root / place).rglob("*.py")) or [root / place]
        for file in files:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def recorded(path: Path, configuration: Mapping[str, Any]) -> Recorded:
    """What was measured before under the same configuration."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return dict(found["points"]) if found["configuration"] == configuration else {}


def by_sweep(wanted: Sequence[Wanted], known: Recorded) -> dict[str, list[Point]]:
    """The measured points of every sweep."""
    found: dict[str, list[Point]] = {}
    for one in wanted:
        if one.name in known:
            found.setdefault(one.sweep, []).append(Point(**known[one.name]["point"]))
    return found


def complete(points: Mapping[str, list[Point]], wanted: Sequence[Wanted]) -> dict[str, list[Point]]:
    """The sweeps of which no point is missing: what trends and pictures are made of."""
    sizes = {sweep: sum(one.sweep == sweep for one in wanted) for sweep in points}
    return {sweep: found for sweep, found in points.items() if len(found) == sizes[sweep]}


def write(
    path: Path, configuration: Mapping[str, Any], wanted: Sequence[Wanted], known: Recorded
) -> None:
    whole = complete(by_sweep(wanted, known), wanted)
    content = {
        "experiment": "lifetime_figures",
        "configuration": configuration,
        "trends": [asdict(one) for one in check_trends(whole)],
        "points": known,
    }
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    hidden.replace(path)


def minutes_left(todo: Sequence[Wanted], known: Recorded) -> float | None:
    """By how long points took so far, relative to their megabytes."""
    took: list[tuple[float, float]] = [
        (one["took"], one["point"]["megabytes"]) for one in known.values()
    ]
    if not took:
        return None
    per_megabyte = sum(seconds for seconds, _ in took) / sum(size for _, size in took)
    return per_megabyte * sum(one.load.megabytes for one in todo) / 60


def show(wanted: Wanted, point: Point, number: str, left: float | None) -> None:
    print(
        f"{number:>7} {wanted.sweep:11} {point.layout:31} "
        f"update {1000 * point.update_seconds:8.1f} ms {point.update_bytes / 1e6:8.1f} MB  "
        f"probe {1000 * point.probe_seconds:7.2f} ms  scan {1000 * point.scan_seconds:7.1f} ms  "
        f"{point.stored_bytes / 1e6:8.1f} MB stored"
        + ("" if left is None else f"  about {left:.0f} min left"),
        flush=True,
    )


def measure(todo: Sequence[Wanted], updates: int, known: Recorded, written: Any) -> None:
    """Measure what is missing; every point is written down at once."""
    stage = Stage(updates)
    try:
        for number, one in enumerate(todo, start=1):
            began = time.perf_counter()
            point = stage.measure(
                one.layout, one.load, clustered=one.clustered, invalidated=one.invalidated
            )
            known[one.name] = {
                "commit": commit(),
                "code": measured_code(),
                "machine": machine(),
                "took": round(time.perf_counter() - began, 3),
                "point": asdict(point),
            }
            written()
            left = minutes_left(todo[number:], known)
            show(one, point, f"{number}/{len(todo)}", left)
    finally:
        stage.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=500.0, help="that arrive in a roll-over")
    parser.add_argument("--large", type=float, help="megabytes of the large data set (V10 to V12)")
    parser.add_argument("--updates", type=int, default=ROLLOVER, help="measured, at most 36")
    parser.add_argument("--sweep", action="append", help=f"one of {', '.join(SWEEPS)}")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--any-commit", action="store_true", help="keep points of other code too")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args()
    configuration = {
        "megabytes": options.megabytes,
        "measured_updates": options.updates,
        "rollover": ROLLOVER,
        "void_share": VOID_SHARE,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "lifetime_figures.json"
    known = recorded(path, configuration)
    everything = [
        one for sweep in SWEEPS for one in points_of(sweep, options.megabytes, options.large)
    ]
    asked = [one for name in options.sweep or SWEEPS
             for one in points_of(name, options.megabytes, options.large)]  # fmt: skip
    kept = {
        name for name, one in known.items() if options.any_commit or one["code"] == measured_code()
    }
    todo = list({one.name: one for one in asked if one.name not in kept}.values())
    left = minutes_left(todo, known)
    told = "" if left is None or not todo else f", about {left:.0f} min"
    print(f"{len(asked) - len(todo)} points known, {len(todo)} to be measured{told}", flush=True)
    measure(todo, options.updates, known, lambda: write(path, configuration, everything, known))
    write(path, configuration, everything, known)
    measured = complete(by_sweep(everything, known), everything)
    if not options.no_plots:
        from experiments.lifetime_figures.plots import draw  # drawing is optional

        draw(measured, options.out)
    for one in check_trends(measured):
        print(f"{'holds' if one.holds else 'FAILS'}  {one.figure}: {one.claim}")
        print(f"       {one.evidence}")


if __name__ == "__main__":
    main()
