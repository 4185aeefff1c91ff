"""Spark's own stateful operators over the streams of the pipelines benchmark.

Each peer runs twice: once with sums to check it against DuckDB, once into the noop sink to be
timed. Sums are taken over results that are final well before the input ends, because Spark keeps
the last ones back until its watermark passes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.streaming import LOGGED_ROCKSDB, batch_seconds, read_side

TEN = "INTERVAL 10 SECONDS"
Built = Callable[[Any, Path], Any]
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class SparkPeer:
    """A streaming DataFrame, the sums that are compared, and the same sums in DuckDB."""

    build: Built
    sums: str
    """Over columns of the result; {end} is the instant before which results are final."""
    expected: str
    """DuckDB over {name} tables and the same {end}."""
    streams: tuple[str, ...] = ("s",)
    settings: Mapping[str, str] = field(default_factory=dict)
    mode: str = "append"

    def run(self, spark: Any, folder: Path, work: Path, ends: int) -> dict[str, Any]:
        self._check(spark, folder, work, ends - 40_000_000)
        query = (
            self.build(spark, folder).writeStream.format("noop").outputMode(self.mode)
            .option("checkpointLocation", str(work / "timed")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return {"batch_seconds": batch_seconds(query)}

    def _check(self, spark: Any, folder: Path, work: Path, end: int) -> None:
        totals: list[int] = []

        def add(frame: Any, _: int) -> None:
            found = frame.selectExpr(*self.sums.format(end=end).split(";")).collect()[0]
            numbers = [int(one or 0) for one in found]
            totals[:] = [a + b for a, b in zip(totals or [0] * len(numbers), numbers, strict=True)]

        self.build(spark, folder).writeStream.foreachBatch(add).outputMode(self.mode).option(
            "checkpointLocation", str(work / "check")
        ).trigger(availableNow=True).start().awaitTermination()
        tables = ", ".join(
            f"{name} AS (SELECT epoch_us(ts) AS ts, k, v FROM "
            f"read_parquet('{folder}/{name}/*.parquet'))"
            for name in self.streams
        )
        row = duckdb.execute(f"WITH {tables} {self.expected.format(end=end)}").fetchall()[0]
        wanted = [int(one or 0) for one in row]
        if totals != wanted:
            sys.exit(f"the peer is wrong: found {totals}, expected {wanted}")


def _watermarked(spark: Any, folder: Path, name: str, delay: str = "0 seconds") -> Any:
    return read_side(spark, folder, name).withWatermark("ts", delay)


def chained_joins(spark: Any, folder: Path) -> Any:
    from pyspark.sql.functions import expr

    a, b, c = (_watermarked(spark, folder, name).alias(name) for name in "abc")
    near = "{0} < {1} + " + TEN + " AND {1} < {0} + " + TEN
    first = a.join(b, expr(f"a.k = b.k AND {near.format('a.ts', 'b.ts')}"))
    # Spark wants one event time a stream; an expression over the other one is an ordinary column.
    pairs = first.selectExpr(
        "a.k AS k", "a.v AS v", "b.v AS w", "a.ts AS ts", "b.ts + INTERVAL 0 SECONDS AS other"
    ).alias("p")
    close = f"{near.format('p.ts', 'c.ts')} AND {near.format('p.other', 'c.ts')}"
    both = pairs.join(c, expr(f"p.k = c.k AND {close}"))
    return both.selectExpr("p.k AS k", "p.v AS v", "p.w AS w", "c.v AS x")


def deduplicated(spark: Any, folder: Path) -> Any:
    rows = _watermarked(spark, folder, "s", "10 seconds")
    return rows.dropDuplicatesWithinWatermark(["k"])


def alone(spark: Any, folder: Path) -> Any:
    from pyspark.sql.functions import expr

    a, b = (_watermarked(spark, folder, name).alias(name) for name in "ab")
    near = f"a.ts < b.ts + {TEN} AND b.ts < a.ts + {TEN}"
    joined = a.join(b, expr(f"a.k = b.k AND {near}"), "left_outer")
    return joined.where("b.k IS NULL").selectExpr("a.k AS k", "a.v AS v", "a.ts AS ts")


def sliding(aggregate: str) -> Built:
    def build(spark: Any, folder: Path) -> Any:
        from pyspark.sql.functions import expr, window

        rows = _watermarked(spark, folder, "s")
        grouped = rows.groupBy(window("ts", "10 seconds", "1 second"), "k")
        return grouped.agg(expr(f"{aggregate}(v)").alias("x"))

    return build


def finished(size: int, slide: int) -> Built:
    """Sums of finished windows, in seconds."""

    def build(spark: Any, folder: Path) -> Any:
        from pyspark.sql.functions import expr, window

        bounds = window("ts", f"{size} seconds", f"{slide} seconds")
        grouped = _watermarked(spark, folder, "s").groupBy(bounds, "k")
        return grouped.agg(expr("sum(v)").alias("x"))

    return build


def sessions(spark: Any, folder: Path) -> Any:
    from pyspark.sql.functions import expr, session_window

    bounds = session_window("ts", "10 seconds").alias("window")
    grouped = _watermarked(spark, folder, "s").groupBy(bounds, "k")
    return grouped.agg(expr("sum(v)").alias("x"))


def _by_key(rows: Any, kept: str, results: str, step: Step) -> Any:
    """Rows through ``step(key, new rows, what was kept) → (results, what to keep)``, by k."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Stepping(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.kept = handle.getValueState("kept", kept)

        def handleInputRows(  # noqa: N802
            self, key: Any, rows: Iterator[Any], timers: Any
        ) -> Iterator[Any]:
            held = self.kept.get() if self.kept.exists() else None
            found, after = step(key[0], pd.concat(list(rows)), held)
            if after is not None:
                self.kept.update(after)
            yield found

        def close(self) -> None:
            pass

    grouped = rows.groupBy("k")
    return grouped.transformWithStateInPandas(Stepping(), results, "Append", "None")


