"""Served queries over pipelines without Spark: random rows and queries, answers by DuckDB."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from mayfly.cql import catalog_after, parse
from mayfly.lifetime import MIN_TIME
from mayfly.periodic.server import ServedAnswer
from mayfly.pipeline.declared_catalog import declarations
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from mayfly.storage import SetProperties
from tests.property.shared_runs import HereRunner, runner_of

SECOND = 1_000_000
SCHEMA = pa.schema(
    {"ts": pa.timestamp("us", "UTC"), "a": pa.string(), "b": pa.int64(), "x": pa.int64()}
)
DECLARED = "CREATE STREAM s (ts TIMESTAMP, a STRING, b BIGINT, x BIGINT) FROM json('in') "
CATALOG = catalog_after(parse(f"{DECLARED} TIMESTAMP BY ts"))
KEPT = "SELECT * FROM s [RANGE 60 s]"
AGGREGATES = (
    "COUNT(*) AS n",
    "SUM(x) AS total",
    "COUNT(x) AS known, AVG(x) AS mean",
    "MIN(x) AS low, MAX(x) AS high",
    "COUNT(DISTINCT b) AS values_of_b",
)
CONDITIONS = ("", "WHERE b > 1", "WHERE a IS NOT NULL")
KEYS = ("", "a", "a, b")
Row = dict[str, Any]


class ServedCase:
    """A served query, and its oracle: never from its own text."""

    def __init__(self, rng: Random, pane: int = 1) -> None:
        self.length = pane * rng.randint(1, 12)
        self.period = pane * rng.randint(1, 6)
        self.keys, self.where = rng.choice(KEYS), rng.choice(CONDITIONS)
        self.calls = rng.choice(AGGREGATES)
        self.overload = rng.choice(("LATE", "LATE", "SKIP", "EVERY"))
        self.isolation = rng.choice(("LATEST", "WINDOW", "SNAPSHOT"))
        subtractable = "MIN" not in self.calls and "DISTINCT" not in self.calls
        ways = ["SYNOPSIS", "WINDOW", *(("INCREMENTAL SYNOPSIS", "INCREMENTAL") * subtractable)]
        self.scan = rng.choice(["SYNOPSIS", *ways])
        self.having = rng.choice(("", "", "HAVING COUNT(*) > 1"))
        pinned = "INCREMENTAL" in self.scan or self.isolation != "LATEST"
        if subtractable and not pinned and rng.random() < 0.5:
            self.isolation = "LATEST UNDO"

    def _select(self, source: str) -> str:
        listed = ", ".join(filter(None, (self.keys, self.calls)))
        group = f"GROUP BY {self.keys}" if self.keys else ""
        having = self.having if self.keys else ""
        return f"SELECT {listed} FROM {source} {self.where} {group} {having}"

    @property
    def text(self) -> str:
        serve = f"SERVE OVERLOAD {self.overload} ISOLATION {self.isolation} SCAN {self.scan} AS "
        return serve + self._select(f"s [RANGE {self.length} s SLIDE {self.period} s]")

    @property
    def once(self) -> str:
        return (
            self._select(f"s [RANGE {self.length} s]")
            + f" ISOLATION {self.isolation.removesuffix(' UNDO')}"
        )

    def expected(self, rows: pa.Table, answer: ServedAnswer) -> list[tuple[Any, ...]]:
        """Over the rows of (since, as_of]; that is its window, unless it is partial."""
        low, as_of = answer.since, answer.as_of
        assert answer.partial == (low > as_of - self.length * SECOND)
        relation = f"(SELECT * FROM rows WHERE epoch_us(ts) > {low} AND epoch_us(ts) <= {as_of})"
        connection = database()
        connection.register("rows", rows)
        return ordered(connection.execute(self._select(relation)).fetchall())


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=str)


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return ordered([tuple(row.values()) for row in table.to_pylist()])


def random_rows(rng: Random, first: int, last: int) -> list[Row]:
    """Of the seconds from first on and before last: bursts, gaps, ties, NULLs, times on edges."""
    rows = []
    for second in range(first, last):
        for _ in range(rng.choice((0, 1, 1, 3, 8))):
            offset = rng.choice((0, 0, 1, SECOND // 2, SECOND - 1))
            rows.append(
                {
                    "ts": second * SECOND + offset,
                    "a": rng.choice((None, "u", "v", "w")),
                    "b": rng.choice((None, 0, 1, 2, 3)),
                    "x": rng.choice((None, -5, 0, 7, 1 << 40)),
                }
            )
    rng.shuffle(rows)
    return rows


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class ServedRun:
    """A pipeline in this process, and a server that follows it; all its answers are compared."""

    def __init__(self, folder: Path, queries: dict[str, ServedCase], **settings: Any) -> None:
        self.folder, self.queries = folder, queries
        texts = {"kept_s": KEPT, **{name: query.text for name, query in queries.items()}}
        self.runner: HereRunner = runner_of(folder, CATALOG, texts, **settings)
        self.described = {
            name: {"text": text, "strategy": "UPA", "streams": ["s"], "since": None}
            for name, text in texts.items()
        }
        properties = {"queries": self.described, "declared": declarations(CATALOG), "zone": "UTC"}
        self.runner.repository.commit(self.runner.repository.current(), [SetProperties(properties)])
        self.rows = table_of([])
        self.answers: list[ServedAnswer] = []

    def restart(self) -> None:
        """The pipeline comes again on its checkpoint."""
        texts = {"kept_s": KEPT, **{name: query.text for name, query in self.queries.items()}}
        self.runner = runner_of(self.folder, CATALOG, texts, buckets=self.runner.settings.buckets)

    def show(self, names: Collection[str]) -> None:
        """Only these of the served queries are registered now; panes are kept for all."""
        base = self.runner.repository.current()
        listed = {n: e for n, e in self.described.items() if n in names or n == "kept_s"}
        self.runner.repository.commit(base, [SetProperties({"queries": listed})])

    def feed(self, rows: list[Row]) -> None:
        table = table_of(rows)
        self.runner.feed({"s": table}, {})
        self.rows = pa.concat_tables([self.rows, table])

    def follow(self, served: ServedPipeline) -> None:
        for name in self.queries:
            served.subscribe(name, self.answers.append)

    def check(self, served: ServedPipeline) -> None:
        """Every answer is that of DuckDB, in order; every scan kept what it promised."""
        last: dict[str, int] = {}
        for answer in self.answers:
            case = self.queries[answer.query]
            rows = case.expected(self.rows, answer)
            assert tuples(answer.rows) == rows, (case.text, answer.as_of, answer.partial)
            assert last.get(answer.query, MIN_TIME) < answer.as_of, answer
            last[answer.query] = answer.as_of
        served.check()
