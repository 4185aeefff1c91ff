"""Flink's interval join, run by a Python that has apache-flink (it wants other versions of ours).

Rows come from a formula over a sequence, so Flink reads no files; results go nowhere when timed.
Parallelism 2, state on the heap, objects reused, no checkpoints: nothing is kept for a crash.

    python flink_join.py '{"rows": 250000, "batches": 8, "seconds": 100, "window": 10,
                           "formula": {"left": [31, 17], "right": [37, 11]}, ...}'
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]


def environment(load: dict[str, Any], batches: int) -> Any:
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    settings = {
        "parallelism.default": "2",
        "pipeline.object-reuse": "true",
        "state.backend.type": "hashmap",
        "table.local-time-zone": "UTC",
    }
    for name, value in settings.items():
        table.get_config().set(name, value)
    last = load["rows"] * batches - 1
    for name, (a, b) in load["formula"].items():
        table.execute_sql(f"""
            CREATE TABLE {name}_numbers (n BIGINT,
                ts AS TO_TIMESTAMP_LTZ(n * {1000 * load["seconds"]} / {load["rows"]}, 3),
                k AS CAST(MOD(n * n * {a} + n * {b}, {load["keys"]}) AS BIGINT),
                v AS CAST(MOD(n, 1000003) AS BIGINT),
                WATERMARK FOR ts AS ts)
            WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
                  'fields.n.end' = '{last}', 'rows-per-second' = '2000000000')""")
    return table


def join(load: dict[str, Any]) -> str:
    ten = f"INTERVAL '{load['window']}' SECOND"
    return f"""SELECT l.k AS k, l.v AS a, r.v AS b FROM left_numbers l, right_numbers r
        WHERE l.k = r.k AND l.ts > r.ts - {ten} AND l.ts < r.ts + {ten}"""


def timed(load: dict[str, Any], batches: int) -> float:
    table = environment(load, batches)
    table.execute_sql(
        "CREATE TABLE nowhere (k BIGINT, a BIGINT, b BIGINT) WITH ('connector' = 'blackhole')"
    )
    began = time.perf_counter()
    table.execute_sql(f"INSERT INTO nowhere {join(load)}").wait()
    return time.perf_counter() - began


def sums(load: dict[str, Any]) -> list[int]:
    table = environment(load, load["batches"])
    # Otherwise every result is one more version of the sums, and all of them come to Python.
    for name, value in {"enabled": "true", "allow-latency": "5 s", "size": "1000000"}.items():
        table.get_config().set(f"table.exec.mini-batch.{name}", value)
    counted = table.execute_sql(
        f"SELECT COUNT(*), SUM(k), SUM(a * 3 + b) FROM ({join(load)})"
    ).collect()
    last: list[int] = []
    with counted as rows:
        for row in rows:
            last = [int(one or 0) for one in row]
    return last


def main() -> None:
    load = json.loads(sys.argv[1])
    found = sums(load)
    timed(load, load["batches"])
    half = [timed(load, load["batches"]) for _ in range(3)]
    full = [timed(load, 3 * load["batches"]) for _ in range(3)]
    print(json.dumps({"found": found, "seconds": half, "seconds_of_three_times": full}))


if __name__ == "__main__":
    main()
