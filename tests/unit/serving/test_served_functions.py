"""What panes in memory answer besides sums: each function as DuckDB has it, or refused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.errors import InvalidSetting
from mayfly.serving.periodic.served_pipeline import ServedPipeline
from tests.property.served_cases import ServedCase, ServedRun, random_rows, tuples


def case(calls: str, length: int = 4) -> ServedCase:
    served = ServedCase(Random(1))
    served.length, served.period, served.calls = length, 1, calls
    served.keys, served.where, served.having = "", "", ""
    served.scan, served.isolation, served.overload = "SYNOPSIS", "LATEST", "LATE"
    return served


@pytest.mark.parametrize(
    ("calls", "oracle"),
    [
        ("MEDIAN(x) AS m, MODE(b) AS c", None),
        ("COUNT(*) FILTER (WHERE x > 2) AS n", None),
        # The window has more panes than a histogram has buckets; panes are counted exactly.
        ("APPROX_COUNT(*, 0.05) AS n", "COUNT(*) AS n"),
        (
            "APPROX_SUM(b, 0.05) AS t, APPROX_COUNT_LOW(*, 0.05) AS l",
            "SUM(b) AS t, COUNT(*) AS l",
        ),
    ],
)
def test_functions_of_served_queries(tmp_path: Path, calls: str, oracle: str | None) -> None:
    query = case(calls, 300 if oracle else 4)
    run = ServedRun(tmp_path / "ck", {"q": query})
    rng = Random(2)
    run.feed(random_rows(rng, 0, 250))
    run.feed(random_rows(rng, 250, 320))
    served = ServedPipeline(tmp_path / "ck")
    run.follow(served)
    served.catch_up()
    served.work_through()
    query.calls = oracle or calls
    assert not served.refused
    for answer in run.answers:
        assert tuples(answer.rows) == query.expected(run.rows, answer)
    assert run.answers


@pytest.mark.parametrize("calls", ["SUM(DISTINCT x) AS s", "FIRST_VALUE(x) AS f"])
def test_what_needs_rows_is_refused(tmp_path: Path, calls: str) -> None:
    with pytest.raises(InvalidSetting, match="SERVE answers from panes, and this query has none"):
        ServedRun(tmp_path / "ck", {"q": case(calls)})
