"""One query over a stream in Flink SQL, run by a Python that has apache-flink.

Rows come from a formula over a sequence, so Flink reads no files; results go nowhere when timed.
Several rows have the same millisecond: the watermark stays one behind, or Flink would drop some.
Its OVER drops rows of the first millisecond of 1970, so rows come a minute later than in the files.
Parallelism 2, state on the heap, objects reused, no checkpoints: nothing is kept for a crash.

    python flink_queries.py '{"sql": "SELECT k, v AS x FROM s", "columns": "k BIGINT, x BIGINT",
        "rows": 500000, "seconds": 100, "keys": 1009, "batches": 4}'
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
}
MINI_BATCH = {"enabled": "true", "allow-latency": "5 s", "size": "1000000"}
"""For sums only: else each result is one more version of them, and all come to Python."""


def environment(load: dict[str, Any], batches: int) -> Any:
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        table.get_config().set(name, value)
    table.execute_sql(f"""
        CREATE TABLE s (n BIGINT,
            ts AS TO_TIMESTAMP_LTZ(60000 + n * {1000 * load["seconds"]} / {load["rows"]}, 3),
            k AS CAST(MOD(n * n * 31 + n * 17, {load["keys"]}) AS BIGINT),
            v AS CAST(MOD(n, 1000003) AS BIGINT),
            WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
        WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
              'fields.n.end' = '{load["rows"] * batches - 1}',
              'rows-per-second' = '2000000000')""")
    return table


def timed(load: dict[str, Any], batches: int) -> float:
    table = environment(load, batches)
    table.execute_sql(f"CREATE TABLE nowhere ({load['columns']}) WITH ('connector' = 'blackhole')")
    began = time.perf_counter()
    table.execute_sql(f"INSERT INTO nowhere {load['sql']}").wait()
    return time.perf_counter() - began


def sums(load: dict[str, Any]) -> list[int]:
    table = environment(load, load["batches"])
    for name, value in MINI_BATCH.items():
        table.get_config().set(f"table.exec.mini-batch.{name}", value)
    last: list[int] = []
    asked = f"SELECT COUNT(*), SUM(k), SUM(x) FROM ({load['sql']})"
    with table.execute_sql(asked).collect() as rows:
        for row in rows:
            last = [int(value or 0) for value in row]
    return last


def main() -> None:
    load = json.loads(sys.argv[1])
    found = sums(load)
    timed(load, load["batches"])
    short = [timed(load, load["batches"]) for _ in range(2)]
    long = [timed(load, 3 * load["batches"]) for _ in range(2)]
    print(json.dumps({"found": found, "seconds": short, "seconds_of_three_times": long}))


if __name__ == "__main__":
    main()