def _rows_in_time(spark: Any, folder: Path) -> Any:
    return read_side(spark, folder, "s").selectExpr("k", "v", "unix_micros(ts) AS us")


_ROWS_OF_KEY = "ts ARRAY<BIGINT>, v ARRAY<BIGINT>"


def last_ten(spark: Any, folder: Path) -> Any:
    """Each row enters as (k, v, +1), and leaves as (k, v, -1) when ten younger ones are there."""

    def step(key: Any, rows: Any, held: Any) -> tuple[Any, Any]:
        import pandas as pd

        new, held = rows.sort_values("us"), held or ([], [])
        times, values = [*held[0], *new["us"]], [*held[1], *new["v"]]
        gone = values[:-10] if len(values) > 10 else []
        signs = [1] * len(new) + [-1] * len(gone)
        found = pd.DataFrame({"k": key, "v": [*new["v"], *gone], "sign": signs})
        return found, (times[-10:], values[-10:])

    rows = _rows_in_time(spark, folder)
    return _by_key(rows, _ROWS_OF_KEY, "k BIGINT, v BIGINT, sign INT", step)


def frame_sums(spark: Any, folder: Path) -> Any:
    """Each row with the sum over its key's last ten seconds, by arrays of pandas and NumPy."""

    def step(key: Any, rows: Any, held: Any) -> tuple[Any, Any]:
        import numpy as np
        import pandas as pd

        new, held = rows.sort_values("us"), held or ([], [])
        times = np.concatenate([np.array(held[0], np.int64), new["us"].to_numpy()])
        values = np.concatenate([np.array(held[1], np.int64), new["v"].to_numpy()])
        totals = np.append(0, np.cumsum(values))
        first = np.searchsorted(times, times - 10_000_000)
        sums = totals[1:] - totals[first]
        reach = times >= times[-1] - 10_000_000
        found = pd.DataFrame({"k": key, "v": new["v"], "x": sums[len(held[0]) :]})
        return found, (times[reach].tolist(), values[reach].tolist())

    rows = _rows_in_time(spark, folder)
    return _by_key(rows, _ROWS_OF_KEY, "k BIGINT, v BIGINT, x BIGINT", step)


def latest_rows(spark: Any, folder: Path) -> Any:
    """Each row of a with the last one of b before it; both streams as one, by key."""

    def step(key: Any, rows: Any, held: Any) -> tuple[Any, Any]:
        import pandas as pd

        new = rows.sort_values(["us", "side"], ascending=[True, False])
        partner = new["v"].where(new["side"] == 1).ffill()
        partner = partner if held is None else partner.fillna(held[0])
        last = partner.iloc[-1]
        met = (new["side"] == 0) & partner.notna()
        found = pd.DataFrame({"k": key, "v": new["v"][met], "w": partner[met].astype("int64")})
        return found, (int(last),) if pd.notna(last) else None

    one, other = (
        read_side(spark, folder, name).selectExpr(
            "k", "v", "unix_micros(ts) AS us", f"{side} AS side"
        )
        for side, name in enumerate("ab")
    )
    rows, results = one.unionAll(other), "k BIGINT, v BIGINT, w BIGINT"
    return _by_key(rows, "v BIGINT", results, step)


_WINDOWS = """
    SELECT count(*), sum(k::HUGEINT), sum(x::HUGEINT) FROM (
        SELECT k, {aggregate}(v) AS x, u.e FROM s,
            LATERAL (SELECT unnest(generate_series(ts // 1000000 + 1, ts // 1000000 + 10)) AS e) u
        GROUP BY k, u.e) WHERE e * 1000000 < {{end}}"""
