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

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.archive_rows import Rows, day_rows, truth
from benchmarks.measure import median, seconds
from benchmarks.peers.archives import RUNNERS, Mayfly
from benchmarks.side_by_side import (
    SCANS,
    SideBySide,
    check,
    quantile,
    sampled_keys,
    timed_reads,
    timed_updates,
)

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


def run(name: str, rows: Rows, days: Path, work: Path) -> dict[str, Any]:
    kind, _, variant = name.partition(":")
    archive = RUNNERS[kind](rows, days, work, variant)
    fill = timed_updates(archive, 1, rows.window)
    updates = timed_updates(archive, rows.window + 1, rows.days)
    chosen = sampled_keys(rows.keys)
    check(name, archive, truth(rows, days, chosen[:20]))
    result = {
        "fill_seconds": sum(fill),
        "update_seconds": updates,
        "update_median": median(updates),
        **timed_reads(archive, chosen, work),
    }
    if isinstance(archive, Mayfly):
        same = [seconds(partial(archive.probes_same_files_by_duckdb, key)) for key in chosen[:60]]
        again = [seconds(archive.scan_same_files_by_duckdb) for _ in range(SCANS)]
        state = archive.archive.version().state
        result |= {
            "duckdb_same_files_probe_p50_ms": 1000 * quantile(same, 0.5),
            "duckdb_same_files_scan_median": median(again),
            "reports": [asdict(one) for one in archive.reports[-rows.measured :]],
            "constituents": len(state.wave.constituents),
            "runs": sum(len(held) for held in state.constituent_runs().values()),
        }
    return result


def shown(result: dict[str, Any]) -> str:
    return (
        f"update {result['update_median']:7.3f} s   probe p50 "
        f"{result['probe_p50_ms']:8.2f} p99 {result['probe_p99_ms']:8.2f} ms   scan "
        f"{result['scan_median']:6.3f} s   disk {result['disk_bytes'] / 1e6:8.1f} MB"
    )


if __name__ == "__main__":
    runners = (*VARIANTS, *PEERS)
    SideBySide("benchmarks.archive", Rows, day_rows, runners, run, shown).main(__doc__)
