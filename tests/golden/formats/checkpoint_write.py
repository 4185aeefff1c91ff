"""Writes a checkpoint of queries as the golden ones of its state format were written.

python -m tests.golden.formats.checkpoint_write tests/golden/formats/checkpoint-version-1 1
python -m tests.golden.formats.checkpoint_write tests/golden/formats/checkpoint-panes panes
python -m tests.golden.formats.checkpoint_write tests/golden/formats/checkpoint-windows windows

The last word is a state format, or panes, joins, windows or aggregates for the checkpoints of that
name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pyarrow as pa

from mayfly.optimizer.rules.first_last import FIRST_LAST
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.physical.program import Program
from mayfly.plan.strategy import Strategy
from mayfly.storage import vacuum
from tests.property.continuous_cases import SECOND, Row, catalog, table_of
from tests.property.shared_runs import HereRunner, program_of, runner_of
from tests.property.window_texts import TEXTS

NULLS = "NOT EXISTS (SELECT * FROM s2 [RANGE 6 s] y WHERE y.k = x.k"
PAIRS = "SELECT x.k AS k, x.g AS g FROM s1 [RANGE 10 s] x, s2 [RANGE 6 s] y WHERE x.k = y.k"
QUERIES = {
    1: {
        "pairs": "SELECT x.v, y.v AS w FROM s1 [RANGE 10 s] x, s2 [RANGE 6 s] y WHERE x.k = y.k",
        "latest": "SELECT g, v FROM s1 [PARTITION BY g ROWS 2]",
    },
    2: {
        "latest without": f"SELECT v FROM s1 [PARTITION BY g ROWS 2] x WHERE {NULLS})",
        "without larger": f"SELECT v FROM s1 [RANGE 10 s] x WHERE v > 2 AND {NULLS} AND y.v > x.v)",
        "groups": f"SELECT Istream(j.k, j.g, COUNT(*) AS n) FROM ({PAIRS}) j GROUP BY j.k, j.g",
        "windowed": "SELECT z.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 x, s2 y"
        " WHERE x.k = y.k) [RANGE 9 s] z GROUP BY z.k",
    },
    3: {
        "pairs": PAIRS,
        "entered": f"SELECT Istream(j.k, j.g) FROM ({PAIRS}) j",
        "latest": "SELECT g, v FROM s1 [PARTITION BY g ROWS 2]",
    },
    4: {
        "by text": "SELECT x.v, y.v AS w FROM s1 [RANGE 10 s] x, s2 [RANGE 6 s] y WHERE x.g = y.g",
        "by both": "SELECT x.v, y.v AS w FROM s1 [PARTITION BY g, k ROWS 2] x, s2 [RANGE 9 s] y"
        " WHERE x.g = y.g AND x.x = y.x",
        "values": "SELECT DISTINCT x FROM s1 [RANGE 10 s]",
        "groups": "SELECT g, k, COUNT(*) AS n FROM s1 [RANGE 10 s] GROUP BY g, k",
        "largest": "SELECT c.g, c.m, y.v FROM"
        " (SELECT g, MAX(k) AS m FROM s1 [ROWS 5] GROUP BY g) c, s2 [RANGE 8 s] y WHERE c.g = y.g",
        "entered": f"SELECT Istream(j.k, j.g) FROM ({PAIRS}) j",
        "rest": "SELECT g FROM s1 [RANGE 10 s] EXCEPT ALL SELECT g FROM s2 [RANGE 6 s]",
        "without": f"SELECT g, v FROM s1 [RANGE 10 s] x WHERE {NULLS})",
    },
    5: {
        "statistics": "SELECT g, COUNT(*) AS n, SUM(v) AS s, AVG(x) AS a, MIN(v) AS low,"
        " MAX(v) AS high, MEDIAN(x) AS m, COUNT(DISTINCT k) AS d, VAR_SAMP(x) AS r"
        " FROM s1 [RANGE 10 s] GROUP BY g",
        "values": "SELECT DISTINCT k, g FROM s1 [RANGE 10 s]",
        "without": f"SELECT g, v FROM s1 [RANGE 10 s] x WHERE {NULLS})",
        "pairs": "SELECT x.v, y.v AS w FROM s1 [RANGE 10 s] x, s2 [RANGE 6 s] y"
        " WHERE x.k = y.k AND x.g = y.g",
        "latest": "SELECT g, v FROM s1 [PARTITION BY g ROWS 2]",
        "refreshed": "SELECT Rstream(g, SUM(v) AS s) FROM s1 [RANGE 6 s SLIDE 2 s] GROUP BY g",
        "over pairs": "SELECT z.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 x, s2 y"
        " WHERE x.k = y.k) [RANGE 9 s] z GROUP BY z.k",
    },
}
STRATEGIES = {1: Strategy.NT, **dict.fromkeys((2, 3, 4, 5), Strategy.UPA)}
PANES = {
    "short": "SELECT g, SUM(v) AS s, COUNT(*) AS n FROM s1 [RANGE 6 s SLIDE 2 s] GROUP BY g",
    "long": "SELECT g, SUM(v) AS s, COUNT(*) AS n FROM s1 [RANGE 15 s SLIDE 3 s] GROUP BY g",
    "mean": "SELECT AVG(v) AS a, MAX(x) AS m FROM s1 [RANGE 9 s SLIDE 2 s]",
    "values": "SELECT g, COUNT(DISTINCT k) AS d FROM s1 [RANGE 8 s SLIDE 4 s] GROUP BY g",
    "entered": "SELECT Istream(g, MIN(v) AS low) FROM s1 [RANGE 6 s SLIDE 2 s] GROUP BY g",
    "large": "SELECT g, SUM(v) AS s FROM s1 [RANGE 6 s SLIDE 2 s] WHERE k > 0 GROUP BY g"
    " HAVING SUM(v) > 9",
}
"""Aggregates over windows with SLIDE, some of them answered in one pass."""
_JOINED = "FROM s1 [RANGE {} s SLIDE {} s] x, s2 [RANGE {} s SLIDE {} s] y WHERE x.k = y.k"
JOINS = {
    "short": f"SELECT x.g AS g, SUM(y.v) AS s, COUNT(*) AS n {_JOINED.format(6, 2, 6, 2)}"
    " GROUP BY x.g",
    "long": f"SELECT x.g AS g, SUM(y.v) AS s, MAX(x.v) AS m {_JOINED.format(12, 4, 8, 4)}"
    " GROUP BY x.g",
    "some": f"SELECT AVG(y.x) AS a, COUNT(DISTINCT x.v) AS d {_JOINED.format(9, 3, 9, 3)}"
    " AND x.v > 3",
}
"""Aggregates over one join that they share."""
AGGREGATES = {
    "ordered": "SELECT g, FIRST(v) AS a, LAST(x) AS b, MIN_BY(v, x) AS c, MAX_BY(k, v) AS d"
    " FROM s1 [RANGE 10 s] GROUP BY g",
    "lists": "SELECT k, COLLECT_LIST(v) AS a, STRING_AGG(g, '-') AS b, COLLECT_SET(g) AS c,"
    " STRING_AGG(DISTINCT g, '+') AS d FROM s1 [RANGE 10 s] GROUP BY k",
    "positions": "SELECT g, PERCENTILE(x, 0.3) AS a, QUANTILE(v, 0.7) AS b, MEDIAN(x) AS c,"
    " MODE(k) AS d, TOP(k, 2) AS e FROM s1 [RANGE 10 s] GROUP BY g",
    "spreads": "SELECT g, VAR_POP(x) AS a, STDDEV(v) AS b, CORR(x, v) AS c, COVAR_SAMP(v, k) AS d"
    " FROM s1 [RANGE 10 s] GROUP BY g",
    "distinct": "SELECT g, SUM(DISTINCT k) AS a, AVG(DISTINCT x) AS b, COUNT(DISTINCT k, v) AS c"
    " FROM s1 [RANGE 10 s] GROUP BY g",
    "conditions": "SELECT BOOL_AND(v > 3) AS a, BOOL_OR(k = 1) AS b, COUNT_IF(x > 2) AS c,"
    " SUM(v) FILTER (WHERE k > 1) AS d FROM s1 [ROWS 5]",
    "rollup": "SELECT g, k, COUNT(*) AS n, GROUPING(k) AS o FROM s1 [RANGE 10 s]"
    " GROUP BY ROLLUP(g, k)",
    "sets": "SELECT g, k, SUM(v) AS s FROM s1 [RANGE 10 s] GROUP BY GROUPING SETS ((g, k), k, ())",
    "cube": "SELECT g, k, MAX(v) AS s FROM s1 [RANGE 6 s] GROUP BY CUBE(g, k)",
}
"""The aggregates and groupings beside those of state format 5."""
WRITTEN = 2
"""So many batches are in the golden checkpoints; the others come after."""


def batches(count: int = 4, rows: int = 8) -> list[dict[str, pa.Table]]:
    made = []
    for at in range(0, count * rows, rows):
        listed = {name: [_row(name, n) for n in range(at, at + rows)] for name in ("s1", "s2")}
        made.append({name: table_of(name, rows) for name, rows in listed.items()})
    return made


def _row(stream: str, n: int) -> Row:
    salt = 3 if stream == "s1" else 5
    key = None if n % 7 == 6 else n * salt % 4
    return {"ts": n * SECOND, "seq": n, "k": key, "g": "abc"[n * salt % 3], "v": n, "x": n / 2}


def golden_runner(folder: Path, version: int) -> HereRunner:
    strategy = STRATEGIES[version]
    return runner_of(
        folder, catalog(0), QUERIES[version], buckets=2, strategy=strategy, panes=False,
        sharing=SHARING - {FIRST_LAST.name},
    )  # fmt: skip


def panes_runner(folder: Path, sharing: Collection[str] = SHARING) -> HereRunner:
    return runner_of(folder, catalog(0), PANES, buckets=2, sharing=sharing)


def joins_runner(folder: Path, buckets: int = 2) -> HereRunner:
    return runner_of(folder, catalog(0), JOINS, buckets, programs=joined_programs())


def joined_programs() -> dict[str, Program]:
    peers = tuple(JOINS.values())
    return {name: program_of(cql, catalog(0), peers=peers) for name, cql in JOINS.items()}


def windows_runner(folder: Path) -> HereRunner:
    """Finished windows, OVER and ASOF JOIN."""
    return runner_of(folder, catalog(0), TEXTS, buckets=2)


def aggregates_runner(folder: Path) -> HereRunner:
    return runner_of(folder, catalog(0), AGGREGATES, buckets=2, panes=False)


def write(runner: HereRunner) -> None:
    for batch in batches()[:WRITTEN]:
        runner.feed(batch, {})
    vacuum(runner.repository, grace=0)


if __name__ == "__main__":
    place, kind = Path(sys.argv[1]), sys.argv[2]
    named: dict[str, Callable[[Path], HereRunner]] = {
        "panes": panes_runner,
        "joins": joins_runner,
        "windows": windows_runner,
        "aggregates": aggregates_runner,
    }
    write(named[kind](place) if kind in named else golden_runner(place, int(kind)))
