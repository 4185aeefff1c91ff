"""Answers do not depend on how many buckets there are, nor on what else runs beside a query."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import settings

from mayfly.cql import bind_query
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.model import Place
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.stream.query_checkpoint import SINCE, RegisteredQueries
from mayfly.spark.stream.query_history import settle
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
BOTH = "SELECT x.k AS k, x.g AS g, x.v AS v FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y"
BOTH += " WHERE x.k = y.k AND x.g = y.g"
WITHOUT = "WHERE NOT EXISTS (SELECT * FROM s3 [RANGE 5 s] z"
THREE = "SELECT x.v, y.v AS w, z.w AS u FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y, s3 [RANGE 7 s] z"
IN_TURN = f"{THREE} WHERE x.k = y.k AND x.g = y.g AND y.k = z.k"
MEETING_AT_LAST = f"SELECT Istream(j.v) FROM ({PAIRS}) j"
"""Equal rows meet when they are sent."""
STAGES = {
    # Rows stay where an equal key has brought them, whatever size its numbers have.
    f"{THREE} WHERE x.k = y.k AND x.k = z.k": 1,
    f"{THREE} WHERE x.g = y.g AND x.g = z.h": 1,
    f"{THREE} WHERE x.k = y.k AND x.k = z.k + 0": 1,
    IN_TURN: 1,
    f"SELECT j.k, COUNT(*) AS n FROM ({PAIRS}) j GROUP BY j.k": 1,
    f"SELECT DISTINCT j.k FROM ({PAIRS}) j WHERE j.v > 0": 1,
    "SELECT c.k, c.n, y.v FROM (SELECT k, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k) c,"
    " s2 [RANGE 8 s] y WHERE c.k = y.k": 1,
    "SELECT k, COUNT(*) AS n FROM s1 [PARTITION BY k ROWS 2] GROUP BY k": 1,
    # They move where they need another place. Where others have to come first, what stays waits.
    f"SELECT p.v, q.v AS w FROM ({PAIRS}) p, (SELECT x.k AS k, x.v AS v FROM s1 [RANGE 9 s] x,"
    " s3 [RANGE 7 s] z WHERE x.g = z.h) q WHERE p.k = q.k": 2,
    f"{THREE} WHERE x.k = y.k AND x.g = z.h": 2,
    f"{THREE} WHERE x.k = y.k AND x.x = z.w": 2,
    f"SELECT TRY_CAST(j.k AS TINYINT) AS t, COUNT(*) AS n FROM ({PAIRS}) j"
    " GROUP BY TRY_CAST(j.k AS TINYINT)": 2,
    f"SELECT j.k + 1 AS l, COUNT(*) AS n FROM ({PAIRS}) j GROUP BY j.k + 1": 2,
    # Rows without a key count on the left of a negation; NULL has one place for all operators.
    f"SELECT j.k, j.v FROM ({PAIRS}) j {WITHOUT} WHERE z.k = j.k)": 1,
    f"SELECT j.k, j.v FROM s1 [RANGE 9 s] j {WITHOUT} WHERE z.k = j.k AND z.w > j.x)": 1,
    f"SELECT j.k, j.v FROM s1 [PARTITION BY k ROWS 2] j {WITHOUT} WHERE z.k = j.k)": 1,
    f"SELECT j.k, j.v FROM s1 [PARTITION BY k ROWS 2] j {WITHOUT}"
    " WHERE z.k = j.k AND z.w > j.x)": 1,
    f"SELECT j.k, COUNT(*) AS n FROM s1 [RANGE 9 s] j {WITHOUT} WHERE z.k = j.k) GROUP BY j.k": 1,
    f"SELECT j.k, COUNT(*) AS n FROM s1 [RANGE 9 s] j {WITHOUT} WHERE z.k = j.k AND z.w > j.x)"
    " GROUP BY j.k": 1,
    f"SELECT j.k, j.v FROM s1 [RANGE 9 s] j {WITHOUT} WHERE z.k = j.k) AND NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = j.k)": 1,
    f"SELECT j.k, j.v, y.v AS w FROM s1 [RANGE 9 s] j, s2 [RANGE 6 s] y {WITHOUT} WHERE z.k = j.k)"
    " AND j.k = y.k": 1,
    # A key of several columns is a key like any other, ...
    f"SELECT j.k, j.g, COUNT(*) AS n FROM ({BOTH}) j GROUP BY j.k, j.g": 1,
    f"SELECT j.k, j.v FROM ({BOTH}) j {WITHOUT} WHERE z.k = j.k AND z.h = j.g)": 1,
    "SELECT c.k, c.n, y.v FROM (SELECT k, g, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k, g) c,"
    " s2 [RANGE 8 s] y WHERE c.k = y.k AND c.g = y.g": 1,
    "SELECT x.v, y.v AS w FROM s1 [PARTITION BY k, g ROWS 2] x, s2 [RANGE 8 s] y"
    " WHERE x.k = y.k AND x.g = y.g": 1,
    f"SELECT j.g, j.k, COUNT(*) AS n FROM s1 [RANGE 9 s] j {WITHOUT} WHERE z.k = j.k AND z.h = j.g)"
    " GROUP BY j.g, j.k": 1,
    # ... and rows of one group are in one bucket where a part of its key has brought them.
    f"SELECT j.g, j.k, COUNT(*) AS n FROM ({BOTH}) j GROUP BY j.g, j.k": 1,
    f"SELECT j.v, j.k, COUNT(*) AS n FROM ({BOTH}) j GROUP BY j.v, j.k": 2,
    f"SELECT j.v, j.k, COUNT(*) AS n FROM ({PAIRS}) j GROUP BY j.v, j.k": 1,
    f"SELECT DISTINCT j.v, j.k FROM ({PAIRS}) j": 1,
    f"SELECT Istream(j.v, j.k) FROM ({PAIRS}) j": 1,
    MEETING_AT_LAST: 2,
    # Windows over results, unions and differences leave rows where they are.
    "SELECT z.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 x, s2 y WHERE x.k = y.k)"
    " [RANGE 6 s SLIDE 3 s] z GROUP BY z.k": 1,
    "SELECT z.v FROM (SELECT x.k AS k, x.v AS v FROM s1 x, s2 y WHERE x.k = y.k)"
    " [PARTITION BY k ROWS 2] z": 1,
    f"SELECT u.k, COUNT(*) AS n FROM (SELECT k FROM ({PAIRS}) j UNION ALL"
    " SELECT k FROM s1 [RANGE 3 s]) u GROUP BY u.k": 1,
    f"SELECT u.k, COUNT(*) AS n FROM (SELECT k FROM ({PAIRS}) j UNION ALL"
    " SELECT k FROM s1 [PARTITION BY k ROWS 2]) u GROUP BY u.k": 1,
    "SELECT z.k, COUNT(*) AS n FROM (SELECT k, v FROM s1 UNION ALL SELECT k, v FROM s2)"
    " [PARTITION BY k ROWS 2] z GROUP BY z.k": 1,
    "SELECT j.k, j.g, COUNT(*) AS n FROM s1 [PARTITION BY v ROWS 2] j"
    f" {WITHOUT} WHERE z.k = j.k AND z.h = j.g AND z.w > j.v) GROUP BY j.k, j.g": 2,
    f"SELECT k FROM ({PAIRS}) j EXCEPT ALL SELECT k FROM s2 [RANGE 3 s]": 1,
    f"SELECT k, v FROM ({PAIRS}) j EXCEPT ALL SELECT k, v FROM s2 [RANGE 3 s]": 2,
}
CASES |= {cql: (cql,) for cql in STAGES}
COUNTED = "SELECT x.k AS a, y.k AS b, x.g AS g, COUNT(*) AS n FROM s1 [RANGE 90 s] x,"
COUNTED += " s2 [RANGE 80 s] y WHERE x.k = y.k GROUP BY x.k, y.k, x.g"
BY_G = "SELECT c.n AS c, c.g AS g FROM (SELECT g, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY g) c"
BOTH_COUNTED = COUNTED.replace("x.k = y.k", "x.k = y.k AND x.g = y.g")
TWICE = f"SELECT w.c AS a, COUNT(*) AS n FROM ({BY_G}) w, s2 [RANGE 40 s] y WHERE w.c = y.k"
BY_K = "SELECT k AS a, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k"
BY_BOTH = "SELECT k AS a, g, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k, g"
SHARING = {
    # Each query after one that reads part of the same; it goes on when the other has left.
    f"SELECT p.b, p.n, COUNT(*) AS z FROM ({COUNTED}) p, ({BY_G}) w WHERE p.a = w.c"
    " GROUP BY p.b, p.n": f"SELECT p.a, p.n FROM ({COUNTED}) p WHERE p.n > 0",
    f"SELECT u.a, u.n, COUNT(*) AS z FROM (SELECT a, n FROM ({COUNTED}) p UNION ALL"
    f" SELECT a, n FROM ({TWICE} GROUP BY w.c) q) u GROUP BY u.a, u.n":
    f"SELECT p.a, p.n, w.c FROM ({COUNTED}) p, ({BY_G}) w WHERE p.a = w.c",
    f"SELECT p.g, p.a, COUNT(*) AS z FROM ({BOTH_COUNTED}) p WHERE NOT EXISTS"
    f" (SELECT * FROM ({BY_G}) w WHERE w.c = p.a AND w.g = p.g) GROUP BY p.g, p.a":
    f"SELECT p.a, p.n FROM ({BOTH_COUNTED}) p WHERE p.n > 0",
    # What goes straight to a later stage may be cut, with a key and without.
    f"SELECT a, n FROM ({COUNTED}) p UNION ALL SELECT a, n FROM ({TWICE} GROUP BY w.c) q":
    f"SELECT p.a, p.n FROM ({COUNTED}) p WHERE p.n > 0",
    f"SELECT p.a, p.n FROM ({BY_K}) p WHERE NOT EXISTS (SELECT * FROM ({BY_G}) w WHERE w.c = p.a)":
    f"SELECT p.a, p.n FROM ({BY_K}) p WHERE p.n > 0",
    f"SELECT p.n FROM ({BY_BOTH}) p WHERE NOT EXISTS"
    f" (SELECT * FROM ({BY_G}) w WHERE w.c = p.a AND w.g = p.g)":
    f"SELECT p.a, p.n FROM ({BY_BOTH}) p WHERE p.n > 0",
}  # fmt: skip


def places(queries: dict[str, str]) -> dict[str, object]:
    stages = staged(
        shared({name: program_of(cql, catalog(0)) for name, cql in queries.items()}, {})
    )
    found: dict[str, object] = {one.name: (one.place, one.bucketed) for one in stages.tasks}
    for feed in stages.feeds:
        key = feed.route.key
        names = getattr(key, "names", None) or getattr(getattr(key, "operator", None), "name", "")
        found[f"feed of {stages.tasks[feed.task].name}"] = (names, feed.route.single)
    return found | {one.query: (one.place, one.route.single) for one in stages.answers}


def test_where_rows_lie_does_not_depend_on_other_queries() -> None:
    rng, listed = Random(3), list(STAGES)
    pairs = [*SHARING.items(), *((rng.choice(listed), rng.choice(listed)) for _ in range(40))]
    for one, other in pairs:
        together = places({"one": one, "other": other})
        assert places({"other": other, "one": one}) == together
        for alone in ({"one": one}, {"other": other}):
            assert places(alone).items() <= together.items(), alone


@pytest.mark.halved
@pytest.mark.parametrize("cql", SHARING)
@pytest.mark.parametrize("buckets", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_query_that_leaves_changes_no_answer_of_others(
    tmp_path: Path, cql: str, buckets: int
) -> None:
    known = catalog(0)
    for seed in range(4):
        folder, rng = tmp_path / f"{seed}", Random(seed)
        here = runner_of(folder, known, {"other": SHARING[cql], "one": cql}, buckets)
        read = [stream.name for stream in here.dataflow.streams]
        rows = {stream: _rows(rng, stream, 60) for stream in read}
        run = ContinuousRun(program_of(cql, known), known)
        for at in range(0, 72, 8):
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 60 else {}
            batch = {stream: table_of(stream, rows[stream][at : at + 8]) for stream in read}
            here.feed(batch, beats)
            run.feed(batch, beats)
            if at == 24:
                here = runner_of(folder, known, {"one": cql}, buckets, streams=read)
                left = RegisteredQueries(
                    here.repository, buckets, {"one": {SINCE: None}}, (), ("other",)
                )
                settle(here, left)
        assert told(results_of(here, "one"), True) == told(run.lifetimes(), True), seed


@pytest.mark.parametrize("cql", STAGES)
def test_rows_move_only_to_where_they_are_not(cql: str) -> None:
    assert staged(shared({"q": program_of(cql, catalog(0))}, {})).stages == STAGES[cql]


@pytest.mark.parametrize("cql", STAGES)
def test_what_is_explained_as_fused_is_fused(cql: str) -> None:
    plan = explain(bind_query(cql, catalog(0)), catalog(0), cql).chosen.physical
    kernels = {one.stage for one in plan.root.walk() if one.place is Place.KERNEL}
    assert len(kernels) == STAGES[cql]


@pytest.mark.halved
@pytest.mark.parametrize("buckets", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", CASES)
def test_buckets_change_no_answer(tmp_path: Path, name: str, buckets: int) -> None:
    known = catalog(0)
    queries = {f"q{number}": cql for number, cql in enumerate(CASES[name])}
    for seed in range(2 if settings().max_examples < 100 else 4):
        rng = Random(seed)
        together = runner_of(tmp_path / f"{seed}", known, queries, buckets)
        read = [stream.name for stream in together.dataflow.streams]
        rows = {stream: _rows(rng, stream, 40) for stream in read}
        runs = {one: ContinuousRun(program_of(cql, known), known) for one, cql in queries.items()}
        for at in range(0, 48, 8):
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 40 else {}
            batch = {stream: table_of(stream, rows[stream][at : at + 8]) for stream in read}
            together.feed(batch, beats)
            for run in runs.values():
                run.feed(batch, beats)
        for one, run in runs.items():
            view = run.program.sent is None
            wanted = told(run.lifetimes() if view else run.changes(), view)
            assert told(results_of(together, one), view) == wanted, queries
