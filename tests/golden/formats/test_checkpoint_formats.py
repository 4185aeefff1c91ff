"""Checkpoints of queries that older versions wrote are continued; newer ones are refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mayfly.errors import UnsupportedFormat
from mayfly.pipeline.continuous import ContinuousRun
from mayfly.plan.physical import Strategy
from mayfly.spark.query_checkpoint import opened
from mayfly.spark.state_format import CURRENT, STATE_FORMAT, renewed
from mayfly.storage import Repository, SetProperties, verify
from tests.golden.formats.checkpoint_write import QUERIES, WRITTEN, batches, golden_runner
from tests.property.continuous_cases import SECOND, catalog, told
from tests.property.shared_runs import program_of, results_of

GOLDEN = Path(__file__).parent


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / "checkpoint-version-1", tmp_path / "ck")
    return tmp_path / "ck"


def test_an_old_checkpoint_is_renewed_and_goes_on(golden: Path) -> None:
    runner = golden_runner(golden)
    assert STATE_FORMAT not in runner.repository.current().properties
    manifest = renewed(runner.repository, runner.wiring.stages)
    assert manifest.properties[STATE_FORMAT] == CURRENT
    assert renewed(runner.repository, runner.wiring.stages).version == manifest.version
    end = dict.fromkeys(("s1", "s2"), 1000 * SECOND)
    for batch in batches()[WRITTEN:]:
        runner.feed(batch, {})
    runner.feed({}, end)
    for name, cql in QUERIES.items():
        run = ContinuousRun(program_of(cql, catalog(0), Strategy.NT), catalog(0))
        own = set(run.clocks.streams)
        for batch in batches():
            run.feed({stream: rows for stream, rows in batch.items() if stream in own})
        run.feed({}, {stream: at for stream, at in end.items() if stream in own})
        assert told(results_of(runner, name), True) == told(run.lifetimes(), True), name
    assert verify(runner.repository).ok


def test_a_checkpoint_of_a_later_version_is_refused(golden: Path) -> None:
    repository = Repository.open(golden)
    later = SetProperties({STATE_FORMAT: CURRENT + 1})
    repository.commit(repository.current(), [later])
    with pytest.raises(UnsupportedFormat, match=f"format {CURRENT + 1}"):
        opened(golden, sync=False)