_WINDOW_SUMS = (
    "count_if(unix_micros(window.end) < {end});"
    "sum(k) FILTER (WHERE unix_micros(window.end) < {end});"
    "sum(x) FILTER (WHERE unix_micros(window.end) < {end})"
)


def sums_by_ends(size: int, slide: int) -> str:
    """The sums of windows that end before {end}, by panes of a slide."""
    period = slide * 1_000_000
    return f"""
    SELECT count(*), sum(k::HUGEINT), sum(x::HUGEINT) FROM (
        SELECT k, sum(x) AS x, b + j AS e FROM
            (SELECT k, ts // {period} AS b, sum(v) AS x FROM s GROUP BY ALL),
            range(1, {size // slide + 1}) u(j) GROUP BY k, b + j) WHERE e * {period} < {{end}}"""


SESSIONS = """
    SELECT k, sum(v)::BIGINT AS x, max(ts) + 10000000 AS e FROM (
        SELECT *, sum(is_new) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM (
            SELECT *, CAST(coalesce(ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) > 10000000, TRUE)
                AS INT) AS is_new FROM s)) GROUP BY k, n"""

PEERS: dict[str, SparkPeer] = {
    "chained joins": SparkPeer(
        chained_joins,
        "count(*);sum(k);sum(v * 5 + w * 3 + x)",
        "SELECT count(*), sum(a.k), sum(a.v * 5 + b.v * 3 + c.v) FROM a JOIN b ON a.k = b.k "
        "AND abs(a.ts - b.ts) < 10000000 JOIN c ON b.k = c.k AND abs(b.ts - c.ts) < 10000000 "
        "AND abs(a.ts - c.ts) < 10000000",
        ("a", "b", "c"),
    ),
    # A batch is much longer than the window. Within one a key is told once, and what it leaves is
    # forgotten at the end of the next one, so that every second batch tells all keys.
    "dropDuplicatesWithinWatermark": SparkPeer(
        deduplicated,
        "count(*) - count(DISTINCT k);count(*);sum(k)",
        "SELECT 0, count(*), sum(k) FROM (SELECT DISTINCT ts // 100000000 AS batch, k "
        "FROM s) WHERE batch % 2 = 0",
    ),
    "left outer join": SparkPeer(
        alone,
        "count_if(unix_micros(ts) < {end});sum(k) FILTER (WHERE unix_micros(ts) < {end});"
        "sum(v) FILTER (WHERE unix_micros(ts) < {end})",
        "SELECT count(*), sum(k), sum(v) FROM a WHERE ts < {end} AND NOT EXISTS "
        "(FROM b WHERE b.k = a.k AND abs(a.ts - b.ts) < 10000000)",
        ("a", "b"),
    ),
    "window() with sum": SparkPeer(sliding("sum"), _WINDOW_SUMS, _WINDOWS.format(aggregate="sum")),
    "window() with max": SparkPeer(sliding("max"), _WINDOW_SUMS, _WINDOWS.format(aggregate="max")),
    **{
        f"window() of {size} by {slide}": SparkPeer(
            finished(size, slide), _WINDOW_SUMS, sums_by_ends(size, slide)
        )
        for size, slide in ((10, 10), (10, 1), (60, 1))
    },
    "session_window()": SparkPeer(
        sessions,
        _WINDOW_SUMS,
        f"SELECT count(*), sum(k::HUGEINT), sum(x::HUGEINT) FROM ({SESSIONS}) WHERE e < {{end}}",
    ),
    "transformWithStateInPandas": SparkPeer(
        last_ten,
        "count_if(sign > 0);sum(sign);sum(sign * v)",
        "SELECT (SELECT count(*) FROM s), count(*), sum(v) FROM (FROM s QUALIFY "
        "row_number() OVER (PARTITION BY k ORDER BY ts DESC) <= 10)",
        settings=LOGGED_ROCKSDB,  # transformWithState needs this store
    ),
    "transformWithStateInPandas, sums": SparkPeer(
        frame_sums,
        "count(*);sum(k);sum(v);sum(x)",
        "SELECT count(*), sum(k), sum(v), sum(x) FROM (SELECT k, v, sum(v) OVER (PARTITION BY k "
        "ORDER BY ts RANGE BETWEEN 10000000 PRECEDING AND CURRENT ROW) AS x FROM s)",
        settings=LOGGED_ROCKSDB,
    ),
    "transformWithStateInPandas, latest": SparkPeer(
        latest_rows,
        "count(*);sum(k);sum(v * 3 + w)",
        "SELECT count(*), sum(a.k), sum(a.v * 3 + b.v) FROM a ASOF JOIN b ON a.k = b.k "
        "AND a.ts >= b.ts",
        ("a", "b"),
        settings=LOGGED_ROCKSDB,
    ),
}
