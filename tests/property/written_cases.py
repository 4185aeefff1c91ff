"""Queries written by hand, each with DuckDB's SQL by instants, and streams to run them over.

Streams: a (k, g, v, x), b (k, g, w) and c (k, z, tags), each with ts and seq; ``{w}`` is a window.
What stands before a line ``;`` are statements that are carried out first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from mayfly.testing.instant_oracle import SECOND, TimedStreams

_TIMES = {"ts": pa.int64(), "seq": pa.int64(), "k": pa.int32()}
KINDS = {
    "a": pa.schema({**_TIMES, "g": pa.string(), "v": pa.int64(), "x": pa.float64()}),
    "b": pa.schema({**_TIMES, "g": pa.string(), "w": pa.int64()}),
    "c": pa.schema({**_TIMES, "z": pa.int64(), "tags": pa.list_(pa.string())}),
}


@dataclass(frozen=True)
class WrittenQuery:
    """A query, the statements before it, and what DuckDB is asked."""

    name: str
    before: tuple[str, ...]
    cql: str
    sql: str

    def within(self, window: str) -> WrittenQuery:
        """The query over windows of a length."""
        before = tuple(text.replace("{w}", window) for text in self.before)
        return WrittenQuery(self.name, before, self.cql.replace("{w}", window), self.sql)


def written_queries() -> list[WrittenQuery]:
    text = (Path(__file__).parent / "cases" / "written_queries.txt").read_text(encoding="utf-8")
    queries = []
    for block in text.split("====\n"):
        head, sql = block.split("\n--\n")
        name, cql = head.split("\n", 1)
        *before, last = cql.split("\n;\n")
        queries.append(WrittenQuery(name, tuple(before), last, sql.strip()))
    return queries


def _times(rng: Random, count: int) -> list[int]:
    now, times = rng.randint(0, 3), list[int]()
    for _ in range(count):
        now += rng.choice((0, 0, 1, 1, 2, 3, 25 if rng.random() < 0.08 else 1))
        times.append(now * SECOND)
    return times


def random_streams(rng: Random) -> TimedStreams:
    """Ties, NULLs, bursts and silence."""

    def number() -> int | None:
        return rng.choice((0, 1, 2, 3, -4, None))

    def key() -> dict[str, Any]:
        return {"k": rng.choice((1, 1, 2, 3, None))}

    def text() -> str | None:
        return rng.choice(("a", "b", "", None))

    tags: tuple[list[str | None] | None, ...] = ([], ["p"], ["q", "p"], ["q", None, "q"], None)
    make: dict[str, Callable[[], dict[str, Any]]] = {
        "a": lambda: {"g": text(), "v": number(), "x": rng.choice((0.5, 1.25, -2.0, 4.75, None))},
        "b": lambda: {"g": text(), "w": number()},
        "c": lambda: {"z": number(), "tags": rng.choice(tags)},
    }
    rows = {
        name: [
            {"ts": ts, "seq": seq, **key(), **columns()}
            for seq, ts in enumerate(_times(rng, rng.choice((3, 9, 16))))
        ]
        for name, columns in make.items()
    }
    return TimedStreams(rows, KINDS, rng.choice((3, 6, 9)) * SECOND)
