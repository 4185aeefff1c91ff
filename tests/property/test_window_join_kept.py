"""Cases that failed once, or that were worth writing down, run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from mayfly.testing import JoinCase, assert_same_rows
from mayfly.testing.strategies import join_cases
from tests.property.join_runs import Chain, assert_matches_oracle, colliding_codes, run
from tests.property.kept_cases import FOLDER, from_text, to_text

KEPT = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_case(path: Path) -> None:
    case, chain = from_text(path.read_text(encoding="utf-8"))
    for buckets in (1, 2, 5):
        assert_matches_oracle(run(case, chain, buckets=buckets), case, chain)
    assert_matches_oracle(run(case, chain, codes=colliding_codes), case, chain)


def test_there_are_kept_cases() -> None:
    assert KEPT


@given(join_cases())
def test_a_case_survives_being_written_down(case: JoinCase) -> None:
    chain = Chain((case.keys,))
    read, same_chain = from_text(to_text(case, chain))
    assert [list(keys) for keys in same_chain.on] == [list(case.keys)]
    assert (read.windows, read.slack, read.buckets) == (case.windows, case.slack, case.buckets)
    assert read.heartbeats == case.heartbeats
    for one, other in zip(read.batches, case.batches, strict=True):
        for name in one:
            assert_same_rows(one[name], other[name])
