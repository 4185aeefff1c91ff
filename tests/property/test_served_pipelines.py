"""Every served answer is that of DuckDB over the panes that it claims, as of its as_of."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.serving.periodic.served_pipeline import ServedPipeline
from tests.property.served_cases import ServedCase, ServedRun, random_rows, tuples


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_the_rows_in_their_windows(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    queries = {f"q{n}": ServedCase(rng) for n in range(14)}
    run = ServedRun(tmp_path / "ck", queries, buckets=rng.choice((1, 3)))
    second = 0
    run.feed(random_rows(rng, 0, 2))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    while second < 26:
        following = second + rng.choice((1, 1, 2, 5))
        run.feed(random_rows(rng, second + 2, following + 2))
        second = following
        served.catch_up()
        case = rng.choice(list(queries.values()))
        pending = served.ask(case.once)
        served.work_through()
        if pending is not None:
            assert pending.answer is not None
            rows = case.expected(run.rows, pending.answer)
            assert tuples(pending.answer.rows) == rows
    assert {answer.query for answer in run.answers} >= {
        name for name, query in queries.items() if query.period < 6
    }
    assert not served.refused
    run.check(served)
