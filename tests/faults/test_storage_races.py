"""Several real processes on one directory: writers, vacuums and readers at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.storage import Repository, vacuum, verify
from tests.faults.storage_program import ids_found
from tests.faults.storage_starter import Starter, starter


@pytest.fixture(scope="module")
def processes() -> Iterator[Starter]:
    with starter() as running:
        yield running


def test_writers_vacuums_and_readers(processes: Starter, tmp_path: Path) -> None:
    """No update is lost, none is applied twice, and no reader ever misses a file."""
    each, writers = 40, 3
    total = each * writers
    repository = Repository.create(tmp_path / "store", {"total": 0}, sync=False)
    root = str(repository.directory.root)
    ended = processes.together(
        [
            *(
                {"program": "write_updates", "root": root, "name": name, "count": each}
                for name in range(writers)
            ),
            *({"program": "read_until", "root": root, "total": total} for _ in range(2)),
            *({"program": "vacuum_until", "root": root, "total": total} for _ in range(2)),
        ]
    )
    assert [code for code, _ in ended] == [0] * 7, ended
    conflicts, reads, removed = (
        sum(int(said) for _, said in part) for part in (ended[:3], ended[3:5], ended[5:])
    )
    assert conflicts > 0
    assert reads > 2
    assert removed > 0
    current = repository.current()
    assert (current.version, current.properties["total"]) == (total, total)
    expected = [name * 1000 + number for name in range(writers) for number in range(each)]
    assert ids_found(repository, current) == expected
    assert verify(repository).ok
    vacuum(repository, keep_versions=1, grace=0)
    assert set(repository.directory.all_names("data")) == set(current.segments)
    assert repository.directory.names("pins") == []


def test_of_several_creators_one_wins(processes: Starter, tmp_path: Path) -> None:
    for attempt in range(10):
        root = tmp_path / str(attempt)
        ended = processes.together(
            [{"program": "create", "root": str(root), "name": name} for name in range(4)]
        )
        said = [one.split(":")[0] for _, one in ended]
        assert sorted(said) == ["CommitConflict"] * 3 + ["done"]
        assert said[Repository.open(root).current().properties["by"]] == "done"
