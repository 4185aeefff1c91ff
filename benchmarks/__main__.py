"""All benchmarks with their standard loads, one after the other; figures go to results/.

python -m benchmarks                 # everything (about 40 minutes on two cores)
python -m benchmarks streaming       # only those whose name begins so
python -m benchmarks --list
"""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.render import SLOWER_PEERS, render_documents

COMMANDS: dict[str, list[str]] = {
    "streaming": [
        "benchmarks.streaming", "--runner", "floor", "--runner", "mayfly",
        "--runner", "spark-memory", "--batches", "9", "--record", "streaming",
    ],
    **{
        f"streaming-{peer}": [
            "benchmarks.streaming", "--runner", peer, "--batches", "3", "--warm-up", "1",
            "--record", f"streaming-{peer}",
        ]
        for peer in SLOWER_PEERS
    },
    "streaming-long-window": [
        "benchmarks.streaming", "--runner", "floor", "--runner", "mayfly",
        "--window", "1000", "--keys", "1000000", "--batches", "17", "--warm-up", "11",
        "--record", "streaming-long-window",
    ],
    "checksums": ["benchmarks.checksums", "--record", "checksums"],
    "restart": ["benchmarks.restart", "--record", "restart"],
    "archive-250k": ["benchmarks.archive", "--live", "250000", "--record", "archive-250k"],
    "archive-2500k": [
        "benchmarks.archive", "--live", "2500000", "--measured", "5", "--record", "archive-2500k",
        "--runner", "mayfly:WATA/packed shadow/6", "--runner", "mayfly:WATA/in-place/6",
        "--runner", "mayfly:RATA/packed shadow/6", "--runner", "mayfly:DEL/in-place/4",
        "--runner", "mayfly:REINDEX/packed shadow/4", "--runner", "mayfly:REINDEX+/packed shadow/4",
        "--runner", "mayfly:REINDEX++/packed shadow/4", "--runner", "spark-parquet",
        "--runner", "duckdb", "--runner", "clickhouse", "--runner", "delta",
    ],
    "lifetimes-250k": ["benchmarks.lifetimes", "--live", "250000", "--record", "lifetimes-250k"],
    "lifetimes-2500k": [
        "benchmarks.lifetimes", "--live", "2500000", "--measured", "5", "--record",
        "lifetimes-2500k", "--runner", "mayfly:default", "--runner", "mayfly:NoRebuild 4x4",
        "--runner", "mayfly:Rebuild 4x4", "--runner", "duckdb", "--runner", "clickhouse:age-off",
        "--runner", "clickhouse:age-off in eights", "--runner", "rocksdb",
    ],
    "planning": ["benchmarks.planning"],
    "pipelines": ["benchmarks.pipelines", "--record", "pipelines"],
    "kernels": ["benchmarks.kernels", "--record", "kernels"],
    "windows": ["benchmarks.windows", "--record", "windows"],
    "window-queries": [
        "benchmarks.window_queries", "--part", "one group", "--part", "pruning", "--record",
        "window-queries",
    ],
    "window-groups": ["benchmarks.window_queries", "--part", "groups", "--record", "window-groups"],
    "window-groups-small-batches": [
        "benchmarks.window_queries", "--part", "groups", "--work", "10,000 rows a batch",
        "--rounds", "4", "--record", "window-groups-small-batches",
    ],
    "serving": ["benchmarks.serving", "--record", "serving"],
    "periodic": ["benchmarks.periodic", "--record", "periodic"],
}  # fmt: skip


def main() -> None:
    wanted = [word for word in sys.argv[1:] if not word.startswith("-")]
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    chosen = [n for n in COMMANDS if not wanted or any(n.startswith(word) for word in wanted)]
    if not chosen:
        sys.exit(f"no benchmark begins with {wanted}; there are: {', '.join(COMMANDS)}")
    failed = []
    for number, name in enumerate(chosen, 1):
        command = [sys.executable, "-m", *COMMANDS[name]]
        if "--list" in sys.argv:
            print(f"{name:24} python -m {' '.join(COMMANDS[name])}")
            continue
        print(f"[{number}/{len(chosen)}] {name}", flush=True)
        began = time.perf_counter()
        if subprocess.run(command).returncode:
            failed.append(name)
        print(f"    {time.perf_counter() - began:.0f} s\n", flush=True)
    if "--list" not in sys.argv:
        for path in render_documents():
            print(f"figures rendered into {path}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
