"""A checkpoint that moves to other buckets or another strategy answers as if it had not."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mayfly.arrays.order import Int64s
from mayfly.errors import InvalidSetting, UnsupportedFormat
from mayfly.faults import on_reach
from mayfly.kernels import window_join
from mayfly.kernels.operator import Operator
from mayfly.physical import stager, stages
from mayfly.physical.shared_program import shared
from mayfly.plan.catalog import Catalog
from mayfly.plan.spread import Spread
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.stream.query_migration import QueryMigration
from mayfly.spark.stream.state_format import STATE_FORMAT, upgrade_state
from mayfly.storage import Repository, SetProperties, vacuum, verify
from mayfly.storage.segment import DATA
from mayfly.testing.random_queries import SHAPES, STREAMS, random_query
from tests.property import former_codes
from tests.property.continuous_cases import SECOND, _cut, _rows, catalog, table_of, told
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of
from tests.property.test_buckets import SHARING, STAGES

seeds = st.integers(0, 2**48)
some = settings(max_examples=max(4, settings().max_examples // 10), phases=[Phase.generate])
MORE = (
    "SELECT x.v, y.v AS w FROM s1 [PARTITION BY g ROWS 2] x, s2 [RANGE 5 s] y WHERE x.k = y.k",
    "SELECT k, v FROM s1 [PARTITION BY k ROWS 2] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k AND y.v > x.v)",
    "SELECT k FROM s1 [RANGE 6 s] UNION ALL SELECT k FROM s2 [PARTITION BY k ROWS 2]",
    "SELECT v FROM s1 [PARTITION BY g ROWS 3] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k)",
    "SELECT x.g, y.g AS h, z.v FROM s1 [RANGE 9 s] x, s2 [PARTITION BY k ROWS 2] y,"
    " s1 [RANGE 5 s] z WHERE x.k = y.k AND y.k = z.k",
    "SELECT Istream(g, COUNT(*) AS n, MAX(v) AS m) FROM s1 [RANGE 8 s] GROUP BY g",
    "SELECT g, COUNT(*) AS n FROM s1 [RANGE 20 s INTERNAL SLIDE 5 s] GROUP BY g",
    "SELECT COUNT(*) AS n FROM s1 [ROWS 4]",
    "SELECT g, v FROM s1 [PARTITION BY k ROWS 2 RANGE 7 s SLIDE 3 s]",
    "SELECT z.k, COUNT(*) AS n FROM (SELECT x.k AS k FROM s1 x, s2 y WHERE x.k = y.k)"
    " [RANGE 6 s SLIDE 3 s] z GROUP BY z.k",
    "SELECT k, v FROM s1 [PARTITION BY k ROWS 2] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k)",
    "SELECT c.k, c.n FROM (SELECT k, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k) c"
    " WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = c.k AND y.v > c.n)",
    "SELECT c.k, c.n, y.v FROM (SELECT k, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY k) c,"
    " s2 [RANGE 8 s] y WHERE c.k = y.k",
    # Rows without a part of their key come to the negation from another stage, and may be cut.
    "SELECT x.v FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k AND y.g = x.g)",
    "SELECT k, g, COUNT(*) AS n FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k AND y.g = x.g) GROUP BY k, g",
    # Results of rows without a key beside results that other stages send.
    "SELECT k FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 8 s] y"
    " WHERE y.k = x.k) UNION ALL SELECT k FROM s1 [PARTITION BY g ROWS 2]",
    "SELECT k FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 8 s] y"
    " WHERE y.k = x.k) UNION ALL SELECT k FROM s1 [ROWS 3]",
    "SELECT q.c FROM (SELECT k + 1 AS c, v AS w FROM s1 [RANGE 9 s] WHERE v > 1) q"
    " WHERE NOT EXISTS (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = q.c AND y.v > q.w)",
)
ALL = (*MORE, *STAGES)
STRATEGIES = [Strategy.UPA, pytest.param(Strategy.NT, marks=pytest.mark.slow)]


def moved(
    runner: HereRunner,
    known: Catalog,
    queries: dict[str, str],
    buckets: int,
    strategy: Strategy = Strategy.UPA,
    before: Strategy = Strategy.UPA,
) -> HereRunner:
    folder = runner.repository.directory.address
    old, new = (
        shared({name: program_of(cql, known, way) for name, cql in queries.items()}, {})
        for way in (before, strategy)
    )
    named: dict[str, dict[str, str]] = {name: {} for name in queries}
    QueryMigration(runner.repository, old, new, buckets, named).carry_out()
    return runner_of(folder, known, queries, buckets, strategy=strategy)


def same_plans(known: Catalog, queries: dict[str, str], one: Strategy, other: Strategy) -> bool:
    """Whether both strategies choose the same orders of joins."""
    programs = [[program_of(cql, known, way).plan for cql in queries.values()]
                for way in (one, other)]  # fmt: skip
    return programs[0] == programs[1]


@pytest.mark.parametrize("shape", [*SHAPES, None])
@some
@given(seeds)
def test_migrations_between_batches_change_no_answer(shape: str | None, seed: int) -> None:
    rng = Random(seed)
    known = catalog(0)
    texts = rng.sample(ALL, 2) if shape is None else [random_query(rng, shape).cql]
    queries = {f"q{number}": text for number, text in enumerate(texts)}
    rows = {name: _rows(rng, name, rng.choice((3, 9, 24))) for name in STREAMS}
    ways = rng.choice(([Strategy.UPA, Strategy.DIRECT], [Strategy.UPA], [Strategy.NT]))
    with tempfile.TemporaryDirectory() as folder:
        way, count = ways[0], rng.choice((1, 2, 3))
        here = runner_of(Path(folder), known, queries, count, strategy=way)
        read = {stream.name for stream in here.dataflow.streams}
        runs = {q: ContinuousRun(program_of(cql, known, way), known) for q, cql in queries.items()}
        for batch in [*_cut(rng, rows, 0), {}]:
            tables = {name: table_of(name, own) for name, own in batch.items() if name in read}
            beats = {} if batch else dict.fromkeys(read, 10_000 * SECOND)
            here.feed(tables, beats)
            for run in runs.values():
                own = set(run.clocks.streams)
                run.feed(
                    {n: t for n, t in tables.items() if n in own},
                    {n: at for n, at in beats.items() if n in own},
                )
            if rng.random() < 0.5:
                other, count = rng.choice(ways), rng.choice((1, 2, 3, 5))
                if not same_plans(known, queries, way, other):
                    with pytest.raises(InvalidSetting, match="another plan"):
                        moved(here, known, queries, count, other, way)
                    other = way
                here, way = moved(here, known, queries, count, other, way), other
        for name, run in runs.items():
            view = run.program.sent is None
            wanted = told(run.lifetimes() if view else run.changes(), view)
            assert told(results_of(here, name), view) == wanted, (queries, name)
        assert verify(here.repository).ok
        vacuum(here.repository, keep_versions=1, grace=0)
        directory = here.repository.directory
        assert directory.all_names(DATA) == sorted(here.repository.current().segments)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.halved
@pytest.mark.parametrize("cql", SHARING)
def test_queries_that_share_move_together(tmp_path: Path, cql: str, strategy: Strategy) -> None:
    known, queries = catalog(0), {"other": SHARING[cql], "one": cql}
    for seed in range(3):
        rng, folder = Random(seed), tmp_path / f"{seed}"
        here = runner_of(folder, known, queries, 3, strategy=strategy)
        read = [stream.name for stream in here.dataflow.streams]
        rows = {name: _rows(rng, name, 60) for name in read}
        run = ContinuousRun(program_of(cql, known, strategy), known)
        for at in range(0, 72, 8):
            batch = {name: table_of(name, rows[name][at : at + 8]) for name in read}
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 60 else {}
            here.feed(batch, beats)
            run.feed(batch, beats)
            if at % 16:
                count = rng.choice((1, 2, 3, 5))
                here = moved(here, known, queries, count, strategy, strategy)
        assert told(results_of(here, "one"), True) == told(run.lifetimes(), True), seed


def every_kind(kind: type[Any]) -> list[type[Any]]:
    return [one for sub in kind.__subclasses__() for one in (sub, *every_kind(sub))]


def as_in_format_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows move before every operator, and NULL has another place for joins and negations than
    for groups, as keys of several columns have."""

    def of_keys(columns: list[pa.Array], rows: int) -> Int64s:
        missing = np.zeros(rows, bool)
        for one in columns:
            missing |= pc.is_null(one).to_numpy(zero_copy_only=False)
        return np.where(missing, 0, former_codes.place_codes(columns, rows))

    def read_once(self: Any, task: Any) -> bool:
        return len(self.consumers[task]) <= 1

    for kind in (Operator, *every_kind(Operator)):
        monkeypatch.setattr(kind, "stays", lambda *_: False)
        monkeypatch.setattr(kind, "spread_of", lambda *_: Spread())
        monkeypatch.setattr(kind, "spread_after", lambda *_: Spread())
    monkeypatch.setattr(stager._Stager, "_goes_to_one", read_once)
    former_codes.restore(monkeypatch, one_place=False)
    monkeypatch.setattr(window_join, "group_codes", of_keys)
    monkeypatch.setattr(stages, "group_codes", former_codes.group_codes)


