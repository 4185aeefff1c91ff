"""Forms put together as people put them: right at every instant, by DuckDB over the rows alive."""

from __future__ import annotations

from random import Random

import pytest

from mayfly import LocalSession
from mayfly.testing.instant_oracle import SECOND, InstantOracle, TwoTexts
from tests.property.written_cases import KINDS, WrittenQuery, random_streams, written_queries

QUERIES = written_queries()


def check(query: WrittenQuery, seed: str) -> None:
    rng = Random(seed)
    streams = random_streams(rng)
    oracle, local = InstantOracle(streams), LocalSession()
    for name, kinds in KINDS.items():
        local.stream(name, kinds, sequence="seq")
    query = query.within(f"[RANGE {streams.length // SECOND} SECONDS]")
    for statement in query.before:
        local.execute(statement)
    strategy, buckets = rng.choice(("UPA", "UPA", "NT", "DIRECT")), rng.choice((1, 1, 3))
    run = local.query(query.cql, strategy=strategy, buckets=buckets)
    own = run.clocks.streams
    for batch in streams.batches(rng):
        run.feed({name: table for name, table in batch.items() if name in own})
    run.feed({}, dict.fromkeys(own, oracle.end + 1))
    problem = oracle.difference(TwoTexts(query.cql, query.sql), run)
    oracle.close()
    assert not problem, f"{strategy}: {problem}"


def test_the_answers_are_those_of_the_rows_alive() -> None:
    assert len({query.name for query in QUERIES}) == len(QUERIES) >= 120
    for query in QUERIES:
        check(query, query.name)


@pytest.mark.slow
def test_so_they_are_over_many_rows() -> None:
    for query in QUERIES:
        for number in range(30):
            check(query, f"{query.name} {number}")
