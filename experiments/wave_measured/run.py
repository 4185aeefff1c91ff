"""The wave index study's curves, measured on real archives instead of computed.

    python -m experiments.wave_measured.run [--rows N] [--no-plots]

Every scheme keeps the last W days of rows of about 900 bytes, by simple shadows as in the study's
SCAM case, in this process without Spark. Over one whole cycle after start-up it records per day:
bytes read and written (counted), seconds of transition and of pre-transition work (timed), and
bytes stored. Answers are checked on the last day. Trends are stated beforehand and checked on the
counted bytes; times are drawn, not judged.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.archive_rows import DAY, Rows, day_rows
from benchmarks.measure import commit, machine
from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write.local_jobs import InProcess

HERE = Path(__file__).parent
COLUMNS = {"k": "bigint", "ts": "timestamp", "amount": "double", "payload": "string"}


@dataclass(frozen=True)
class Point:
    """One scheme at one setting: means per day over a cycle."""

    scheme: str
    window: int
    constituents: int
    scale: float
    work_bytes: float
    transition_seconds: float
    pre_transition_seconds: float
    stored_bytes: float
    probe_ms: float


def measure(scheme: WaveScheme, window: int, n: int, rows: int, scale: float = 1.0) -> Point:
    load = Rows(live=int(rows * scale) * window, window=window, keys=1000)
    root = Path(tempfile.mkdtemp(prefix="mayfly-wave-"))
    try:
        archive = Archive.create(root / "a", _settings(scheme, window, n), InProcess(), sync=False)
        reports, stored = [], []
        for day in range(1, 3 * window + 1):
            report = archive.update(day_rows(load, day), update=day)
            if day > 2 * window:
                reports.append(report)
                stored.append(archive.version().manifest.stored_bytes)
        assert archive.scan().num_rows == load.per_day * window, "the window is not complete"
        began = time.perf_counter()
        for key in range(50):
            archive.probe(key)
        probe = (time.perf_counter() - began) / 50 * 1000
    finally:
        shutil.rmtree(root, ignore_errors=True)

    def mean(value: Callable[[Any], float]) -> float:
        return sum(map(value, reports)) / len(reports)

    return Point(
        scheme.value,
        window,
        n,
        scale,
        mean(lambda r: r.bytes_read + r.bytes_written),
        mean(lambda r: r.transition_seconds),
        mean(lambda r: r.pre_transition_seconds),
        sum(stored) / len(stored),
        probe,
    )


def _settings(scheme: WaveScheme, window: int, n: int) -> ArchiveSettings:
    return ArchiveSettings(
        columns=COLUMNS,
        key=("k",),
        time="ts",
        calendar=FixedIntervals(DAY),
        layout=WaveLayout(scheme, window, n),
        technique=UpdateTechnique.SIMPLE_SHADOW,
    )


def all_points(rows: int) -> dict[str, list[Point]]:
    """Three sweeps: constituents at W = 7, the window at n = 4, the data at W = 7, n = 4."""
    found: dict[str, list[Point]] = {"constituents": [], "window": [], "data": []}
    for scheme in WaveScheme:
        for n in range(scheme.fewest_constituents, 8):
            found["constituents"].append(measure(scheme, 7, n, rows))
        for window in (4, 7, 14, 28):
            found["window"].append(measure(scheme, window, 4, rows))
        for scale in (0.5, 1.0, 2.0, 5.0):
            found["data"].append(measure(scheme, 7, 4, rows, scale))
        print(f"{scheme.value}: done", flush=True)
    return found


def trends(points: dict[str, list[Point]]) -> list[dict[str, Any]]:
    """What the study says, stated for the bytes an archive really moves."""

    def work(sweep: str, scheme: str, **at: float) -> float:
        chosen = [p for p in points[sweep] if p.scheme == scheme]
        return next(p.work_bytes for p in chosen if all(getattr(p, k) == v for k, v in at.items()))

    def growth(sweep: str, scheme: str, low: dict[str, float], high: dict[str, float]) -> float:
        return work(sweep, scheme, **high) / work(sweep, scheme, **low)

    def stored(scheme: str) -> float:
        return next(p.stored_bytes for p in points["constituents"]
                    if p.scheme == scheme and p.constituents == 4)  # fmt: skip

    reindexing = growth("window", "REINDEX", {"window": 4}, {"window": 28})
    throwing = growth("window", "WATA", {"window": 4}, {"window": 28})
    least = min(WaveScheme, key=lambda s: stored(s.value))
    by_n = growth("constituents", "REINDEX", {"constituents": 1}, {"constituents": 7})
    checks = [
        ("reindexing does less work with more constituents (n from 1 to 7: under one half)",
         by_n < 0.5, f"×{by_n:.2f}"),
        ("the work of REINDEX grows with W at fixed n (4 to 28 days: more than twice)",
         reindexing > 2, f"×{reindexing:.2f}"),
        ("WATA's work grows more slowly with W than REINDEX's", throwing < reindexing,
         f"×{throwing:.2f} against ×{reindexing:.2f}"),
        ("REINDEX stores the least (n = 4, temporaries counted)",
         stored("REINDEX") <= 1.02 * stored(least.value),
         f"{stored('REINDEX') / 1e6:.1f} MB; least is {least.value}, {stored(least) / 1e6:.1f} MB"),
        ("work is proportional to the data (×10 data: ×8 to ×12 for every scheme)",
         all(8 < growth("data", s.value, {"scale": 0.5}, {"scale": 5.0}) < 12 for s in WaveScheme),
         ", ".join(f"{s.value} ×{growth('data', s.value, {'scale': 0.5}, {'scale': 5.0}):.1f}"
                   for s in WaveScheme)),
    ]  # fmt: skip
    return [{"claim": c, "holds": bool(holds), "evidence": e} for c, holds, e in checks]


def draw(points: dict[str, list[Point]], out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    axes_of = {"constituents": "constituents", "window": "window", "data": "scale"}
    measures = {
        "work_bytes": ("bytes read and written per day, MB", 1e-6),
        "transition_seconds": ("transition, ms per day", 1e3),
        "pre_transition_seconds": ("pre-transition, ms per day", 1e3),
        "stored_bytes": ("stored, MB", 1e-6),
    }
    for sweep, along in axes_of.items():
        figure, axes = plt.subplots(1, len(measures), figsize=(18, 4), layout="constrained")
        for axis, (name, (label, factor)) in zip(axes, measures.items(), strict=True):
            for scheme in WaveScheme:
                own = [p for p in points[sweep] if p.scheme == scheme.value]
                x = [getattr(p, along) for p in own]
                axis.plot(x, [getattr(p, name) * factor for p in own], marker="o", label=scheme)
            axis.set_xlabel({"scale": "data, times the base"}.get(along, along))
            axis.set_title(label)
            axis.set_ylim(bottom=0)
        axes[0].legend()
        figure.savefig(out / f"{sweep}.png", dpi=90)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1000, help="rows a day")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--no-plots", action="store_true")
    options = parser.parse_args()
    points = all_points(options.rows)
    outcomes = trends(points)
    options.out.mkdir(parents=True, exist_ok=True)
    content = {
        "experiment": "wave_measured",
        "commit": commit(),
        "machine": machine(),
        "configuration": {"rows_per_day": options.rows, "technique": "simple shadow"},
        "trends": outcomes,
        "points": {sweep: [asdict(p) for p in found] for sweep, found in points.items()},
    }
    (options.out / "wave_measured.json").write_text(json.dumps(content, indent=1) + "\n")
    if not options.no_plots:
        draw(points, options.out)
    for one in outcomes:
        print(f"{'holds' if one['holds'] else 'FAILS'}  {one['claim']}: {one['evidence']}")


if __name__ == "__main__":
    main()
