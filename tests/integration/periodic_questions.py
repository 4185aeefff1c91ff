"""Periodic queries of every kind over two streams, each with SQL for an independent engine.

The SQL is written here: it picks the rows that a refresh shows by their times or numbers, and
shares nothing with our parser, windows or panes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from tests.property.test_panes import Row

SLACK, LAST = 5, 400
"""In microseconds: how far rows are out of order, and how long the streams last."""
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"), "seq": pa.int64(), "k": pa.int32(), "g": pa.string(),
        "v": pa.int64(), "x": pa.int64(), "f": pa.float64(),
    }
)  # fmt: skip
DECLARED = "".join(
    f"CREATE STREAM {name} (ts TIMESTAMP, seq BIGINT, k INT, g STRING, v BIGINT, x BIGINT,"
    f" f DOUBLE)\n  FROM parquet('{name}', maxFilesPerTrigger => '1')\n"
    f"  TIMESTAMP BY ts SEQUENCE (seq) SLACK {SLACK} us;\n"
    for name in ("s", "t")
)
Batch = dict[str, list[dict[str, Any]]]


def random_batches(rng: Random, count: int, size: int) -> list[Batch]:
    """Rows of both streams in disorder, with ties, bursts and NULL; one in a hundred is late."""
    numbers, made = iter(range(2 * count * size)), list[Batch]()
    for number in range(count):
        first, after = number * LAST // count, (number + 1) * LAST // count
        batch = Batch()
        for stream in ("s", "t"):
            times = sorted(rng.choice((rng.randrange(first, after), first)) for _ in range(size))
            late = [0, 0, 0, 2, SLACK, 90 if rng.random() < 0.5 else 0]
            rows = [
                {
                    "ts": max(0, ts - (rng.choice(late) if rng.random() < 0.1 else 0)),
                    "seq": next(numbers), "k": rng.choice((1, 2, None)),
                    "g": rng.choice(("a", "b", "c", None)), "v": rng.choice((0, 1, 5, -2, 9, None)),
                    "x": rng.randrange(1_500), "f": rng.choice((0.1, -0.0, 1e6, -3.7, None)),
                }
                for ts in times
            ]  # fmt: skip
            batch[stream] = rows
        made.append(batch)
    return made


def admitted(batches: list[Batch]) -> Batch:
    """The rows that were not late when they came: the slower stream has the clock."""
    kept, clock = Batch({"s": [], "t": []}), 0
    largest = {"s": 0, "t": 0}
    for batch in batches:
        for stream, rows in batch.items():
            kept[stream] += [row for row in rows if row["ts"] >= clock]
            largest[stream] = max([largest[stream], *(row["ts"] for row in rows)])
        clock = max(clock, min(largest.values()) - SLACK)
    return kept


def database(rows: Batch) -> duckdb.DuckDBPyConnection:
    """Tables ``s`` and ``t``, whose times are whole numbers, with the places of rows in order."""
    opened = duckdb.connect(":memory:", config={"threads": 1})
    for stream, some in rows.items():
        table = pa.Table.from_pylist(some, schema=SCHEMA)
        at = table["ts"].cast(pa.int64())
        opened.register(f"in_{stream}", table.set_column(0, "ts", at))
        place = "row_number() OVER (ORDER BY ts, seq) AS place"
        opened.execute(f"CREATE TABLE {stream} AS SELECT *, {place} FROM in_{stream}")
        opened.unregister(f"in_{stream}")
    return opened


Check = Callable[[list[Row], list[tuple[Any, ...]]], bool]
"""Whether rows of ours agree with those of DuckDB."""


def ordered(rows: list[Any]) -> list[Row]:
    return sorted((Row(map(_plain, row)) for row in rows), key=str)


def _plain(value: Any) -> Any:
    """Times as microseconds; lists of what is most frequent as they are."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
    return value


def equal(ours: list[Row], theirs: list[tuple[Any, ...]]) -> bool:
    return ours == ordered(theirs)


@dataclass(frozen=True)
class Question:
    kind: str
    cql: str
    sql: Callable[[int], str]
    """At an instant."""
    agrees: Check = equal
    kept: Callable[[int], str] | None = None
    """Counts the rows that it would keep without panes: those in its window, after WHERE."""