def as_in_format_4(monkeypatch: pytest.MonkeyPatch) -> None:
    former_codes.restore(monkeypatch, one_place=True)


TEXTS = (
    "SELECT x.v, y.v AS w FROM s1 [PARTITION BY g ROWS 3] x, s2 [RANGE 9 s] y WHERE x.g = y.g",
    "SELECT g, MAX(k) AS m FROM s1 [PARTITION BY k ROWS 2] GROUP BY g",
    "SELECT c.g, c.n, y.v FROM (SELECT g, COUNT(*) AS n FROM s1 [RANGE 9 s] GROUP BY g) c,"
    " s2 [RANGE 8 s] y WHERE c.g = y.g",
    "SELECT DISTINCT g, k FROM s1 [RANGE 9 s]",
    "SELECT Istream(g, k) FROM s1 [PARTITION BY g, k ROWS 2]",
    "SELECT g FROM s1 [ROWS 5] EXCEPT ALL SELECT g FROM s2 [RANGE 6 s]",
    "SELECT Istream(x.g, y.v) FROM s1 [ROWS 5] x, s2 [RANGE 6 s] y WHERE x.g < y.g",
)


# Negations over several columns of which a row that excludes has no left row with its key.
REFUSED = (
    "SELECT x.v FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS",
    "SELECT k, g, COUNT(*) AS n FROM s1 [PARTITION BY v ROWS 2] x WHERE NOT EXISTS",
    "SELECT j.g, j.k, COUNT(*) AS n FROM s1 [RANGE 9 s] j WHERE NOT EXISTS",
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.halved
@pytest.mark.parametrize(
    "case", [*((2, cql) for cql in ALL), *((4, cql) for cql in (*TEXTS, *MORE[:4]))]
)
def test_checkpoints_of_former_formats_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[int, str],
    strategy: Strategy,
) -> None:
    (former, cql), known, rng = case, catalog(0), Random(5)
    fed = []
    with monkeypatch.context() as before:
        (as_in_format_2 if former == 2 else as_in_format_4)(before)
        here = runner_of(tmp_path, known, {"q": cql}, 3, strategy=strategy)
        old = here.dataflow.stages.stages
        read = [stream.name for stream in here.dataflow.streams]
        rows = {name: _rows(rng, name, 40) for name in read}
        for at in range(0, 56, 8):
            batch = {name: table_of(name, rows[name][at : at + 8]) for name in read}
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 40 else {}
            here.feed(batch, beats)
            fed.append((batch, beats))
            if at == 16:
                before.undo()
                stored = SetProperties({STATE_FORMAT: former})
                here.repository.commit(here.repository.current(), [stored])
                here = runner_of(tmp_path, known, {"q": cql}, 3, strategy=strategy)
                if cql.startswith(REFUSED):
                    with pytest.raises(UnsupportedFormat, match="hashes only"):
                        upgrade_state(here.repository, here.dataflow.program)
                    assert here.repository.current().properties[STATE_FORMAT] == former
                    return
                upgrade_state(here.repository, here.dataflow.program)
    run = ContinuousRun(program_of(cql, known, strategy), known)
    for batch, beats in fed:
        run.feed(batch, beats)
    new = here.dataflow.stages
    view = run.program.sent is None
    wanted = told(run.lifetimes() if view else run.changes(), view)
    assert told(results_of(here, "q"), view) == wanted
    assert new.stages <= old
    places = {f"{stage}/{bucket}" for stage, n in enumerate(new.counts(3)) for bucket in range(n)}
    assert set(here.repository.current().properties["due"]) <= places
    assert verify(here.repository).ok


