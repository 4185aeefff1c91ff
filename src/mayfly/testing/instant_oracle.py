"""Every instant of a case at once: what a query answered, and what DuckDB says of the rows alive.

Idea: the rows alive at each instant are one table with a column ``tau``; SQL that carries it along
(GROUP BY tau, PARTITION BY tau, joins on it) answers all instants in one query, so that
many cases cost little. Invariant: the SQL is written beside the query, never made from it.
Cost: instants x alive rows, twice; a comparison takes some milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from mayfly.lifetime import NEVER
from mayfly.runtime.in_process import ContinuousRun
from mayfly.testing.oracle import _database

SECOND = 1_000_000
DIGITS = 9
"""Behind the point: as exact as floating-point answers are compared."""


@dataclass(frozen=True)
class TwoTexts:
    """A query, and SQL over the same streams that gives ``tau`` and then its columns."""

    cql: str
    sql: str


@dataclass(frozen=True)
class TimedStreams:
    """Rows of streams by name with ``ts`` in microseconds, and the length of their windows."""

    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    kinds: Mapping[str, pa.Schema]
    length: int

    def table(self, name: str, rows: Sequence[Mapping[str, Any]] | None = None) -> pa.Table:
        """The rows of a stream, or some of them, as it has them."""
        listed = list(self.rows[name] if rows is None else rows)
        return pa.Table.from_pylist(listed, schema=self.kinds[name])

    def batches(self, rng: Random) -> list[dict[str, pa.Table]]:
        """The rows in the order of their times, cut anywhere; some batches are empty."""
        arrivals = [(row["ts"], name, row) for name, rows in self.rows.items() for row in rows]
        arrivals.sort(key=lambda arrival: arrival[0])
        batches: list[dict[str, pa.Table]] = []
        while arrivals:
            size = rng.choice((0, 1, 3, 9, 40))
            taken, arrivals = arrivals[:size], arrivals[size:]
            parts: dict[str, list[Mapping[str, Any]]] = {}
            for _, name, row in taken:
                parts.setdefault(name, []).append(row)
            batches.append({name: self.table(name, part) for name, part in parts.items()})
        return batches


class InstantOracle:
    """Compares answers at every instant at which a row comes or goes."""

    def __init__(self, streams: TimedStreams) -> None:
        self._database = _database().cursor()
        self._database.execute("SET TimeZone = 'UTC'")
        times = {row["ts"] for rows in streams.rows.values() for row in rows}
        self.end = max(times, default=0) + streams.length + SECOND
        instants = sorted(times | {ts + streams.length for ts in times} | {self.end})
        self._database.register("_instants", pa.table({"tau": pa.array(instants, pa.int64())}))
        for name in streams.rows:
            self._database.register(f"_all_{name}", streams.table(name))
            self._database.execute(
                f"CREATE TEMP TABLE {name} AS SELECT i.tau, a.* FROM _instants i "
                f"JOIN _all_{name} a ON a.ts <= i.tau AND i.tau < a.ts + {streams.length}"
            )

    def difference(self, case: TwoTexts, run: ContinuousRun) -> str:
        """How the answers of a run differ from what the SQL says; nothing if they do not."""
        life = run.lifetimes()
        names = [name for name in life.schema.names if name not in ("ts", "exp")]
        columns = [f"c{number}" for number in range(len(names))]
        self._database.register("_life", life.rename_columns([*columns, "_ts", "_exp"]))
        listed = ", ".join(_rounded(name, life.field(i).type) for i, name in enumerate(columns))
        answered = (
            f"SELECT i.tau, {listed} FROM _instants i JOIN _life l "
            f"ON l._ts <= i.tau AND (i.tau < l._exp OR l._exp = {NEVER})"
        )
        said = f"SELECT tau, {listed} FROM ({case.sql}) AS said(tau, {', '.join(columns)})"
        for title, left, right in (("missing", said, answered), ("unexpected", answered, said)):
            query = f"SELECT * FROM ({left}) EXCEPT ALL SELECT * FROM ({right}) ORDER BY ALL"
            rows = self._database.execute(f"{query} LIMIT 3").fetchall()
            if rows:
                return f"{title}: {rows}\n{case.cql}\n{case.sql}"
        return ""

    def close(self) -> None:
        self._database.close()


def _rounded(name: str, kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return f"round({name}, {DIGITS}) + 0.0"
    return f"CAST({name} AS BIGINT)" if pa.types.is_integer(kind) else name
