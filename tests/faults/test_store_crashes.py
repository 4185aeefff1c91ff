"""Death after any change of a store, on every kind of store.

A dead process changes nothing more: what a crash unwinds finds its store closed, as after a kill.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.archive import Archive
from mayfly.storage import Repository, verify
from mayfly.storage.store.posix import PosixFile, PosixStore
from mayfly.testing.memory_store import MemoryFile, MemoryStore
from tests.contract.store_places import PLACES
from tests.faults.storage_program import LAST_VERSION, play_history
from tests.faults.test_storage_kills import check_carries_on, check_readable

CHANGES = ("put_if_absent", "put", "remove", "remove_folder", "create", "finish", "abandon")
DAY = 86_400_000_000


class Crash(BaseException):
    pass


@dataclass
class Fate:
    """Lets so many changes happen, and nothing after the last."""

    left: int = -1
    reached: int = 0

    def after(self, change: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(change)
        def changed(*arguments: Any) -> Any:
            if self.left == 0:
                raise dead(arguments[0])
            answer = change(*arguments)
            self.reached += 1
            self.left -= 1
            if self.left == 0:
                raise dead(answer)
            return answer

        return changed


def dead(holder: object) -> Crash:
    """The system closes the files of a dead process."""
    if isinstance(holder, PosixFile):
        holder.file.close()
    return Crash()


@pytest.fixture
def fate(monkeypatch: pytest.MonkeyPatch) -> Fate:
    fate = Fate()
    for kind in (PosixStore, PosixFile, MemoryStore, MemoryFile):
        for change in CHANGES:
            if hasattr(kind, change):
                monkeypatch.setattr(kind, change, fate.after(getattr(kind, change)))
    return fate


def crashes(
    place: Callable[[], AbstractContextManager[str]],
    fate: Fate,
    work: Callable[[str], None],
    stride: int,
) -> Iterator[str]:
    """The address of a store in which the work died, for every so many changes."""
    fate.left, fate.reached = -1, 0
    with place() as address:
        work(address)
    every = fate.reached
    for last in range(1, every + 1, stride):
        with place() as address:
            fate.left = last
            with pytest.raises(Crash):
                work(address)
            fate.left = -1
            yield address
    assert every > 40


@pytest.mark.parametrize("kind", PLACES)
def test_a_repository_carries_on_after_any_change(
    kind: str, fate: Fate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in crashes(PLACES[kind], fate, play_history, 4 if kind == "memory" else 13):
        check_readable(address)
        check_carries_on(address, monkeypatch)
        assert Repository.open(address).current().version == LAST_VERSION


def update_daily(address: str) -> None:
    """Bring an archive to its ninth day; what to do next depends only on its current version."""
    if Repository.exists(address):
        archive = mayfly.archive.open(address)
    else:
        archive = mayfly.archive.create(
            address, "k BIGINT, ts TIMESTAMP", key="k", origin=0, window=4, constituents=2
        )
    while (day := archive.version().state.update + 1) < 10:
        times = pa.array([day * DAY] * 3, pa.timestamp("us", "UTC"))
        archive.update(pa.table({"k": [100, 200, day], "ts": times}))
        archive.maintain.vacuum(keep_versions=2, grace=0)


def days_of(archive: Archive, key: int) -> list[int]:
    times = archive.probe(key)["ts"].cast(pa.int64()).to_pylist()
    return sorted(one // DAY for one in times)


@pytest.mark.parametrize("kind", PLACES)
def test_an_archive_carries_on_after_any_change(kind: str, fate: Fate) -> None:
    for address in crashes(PLACES[kind], fate, update_daily, 7 if kind == "memory" else 19):
        if Repository.exists(address):
            archive = mayfly.archive.open(address)
            last = archive.version().state.update
            assert days_of(archive, 100) == list(range(max(1, last - 3), last + 1))
        update_daily(address)
        archive = mayfly.archive.open(address)
        assert days_of(archive, 100) == [6, 7, 8, 9]
        assert verify(archive.repository).ok
        archive.maintain.vacuum(keep_versions=1, grace=0)
        named = sorted(archive.version().manifest.segments)
        assert archive.repository.directory.all_names("data") == named