def fed_runner(folder: Path, queries: dict[str, str], strategy: Strategy) -> HereRunner:
    here = runner_of(folder, catalog(0), queries, 2, strategy=strategy)
    rng = Random(1)
    rows = {stream.name: _rows(rng, stream.name, 30) for stream in here.dataflow.streams}
    here.feed({name: table_of(name, own) for name, own in rows.items()}, {})
    return here


class Killed(BaseException):
    pass


@pytest.mark.parametrize("point", ["segment.closed", "migration.written", "migration.committed"])
def test_a_migration_that_is_killed_happens_whole_or_not_at_all(tmp_path: Path, point: str) -> None:
    queries = {"q": MORE[0]}
    here = fed_runner(tmp_path / "ck", queries, Strategy.UPA)
    before = told(results_of(here, "q"), True)

    def kill() -> None:
        raise Killed

    with on_reach(point, kill), pytest.raises(Killed):
        moved(here, catalog(0), queries, 3)
    manifest = Repository.open(tmp_path / "ck").current()
    committed = point == "migration.committed"
    assert manifest.properties["buckets"] == (3 if committed else 2)
    vacuum(here.repository, keep_versions=1, grace=0)
    assert here.repository.directory.all_names(DATA) == sorted(manifest.segments)
    again = moved(here, catalog(0), queries, 3)
    assert told(results_of(again, "q"), True) == before


def test_a_strategy_without_lifetimes_is_refused(tmp_path: Path) -> None:
    queries = {"q": MORE[0]}
    here = fed_runner(tmp_path / "ck", queries, Strategy.NT)
    with pytest.raises(InvalidSetting, match="under NT rows do not know when they expire"):
        moved(here, catalog(0), queries, 2, Strategy.UPA, Strategy.NT)
    assert here.repository.current().version == Repository.open(tmp_path / "ck").current().version


def test_nothing_to_move_makes_no_version(tmp_path: Path) -> None:
    queries = {"q": MORE[0]}
    here = fed_runner(tmp_path / "ck", queries, Strategy.UPA)
    version = here.repository.current().version
    moved(here, catalog(0), queries, 2)
    assert here.repository.current().version == version
