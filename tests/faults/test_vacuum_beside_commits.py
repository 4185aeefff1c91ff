"""A vacuum without grace beside a commit: every order of their steps, one by one.

Both run in threads of their own that stand still at each point they reach; a schedule says who goes
on. Whatever the order: each published version is whole, and a commit that lost says so and can be
repeated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.errors import CommitConflict
from mayfly.faults import on_reach
from mayfly.storage import (
    EXP,
    TS,
    AddSegments,
    DropSegments,
    Repository,
    prune,
    vacuum,
    verify,
    write_segment,
)

COMMIT = ("segment.closed", "commit.announced", "commit.checked", "commit.published")
VACUUM = (
    "vacuum.listed",
    "vacuum.oldest-raised",
    "vacuum.manifests-read",
    "vacuum.noticed",
    "vacuum.intents-read",
)


class Stepper:
    """A piece of work that goes on from point to point, one step at a time."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._free = False
        self.error: BaseException | None = None
        self.ended = False
        self.thread = threading.Thread(target=self._run, args=(work,))
        self.thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        self._go.acquire()
        try:
            work()
        except BaseException as error:
            self.error = error
        self.ended = True
        self._stands.release()

    def stand(self) -> None:
        """Called at each point, by the thread itself."""
        if not self._free:
            self._stands.release()
            self._go.acquire()

    def step(self) -> None:
        if not self.ended:
            self._go.release()
            self._stands.acquire()

    def finish(self) -> None:
        while not self.ended:
            self.step()
        self.thread.join()


@contextlib.contextmanager
def standing(points: tuple[str, ...], steppers: list[Stepper]) -> Iterator[None]:
    def stand() -> None:
        for stepper in steppers:
            if stepper.thread is threading.current_thread():
                stepper.stand()

    with contextlib.ExitStack() as points_set:
        for point in points:
            points_set.enter_context(on_reach(point, stand))
        yield


def rows(*ids: int) -> pa.Table:
    ts = pa.array(ids, pa.int64())
    return pa.table({TS: ts, EXP: pa.array([one + 100 for one in ids], pa.int64())})


def store(root: Path) -> Repository:
    repository = Repository.create(root, {}, sync=False)
    for number in (1, 2):
        add(repository, number)
    return repository


def add(repository: Repository, number: int) -> None:
    """Replace the rows by others."""
    segment = write_segment(repository.directory, "rows", rows(number))
    assert segment is not None
    base = repository.current()
    repository.commit(base, [DropSegments.of(base.in_group("rows")), AddSegments((segment,))])


def schedules(first: int, second: int) -> Iterator[list[int]]:
    """Every order of so many steps of the one and so many of the other."""
    for places in combinations(range(first + second), first):
        yield [0 if at in places else 1 for at in range(first + second)]


def play(repository: Repository, works: list[Callable[[], object]], order: list[int]) -> Stepper:
    steppers: list[Stepper] = []
    with standing(COMMIT + VACUUM, steppers):
        steppers += [Stepper(work) for work in works]
        for turn in order:
            steppers[turn].step()
        for stepper in steppers:
            stepper.finish()
    assert steppers[1].error is None, steppers[1].error
    for version in repository.versions():
        report = verify(repository, version)
        assert report.ok, (order, report)
    return steppers[0]


def check_commits(
    tmp_path: Path, clean: Callable[[Repository], object], orders: Iterator[list[int]]
) -> tuple[int, int]:
    """How many commits won, and how many lost, over these orders."""
    won = lost = 0
    repository = store(tmp_path / "store")
    for number, order in enumerate(orders, 3):
        before = repository.newest()
        works: list[Callable[[], object]] = [
            partial(add, repository, number),
            partial(clean, repository),
        ]
        commit = play(repository, works, order)
        if commit.error is None:
            won += 1
            assert repository.newest() == before + 1
            assert repository.current().segments.keys() <= set(repository.directory.names("data"))
        else:
            lost += 1
            assert isinstance(commit.error, CommitConflict), (order, commit.error)
            assert repository.newest() == before
        assert repository.directory.all_names("intents") == []
        assert repository.directory.all_names("notices") == []
        add(repository, number)
        vacuum(repository, keep_versions=2, grace=0)
        assert len(repository.directory.names("data")) == 2
    return won, lost


