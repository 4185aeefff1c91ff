"""Figures about the last batches, and what operators keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.checkpoint.recent_batches import RECENT, REMEMBERED, Batch, Progress, with_batch
from mayfly.storage import Manifest, Repository, SetProperties

SECOND = 1_000_000


def after(repository: Repository, *batches: Batch) -> Manifest:
    for batch in batches:
        base = repository.current()
        repository.commit(base, [SetProperties({RECENT: with_batch(base, batch)})])
    return repository.current()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.create(tmp_path / "ck", {}, sync=False)


def batch(at: int, rows: int, clock: int | None, other: int | None = None) -> Batch:
    """Ended after so many seconds, with clocks in seconds."""
    clocks = {"a": clock and clock * SECOND, "b": other and other * SECOND}
    return Batch(at * SECOND, 0.5, {"a": rows, "b": 7}, clocks)


def test_nothing_is_known_before_the_first_batch(repository: Repository) -> None:
    progress = Progress.of(repository.current(), ["a"])
    assert (progress.rate, progress.catch_up, progress.batches) == (0.0, None, ())


def test_the_rate_is_that_of_the_streams_asked_for(repository: Repository) -> None:
    one = after(repository, batch(1000, 40, 10))
    assert Progress.of(one, ["a"]).rate == 80, "of one batch: in the time it took"
    more = after(repository, batch(1002, 60, 12), batch(1005, 90, 15))
    assert Progress.of(more, ["a"]).rate == (60 + 90) / 5
    assert Progress.of(more, ["a", "b"]).rate == (60 + 90 + 14) / 5


def test_catching_up_is_told_with_the_time_it_takes(repository: Repository) -> None:
    found = after(repository, batch(1000, 1, 100, 990), batch(1010, 1, 200, 1000))
    # The clock of a moves 10 s a second and is 810 s behind; that of b keeps up with time.
    assert Progress.of(found, ["a"]).catch_up == 810 / 9
    assert Progress.of(found, ["a", "b"]).catch_up == 810 / 9
    assert Progress.of(found, ["b"]).catch_up is None
    assert Progress.of(found, ["new"]).catch_up is None


def test_so_many_batches_are_remembered(repository: Repository) -> None:
    found = after(repository, *(batch(at, at, at) for at in range(REMEMBERED + 5)))
    assert [one.rows["a"] for one in Progress.of(found, ["a"]).batches][:2] == [5, 6]
    assert len(found.properties[RECENT]) == REMEMBERED
