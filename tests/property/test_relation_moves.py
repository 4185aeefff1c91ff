"""Queries over relations: checkpoints that move to other buckets, or are of the format before."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from mayfly.cql import Delete, Insert, Update, bind_query, catalog_after, parse
from mayfly.kernels.nrr import NrrJoinRows
from mayfly.kernels.operator import Moving
from mayfly.lifetime import MIN_TIME
from mayfly.physical.explain.explainer import explain
from mayfly.physical.explain.model import Place
from mayfly.physical.shared_program import shared
from mayfly.physical.stager import staged
from mayfly.plan.catalog import RelationDefinition
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.relation_log import Changing
from mayfly.spark.stream.query_migration import QueryMigration
from mayfly.spark.stream.state_format import STATE_FORMAT, upgrade_state
from mayfly.storage import SetProperties, verify
from mayfly.testing.random_queries import DECLARATIONS
from tests.property.continuous_cases import SECOND, _rows, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of
from tests.property.test_migration import as_in_format_2

COLUMNS = "(id INT, name STRING) KEY id;"
KNOWN = catalog_after(parse(f"{DECLARATIONS} CREATE RELATION r {COLUMNS} CREATE NRR n {COLUMNS}"))
CHANGES = (
    "INSERT INTO {0} VALUES (0, 'none'), (1, 'one'), (2, 'two')",
    "UPDATE {0} SET name = 'eins' WHERE id = 1",
    "INSERT INTO {0} VALUES (3, 'three')",
    "DELETE FROM {0} WHERE id = 2",
    "INSERT INTO {0} VALUES (4, 'four')",
)
PAIRS = "SELECT x.k AS k, x.v AS v FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y WHERE x.k = y.k"
STAGES = {
    # What an NRR says is known in every bucket: rows stay where they are.
    "SELECT x.v, n.name FROM s1 [RANGE 9 s] x, n WHERE x.k = n.id": 1,
    "SELECT x.v, n.name FROM s1 [RANGE 9 s] x, s2 [RANGE 8 s] y, n"
    " WHERE x.k = y.k AND y.k = n.id": 1,
    f"SELECT j.k, n.name, COUNT(*) AS c FROM ({PAIRS}) j, n WHERE j.k = n.id"
    " GROUP BY j.k, n.name": 1,
    "SELECT n.id, COUNT(*) AS c FROM s1 [RANGE 9 s] x, n WHERE x.k = n.id GROUP BY n.id": 1,
    "SELECT x.k, COUNT(*) AS c FROM s1 [RANGE 9 s] x, n WHERE x.v = n.id GROUP BY x.k": 2,
    "SELECT x.k, COUNT(*) AS c FROM s1 [RANGE 9 s] x, n WHERE x.v > n.id GROUP BY x.k": 2,
    "SELECT j.v, y.v AS w FROM (SELECT x.k AS k, x.v AS v FROM s1 [RANGE 9 s] x, n"
    " WHERE x.k = n.id AND n.name <> 'two') j, s2 [RANGE 8 s] y WHERE j.k = y.k": 1,
    "SELECT n.name, COUNT(*) AS c FROM s1 [RANGE 9 s] x, n WHERE x.k = n.id GROUP BY n.name": 2,
    f"SELECT u.v, u.k, n.name FROM ({PAIRS} UNION ALL SELECT x.k AS k, y.v AS v"
    " FROM s1 [RANGE 19 s] x, s2 [RANGE 18 s] y, s3 [RANGE 17 s] z"
    " WHERE x.k = y.k AND x.g = z.h) u, n WHERE u.v = n.id": 2,
    # Changes of a relation find what they concern by key.
    "SELECT r.id, COUNT(*) AS c FROM s1 [RANGE 9 s] x, r WHERE x.k = r.id GROUP BY r.id": 1,
    f"SELECT j.v, r.name FROM ({PAIRS}) j, r WHERE j.k = r.id": 1,
    "SELECT x.v, r.name FROM s1 [RANGE 9 s] x, r WHERE x.k = r.id AND NOT EXISTS"
    " (SELECT * FROM s2 [RANGE 8 s] y WHERE y.k = x.k)": 1,
    "SELECT r.name, COUNT(*) AS c FROM s1 [RANGE 9 s] x, r WHERE x.k = r.id GROUP BY r.name": 2,
}


@pytest.mark.parametrize("cql", STAGES)
def test_rows_move_only_to_where_they_are_not(cql: str) -> None:
    assert staged(shared({"q": program_of(cql, KNOWN)}, {})).stages == STAGES[cql]
    plan = explain(bind_query(cql, KNOWN), KNOWN, cql).chosen.physical
    kernels = {one.stage for one in plan.root.walk() if one.place is Place.KERNEL}
    assert len(kernels) == STAGES[cql]


def changed(changing: dict[str, Changing], text: str) -> None:
    for name, one in changing.items():
        (statement,) = parse(text.format(name), KNOWN)
        assert isinstance(statement, Insert | Update | Delete)
        one.carry_out(statement, MIN_TIME)


def relations() -> dict[str, Changing]:
    found = {}
    for name in ("r", "n"):
        definition = KNOWN.lookup(name)
        assert isinstance(definition, RelationDefinition)
        found[name] = Changing(definition)
    return found


@pytest.mark.parametrize("strategy", [Strategy.UPA, Strategy.DIRECT, Strategy.NT])
@pytest.mark.halved
@pytest.mark.parametrize("cql", STAGES)
def test_moves_and_formats_change_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cql: str, strategy: Strategy
) -> None:
    """Two batches in format 2, then a change of buckets between any two batches."""
    rng, queries = Random(7), {"q": cql}
    program = program_of(cql, KNOWN, strategy)
    changing, fed = relations(), []
    buckets = 3
    with monkeypatch.context() as before:
        as_in_format_2(before)
        before.setattr(NrrJoinRows, "moving", Moving.KEYED)  # it was in one place
        here = runner_of(tmp_path, KNOWN, queries, buckets, strategy=strategy)
        here.relations = changing
        read = [stream.name for stream in here.dataflow.streams]
        rows = {name: _rows(rng, name, 40) for name in read}
        for at in range(0, 56, 8):
            if at // 8 < len(CHANGES):
                changed(changing, CHANGES[at // 8])
            batch = {name: table_of(name, rows[name][at : at + 8]) for name in read}
            beats = dict.fromkeys(read, 10_000 * SECOND) if at >= 40 else {}
            here.feed(batch, beats)
            fed.append((batch, beats))
            if at == 8:
                before.undo()
                former = SetProperties({STATE_FORMAT: 2})
                here.repository.commit(here.repository.current(), [former])
            elif at > 8:
                buckets = rng.choice((1, 2, 3, 5))
            else:
                continue
            both = shared({"q": program}, {})
            QueryMigration(here.repository, both, both, buckets, {"q": {}}).carry_out()
            here = runner_of(tmp_path, KNOWN, queries, buckets, strategy=strategy)
            here.relations = changing
    own = relations()
    run = ContinuousRun(program, KNOWN, own)
    for at, (batch, beats) in enumerate(fed):
        if at < len(CHANGES):
            changed(own, CHANGES[at])
        run.feed(batch, beats)
    assert told(results_of(here, "q"), True) == told(run.lifetimes(), True)
    assert told(run.lifetimes(), True)
    assert verify(here.repository).ok
    assert upgrade_state(here.repository, here.dataflow.program) == here.repository.current()
