"""Archives of the last W days: update, probe, scan and disk, Mayfly beside other systems.

All runners take in the same recorded days. After the last update each must give the right answers
(count, sums, sampled probes) before any of its figures are kept. Updates are timed one by one after
the window is full; probes return whole rows, payload included; scans read every payload.

    python -m benchmarks.archive --live 250000 --record archive-250k
    python -m benchmarks.archive --live 2500000 --runner "mayfly:WATA/in-place/6" --runner duckdb

A long benchmark can be recorded runner by runner: results of the same configuration and record are
kept, each with its commit, and ``--days FOLDER`` keeps the recorded days for the next call.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.archive_rows import Rows, day_rows, record_days, truth
from benchmarks.measure import commit, measured_before, median, record, repeated, seconds
from benchmarks.peers.archives import RUNNERS, Mayfly

VARIANTS = (
    "mayfly:WATA/packed shadow/6",
    "mayfly:WATA/in-place/6",
    "mayfly:RATA/packed shadow/6",
    "mayfly:DEL/in-place/4",
    "mayfly:DEL/packed shadow/4",
    "mayfly:REINDEX/packed shadow/4",
    "mayfly:REINDEX+/packed shadow/4",
    "mayfly:REINDEX++/packed shadow/4",
    "mayfly:REINDEX/packed shadow/1",
)
PEERS = ("spark-parquet", "duckdb", "clickhouse", "delta")
PROBES, SCANS = 300, 5


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def run_child(name: str, rows: Rows, days: Path, work: Path) -> dict[str, Any]:
    kind, _, variant = name.partition(":")
    archive = RUNNERS[kind](rows, days, work, variant)
    fill = sum(seconds(partial(archive.update, day)) for day in range(1, rows.window + 1))
    updates = [
        seconds(partial(archive.update, day)) for day in range(rows.window + 1, rows.days + 1)
    ]
    chosen = random.Random(5).sample(range(rows.keys), PROBES)
    right = truth(rows, days, chosen[:20])
    problems = [k for k, v in right.probes.items() if not same_probe(archive.probe(k), v)]
    if problems or archive.scan() != (right.count, right.key_sum, right.payload_bytes):
        sys.exit(f"{name} gives wrong answers: probes {problems}, scan {archive.scan()}, {right}")
    probes = repeated([partial(archive.probe, key) for key in chosen])
    scans = repeated([archive.scan] * SCANS)
    result: dict[str, Any] = {
        "fill_seconds": fill,
        "update_seconds": updates,
        "update_median": median(updates),
        "probe_seconds": probes,
        "probe_p50_ms": 1000 * quantile(probes, 0.5),
        "probe_p99_ms": 1000 * quantile(probes, 0.99),
        "scan_seconds": scans,
        "scan_median": median(scans),
        "disk_bytes": sum(f.stat().st_size for f in work.rglob("*") if f.is_file()),
    }
    if isinstance(archive, Mayfly):
        same = [seconds(partial(archive.probes_same_files_by_duckdb, key)) for key in chosen[:60]]
        result["duckdb_same_files_probe_p50_ms"] = 1000 * quantile(same, 0.5)
        again = [seconds(archive.scan_same_files_by_duckdb) for _ in range(SCANS)]
        result["duckdb_same_files_scan_median"] = median(again)
        last = archive.reports[-rows.measured :]
        result["reports"] = [asdict(one) for one in last]
        result["constituents"] = len(archive.archive.version().state.wave.constituents)
        result["runs"] = sum(
            len(held) for held in archive.archive.version().state.constituent_runs().values()
        )
    return result


def same_probe(found: tuple[int, float], wanted: tuple[int, float]) -> bool:
    return found[0] == wanted[0] and abs(found[1] - wanted[1]) < 1e-6


def in_child(module: str, name: str, rows: Any, days: Path, work: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", module, "--child", name, "--days", str(days),
             "--work", str(work), "--rows", json.dumps(asdict(rows))]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        told = (done.stderr or done.stdout).strip()
        return {"failed": told[-2000:] or f"ended with {done.returncode}"}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def in_order(results: dict[str, Any], runners: Sequence[str]) -> dict[str, Any]:
    """The results in the order of the runners."""
    names = dict.fromkeys([*runners, *results])
    return {name: results[name] for name in names if name in results}


def show(name: str, result: dict[str, Any]) -> None:
    if "failed" in result:
        print(f"{name:34} FAILED: {result['failed'].splitlines()[-1]}", flush=True)
        return
    print(
        f"{name:34} update {result['update_median']:7.3f} s   probe p50 "
        f"{result['probe_p50_ms']:8.2f} p99 {result['probe_p99_ms']:8.2f} ms   scan "
        f"{result['scan_median']:6.3f} s   disk {result['disk_bytes'] / 1e6:8.1f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", action="append", help="mayfly:SCHEME/TECHNIQUE/N or a peer")
    parser.add_argument("--live", type=int, default=Rows.live)
    parser.add_argument("--measured", type=int, default=Rows.measured)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument("--child")
    parser.add_argument("--days", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--rows")
    options = parser.parse_args()
    if options.child:
        rows = Rows(**json.loads(options.rows))
        print(json.dumps(run_child(options.child, rows, options.days, options.work)))
        return
    rows = Rows(live=options.live, measured=options.measured)
    root = Path(tempfile.mkdtemp(prefix="mayfly-archive-bench-"))
    days = options.days or root / "days"
    results = measured_before(options.record, asdict(rows)) if options.record else {}
    try:
        if not days.exists():
            record_days(rows.days, partial(day_rows, rows), days)
        for number, name in enumerate(options.runner or [*VARIANTS, *PEERS]):
            work = root / str(number)
            work.mkdir()
            results[name] = {
                "commit": commit(),
                **in_child("benchmarks.archive", name, rows, days, work),
            }
            show(name, results[name])
            shutil.rmtree(work)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if options.record:
        print(record(options.record, asdict(rows), in_order(results, (*VARIANTS, *PEERS))))
    if any("failed" in result for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
