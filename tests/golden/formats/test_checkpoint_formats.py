"""Checkpoints of queries that older versions wrote are continued; newer ones are refused."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from mayfly.checkpoint.operator_state import Stored, load_state
from mayfly.errors import UnsupportedFormat
from mayfly.faults import on_reach
from mayfly.kernels.join_panes import JoinPaneStore
from mayfly.kernels.window_join import JoinRows
from mayfly.optimizer.rules.share_panes import CS2, SHARING
from mayfly.physical.shared_program import shared
from mayfly.plan.strategy import Strategy
from mayfly.runtime.in_process import ContinuousRun
from mayfly.spark.stream.query_checkpoint import RegisteredQueries, opened
from mayfly.spark.stream.query_migration import QueryMigration
from mayfly.spark.stream.state_format import CURRENT, STATE_FORMAT, upgrade_state
from mayfly.storage import Repository, SetProperties, vacuum, verify
from tests.golden.formats.checkpoint_write import (
    AGGREGATES,
    JOINS,
    PANES,
    QUERIES,
    STRATEGIES,
    WRITTEN,
    aggregates_runner,
    batches,
    golden_runner,
    joined_programs,
    joins_runner,
    panes_runner,
    windows_runner,
    write,
)
from tests.property.continuous_cases import SECOND, catalog, told
from tests.property.shared_runs import HereRunner, program_of, results_of, runner_of
from tests.property.window_texts import TEXTS

GOLDEN = Path(__file__).parent
ROW_COUNTS = ["task/2f892b38359619bd", "task/aad4f94db5e1790f", "task/dfd5a2589d43ad8f"]
"""States of groups in checkpoint-panes-counted-by-row."""


def copied(version: int, folder: Path) -> Path:
    shutil.copytree(GOLDEN / f"checkpoint-version-{version}", folder / "ck")
    return folder / "ck"


@pytest.mark.parametrize("version", QUERIES)
def test_an_old_checkpoint_is_renewed_and_goes_on(tmp_path: Path, version: int) -> None:
    runner = golden_runner(copied(version, tmp_path), version)
    program = runner.dataflow.program
    assert runner.repository.current().properties.get(STATE_FORMAT, 1) == version
    manifest = upgrade_state(runner.repository, program)
    assert manifest.properties[STATE_FORMAT] == CURRENT
    assert upgrade_state(runner.repository, program).version == manifest.version
    assert continued(runner, version)


def continued(runner: HereRunner, version: int) -> bool:
    """The rest of the batches; whether the answers are those of runs that never stopped."""
    return continued_with(runner, QUERIES[version], STRATEGIES[version])


def continued_with(runner: HereRunner, queries: Mapping[str, str], strategy: Strategy) -> bool:
    end = dict.fromkeys([stream.name for stream in runner.dataflow.streams], 1000 * SECOND)
    for batch in batches()[WRITTEN:]:
        runner.feed({name: rows for name, rows in batch.items() if name in end}, {})
    runner.feed({}, end)
    for name, cql in queries.items():
        run = ContinuousRun(program_of(cql, catalog(0), strategy), catalog(0))
        own = set(run.clocks.streams)
        for batch in batches():
            run.feed({stream: rows for stream, rows in batch.items() if stream in own})
        run.feed({}, {stream: at for stream, at in end.items() if stream in own})
        view = run.program.sent is None
        wanted = told(run.lifetimes() if view else run.changes(), view)
        if told(results_of(runner, name), view) != wanted:
            return False
    return verify(runner.repository).ok


@pytest.mark.parametrize("version", [2, 4])
def test_states_of_older_formats_are_not_where_they_belong_now(
    tmp_path: Path, version: int
) -> None:
    """Without being renewed the golden checkpoint gives other answers."""
    assert not continued(golden_runner(copied(version, tmp_path), version), version)


def test_a_checkpoint_with_panes_goes_on(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "checkpoint-panes", tmp_path / "ck")
    runner = panes_runner(tmp_path / "ck")
    assert upgrade_state(runner.repository, runner.dataflow.program).properties[STATE_FORMAT] == 5
    RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    logs = [answer.log for answer in runner.dataflow.stages.answers if answer.share is not None]
    assert len(logs) == 5
    assert len(set(logs)) == 4
    assert continued_with(runner, PANES, Strategy.UPA)


def test_a_checkpoint_with_values_of_a_shared_join_goes_on(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "checkpoint-joins", tmp_path / "ck")
    runner = joins_runner(tmp_path / "ck")
    assert upgrade_state(runner.repository, runner.dataflow.program).properties[STATE_FORMAT] == 5
    RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    kinds = [type(task.operator) for task in runner.dataflow.stages.tasks]
    assert (kinds.count(JoinRows), kinds.count(JoinPaneStore)) == (1, 2)
    assert continued_with(runner, JOINS, Strategy.UPA)


def test_values_of_a_shared_join_move_to_other_buckets(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "checkpoint-joins", tmp_path / "ck")
    program = shared(joined_programs(), {})
    for buckets in (3, 1):
        repository = Repository.open(tmp_path / "ck", sync=False)
        named: dict[str, dict[str, str]] = {name: {} for name in JOINS}
        QueryMigration(repository, program, program, buckets, named).carry_out()
        assert repository.current().properties["buckets"] == buckets
    assert continued_with(joins_runner(tmp_path / "ck", 1), JOINS, Strategy.UPA)


def test_a_checkpoint_within_finished_windows_goes_on(tmp_path: Path) -> None:
    """With open sessions, frames of OVER and the latest rows of ASOF JOIN."""
    shutil.copytree(GOLDEN / "checkpoint-windows", tmp_path / "ck")
    runner = windows_runner(tmp_path / "ck")
    assert upgrade_state(runner.repository, runner.dataflow.program).properties[STATE_FORMAT] == 5
    RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    assert continued_with(runner, TEXTS, Strategy.UPA)


def test_a_checkpoint_with_all_aggregates_goes_on(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "checkpoint-aggregates", tmp_path / "ck")
    runner = aggregates_runner(tmp_path / "ck")
    before = runner.repository.current().properties
    assert before[STATE_FORMAT] == CURRENT == 5
    assert upgrade_state(runner.repository, runner.dataflow.program).properties == before
    RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    assert continued_with(runner, AGGREGATES, Strategy.UPA)


def test_groups_that_counted_rows_of_panes_are_refused(tmp_path: Path) -> None:
    """Rows of a pane are merged: such a group would be shown when all its rows have left."""
    shutil.copytree(GOLDEN / "checkpoint-panes-counted-by-row", tmp_path / "ck")
    runner = panes_runner(tmp_path / "ck")
    before = runner.repository.current()
    upgrade_state(runner.repository, runner.dataflow.program)
    with pytest.raises(UnsupportedFormat, match="states that no operator") as refused:
        RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    assert set(ROW_COUNTS) <= set(str(refused.value).replace(",", "").split())
    assert runner.repository.current().version == before.version


def test_states_of_panes_under_other_names_are_refused(tmp_path: Path) -> None:
    """As versions named them that answered each query alone."""
    write(panes_runner(tmp_path / "ck", SHARING - {CS2.name}))
    runner = panes_runner(tmp_path / "ck")
    before = runner.repository.current()
    with pytest.raises(
        UnsupportedFormat, match="states that no operator of its queries"
    ) as refused:
        RegisteredQueries(runner.repository, 2, {}).check_claimed(runner.dataflow.stages)
    assert "use the version of Mayfly that wrote them, or a new checkpoint" in refused.value.hint
    assert runner.repository.current().version == before.version


class Killed(BaseException):
    pass


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("point", ["segment.closed", "format.written", "format.committed"])
def test_a_renewal_that_is_killed_happens_whole_or_not_at_all(
    tmp_path: Path, version: int, point: str
) -> None:
    root = copied(version, tmp_path)

    def kill() -> None:
        raise Killed

    with on_reach(point, kill), pytest.raises(Killed):
        upgrade_state(Repository.open(root), golden_runner(root, version).dataflow.program)
    again = golden_runner(root, version)
    before = again.repository.current()
    assert before.properties.get(STATE_FORMAT, 1) == CURRENT or point != "format.committed"
    upgrade_state(again.repository, again.dataflow.program)
    vacuum(again.repository, keep_versions=1, grace=0)
    assert continued(again, version)


def test_a_query_that_does_not_go_on_leaves_when_a_checkpoint_is_renewed(tmp_path: Path) -> None:
    """It would not be where it belongs if it came back."""
    root = copied(2, tmp_path)
    some = {name: cql for name, cql in QUERIES[2].items() if name != "groups"}
    runner = runner_of(root, catalog(0), some, buckets=2, strategy=STRATEGIES[2])
    manifest = upgrade_state(runner.repository, runner.dataflow.program, ["windowed"])
    assert list(manifest.properties["queries"]) == ["latest without", "without larger"]
    assert not [one for one in manifest.properties["state"] if "groups" in one or "windowed" in one]
    assert not [*manifest.in_group("out/groups"), *manifest.in_group("out/windowed")]


def test_a_checkpoint_of_a_later_version_is_refused(tmp_path: Path) -> None:
    root = copied(1, tmp_path)
    repository = Repository.open(root)
    later = SetProperties({STATE_FORMAT: CURRENT + 1})
    repository.commit(repository.current(), [later])
    with pytest.raises(UnsupportedFormat, match=f"format {CURRENT + 1}"):
        opened(str(root), sync=False)


def test_a_checkpoint_of_a_window_join_as_it_was_once_run_is_refused(tmp_path: Path) -> None:
    """Its states are those of another engine; nothing of it is touched."""
    known = {"kind": "window join", "query": {"window of a": "10 s"}, "buckets": 2, "batch": 7}
    repository = Repository.create(tmp_path / "ck", known)
    with pytest.raises(UnsupportedFormat, match="window join as an earlier version") as refused:
        opened(f"{tmp_path}/ck", sync=False)
    assert "use a new checkpoint directory" in refused.value.hint
    assert repository.newest() == 0


def test_states_that_no_operator_claims_are_refused(tmp_path: Path) -> None:
    runner = golden_runner(copied(CURRENT, tmp_path), CURRENT)
    repository, stages = runner.repository, runner.dataflow.stages
    RegisteredQueries(repository, 2, {}).check_claimed(stages)
    stored = repository.current().properties["state"]
    name = next(one for one in stored if one.startswith("task/"))
    repository.commit(
        repository.current(), [SetProperties({"state": {**stored, "task/other/0": stored[name]}})]
    )
    with pytest.raises(UnsupportedFormat, match="no operator of its queries goes on from: task/ot"):
        RegisteredQueries(repository, 2, {}).check_claimed(stages)
    RegisteredQueries(repository, 2, {}, dropped=("gone",)).check_claimed(stages)


def test_parts_of_a_state_that_its_operator_does_not_know_are_refused(tmp_path: Path) -> None:
    runner = golden_runner(copied(CURRENT, tmp_path), CURRENT)
    base = runner.repository.current()
    task = next(
        one for one in runner.dataflow.stages.tasks
        if f"task/{one.name}/0" in base.properties["state"]
    )  # fmt: skip
    stored = Stored.from_json(base.properties["state"][f"task/{task.name}/0"])
    other = Stored({**stored.runs, "renamed": ()}, stored.numbers)
    blank, directory = task.operator.state(), runner.repository.directory
    load_state(blank, stored, base.segments, directory)
    with pytest.raises(UnsupportedFormat, match="does not know: renamed"):
        load_state(blank, other, base.segments, directory)