CALLS = {
    "COUNT(*)": "", "COUNT(v)": "", "SUM(v)": "", "AVG(v)": "", "MIN(v)": "", "MAX(x)": "",
    "MAX(g)": "", "SUM(f)": "", "VAR(f)": "VAR_SAMP(f)", "STDDEV(k)": "",
    "COUNT(DISTINCT v)": "", "COUNT(DISTINCT g)": "", "MEDIAN(v)": "",
    "QUANTILE(v, 0.3)": "QUANTILE_DISC(v, 0.3)", "PERCENTILE(f, 0.4)": "QUANTILE_CONT(f, 0.4)",
    "TOP(v, 2)": "LIST(v)", "COUNT(*) FILTER (WHERE v > 1)": "", "SUM(v) * 2 + COUNT(*)": "",
    "MAX(x) - MIN(x)": "", "CASE WHEN COUNT(*) > 40 THEN MIN(g) ELSE 'few' END": "",
}  # fmt: skip
"""With how DuckDB writes them, where that differs."""
KEYS = ((), ("g",), ("k",), ("k", "g"))
WHERES = ("", "", "v > 1", "v IS NULL", "g = 'a' OR k = 1")
HAVINGS = ("COUNT(*) > 90", "MAX(x) > 1480", "AVG(v) > 2.6 OR MIN(g) = 'a'")
MARKS = (
    "v = 1", "v < 3", "g <> 'a'", "k > 1", "g = 'c' OR k = 2", "v > 5", "x < 700", "f > 0",
    "x > 300", "v = 0 OR v = 9", "k IS NULL",
)  # fmt: skip


def _tail(where: str, keys: tuple[str, ...] = (), having: str = "") -> str:
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return (f" WHERE {where}" if where else "") + grouped + (f" HAVING {having}" if having else "")


def _listed(keys: tuple[str, ...], calls: list[str]) -> str:
    return ", ".join([*keys, *(f"{call} AS c{number}" for number, call in enumerate(calls))])


def _theirs(call: str) -> str:
    return CALLS.get(call) or call


def _most_frequent(keys: int, calls: list[str]) -> Check:
    """TOP is counted here, of equally many the smallest first."""
    tops = {keys + number for number, call in enumerate(calls) if call.startswith("TOP")}

    def ranked(values: list[Any] | None) -> list[dict[str, Any]]:
        counts = Counter(value for value in values or () if value is not None)
        first = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:2]
        return [{"value": value, "count": count} for value, count in first]

    def agrees(ours: list[Row], theirs: list[tuple[Any, ...]]) -> bool:
        rows = [tuple(ranked(v) if n in tops else v for n, v in enumerate(row)) for row in theirs]
        return equal(ours, rows)

    return agrees


def _asked(
    kind: str, stream: str, window: str, alive: Callable[[int], str], calls: list[str],
    keys: tuple[str, ...], where: str = "", having: str = "",
) -> Question:  # fmt: skip
    """A grouping: ``alive`` is the condition on rows that an instant shows."""
    tail, theirs = _tail(where, keys, having), _listed(keys, [*map(_theirs, calls)])
    return Question(
        kind,
        f"SELECT {_listed(keys, calls)} FROM {stream} {window}{tail}",
        lambda at: f"SELECT {theirs} FROM (SELECT * FROM {stream} WHERE {alive(at)}){tail}",
        _most_frequent(len(keys), calls),
        lambda at: f"SELECT count(*) FROM (SELECT * FROM {stream} WHERE {alive(at)}){_tail(where)}",
    )


