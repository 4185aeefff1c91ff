"""The figures of the 2005–06 studies on rows with their own lifetimes, measured on archives.

    python -m experiments.lifetime_figures.run                    # 500 MB a roll-over, hours
    python -m experiments.lifetime_figures.run --megabytes 20     # a small size, minutes
    python -m experiments.lifetime_figures.run --large 5000       # also V10 to V12, at 5 GB
    python -m experiments.lifetime_figures.run --sweep shape --sweep unindexed

Writes all points and the outcome of every trend as JSON, and one picture per figure. Sweeps that
were measured before with the same sizes are kept, so that a long run can be cut into several.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import commit, machine
from experiments.lifetime_figures.loads import ROLLOVER, Load
from experiments.lifetime_figures.measured import Point, Stage
from experiments.lifetime_figures.trends import check_trends

HERE = Path(__file__).parent
SIDES = (2, 3, 4, 5)
SHAPES = ("Rebuild 4x4", "Rebuild 2x8", "Rebuild 8x2")
COMPARED = (
    *(f"{kind} {s}x{s}" for kind in ("Rebuild", "NoRebuild") for s in SIDES),
    *(f"{kind}{s * s}" for kind in ("R-ins", "D-ins") for s in SIDES),
)
VARIANTS = (
    *(f"chronological Rebuild {s}x{s}" for s in SIDES),
    *(f"{kind} {s}x{s}" for kind in ("LazyRebuild", "LazyNoRebuild") for s in SIDES[1:]),
    *(f"WATA{s * s}" for s in SIDES),
)
FLUCTUATING = ("Rebuild 2x2", "Rebuild 4x4", "NoRebuild 2x2", "NoRebuild 4x4", "R-ins4", "R-ins16",
               "D-ins4", "D-ins16")  # fmt: skip
SWEEPS = ("shape", "small", "variants", "unindexed", "fluctuating", "large", "invalidated")
VOID_SHARE = 0.02
"""Of each update's rows are declared void as soon as they are stored."""


def sweep(name: str, stage: Stage, megabytes: float, large: float | None) -> list[Point]:
    load = Load(megabytes)
    wanted: list[tuple[str, Load, dict[str, Any]]]
    match name:
        case "shape":
            wanted = [(layout, load, {}) for layout in SHAPES]
        case "small":
            wanted = [(layout, load, {}) for layout in COMPARED]
        case "variants":
            wanted = [(layout, load, {}) for layout in VARIANTS]
        case "unindexed":
            names = ("Rebuild 4x4", "chronological Rebuild 4x4")
            wanted = [(layout, load, {"clustered": False}) for layout in names]
        case "fluctuating":
            uneven = Load(megabytes, fluctuating=True)
            wanted = [(layout, uneven, {}) for layout in FLUCTUATING]
        case "large":
            wanted = [(layout, Load(large), {}) for layout in COMPARED] if large else []
        case "invalidated":
            void = max(1, round(VOID_SHARE * load.counts[0]))
            names = ("Rebuild 4x4", "NoRebuild 4x4")
            wanted = [(layout, load, {"invalidated": void}) for layout in names]
        case _:
            raise SystemExit(f"there is no sweep {name}; there are: {', '.join(SWEEPS)}")
    found = []
    for layout, given, how in wanted:
        found.append(stage.measure(layout, given, **how))
        point = found[-1]
        print(
            f"{name:12} {point.layout:32} update {1000 * point.update_seconds:8.1f} ms "
            f"{point.update_bytes / 1e6:8.1f} MB  probe {1000 * point.probe_seconds:7.2f} ms  scan "
            f"{1000 * point.scan_seconds:7.1f} ms  {point.stored_bytes / 1e6:8.1f} MB stored",
            flush=True,
        )
    return found


def _recorded(path: Path, configuration: dict[str, Any]) -> dict[str, Any]:
    """What was measured before under the same configuration, sweep by sweep."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return dict(found["sweeps"]) if found["configuration"] == configuration else {}


def _points(sweeps: dict[str, Any]) -> dict[str, list[Point]]:
    return {name: [Point(**one) for one in found["points"]] for name, found in sweeps.items()}


def _write(path: Path, configuration: dict[str, Any], sweeps: dict[str, Any]) -> None:
    content = {
        "experiment": "lifetime_figures",
        "configuration": configuration,
        "trends": [asdict(one) for one in check_trends(_points(sweeps))],
        "sweeps": sweeps,
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=500.0, help="that arrive in a roll-over")
    parser.add_argument("--large", type=float, help="megabytes of the large data set (V10 to V12)")
    parser.add_argument("--updates", type=int, default=ROLLOVER, help="measured, at most 36")
    parser.add_argument("--sweep", action="append", help=f"one of {', '.join(SWEEPS)}")
    parser.add_argument("--out", type=Path, default=HERE / "results")
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
    sweeps = _recorded(path, configuration)
    stage = Stage(options.updates)
    try:
        for name in options.sweep or SWEEPS:
            if found := sweep(name, stage, options.megabytes, options.large):
                points = [asdict(point) for point in found]
                sweeps[name] = {"commit": commit(), "machine": machine(), "points": points}
                _write(path, configuration, sweeps)
    finally:
        stage.close()
    measured = _points(sweeps)
    outcomes = check_trends(measured)
    if not options.no_plots:
        from experiments.lifetime_figures.plots import draw  # drawing is optional

        draw(measured, options.out)
    for one in outcomes:
        print(f"{'holds' if one.holds else 'FAILS'}  {one.figure}: {one.claim}")
        print(f"       {one.evidence}")


if __name__ == "__main__":
    main()
