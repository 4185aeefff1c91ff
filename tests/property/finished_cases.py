"""Random queries over finished windows, each with SQL that an independent engine answers.

The SQL lists windows and puts rows into them by their bounds (sessions by the pauses between rows);
it is written here and shares nothing with our parser, operators or panes. A case is a query, rows
in disorder and a way to cut them; results are compared with the instant at which they are given.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from mayfly.lifetime import NEVER

SLACK = 4
COLUMNS = {"ts": pa.int64(), "k": pa.int32(), "g": pa.string(), "v": pa.int64()}
SCHEMA = pa.schema(COLUMNS)
DECLARED = "\n".join(
    f"CREATE STREAM {name} (ts BIGINT, k INT, g STRING, v BIGINT) FROM parquet('{name}')"
    f" TIMESTAMP BY ts MICROSECONDS SLACK {SLACK} us;"
    for name in ("s", "r")
)
Row = dict[str, Any]
Batch = dict[str, list[Row]]


@dataclass(frozen=True)
class Windows:
    """Windows of one kind: how the language writes them, and SQL of their copies of rows."""

    word: str
    size: int
    period: int = 0
    offset: int = 0
    by: str = ""

    def call(self, stream: str, rng: Random) -> str:
        """Around a stream, in one of the spellings."""
        lengths = {
            "TUMBLE": [self.size],
            "HOP": [self.period, self.size],
            "CUMULATE": [self.period, self.size],
            "SESSION": [self.size],
        }[self.word]
        if self.offset:
            step = self.size if self.word == "CUMULATE" else self.period or self.size
            lengths.append(self.offset - rng.choice((0, step)))
        by = f" PARTITION BY {self.by}" if self.by else ""
        if rng.random() < 0.5:
            parts = ", ".join(f"INTERVAL '{n}' MICROSECONDS" for n in lengths)
            return f"TABLE({self.word}(TABLE {stream}{by}, DESCRIPTOR(ts), {parts}))"
        parts = ", ".join(f"{n} us" for n in lengths)
        return f"{self.word}({stream}{by}, ts, {parts})"

    def copies(self, stream: str, last: int) -> str:
        """The rows of windows that are over, when ``last`` is the last closed instant."""
        if self.word == "SESSION":
            part = f"PARTITION BY {self.by}" if self.by else ""
            return f"""
              SELECT ts, k, g, v, window_start, window_end, window_end AS given FROM (
                SELECT *, min(ts) OVER same AS window_start,
                  max(ts) OVER same + {self.size} AS window_end FROM (
                  SELECT *, sum(CAST(is_new AS INT)) OVER (
                    {part} ORDER BY ts RANGE UNBOUNDED PRECEDING) AS number FROM (
                      SELECT *, coalesce(ts - lag(ts) OVER ({part} ORDER BY ts) > {self.size}, TRUE)
                        AS is_new FROM {stream}))
                WINDOW same AS (PARTITION BY {f"{self.by}, " if self.by else ""}number))
              WHERE window_end <= {last}"""
        if self.word == "CUMULATE":
            bounds = f"""SELECT {self.offset} + i * {self.size} AS a,
                {self.offset} + i * {self.size} + j * {self.period} AS b
                FROM range(-60, 400) t(i), range(1, {self.size // self.period + 1}) u(j)"""
        else:
            step = self.period or self.size
            bounds = f"""SELECT {self.offset} + i * {step} AS a,
                {self.offset} + i * {step} + {self.size} AS b FROM range(-60, 400) t(i)"""
        return f"""
          SELECT ts, k, g, v, a AS window_start, b AS window_end, b - 1 AS given
          FROM {stream}, ({bounds}) WHERE a <= ts AND ts < b AND b - 1 <= {last}"""


@dataclass(frozen=True)
class Query:
    cql: str
    sql: str
    """Over ``copies_s`` and ``copies_r``; its last column is the instant of the result."""
    windows: Windows
    streams: tuple[str, ...] = ("s",)
    rows: str = "{}"
    """What the windows stand on, around the rows of a stream."""


AGGREGATES = (
    ("COUNT(*)", "count(*)"), ("COUNT(v)", "count(v)"), ("SUM(v)", "sum(v)"),
    ("MIN(v)", "min(v)"), ("MAX(g)", "max(g)"), ("COUNT(DISTINCT g)", "count(DISTINCT g)"),
    ("AVG(k)", "avg(k)"), ("MEDIAN(v)", "median(v)"), ("MAX(v) - MIN(v)", "max(v) - min(v)"),
)  # fmt: skip
WHERE = ("", "v > 1", "g = 'a'", "k IS NOT NULL AND v < 4", "window_end > 20")
KEYS = ((), ("k",), ("g",), ("k", "g"))


def random_windows(rng: Random, *, sessions: bool = True) -> Windows:
    word = rng.choice(("TUMBLE", "HOP", "HOP", "CUMULATE", *(("SESSION",) * 2 if sessions else ())))
    if word == "SESSION":
        return Windows(word, rng.choice((1, 2, 3, 7)), by=rng.choice(("", "k", "g", "k, g")))
    offset = rng.choice((0, 0, 1, 3))
    if word == "TUMBLE":
        return Windows(word, rng.choice((1, 4, 10, 13)), offset=offset)
    period = rng.choice((1, 3, 5, 10))
    if word == "CUMULATE":
        return Windows(word, period * rng.choice((1, 2, 4)), period, offset)
    return Windows(word, rng.choice((1, 3, 6, 10, 14, 25)), period, offset)


def random_query(rng: Random) -> Query:
    make = rng.choice(
        (
            _groups,
            _groups,
            _groups,
            _rows,
            _distinct,
            _top,
            _join,
            _left,
            _negation,
            _partner,
            _nested,
            _spark,
            _joined_results,
            _session_groups,
            _over_results,
            _over_below,
        )
    )
    return make(rng)


def _conditions(rng: Random) -> tuple[str, str]:
    where = rng.choice(WHERE)
    return (f" WHERE {where}" if where else ""), where


def _groups(rng: Random) -> Query:
    windows, keys = random_windows(rng), rng.choice(KEYS)
    calls = rng.sample(AGGREGATES, rng.randint(1, 3))
    where, _ = _conditions(rng)
    bounds = rng.choice(((), ("window_start", "window_end"), ("window_end",)))
    ours = [*keys, *bounds, *(f"{call} AS c{n}" for n, (call, _) in enumerate(calls))]
    theirs = [*keys, *bounds, *(f"{call} AS c{n}" for n, (_, call) in enumerate(calls))]
    by = [*keys, *bounds]
    having = rng.choice(("", "", " HAVING COUNT(*) > 1", " HAVING MIN(window_end) > 12"))
    if "window_end)" in having and "window_end" not in bounds:
        having = ""
    tail = f" GROUP BY {', '.join(by)}" if by else ""
    inner = ", ".join([*keys, "window_start", "window_end", "given"])
    return Query(
        f"SELECT {', '.join(ours)} FROM {windows.call('s', rng)}{where}{tail}{having}",
        f"SELECT {', '.join([*theirs, 'given'])} FROM copies_s{where} GROUP BY {inner}{having}",
        windows,
    )


def _rows(rng: Random) -> Query:
    windows, (where, _) = random_windows(rng), _conditions(rng)
    chosen = rng.choice(("*", "k, v, window_start", "v + 1 AS w, window_end, ts"))
    names = "ts, k, g, v, window_start, window_end" if chosen == "*" else chosen
    return Query(
        f"SELECT {chosen} FROM {windows.call('s', rng)}{where}",
        f"SELECT {names}, given FROM copies_s{where}",
        windows,
    )


def _distinct(rng: Random) -> Query:
    windows, (where, _) = random_windows(rng), _conditions(rng)
    chosen = rng.choice(("k", "g, k", "g, window_end"))
    return Query(
        f"SELECT DISTINCT {chosen} FROM {windows.call('s', rng)}{where}",
        f"SELECT DISTINCT {chosen}, given FROM copies_s{where}",
        windows,
    )


def _top(rng: Random) -> Query:
    windows, (where, _) = random_windows(rng, sessions=False), _conditions(rng)
    limit = rng.randint(1, 3)
    return Query(
        f"SELECT v, ts, k, g FROM {windows.call('s', rng)}{where}"
        f" ORDER BY v DESC NULLS LAST, ts, k NULLS FIRST, g NULLS FIRST LIMIT {limit}",
        f"SELECT v, ts, k, g, given FROM copies_s{where} QUALIFY row_number() OVER (PARTITION BY"
        f" window_end ORDER BY v DESC NULLS LAST, ts, k NULLS FIRST, g NULLS FIRST) <= {limit}",
        windows,
    )


def _session_groups(rng: Random) -> Query:
    """Groups that are one session each: totals take the place of rows."""
    keys = rng.choice(KEYS)
    windows = Windows("SESSION", rng.choice((1, 2, 3, 7)), by=", ".join(keys))
    calls = rng.sample(AGGREGATES[:5], rng.randint(1, 3))
    by = ", ".join(rng.sample((*keys, "window_start", "window_end"), len(keys) + 2))
    chosen = (
        f"{by}, {', '.join(f'{call[n]} AS c{m}' for m, call in enumerate(calls))}" for n in (0, 1)
    )
    ours, theirs = chosen
    having = rng.choice(("", "", " HAVING COUNT(*) > 1"))
    return Query(
        f"SELECT {ours} FROM {windows.call('s', rng)} GROUP BY {by}{having}",
        f"SELECT {theirs}, given FROM copies_s GROUP BY {by}, given{having}",
        windows,
    )


def _over_results(rng: Random) -> Query:
    """Each window's counts beside those of the windows before, or of the same window."""
    windows = random_windows(rng)
    steady = windows.word in ("TUMBLE", "HOP")
    order = rng.choice(("window_start", "window_end")) if steady else "window_end, window_start"
    groups = "SELECT k, window_start, window_end, COUNT(*) AS c{} FROM {}"
    groups += " GROUP BY k, window_start, window_end"
    before = "RANGE BETWEEN 7 PRECEDING AND CURRENT ROW"
    length = rng.choice(("7", "INTERVAL 7 us"))
    call = rng.choice((
        f"LAG(c) OVER (PARTITION BY k ORDER BY {order})",
        f"SUM(c) OVER (PARTITION BY k ORDER BY window_end {before})",
        "SUM(c) OVER (PARTITION BY k ORDER BY window_end)",
        "SUM(c) OVER (PARTITION BY window_end, window_start)",
        "SUM(c) OVER (PARTITION BY window_end, window_start ORDER BY window_end, k NULLS FIRST)",
        "RANK() OVER (PARTITION BY window_start, window_end ORDER BY c DESC)",
    ))  # fmt: skip
    ours, theirs = (
        groups.format(*parts)
        for parts in (("", windows.call("s", rng)), (", min(given) AS given", "copies_s"))
    )
    return Query(
        f"SELECT k, c, window_end, {call.replace('7', length)} AS x FROM ({ours})",
        f"SELECT k, c, window_end, {call} AS x, given FROM ({theirs})",
        windows,
    )


_ON = "a.window_start = b.window_start AND a.window_end = b.window_end"


def _join(rng: Random) -> Query:
    windows = random_windows(rng)
    condition = f"a.k = b.k AND {_ON}" + rng.choice(("", " AND a.v < b.v"))
    tail = "SELECT a.k, a.v, b.v AS w, a.window_end"
    ours = f"{windows.call('s', rng)} a JOIN {windows.call('r', rng)} b ON {condition}"
    if rng.random() < 0.3:
        ours = f"{windows.call('s', rng)} a, {windows.call('r', rng)} b WHERE {condition}"
    theirs = f"copies_s a JOIN copies_r b ON {condition} AND a.given = b.given"
    return Query(f"{tail} FROM {ours}", f"{tail}, a.given FROM {theirs}", windows, ("s", "r"))


def _left(rng: Random) -> Query:
    windows = random_windows(rng)
    condition = f"a.k = b.k AND {_ON}"
    tail = "SELECT a.k, a.v, b.v AS w, a.window_start, b.window_start AS x"
    return Query(
        f"{tail} FROM {windows.call('s', rng)} a LEFT JOIN {windows.call('r', rng)} b"
        f" ON {condition}",
        f"{tail}, a.given FROM copies_s a LEFT JOIN copies_r b ON {condition}",
        windows,
        ("s", "r"),
    )


def _negation(rng: Random) -> Query:
    windows = random_windows(rng)
    asked = rng.choice(("NOT EXISTS (SELECT 1 FROM {} b WHERE a.k = b.k AND {})",
        "a.k NOT IN (SELECT k FROM {} b WHERE {})"))  # fmt: skip
    chosen = "SELECT a.k, a.v, a.window_end"
    return Query(
        f"{chosen} FROM {windows.call('s', rng)} a"
        f" WHERE {asked.format(windows.call('r', rng), _ON)}",
        f"{chosen}, a.given FROM copies_s a WHERE {asked.format('copies_r', _ON)}",
        windows,
        ("s", "r"),
    )


def _partner(rng: Random) -> Query:
    windows = random_windows(rng)
    asked = rng.choice(("EXISTS (SELECT 1 FROM {} b WHERE a.g = b.g AND {})",
        "a.g IN (SELECT g FROM {} b WHERE {} AND b.v > 0)"))  # fmt: skip
    chosen = "SELECT a.g, a.v, a.window_end"
    return Query(
        f"{chosen} FROM {windows.call('s', rng)} a"
        f" WHERE {asked.format(windows.call('r', rng), _ON)}",
        f"{chosen}, a.given FROM copies_s a WHERE {asked.format('copies_r', _ON)}",
        windows,
        ("s", "r"),
    )


def _joined_results(rng: Random) -> Query:
    """Groups of two streams joined window by window, in a block without a window function."""
    windows, side = random_windows(rng), rng.choice(("JOIN", "LEFT JOIN"))
    groups = "(SELECT k, window_start, window_end, COUNT(*) AS c FROM {} GROUP BY k, window_start,"
    groups += " window_end)"
    theirs = groups.replace("AS c", "AS c, min(given) AS given")
    condition = f"a.k = b.k AND {_ON}"
    chosen = "SELECT a.k, a.c, b.c AS d, a.window_end"
    return Query(
        f"{chosen} FROM {groups.format(windows.call('s', rng))} a {side}"
        f" {groups.format(windows.call('r', rng))} b ON {condition}",
        f"{chosen}, a.given FROM {theirs.format('copies_s')} a {side}"
        f" {theirs.format('copies_r')} b ON {condition}",
        windows,
        ("s", "r"),
    )


def _nested(rng: Random) -> Query:
    """Windows over windows: a result has the time at which it was given."""
    windows, outer = random_windows(rng), rng.choice((10, 20, 30))
    inner = "SELECT k, window_end AS e, COUNT(*) AS c FROM {} GROUP BY k, window_start, window_end"
    start = f"given - (given % {outer} + {outer}) % {outer}"
    return Query(
        f"SELECT k, window_start, SUM(c) AS c, COUNT(*) AS n FROM TUMBLE("
        f"({inner.format(windows.call('s', rng))}), e, {outer} us) GROUP BY k, window_start",
        f"SELECT k, a, sum(c), count(*), a + {outer} - 1 FROM (SELECT k, c, {start} AS a FROM"
        f" (SELECT k, given, count(*) AS c FROM copies_s GROUP BY k, window_start, window_end,"
        f" given)) WHERE a + {outer} - 1 <= (SELECT last FROM closed) GROUP BY k, a",
        windows,
    )


def _spark(rng: Random) -> Query:
    """GROUP BY window(…) and session_window(…): sessions of the other keys, behind WHERE."""
    where = rng.choice(("", "v > 1", "g = 'a'"))
    keys = rng.choice(KEYS)
    if rng.random() < 0.4:
        windows = Windows("SESSION", rng.choice((1, 3, 7)), by=", ".join(keys))
        name, arguments = "session_window", f"'{windows.size} us'"
    else:
        period = rng.choice((3, 5, 10))
        size = period * rng.choice((1, 2, 3))
        windows = Windows("HOP", size, period, rng.randrange(period))
        name = "window"
        arguments = f"'{size} us', '{period} us', INTERVAL '{windows.offset}' MICROSECONDS"
    condition = f" WHERE {where}" if where else ""
    chosen = ", ".join([*keys, f"{name}.start AS a", f"{name}.end AS b"])
    by = ", ".join([*keys, f"{name}(ts, {arguments})"])
    grouped = ", ".join([*keys, "window_start", "window_end", "given"])
    source = f"(SELECT * FROM copies_s{condition})" if name == "window" else "copies_s"
    return Query(
        f"SELECT {chosen}, COUNT(*) AS c, SUM(v) AS v FROM s{condition} GROUP BY {by}",
        f"SELECT {', '.join([*keys, 'window_start', 'window_end'])}, count(*), sum(v), given"
        f" FROM {source} GROUP BY {grouped}",
        windows,
        rows="{}" if name == "window" or not where else f"(SELECT * FROM {{}}{condition})",
    )


def _over_below(rng: Random) -> Query:
    """Windows of what OVER gives, row by row, at the times of the stream."""
    windows = random_windows(rng)
    over = "SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN {} PRECEDING AND CURRENT ROW)"
    ours, theirs = (
        f"SELECT ts, k, g, {over.format(distance)} AS v FROM {{}}"
        for distance in (rng.choice(("5", "INTERVAL 5 us", "INTERVAL '5' MICROSECONDS")), "5")
    )
    by = rng.choice(("", "k, ", "g, "))
    grouped, below = f"{by}window_start, window_end", f"({ours.format('s')})"
    return Query(
        f"SELECT {grouped}, SUM(v) AS v, COUNT(*) AS c FROM {windows.call(below, rng)}"
        f" GROUP BY {grouped}",
        f"SELECT {grouped}, sum(v), count(*), given FROM copies_s GROUP BY {grouped}, given",
        windows,
        rows=f"({theirs})",
    )


# ── rows ──────────────────────────────────────────────────────────────────────────────────


def random_batches(rng: Random, streams: tuple[str, ...]) -> list[Batch]:
    """Rows in disorder within the slack, ties, NULLs, pauses, empty batches; some are late."""
    now, batches = rng.randrange(5), []
    for _ in range(rng.randint(1, 5)):
        batch: Batch = {name: [] for name in streams}
        for _ in range(rng.choice((0, 1, 5, 12))):
            now += rng.choice((0, 0, 1, 1, 2, 3, 7 if rng.random() < 0.3 else 1))
            behind = rng.choice((0, 0, 0, 1, 3, SLACK, 15))
            row = {
                "ts": max(0, now - behind),
                "k": rng.choice((1, 2, 3, None)),
                "g": rng.choice(("a", "b", "", None)),
                "v": rng.choice((0, 1, 2, 5, -3, None)),
            }
            batch[rng.choice(streams)].append(row)
        batches.append(batch)
    return batches


def recut(batches: list[Batch], rng: Random) -> list[Batch]:
    """The rows that are not late, one stream after the other in time, in other batches."""
    rows = sorted(
        ((row["ts"], name, row) for name, rows in admitted(batches).items() for row in rows),
        key=lambda entry: entry[0],
    )
    names = tuple(batches[0]) if batches else ("s",)
    count = rng.randint(1, 6)
    cuts = sorted(rng.randrange(len(rows) + 1) for _ in range(count))
    bounds = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    return [
        {n: [row for _, name, row in rows[low:high] if name == n] for n in names}
        for low, high in bounds
    ]


def admitted(batches: list[Batch]) -> dict[str, list[Row]]:
    """The rows that were not late when they came: their instant was open for their stream's
    query."""
    names = list(batches[0]) if batches else []
    largest: dict[str, int | None] = dict.fromkeys(names)
    kept: dict[str, list[Row]] = {name: [] for name in names}
    for batch in batches:
        known = [value for value in largest.values() if value is not None]
        clock = min(known) - SLACK if len(known) == len(names) else None
        for name, rows in batch.items():
            kept[name] += [row for row in rows if clock is None or row["ts"] >= clock]
            times = [row["ts"] for row in rows]
            before = largest[name]
            largest[name] = max([*times, *([] if before is None else [before])], default=None)
    return kept


# ── the oracle ────────────────────────────────────────────────────────────────────────────


@cache
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


def expected(query: Query, rows: dict[str, list[Row]]) -> Counter[tuple[Any, ...]]:
    """What is given, and when, once all rows have come."""
    last = max((row["ts"] for part in rows.values() for row in part), default=None)
    if last is None:
        return Counter()
    parts = [f"closed AS (SELECT {last} AS last)"]
    for name in query.streams:
        database().register(f"rows_{name}", pa.Table.from_pylist(rows[name], schema=SCHEMA))
        copies = query.windows.copies(query.rows.format(f"rows_{name}"), last)
        parts.append(f"copies_{name} AS ({copies})")
    return Counter(map(_plain, database().sql(f"WITH {', '.join(parts)} {query.sql}").fetchall()))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(value, 9) if isinstance(value, float) else value for value in row)


def given(lifetimes: pa.Table) -> Counter[tuple[Any, ...]]:
    """Results with the instant at which they were given, their last column but one; none ends."""
    *names, ts, exp = lifetimes.schema.names
    assert set(lifetimes.column(exp).cast(pa.int64()).to_pylist()) <= {NEVER, None}
    columns = [lifetimes.column(name).to_pylist() for name in names]
    columns.append(lifetimes.column(ts).cast(pa.int64()).to_pylist())
    return Counter(map(_plain, zip(*columns, strict=True)))
