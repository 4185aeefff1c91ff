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

from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.lifetime_rows import LivingRows, day_rows, truth
from benchmarks.measure import median
from benchmarks.peers.lifetimes import RUNNERS, Mayfly
from benchmarks.side_by_side import (
    SideBySide,
    check,
    sampled_keys,
    timed_reads,
    timed_updates,
)

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


def run(name: str, rows: LivingRows, days: Path, work: Path) -> dict[str, Any]:
    kind, _, variant = name.partition(":")
    archive = RUNNERS[kind](rows, days, work, variant)
    fill = timed_updates(archive, 1, rows.rollover)
    before = bytes_written()
    updates = timed_updates(archive, rows.rollover + 1, rows.days)
    written = (bytes_written() - before) / rows.measured
    chosen = sampled_keys(rows.keys)
    check(name, archive, truth(rows, days, chosen[:20]))
    result = {
        "fill_seconds": sum(fill),
        "update_seconds": updates,
        "update_median": median(updates),
        "update_mean": sum(updates) / len(updates),
        "bytes_written": written,
        **timed_reads(archive, chosen, work),
    }
    if isinstance(archive, Mayfly):
        status = archive.archive.inspect.status()
        result |= {
            "layout": status.scheme,
            "runs": sum(one.runs for one in status.constituents),
            "dead_rows": status.dead_rows,
            "version_bytes": status.bytes,
            "reports": [asdict(one) for one in archive.reports[-rows.measured :]],
        }
    return result


def shown(result: dict[str, Any]) -> str:
    return (
        f"update {result['update_median']:7.3f} s (mean {result['update_mean']:7.3f})  "
        f"probe p50 {result['probe_p50_ms']:7.2f} p99 {result['probe_p99_ms']:7.2f} ms  scan "
        f"{result['scan_median']:6.3f} s  written {result['bytes_written'] / 1e6:7.1f} MB  disk "
        f"{result['disk_bytes'] / 1e6:7.1f} MB"
    )


if __name__ == "__main__":
    runners = (*VARIANTS, *PEERS)
    SideBySide("benchmarks.lifetimes", LivingRows, day_rows, runners, run, shown).main(__doc__)
