"""A small pipeline with a checkpoint on disk, made without Spark, and what it must answer."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from mayfly.cql import Insert, catalog_after, parse
from mayfly.lifetime import MIN_TIME
from mayfly.pipeline.declared_catalog import declarations
from mayfly.plan.catalog import RelationDefinition
from mayfly.runtime.relation_log import Changing
from mayfly.storage import SetProperties
from tests.property.shared_runs import HereRunner, runner_of

SECOND = 1_000_000
CATALOG = catalog_after(
    parse(
        """CREATE STREAM clicks (ts TIMESTAMP, user STRING, page STRING, n BIGINT)
             FROM json('in') TIMESTAMP BY ts;
           CREATE STREAM views (ts TIMESTAMP, user STRING) FROM json('in2') TIMESTAMP BY ts;
           CREATE RELATION people (user STRING, town STRING) KEY user;
           CREATE RELATION unread (id BIGINT) KEY id;"""
    )
)
QUERIES = {
    "recent": "SELECT user, page, n FROM clicks [RANGE 10 s]",
    "totals": "SELECT user, COUNT(*) AS clicks, SUM(n) AS n FROM clicks [RANGE 20 s] GROUP BY user",
    "towns": "SELECT c.user, p.town FROM clicks [RANGE 5 s] c, people p WHERE c.user = p.user",
    "fresh": "SELECT Istream(user, page) FROM clicks [RANGE 10 s]",
}
PEOPLE = (("ann", "Kiel"), ("bob", "Bonn"))
Row = dict[str, Any]


def clicks(first: int, last: int) -> list[Row]:
    """One row a second, the same every time; some have no user."""
    return [
        {
            "ts": second * SECOND,
            "user": (None, "ann", "bob", "eve")[second * 7 % 4],
            "page": f"p{second % 3}",
            "n": second * 5 % 11,
        }
        for second in range(first, last)
    ]


def table_of(rows: list[Row]) -> pa.Table:
    schema = pa.schema(
        [("ts", pa.timestamp("us", "UTC")), ("user", pa.string()), ("page", pa.string()),
         ("n", pa.int64())]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=schema)


def people(*changes: str) -> Changing:
    definition = CATALOG.lookup("people")
    assert isinstance(definition, RelationDefinition)
    changing = Changing(definition)
    listed = ", ".join(f"('{user}', '{town}')" for user, town in PEOPLE)
    for text in (f"INSERT INTO people VALUES {listed}", *changes):
        (statement,) = parse(text, CATALOG)
        assert isinstance(statement, Insert) or text
        changing.carry_out(statement, MIN_TIME)  # type: ignore[arg-type]
    return changing


def pipeline(folder: Path, queries: dict[str, str] | None = None, **settings: Any) -> HereRunner:
    """The runner of a checkpoint, as a start would leave it before the first batch."""
    texts = QUERIES if queries is None else queries
    runner = runner_of(folder, CATALOG, texts, **settings)
    runner.relations = {"people": people()}
    described = {
        name: {"text": text, "strategy": "UPA", "streams": ["clicks"], "since": None}
        for name, text in texts.items()
    }
    properties = {"queries": described, "declared": declarations(CATALOG), "zone": "UTC"}
    runner.repository.commit(runner.repository.current(), [SetProperties(properties)])
    return runner


def fed(folder: Path, until: int = 30, step: int = 10, **settings: Any) -> HereRunner:
    """With the clicks of so many seconds; the last of them is open."""
    runner = pipeline(folder, **settings)
    for first in range(0, until, step):
        runner.feed({"clicks": table_of(clicks(first, min(first + step, until)))}, {})
    return runner


def expected(name: str, second: int) -> list[tuple[Any, ...]]:
    """What a view holds at a second, by the definition of its window."""
    length = {"recent": 10, "totals": 20, "towns": 5}[name]
    rows = clicks(max(0, second - length + 1), second + 1)
    answer: list[tuple[Any, ...]]
    if name == "recent":
        answer = [(row["user"], row["page"], row["n"]) for row in rows]
    elif name == "towns":
        towns = dict(PEOPLE)
        answer = [(row["user"], towns[row["user"]]) for row in rows if row["user"] in towns]
    else:
        groups = defaultdict(list)
        for row in rows:
            groups[row["user"]].append(row["n"])
        answer = [(user, len(values), sum(values)) for user, values in groups.items()]
    return sorted(answer, key=str)


def tuples(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)
