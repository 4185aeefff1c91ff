"""What load shedding leaves out: nothing unasked, the same every time, and the least it can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from mayfly.errors import InvalidSetting
from mayfly.runtime.in_process import ContinuousRun
from mayfly.runtime.shed_load import Shedding
from tests.property.continuous_cases import SECOND, Row, catalog, table_of, told
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of

JOIN = "SELECT x.v, y.v AS w FROM s1 [RANGE 60 s] x, s2 [RANGE 60 s] y WHERE x.k = y.k"
SLIDING = "SELECT Rstream(g, COUNT(*) AS n) FROM s1 [RANGE 20 s SLIDE 5 s] GROUP BY g"
CHANGING = SLIDING.replace("Rstream", "Istream")
KEYS = 8


def rows_of(stream: str, first: int, count: int) -> list[Row]:
    """Every second row has a key that both streams have, the others one of their own."""
    own = {"s1": 100, "s2": 100_000}[stream]
    return [
        {
            "ts": n * SECOND // 4, "seq": n, "k": n // 2 % KEYS if n % 2 else own + n,
            "g": "ab"[n % 3 == 0], "v": n, "x": 0.5,
        }
        for n in range(first, first + count)
    ]  # fmt: skip


def batch_of(number: int, streams: list[str], size: int = 40, seed: int = 0) -> dict[str, pa.Table]:
    made = {}
    for stream in streams:
        rows = rows_of(stream, number * size, size)
        Random(seed).shuffle(rows)
        made[stream] = table_of(stream, rows)
    return made


def run_of(folder: Path, cql: str, shedding: Shedding, seed: int = 0) -> HereRunner:
    runner = runner_of(folder, catalog(0), {"q": cql}, 2)
    shedding.check(runner.dataflow.stages)
    runner.dataflow = replace(runner.dataflow, shedding=shedding)
    streams = [stream.name for stream in runner.dataflow.streams]
    for number in range(5):
        runner.feed(batch_of(number, streams, seed=seed), {})
    runner.feed({}, dict.fromkeys(streams, 10_000 * SECOND))
    return runner


def whole(cql: str) -> ContinuousRun:
    run = ContinuousRun(program_of(cql, catalog(0)), catalog(0))
    streams = list(run.clocks.streams)
    for number in range(5):
        run.feed(batch_of(number, streams))
    run.feed({}, dict.fromkeys(streams, 10_000 * SECOND))
    return run


def test_rows_without_partners_go_first(tmp_path: Path) -> None:
    runner = run_of(tmp_path / "ck", JOIN, Shedding(0.3, "partners"))
    assert told(results_of(runner, "q"), True) == told(whole(JOIN).lifetimes(), True)
    shed = runner.repository.current().properties["totals"]["shed"]
    assert set(shed) == {"s1", "s2"}
    assert abs(sum(shed.values()) - 0.3 * 400) <= 12, "rounded in each bucket of each batch"


def test_beyond_them_results_are_lost_but_none_is_wrong(tmp_path: Path) -> None:
    runner = run_of(tmp_path / "ck", JOIN, Shedding(0.8, "partners"))
    found = {(one["v"], one["w"]) for one in results_of(runner, "q").to_pylist()}
    every = {(one["v"], one["w"]) for one in whole(JOIN).lifetimes().to_pylist()}
    assert found < every
    assert found, "a fifth of the rows is left, and they meet"


def test_what_is_left_out_does_not_depend_on_the_order_of_rows(tmp_path: Path) -> None:
    shedding = Shedding(0.7, "partners")
    one, other = (run_of(tmp_path / f"{seed}", JOIN, shedding, seed) for seed in (1, 2))
    assert told(results_of(one, "q"), True) == told(results_of(other, "q"), True)


@pytest.mark.parametrize("cql", [SLIDING, CHANGING])
def test_large_batches_answer_the_last_refresh_they_close(tmp_path: Path, cql: str) -> None:
    runner = run_of(tmp_path / "ck", cql, Shedding(stretch_above=39))
    found, every = told(results_of(runner, "q"), False), told(whole(cql).changes(), False)
    answered, passed = runner.repository.current().properties["refreshes"]["q"]
    instants = {row[-1] for row in found}
    assert passed > 0
    if cql == SLIDING:
        assert found == {row: n for row, n in every.items() if row[-1] in instants}
        assert len({row[-1] for row in every}) - len(instants) == passed
    quiet = run_of(tmp_path / "quiet", cql, Shedding(stretch_above=40))
    assert told(results_of(quiet, "q"), False) == every
    assert quiet.repository.current().properties["refreshes"]["q"] == [answered + passed, 0]


def test_changes_are_told_against_the_last_answer_that_was_given(tmp_path: Path) -> None:
    """Istream at the refreshes that are answered adds up to the answers there."""
    answers = results_of(run_of(tmp_path / "r", SLIDING, Shedding(stretch_above=39)), "q")
    entered = results_of(run_of(tmp_path / "i", CHANGING, Shedding(stretch_above=39)), "q")
    before: set[tuple[object, object]] = set()
    for at in sorted(set(answers["ts"].to_pylist())):
        now = {(r["g"], r["n"]) for r in answers.to_pylist() if r["ts"] == at}
        new = {(r["g"], r["n"]) for r in entered.to_pylist() if r["ts"] == at}
        assert new == now - before, at
        before = now


def test_what_cannot_be_shed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="no partners to count"):
        run_of(tmp_path / "a", SLIDING, Shedding(0.5, "partners"))
    counted = JOIN.replace("[RANGE 60 s]", "[ROWS 5]")
    with pytest.raises(InvalidSetting, match="no partners to count"):
        run_of(tmp_path / "b", counted, Shedding(0.5, "partners"))
    with pytest.raises(InvalidSetting, match="nothing to stretch"):
        run_of(tmp_path / "c", JOIN, Shedding(stretch_above=5))
    with pytest.raises(InvalidSetting, match="'random' or 'partners'"):
        Shedding(0.5, "age")
    with pytest.raises(InvalidSetting, match="share of 1"):
        Shedding(1.0)