def _by_time(
    kind: str, rng: Random, calls: list[str], keys: tuple[str, ...], where: str = "",
    having: str = "", stream: str = "", length: int = 0, period: int = 0,
) -> Question:  # fmt: skip
    stream = stream or rng.choice("st")
    length, period = length or rng.choice((6, 12, 30, 64, 120)), period or rng.choice((6, 10, 15))
    origin = rng.choice((0, 0, period // 2)) if kind == "panes" else 0
    begins = f" ORIGIN '1970-01-01 00:00:00.{origin:06d}'" if origin else ""

    def alive(at: int) -> str:
        refresh = (at - origin) // period * period + origin
        return f"ts > {refresh - length} AND ts <= {refresh}"

    window = f"[RANGE {length} us SLIDE {period} us{begins}]"
    return _asked(kind, stream, window, alive, calls, keys, where, having)


def panes(rng: Random) -> Question:
    calls, having = rng.sample([*CALLS], rng.randint(1, 3)), rng.choice(("", "", *HAVINGS))
    return _by_time("panes", rng, calls, rng.choice(KEYS), rng.choice(WHERES), having)


def marked(rng: Random) -> Question:
    calls = rng.sample(("COUNT(*)", "SUM(v)", "MAX(x)", "COUNT(DISTINCT v)", "VAR(f)"), 2)
    return _by_time("marked", rng, calls, ("g",), rng.choice(MARKS), stream="t")


def covers() -> Iterator[Question]:
    """Of counts, one is a difference of two others; of extremes, one is the larger of two others,
    and one is seen again, at every second refresh."""
    a, b, either = "g = 'a'", "g = 'b'", "g = 'a' OR g = 'b'"
    rng = Random(0)
    for length in (60, 120):
        for where in (b, either, a):
            calls = ["AVG(v)", "COUNT(*)", "COUNT(v)"]
            yield _by_time("covers", rng, calls, (), where, "", "s", length, 10)
        for where in (a, b, either):
            yield _by_time("covers", rng, ["MAX(x)"], ("k",), where, "", "s", length, 10)
        yield _by_time("covers", rng, ["MAX(x)"], ("k",), a, "", "s", length, 20)


def rows(rng: Random) -> Question:
    n, m = rng.choice((60, 100, 300, 1_000)), rng.choice((20, 50, 100))
    stream = rng.choice("st")

    def alive(at: int) -> str:
        last = f"(SELECT count(*) FROM {stream} WHERE ts <= {at}) // {m} * {m}"
        return f"place <= {last} AND place > {last} - {n}"

    calls = rng.sample([call for call in CALLS if "PERCENTILE" not in call], 2)
    window, keys = f"[ROWS {n} SLIDE {m} ROWS]", rng.choice(KEYS)
    return _asked("rows", stream, window, alive, calls, keys, rng.choice(WHERES))


JOINED = {
    "COUNT(*)": "", "SUM(r.v)": "", "MAX(l.x)": "", "AVG(l.v)": "", "COUNT(DISTINCT r.v)": "",
    "MEDIAN(r.v)": "", "MIN(r.g)": "", "VAR_POP(r.k)": "",
}  # fmt: skip


def join(rng: Random, equal_lengths: bool) -> Question:
    first, period = rng.choice((10, 20, 40)), 10
    second = first if equal_lengths else rng.choice((10, 20, 30))
    where = rng.choice(("", "", "l.v > 0", "r.v IS NOT NULL"))
    calls, keys = rng.sample([*JOINED], rng.randint(1, 2)), rng.choice(((), ("g",)))
    key = "l.g AS g, " if keys else ""
    listed = key + ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    tail = " WHERE l.x = r.x" + (f" AND {where}" if where else "") + (" GROUP BY l.g" * bool(keys))

    def sql(at: int) -> str:
        refresh = at // period * period
        l, r = (  # noqa: E741
            f"(SELECT * FROM {stream} WHERE ts > {refresh - length} AND ts <= {refresh})"
            for stream, length in (("s", first), ("t", second))
        )
        return f"SELECT {listed} FROM {l} l, {r} r{tail}"

    windows = [f"[RANGE {length} us SLIDE {period} us]" for length in (first, second)]
    cql = f"SELECT {listed} FROM s {windows[0]} l, t {windows[1]} r{tail}"
    kind = "equal joins" if equal_lengths else "joins"
    return Question(
        kind,
        cql,
        sql,
        kept=lambda at: f"SELECT sum(n) FROM ({sql(at).replace(listed, 'count(*) AS n')})",
    )


def distinct(rng: Random) -> Question:
    """By first and last time of each value, or by the last one alone."""
    stream, length, where = rng.choice("st"), rng.choice((20, 40, 90)), rng.choice(("", "v > 1"))
    form, period = rng.choice(("DISTINCT g, v", "g, COUNT(DISTINCT v) AS n")), rng.choice((0, 10))
    tail = _tail(where, () if form.startswith("DISTINCT") else ("g",))
    slide = f" SLIDE {period} us" if period else ""

    def sql(at: int) -> str:
        refresh = at // (period or 1) * (period or 1)
        alive = f"ts > {refresh - length} AND ts <= {refresh}"
        return f"SELECT {form} FROM (SELECT * FROM {stream} WHERE {alive}){tail}"

    cql = f"SELECT {form} FROM {stream} [RANGE {length} us{slide}]{tail}"
    return Question("distinct", cql, sql)


def finished(rng: Random) -> Question:
    word, stream = rng.choice(("TUMBLE", "HOP", "CUMULATE")), rng.choice("st")
    step, size = (25, 25) if word == "TUMBLE" else (20, 60)
    lengths = f"{size} us" if word == "TUMBLE" else f"{step} us, {size} us"
    calls = rng.sample(("COUNT(*)", "SUM(v)", "MAX(x)", "COUNT(DISTINCT v)", "AVG(v)"), 2)
    keys = rng.choice(((), ("g",)))
    listed, by = _listed(("window_start", "window_end", *keys), calls), ", ".join(keys)
    if word == "CUMULATE":
        bounds = f"range(0, {LAST}, {size}) p(i), range({step}, {size + 1}, {step}) q(j)"
        bounds = f"SELECT i AS window_start, i + j AS window_end FROM {bounds}"
    else:
        bounds = f"range({-size}, {LAST}, {step}) p(i)"
        # The grid goes through zero, whatever the size of a window is.
        bounds = f"SELECT i - i % {step} AS window_start, i - i % {step} + {size} AS window_end"
        bounds += f" FROM range({-size // step * step}, {LAST}, {step}) p(i)"
    tail = f" GROUP BY window_start, window_end{', ' + by if by else ''}"
    return Question(
        word,
        f"SELECT {listed} FROM {word}({stream}, ts, {lengths}){tail}",
        lambda at: (
            f"SELECT {listed} FROM {stream}, ({bounds}) WHERE window_start <= ts"
            f" AND ts < window_end AND window_end <= {at} + 1{tail}"
        ),
    )


def decay(rng: Random) -> Question:
    stream, life, period = rng.choice("st"), rng.choice((20, 300)), rng.choice((10, 15))
    keys, where = rng.choice(((), ("g",))), rng.choice(("", "v > 1"))
    ours = _listed(keys, [f"DECAYED_{c}, INTERVAL {life} us)" for c in ("SUM(x", "COUNT(*")])

    def sql(at: int) -> str:
        weight = f"pow(2.0, (ts - {at // period * period}) / {life}.0)"
        listed = _listed(keys, [f"SUM(x * {weight})", f"SUM({weight})"])
        known = f"(SELECT * FROM {stream} WHERE ts <= {at // period * period})"
        return f"SELECT {listed} FROM {known}{_tail(where, keys)}"

    cql = f"SELECT {ours} FROM {stream} [UNBOUNDED SLIDE {period} us]{_tail(where, keys)}"
    return Question("decay", cql, sql)


def _around(keys: int, tests: list[Callable[[Any, Any, Any, Any], bool]]) -> Check:
    """Answers in threes, with LOW and HIGH, around one of DuckDB's each."""

    def agrees(ours: list[Row], theirs: list[tuple[Any, ...]]) -> bool:
        exact = {row[:keys]: row[keys:] for row in theirs}
        found = {tuple(row[:keys]): row[keys:] for row in ours}
        if exact.keys() != found.keys() or len(found) != len(ours):
            return False
        threes = [
            (test, *found[key][3 * number :][:3], exact[key][number])
            for key in exact
            for number, test in enumerate(tests)
        ]
        return all(test(about, low, high, value) for test, about, low, high, value in threes)

    return agrees


def _thrice(calls: list[str]) -> list[str]:
    bounds = ("", "_LOW", "_HIGH")
    return [call.replace("(", f"{bound}(", 1) for call in calls for bound in bounds]


def _frequent(about: Any, low: Any, high: Any, exact: Any) -> bool:
    """Never too small; five in a hundred are too large by more than the bound tells, none here by
    four times as much."""
    return bool(exact <= about == high and low <= about <= exact + 4 * (about - low + 1))


def _within(about: Any, low: Any, high: Any, exact: Any) -> bool:
    return bool(exact is about is None or low <= exact <= high)


def _about_as_many(about: Any, low: Any, high: Any, exact: Any) -> bool:
    """A bound of two standard deviations; four are never left here."""
    return bool(low <= about <= high and low - (about - low) <= exact <= high + (high - about))


def _rank(about: Any, low: Any, high: Any, exact: Any) -> bool:
    """KLL draws by lot; its rank is within several times its error."""
    values = sorted(exact or ())
    if not values:
        return about is low is high is None
    near = [bisect_left(values, about) / len(values), bisect_right(values, about) / len(values)]
    return bool(low <= about <= high and near[0] - 0.06 <= 0.3 <= near[1] + 0.06)


def _counted(about: Any, low: Any, high: Any, exact: Any) -> bool:
    counts = Counter(value for value in exact or () if value is not None)
    most = {item["value"]: item["count"] for item in high or ()}
    return all(item["count"] <= counts[item["value"]] <= most[item["value"]] for item in low or ())


SKETCHES: dict[str, tuple[str, Callable[[Any, Any, Any, Any], bool]]] = {
    "APPROX_COUNT_DISTINCT(x)": ("COUNT(DISTINCT x)", _about_as_many),
    "APPROX_PERCENTILE(x, 0.3)": ("LIST(x)", _rank),
    "APPROX_TOP_K(g, 2)": ("LIST(g)", _counted),
    "APPROX_FREQUENCY(x, 7)": ("COUNT(*) FILTER (WHERE x = 7)", _frequent),
    "APPROX_FREQUENCY(g, 'a')": ("COUNT(*) FILTER (WHERE g = 'a')", _frequent),
}
HISTOGRAMS = {"APPROX_COUNT(*, 0.1)": "COUNT(*)", "APPROX_SUM(x, 0.1)": "SUM(x)"}


def _bounded(
    kind: str, rng: Random, calls: list[str], theirs: list[str], agrees: list[Any],
    length: int, period: int,
) -> Question:  # fmt: skip
    stream, keys = rng.choice("st"), rng.choice(((), ("k",)))
    tail = _tail(rng.choice(("", "v > 1")), keys)

    def sql(at: int) -> str:
        refresh = at // period * period
        alive = f"ts > {refresh - length} AND ts <= {refresh}"
        listed = _listed(keys, theirs)
        return f"SELECT {listed} FROM (SELECT * FROM {stream} WHERE {alive}){tail}"

    window = f"[RANGE {length} us SLIDE {period} us]"
    cql = f"SELECT {_listed(keys, _thrice(calls))} FROM {stream} {window}{tail}"

    def kept(at: int) -> str:
        return sql(at).replace(_listed(keys, theirs), "count(*)").partition(" GROUP BY ")[0]

    return Question(kind, cql, sql, _around(len(keys), agrees), kept)


def sketches(rng: Random) -> Question:
    calls = rng.sample([*SKETCHES], rng.randint(1, 2))
    theirs, agrees = zip(*(SKETCHES[call] for call in calls), strict=True)
    length, period = rng.choice((30, 60, 120)), rng.choice((10, 15))
    return _bounded("sketches", rng, calls, [*theirs], [*agrees], length, period)


def histograms(rng: Random) -> Question:
    """Of so many panes that buckets are fewer."""
    calls = rng.sample([*HISTOGRAMS], rng.randint(1, 2))
    theirs = [HISTOGRAMS[call] for call in calls]
    length, period = rng.choice((350, 390)), rng.choice((1, 2))
    return _bounded("histograms", rng, calls, theirs, [_within] * len(calls), length, period)


PARTS: tuple[tuple[int, Callable[[Random], Question]], ...] = (
    (82, panes),
    (24, marked),
    (24, rows),
    (12, lambda rng: join(rng, True)),
    (12, lambda rng: join(rng, False)),
    (16, distinct),
    (24, finished),
    (8, decay),
    (16, sketches),
    (8, histograms),
)
"""How many of each kind; with fourteen that cover each other they are 240."""


def questions(rng: Random, share: int = 1) -> dict[str, Question]:
    """All, or one in ``share`` of each kind, by name."""
    made = [*covers()][:: 1 if share == 1 else 2]
    made += [part(rng) for count, part in PARTS for _ in range(max(1, count // share))]
    return {f"q{number}": question for number, question in enumerate(made)}
