"""Archives of rows with their own lifetimes: update, probe, scan, bytes written and disk.

All runners take in the same recorded days; a 36th of the live rows comes and as many go with every
update. After the last update each must give the right answers (count, sums, sampled probes) before
any of its figures are kept. Updates are timed one by one after the first roll-over; probes return
whole rows, payload included; scans read every payload. Bytes written are those the operating system
counts for the process and its children while it updates.

    python -m benchmarks.lifetimes --live 250000 --record lifetimes-250k
    python -m benchmarks.lifetimes --live 2500000 --runner mayfly:default --runner duckdb

A long benchmark can be recorded runner by runner: results of the same configuration and record are
kept, each with its commit, and ``--days FOLDER`` keeps the recorded days for the next call.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.archive import in_child, in_order, quantile, same_probe
from benchmarks.archive_rows import record_days
from benchmarks.lifetime_rows import LivingRows, day_rows, truth
from benchmarks.measure import commit, measured_before, median, record, repeated, seconds
from benchmarks.peers.lifetimes import RUNNERS, Mayfly

VARIANTS = (
    "mayfly:default",
    "mayfly:NoRebuild 4x4",
    "mayfly:Rebuild 4x4",
    "mayfly-spark:default",
)
PEERS = (
    "duckdb",
    "duckdb:indexed",
    "clickhouse:age-off",
    "clickhouse:age-off in eights",
    "clickhouse:ttl",
    "delta",
    "delta:age-off in eights",
    "rocksdb",
)
PROBES, SCANS = 300, 5


def bytes_written() -> int:
    """What this process and its children have sent to storage so far."""
    children: dict[str, list[str]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = status.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(parent, []).append(status.parent.name)
    found, waiting = 0, [Path("/proc/self").resolve().name]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        try:
            lines = Path(f"/proc/{process}/io").read_text().splitlines()
        except OSError:
            continue
        found += next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))
    return found


def run_child(name: str, rows: LivingRows, days: Path, work: Path) -> dict[str, Any]:
    kind, _, variant = name.partition(":")
    archive = RUNNERS[kind](rows, days, work, variant)
    fill = sum(seconds(partial(archive.update, day)) for day in range(1, rows.rollover + 1))
    before = bytes_written()
    updates = [
        seconds(partial(archive.update, day)) for day in range(rows.rollover + 1, rows.days + 1)
    ]
    written = (bytes_written() - before) / rows.measured
    chosen = random.Random(5).sample(range(rows.keys), min(PROBES, rows.keys))
    right = truth(rows, days, chosen[:20])
    wrong = [k for k, v in right.probes.items() if not same_probe(archive.probe(k), v)]
    found = archive.scan()
    if wrong or found != (right.count, right.key_sum, right.payload_bytes):
        sys.exit(f"{name} gives wrong answers: probes {wrong}, scan {found}, {right}")
    probes = repeated([partial(archive.probe, key) for key in chosen])
    scans = repeated([archive.scan] * SCANS)
    result: dict[str, Any] = {
        "fill_seconds": fill,
        "update_seconds": updates,
        "update_median": median(updates),
        "update_mean": sum(updates) / len(updates),
        "bytes_written": written,
        "probe_seconds": probes,
        "probe_p50_ms": 1000 * quantile(probes, 0.5),
        "probe_p99_ms": 1000 * quantile(probes, 0.99),
        "scan_seconds": scans,
        "scan_median": median(scans),
        "disk_bytes": sum(f.stat().st_size for f in work.rglob("*") if f.is_file()),
    }
    if isinstance(archive, Mayfly):
        status = archive.archive.status()
        result |= {
            "layout": status.scheme,
            "runs": sum(one.runs for one in status.constituents),
            "dead_rows": status.dead_rows,
            "version_bytes": status.bytes,
            "reports": [asdict(one) for one in archive.reports[-rows.measured :]],
        }
    return result


def show(name: str, result: dict[str, Any], took: float) -> None:
    if "failed" in result:
        print(f"{name:30} FAILED: {result['failed'].splitlines()[-1]}", flush=True)
        return
    print(
        f"{name:30} update {result['update_median']:7.3f} s (mean {result['update_mean']:7.3f})  "
        f"probe p50 {result['probe_p50_ms']:7.2f} p99 {result['probe_p99_ms']:7.2f} ms  scan "
        f"{result['scan_median']:6.3f} s  written {result['bytes_written'] / 1e6:7.1f} MB  disk "
        f"{result['disk_bytes'] / 1e6:7.1f} MB  ({took:.0f} s)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runner", action="append", help="mayfly:LAYOUT or a peer")
    parser.add_argument("--live", type=int, default=LivingRows.live)
    parser.add_argument("--measured", type=int, default=LivingRows.measured)
    parser.add_argument("--record", help="name of the JSON file under benchmarks/results")
    parser.add_argument("--child")
    parser.add_argument("--days", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--rows")
    options = parser.parse_args()
    if options.child:
        rows = LivingRows(**json.loads(options.rows))
        print(json.dumps(run_child(options.child, rows, options.days, options.work)))
        return
    # Ended from outside, it must not leave a runner behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = LivingRows(live=options.live, measured=options.measured)
    root = Path(tempfile.mkdtemp(prefix="mayfly-lifetimes-bench-"))
    days = options.days or root / "days"
    results = measured_before(options.record, asdict(rows)) if options.record else {}
    try:
        if not days.exists():
            record_days(rows.days, partial(day_rows, rows), days)
        for number, name in enumerate(options.runner or [*VARIANTS, *PEERS]):
            work = root / str(number)
            work.mkdir()
            began = time.perf_counter()
            results[name] = {
                "commit": commit(),
                **in_child("benchmarks.lifetimes", name, rows, days, work),
            }
            show(name, results[name], time.perf_counter() - began)
            shutil.rmtree(work)
            if options.record:
                record(options.record, asdict(rows), in_order(results, (*VARIANTS, *PEERS)))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if any("failed" in result for result in results.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
