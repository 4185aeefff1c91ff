"""Answers do not depend on how many buckets there are, nor on what else runs beside a query."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.pipeline.continuous import ContinuousRun
from tests.property.continuous_cases import SECOND, _rows, catalog, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of

CASES = {
    "one answer for all rows beside one for each group": (
        "SELECT COUNT(*) AS n FROM s1 [RANGE 5 s]",
        "SELECT g, COUNT(*) AS n FROM s1 [RANGE 5 s] GROUP BY g",
    ),
    "rows that several buckets cut meet in one": (
        "SELECT x.v, y.v AS w FROM s1 [PARTITION BY g ROWS 2] x, s2 [RANGE 5 s] y WHERE x.k = y.k",
    ),
    "a selection behind a union": (
        "SELECT z.k, COUNT(*) AS n FROM (SELECT k, v FROM s1 [RANGE 5 s] UNION ALL"
        " SELECT k, v FROM s2 [RANGE 3 s]) z WHERE z.v + z.k > 2 GROUP BY z.k",
    ),
}


@pytest.mark.parametrize("buckets", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_buckets_change_no_answer(tmp_path: Path, name: str, buckets: int) -> None:
    known = catalog(0)
    queries = {f"q{number}": cql for number, cql in enumerate(CASES[name])}
    for seed in range(4):
        rng = Random(seed)
        together = runner_of(tmp_path / f"{seed}", known, queries, buckets)
        read = [stream.name for stream in together.wiring.streams]
        rows = {stream: _rows(rng, stream, 40) for stream in read}
        runs = {one: ContinuousRun(program_of(cql, known), known) for one, cql in queries.items()}
        for at in range(0, 48, 8):
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 40 else {}
            batch = {stream: table_of(stream, rows[stream][at : at + 8]) for stream in read}
            together.feed(batch, beats)
            for run in runs.values():
                run.feed(batch, beats)
        for one, run in runs.items():
            assert told(results_of(together, one), True) == told(run.lifetimes(), True), queries