def test_every_order_of_a_commit_and_a_vacuum_without_grace(tmp_path: Path) -> None:
    orders = schedules(len(COMMIT) + 1, len(VACUUM) + 1)
    won, lost = check_commits(tmp_path, lambda one: vacuum(one, keep_versions=1, grace=0), orders)
    assert won + lost == 462
    assert won > 100
    assert lost > 10


def test_every_order_of_a_commit_and_a_pruning(tmp_path: Path) -> None:
    """A pruning only looks at files of old versions: no commit loses to it."""
    won, lost = check_commits(
        tmp_path, lambda one: prune(one, keep_versions=1), schedules(len(COMMIT) + 1, 4)
    )
    assert (won, lost) == (126, 0)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_every_order_of_a_rollback_and_a_vacuum(tmp_path: Path, broken: bool) -> None:
    """Also where the vacuum gives up the version that is rolled back to."""
    for number, order in enumerate(schedules(len(COMMIT), len(VACUUM) + 1)):
        repository = store(tmp_path / f"{number}")
        given_up = [1] if broken else []
        works: list[Callable[[], object]] = [
            partial(repository.rollback, 1),
            partial(vacuum, repository, keep_versions=1, grace=0, broken=given_up),
        ]
        rollback = play(repository, works, order)
        assert repository.newest() == (2 if rollback.error else 3), (order, rollback.error)


def test_two_vacuums_beside_a_commit(tmp_path: Path) -> None:
    """The second one neither takes the first one's notice away nor lowers its number."""
    repository = store(tmp_path / "store")
    segment = write_segment(repository.directory, "rows", rows(3))
    assert segment is not None
    refused: list[CommitConflict] = []

    def vacuum_and_commit() -> None:
        with on_reach("vacuum.intents-read", lambda: None):
            vacuum(repository, keep_versions=2)
        with pytest.raises(CommitConflict) as caught:
            repository.commit(repository.current(), [AddSegments((segment,))])
        refused.append(caught.value)

    with on_reach("vacuum.intents-read", vacuum_and_commit):
        vacuum(repository, keep_versions=1, grace=0)
    assert len(refused) == 1
    assert repository.versions() == [2]
    assert verify(repository).ok


def test_what_a_crashed_commit_announced_ends_with_its_version(tmp_path: Path) -> None:
    repository = store(tmp_path / "store")
    segment = write_segment(repository.directory, "rows", rows(3))
    assert segment is not None
    name = f"intents/{3:020d}-{'0' * 32}.json"
    content = b'{"files": ["' + segment.path.encode() + b'"]}'
    repository.directory.put_if_absent(name, content)
    vacuum(repository, keep_versions=1, grace=0)
    assert repository.directory.exists(segment.path), "its commit may still be under way"
    add(repository, 4)
    vacuum(repository, keep_versions=1, grace=0)
    assert not repository.directory.exists(segment.path)
    assert not repository.directory.exists(name)


def test_what_a_crashed_vacuum_noticed_stays_refused_until_it_is_gone(tmp_path: Path) -> None:
    repository = store(tmp_path / "store")
    segment = write_segment(repository.directory, "rows", rows(3))
    assert segment is not None
    content = b'{"files": ["' + segment.path.encode() + b'"]}'
    repository.directory.put_if_absent("notices/left.json", content)
    vacuum(repository)
    assert repository.directory.exists("notices/left.json"), "its vacuum may still be under way"
    with pytest.raises(CommitConflict, match="write its files again"):
        repository.commit(repository.current(), [AddSegments((segment,))])
    vacuum(repository, grace=0)
    assert repository.directory.all_names("notices") == []
    add(repository, 3)
    assert verify(repository).ok
