"""Answers do not depend on how many buckets there are, nor on what else runs beside a query."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.cql import bind_query
from mayfly.optimizer import explain
from mayfly.pipeline.continuous import ContinuousRun
from mayfly.pipeline.sharing import shared
from mayfly.pipeline.staging import staged
from mayfly.plan.physical import Place
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
PAIRS = "SELECT x.k AS k, x.v AS v FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y WHERE x.k = y.k"
THREE = "SELECT x.v, y.v AS w, z.w AS u FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y, s3 [RANGE 7 s] z"
IN_TURN = f"{THREE} WHERE x.k = y.k AND x.g = y.g AND y.k = z.k"
"""Explained as one join by what all three have in common; it runs as two."""
STAGES = {
    # Rows stay where an equal key has brought them, whatever size its numbers have.
    f"{THREE} WHERE x.k = y.k AND x.k = z.k": 1,
    f"{THREE} WHERE x.g = y.g AND x.g = z.h": 1,
    f"{THREE} WHERE x.k = y.k AND x.k = z.k + 0": 1,
    f"SELECT j.k, COUNT(*) AS n FROM ({PAIRS}) j GROUP BY j.k": 1,
    f"SELECT DISTINCT j.k FROM ({PAIRS}) j WHERE j.v > 0": 1,
    "SELECT c.k, c.n, y.v FROM (SELECT k, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k) c,"
    " s2 [RANGE 8 s] y WHERE c.k = y.k": 1,
    "SELECT k, COUNT(*) AS n FROM s1 [PARTITION BY k ROWS 2] GROUP BY k": 1,
    # They move where they need another place.
    f"{THREE} WHERE x.k = y.k AND x.g = z.h": 2,
    IN_TURN: 2,
    f"{THREE} WHERE x.k = y.k AND x.x = z.w": 2,
    f"SELECT TRY_CAST(j.k AS TINYINT) AS t, COUNT(*) AS n FROM ({PAIRS}) j"
    " GROUP BY TRY_CAST(j.k AS TINYINT)": 2,
    # Rows without a key count on the left of a negation, and have a place of their own there.
    f"SELECT j.k, j.v FROM ({PAIRS}) j WHERE NOT EXISTS"
    " (SELECT * FROM s3 [RANGE 5 s] z WHERE z.k = j.k)": 2,
    "SELECT x.k, x.v FROM s1 [PARTITION BY k ROWS 2] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k AND y.v > x.v)": 2,
    # What waits in a window over results is moved to other buckets by its time.
    "SELECT z.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 x, s2 y WHERE x.k = y.k)"
    " [RANGE 6 s SLIDE 3 s] z GROUP BY z.k": 2,
    f"SELECT j.k + 1 AS l, COUNT(*) AS n FROM ({PAIRS}) j GROUP BY j.k + 1": 2,
    "SELECT j.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 [RANGE 9 s] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k)) j GROUP BY j.k": 2,
}
CASES |= {cql: (cql,) for cql in STAGES}


@pytest.mark.parametrize("cql", STAGES)
def test_rows_move_only_to_where_they_are_not(cql: str) -> None:
    assert staged(shared({"q": program_of(cql, catalog(0))}, {})).stages == STAGES[cql]


@pytest.mark.parametrize("cql", [one for one in STAGES if one != IN_TURN])
def test_what_is_explained_as_fused_is_fused(cql: str) -> None:
    plan = explain(bind_query(cql, catalog(0)), cql).chosen.physical
    kernels = {one.stage for one in plan.root.walk() if one.place is Place.KERNEL}
    assert len(kernels) == STAGES[cql]


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
