"""The window-join oracle: an independent engine (DuckDB) answers over the full input.

Two routes that share no formula. ``lifetimes`` joins all rows once and meets their lifetimes:
a result lives from max(ts) to min(exp). ``answer_at`` follows the definition (thesis,
Definition 2.1): the one-time join over the tuples alive at τ, for many instants in one query.
Cost: a query costs about 2 ms; ``answer_at`` handles instants x alive tuples rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from mayfly.errors import InvalidSetting, MayflyError
from mayfly.lifetime import NEVER, Duration, duration
from mayfly.testing.seeded_streams import Micros, micros_of

_TS, _EXP = "_mayfly_ts", "_mayfly_exp"


@dataclass(frozen=True)
class Windowed:
    """All rows of one stream and its ``[RANGE d]`` window; ``None`` means unbounded."""

    rows: pa.Table
    window: Duration | None
    ts: str = "ts"

    @property
    def duration(self) -> int | None:
        return None if self.window is None else duration(self.window)

    def lifetimes(self) -> tuple[Micros, Micros]:
        """The ts and exp of every row."""
        ts, duration = micros_of(self.rows, self.ts), self.duration
        length = NEVER if duration is None else duration
        never = length >= NEVER - np.maximum(ts, 0)
        return ts, np.where(never, NEVER, ts + np.where(never, 0, length))


class WindowJoinOracle:
    """The join of two or more windowed streams, named by the keys of ``streams``.

    ``on`` lists equalities: a column name means "equal in all streams", a pair of qualified
    names such as ``("l.src", "r.dst")`` one equality. ``residual`` is a DuckDB predicate over
    qualified names. ``select`` maps result columns to DuckDB expressions; the default takes
    every column of every stream as ``<stream>_<column>``.
    """

    def __init__(
        self,
        streams: Mapping[str, Windowed],
        on: Sequence[str | tuple[str, str]],
        residual: str = "",
        select: Mapping[str, str] | None = None,
    ) -> None:
        if len(streams) < 2:
            raise InvalidSetting("a join of fewer than two streams", "give at least two")
        self._streams = dict(streams)
        self._conditions = [text for item in on for text in _equalities(item, list(streams))]
        if residual:
            self._conditions.append(f"({residual})")
        self._select = select or {
            f"{name}_{column}": f"{_quoted(name)}.{_quoted(column)}"
            for name, stream in streams.items()
            for column in stream.rows.column_names
        }
        reserved = {"at", "ts", "exp"} & set(self._select)
        if reserved:
            raise InvalidSetting(
                f"result columns named {sorted(reserved)}", "the oracle adds these: rename yours"
            )
        self._connection = _database().cursor()
        self._connection.execute("SET TimeZone = 'UTC'")
        for name, stream in streams.items():
            self._connection.register(name, _with_lifetimes(stream))

    def lifetimes(self) -> pa.Table:
        """Every result that ever exists, with its ``ts`` and ``exp``."""
        ts = f"greatest({', '.join(f'{_quoted(s)}.{_TS}' for s in self._streams)})"
        exp = f"least({', '.join(f'{_quoted(s)}.{_EXP}' for s in self._streams)})"
        return self._run(
            f"SELECT {self._outputs()}, {ts} AS ts, {exp} AS exp "
            f"FROM {', '.join(map(_quoted, self._streams))} "
            f"WHERE {' AND '.join([*self._conditions, f'{ts} < {exp}'])}"
        )

    def answer_at(self, instants: Iterable[int]) -> pa.Table:
        """The answer at each of the instants, as rows that begin with the instant ``at``."""
        asked = pa.table({"at": pa.array(sorted(set(instants)), pa.int64())})
        self._connection.register("_mayfly_asked", asked)
        alive = ", ".join(f"{_quoted(s)} AS ({self._alive(s)})" for s in self._streams)
        first, *others = map(_quoted, self._streams)
        same_instant = [f"{first}._mayfly_at = {other}._mayfly_at" for other in others]
        return self._run(
            f"WITH {alive} SELECT {first}._mayfly_at AS at, {self._outputs()} "
            f"FROM {', '.join([first, *others])} "
            f"WHERE {' AND '.join([*same_instant, *self._conditions])}"
        )

    def boundaries(self) -> list[int]:
        """The instants at which the answer may change, and those just before them."""
        edges: set[int] = set()
        for stream in self._streams.values():
            for times in stream.lifetimes():
                edges.update(times.tolist())
        edges.discard(NEVER)
        return sorted(edges | {edge - 1 for edge in edges})

    def _alive(self, name: str) -> str:
        duration = self._streams[name].duration
        gone = "" if duration is None else f" AND a.at < s.{_TS}::HUGEINT + {duration}"
        return (
            f"SELECT a.at AS _mayfly_at, s.* FROM _mayfly_asked a "
            f"JOIN {_quoted(name)} s ON s.{_TS} <= a.at{gone}"
        )

    def _outputs(self) -> str:
        return ", ".join(f"{sql} AS {_quoted(name)}" for name, sql in self._select.items())

    def _run(self, sql: str) -> pa.Table:
        try:
            return self._connection.sql(sql).to_arrow_table()
        except _duckdb().Error as error:
            raise MayflyError(
                f"the oracle's query failed: {error}\n  {sql}",
                "check the residual predicate and the column names: they must be DuckDB SQL",
            ) from error


def _with_lifetimes(stream: Windowed) -> pa.Table:
    ts, exp = stream.lifetimes()
    return stream.rows.append_column(_TS, pa.array(ts)).append_column(_EXP, pa.array(exp))


def _equalities(item: str | tuple[str, str], streams: list[str]) -> list[str]:
    if isinstance(item, str):
        first, *others = (f"{_quoted(s)}.{_quoted(item)}" for s in streams)
        return [f"{first} = {other}" for other in others]
    return [" = ".join(_qualified(name) for name in item)]


def _qualified(name: str) -> str:
    stream, dot, column = name.partition(".")
    if not dot:
        raise InvalidSetting(f"{name!r} names no stream", 'write "stream.column" in a pair')
    return f"{_quoted(stream)}.{_quoted(column)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise MayflyError(
            "the oracle needs DuckDB, which is not installed", 'run: pip install "mayfly[test]"'
        ) from None
    return duckdb


@cache
def _database() -> Any:
    # Opening a database costs far more than a small query; one thread suits small queries best.
    return _duckdb().connect(":memory:", config={"threads": 1})
