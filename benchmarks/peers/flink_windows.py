"""Flink's window functions for periodic queries, run by a Python that has apache-flink.

Rows come from a formula over a sequence, so Flink reads no files; results go nowhere when timed.
Parallelism 2, state on the heap, objects reused, no checkpoints: nothing is kept for a crash. All
queries are one job with one source. Flink's table-valued HOP wants windows of whole slides; where
they are not, the older group window HOP stands in. Flink's windows are [a, b), ours (a, b]: a
millisecond earlier they hold the same rows. Theirs begin at multiples of the slide and ours end
there: to be checked, rows are moved by what windows lack to a whole number of slides; when timed,
they are not, as a source for each such query would be Flink's loss for no gain of anyone's.

    python flink_windows.py '{"rows": 500000, "seconds": 20, "batches": 8, "queries": [...], ...}'
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
    "taskmanager.memory.managed.size": "4gb",  # 240 windows do not start with 128 MB
    "table.local-time-zone": "UTC",
    "table.optimizer.reuse-source-enabled": "true",
    "table.optimizer.reuse-sub-plan-enabled": "true",
}


def environment(load: dict[str, Any], batches: int) -> Any:
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        table.get_config().set(name, value)
    columns = "".join(
        f"`{name}` AS CAST(1 + MOD(n * {a} + MOD(n, {b}) * MOD(n, {c}) * {d}, {m}) AS BIGINT), "
        for name, (a, b, c, d, m) in load["columns"].items()
    )
    for shift in sorted({shift_of(query) for query in load["queries"]}):
        table.execute_sql(f"""
            CREATE TABLE s{shift} (n BIGINT, {columns}
                ts AS TO_TIMESTAMP_LTZ(
                    n * {1000 * load["seconds"]} / {load["rows"]} - 1 + {1000 * shift}, 3),
                WATERMARK FOR ts AS ts)
            WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
                  'fields.n.end' = '{load["rows"] * batches - 1}',
                  'rows-per-second' = '2000000000')""")
    return table


def shift_of(query: dict[str, Any]) -> int:
    return int(query["window"] % query["slide"]) if query["moved"] else 0


def text_of(query: dict[str, Any], end: str = "") -> str:
    """A query; with its windows' ends, if they are named."""
    keys = [name for name in query["keys"].split(", ") if name]
    size, slide = (f"INTERVAL '{query[part]}' SECOND(3)" for part in ("window", "slide"))
    source = f"s{shift_of(query)}"
    whole = query["window"] % query["slide"] == 0
    ends = "window_end" if whole else f"HOP_END(ts, {slide}, {size})"
    call = query["call"].replace("bytes", "`bytes`")
    shown = ", ".join([*keys, f"{call} AS x", *([f"{ends} AS e"] if end else [])])
    if whole:
        rows = f"TABLE(HOP(TABLE {source}, DESCRIPTOR(ts), {slide}, {size}))"
        by = ["window_start", "window_end", *keys]
    else:
        rows, by = source, [f"HOP(ts, {slide}, {size})", *keys]
    return f"SELECT {shown} FROM {rows} GROUP BY {', '.join(by)}"


def timed(load: dict[str, Any], batches: int) -> float:
    table = environment(load, batches)
    statements = table.create_statement_set()
    for number, query in enumerate(load["queries"]):
        keys = "".join(f"{name} BIGINT, " for name in query["keys"].split(", ") if name)
        table.execute_sql(
            f"CREATE TABLE nowhere{number} ({keys}x BIGINT) WITH ('connector' = 'blackhole')"
        )
        statements.add_insert_sql(f"INSERT INTO nowhere{number} {text_of(query)}")
    began = time.perf_counter()
    statements.execute().wait()
    return time.perf_counter() - began


def answers(load: dict[str, Any]) -> list[list[list[Any]]]:
    table, found = environment(load, load["batches"]), []
    for query in load["queries"]:
        end = query["last"] // 1000 + 1000 * shift_of(query)
        rows = []
        asked = f"SELECT *, CAST(e AS STRING) AS ended FROM ({text_of(query, 'e')})"
        with table.execute_sql(asked).collect() as collected:
            for row in collected:
                *values, _, at = row
                whole, _, part = str(at).rstrip("Z").partition(".")
                moment = time.strptime(whole, "%Y-%m-%d %H:%M:%S")
                seconds = (moment.tm_yday - 1) * 86400 + moment.tm_hour * 3600
                seconds += moment.tm_min * 60 + moment.tm_sec
                if 1000 * seconds + int(part or 0) == end:
                    rows.append([int(value) for value in values])
        found.append(rows)
    return found


def main() -> None:
    load = json.loads(sys.argv[1])
    if load["check"]:
        print(json.dumps({"batch_seconds": [0.0] * load["batches"], "answers": answers(load)}))
        return
    less, more = load["warm_up"], load["batches"]
    timed(load, less)
    short, long = timed(load, less), timed(load, more)
    each = (long - short) / (more - less)
    runs = {f"seconds_of_{less}": short, f"seconds_of_{more}": long}
    print(json.dumps({"batch_seconds": [each] * more, **runs}))


if __name__ == "__main__":
    main()
