"""One-time queries that are answered from panes of periodic ones, against an independent engine.

Queries come and go on a checkpoint; DuckDB answers over the rows of the window that the answer's
``as_of`` names. What panes cannot answer must be refused, and some must be answered.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import mayfly
from mayfly.cql import CqlError
from mayfly.optimizer.rules.share_panes import SHARING
from mayfly.pipeline.declared_catalog import declarations
from mayfly.storage import SetProperties
from tests.property.test_pane_sharing import CATALOG, Pipeline, harmless
from tests.property.test_panes import Query, admitted, database, oracle, random_batches

many = settings(
    max_examples=6 if settings().max_examples < 200 else settings().max_examples,
    phases=[Phase.explicit, Phase.generate],
)
DURATIONS = (1, 3, 4, 6, 7, 10, 12, 28, 40)
FURTHER = ("", "", "g = 'a'", "k > 1", "g IS NULL", "v > 0")


def describe(pipeline: Pipeline) -> None:
    """As a start on Spark leaves a checkpoint."""
    repository = pipeline.runner().repository
    entries = {
        name: {**entry, "text": pipeline.queries[name].cql, "strategy": "UPA", "streams": ["s"]}
        for name, entry in pipeline.entries.items()
    }
    properties = {"queries": entries, "declared": declarations(CATALOG), "zone": "UTC"}
    repository.commit(repository.current(), [SetProperties(properties)])


def asked(rng: Random, queries: list[Query]) -> tuple[str, Query]:
    """A one-time query near one of those that run, and its body for the oracle."""
    near = rng.choice(queries)
    keys = near.keys if rng.random() < 0.7 else tuple(rng.sample(("g", "k"), rng.randint(0, 2)))
    calls = near.calls if rng.random() < 0.6 else rng.choice(queries).calls
    own = near.where if rng.random() < 0.8 else ""
    terms = [term for term in (own, rng.choice(FURTHER)) if term]
    where = " AND ".join(f"({term})" for term in terms)
    duration = near.duration if rng.random() < 0.4 else rng.choice(DURATIONS)
    query = Query(keys, calls, where, duration, 1, 0)
    named = ", ".join([*keys, *(f"{call} AS c{n}" for n, call in enumerate(calls))])
    tail = (f" WHERE {where}" if where else "") + (f" GROUP BY {', '.join(keys)}" if keys else "")
    return f"SELECT {named} FROM s [RANGE {duration} us]{tail}", query


def check(pipeline: Pipeline, rows: list[dict[str, Any]], rng: Random, seen: Counter[str]) -> None:
    describe(pipeline)
    reader = mayfly.open(pipeline.folder)
    for _ in range(6):
        sql, query = asked(rng, list(pipeline.queries.values()))
        try:
            answer = reader.query(sql)
        except CqlError as error:
            seen["refused" if "not kept" in error.message else error.message] += 1
            continue
        seen["partial" if answer.partial else "answered"] += 1
        if not answer.partial:
            shown = sorted((tuple(row.values()) for row in answer.rows.to_pylist()), key=str)
            assert shown == oracle(query, rows, answer.as_of), (sql, answer.as_of)


TOTAL = Counter[str]()


@many
@given(seed=st.integers(0, 2**48))
@example(15714)  # windows with gaps between them
def test_answers_are_those_of_the_rows(seed: int) -> None:
    rng = Random(seed)
    keys, where = rng.choice(((), ("g",), ("k", "g"))), rng.choice(("", "v > 1"))
    batches = random_batches(rng, rng.randint(3, 7), (3, 8, 20))
    number = 0

    def some(count: int) -> dict[str, Query]:
        nonlocal number
        number += count
        made = [replace(harmless(rng, keys), where=where) for _ in range(count)]
        return {f"q{number - count + n}": query for n, query in enumerate(made)}

    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(folder, rng.randint(1, 3), frozenset(SHARING))
        pipeline.begin(some(rng.randint(1, 3)))
        for done, batch in enumerate(batches, start=1):
            if rng.random() < 0.3:
                pipeline.add(some(1))
            if len(pipeline.queries) > 1 and rng.random() < 0.2:
                pipeline.drop(rng.choice(list(pipeline.queries)))
            pipeline.feed(batch)
            if done > 1 and rng.random() < 0.5:
                check(pipeline, admitted(batches[:done]), rng, TOTAL)
        check(pipeline, admitted(batches), rng, TOTAL)


def test_most_of_what_fits_was_answered() -> None:
    """Behind the examples above, so that they are not all refused."""
    assert database() is not None
    if not TOTAL:
        test_answers_are_those_of_the_rows()
    assert set(TOTAL) <= {"answered", "partial", "refused"}
    assert TOTAL["answered"] > TOTAL.total() // 10, TOTAL
