"""Archives and checkpoints on every kind of store: nothing above a store needs a file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import mayfly.archive
from mayfly.archive.archive import Archive
from mayfly.archive.erase.feeds import kept_elsewhere
from mayfly.archive.erase.staged_erasure import erase_staged
from mayfly.archive.layouts import UpdateTechnique
from mayfly.archive.write.staged_row_writer import StageRows
from mayfly.archive.write.staged_rows import Brought, Staging, staged_figures
from mayfly.checkpoint.source_log import Move
from mayfly.errors import CommitConflict, CorruptFile, InvalidSetting, UnsupportedStore
from mayfly.faults import on_reach
from mayfly.runtime.in_process import ContinuousRun
from mayfly.storage import Directory, Repository, vacuum, verify
from mayfly.storage.segment import DATA
from mayfly.testing.random_queries import STREAMS
from tests.contract import test_archives as waves
from tests.contract import test_lifetimes as lifetimes
from tests.contract.archive_model import KEY_KINDS
from tests.contract.store_places import PLACES
from tests.property.continuous_cases import SECOND, _cut, _rows, catalog, table_of, told
from tests.property.shared_runs import program_of, results_of, runner_of
from tests.property.test_migration import moved

DAY = 86_400_000_000
JOIN = "SELECT x.g, x.v, y.v AS w FROM s1 [RANGE 10 s] x, s2 [RANGE 5 s] y WHERE x.k = y.k"
QUERIES = {"join": JOIN, "count": f"SELECT g, COUNT(*) AS n FROM ({JOIN}) z GROUP BY g"}


@pytest.fixture(params=PLACES)
def address(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Beside the store itself, no file may appear."""
    monkeypatch.chdir(tmp_path)
    with PLACES[request.param]() as place:
        yield place
    assert os.listdir(tmp_path) == []


def day_rows(day: int) -> pa.Table:
    times = pa.array([day * DAY] * 3, pa.timestamp("us", "UTC"))
    return pa.table({"k": [1, 2, 100 + day], "ts": times})


def small_archive(address: str, days: int = 6) -> Archive:
    archive = mayfly.archive.create(
        address, "k BIGINT, ts TIMESTAMP", key="k", origin=0, window=4, constituents=2
    )
    for day in range(1, days + 1):
        archive.update(day_rows(day))
    return archive


def test_an_archive_is_written_and_read(address: str) -> None:
    small_archive(address)
    archive = mayfly.archive.open(address)
    for _ in range(3):  # files stay open from the first probe on
        assert archive.probe(1).num_rows == 4
        assert archive.probe(104).num_rows == 1
    assert archive.probe(101).num_rows == 0
    assert archive.scan().num_rows == 12
    assert archive.inspect.status().path == address
    assert archive.maintain.verify().ok


def test_versions_are_vacuumed_and_rolled_back_to(address: str) -> None:
    archive = small_archive(address)
    older = archive.repository.versions()[-2]
    before = archive.inspect.history()[-2].state.update
    archive.maintain.rollback(older)
    assert archive.version().state.update == before
    archive.maintain.vacuum(keep_versions=1, grace=0)
    assert len(archive.repository.versions()) == 1
    assert archive.repository.directory.all_names(DATA) == sorted(
        archive.version().manifest.segments
    )
    assert archive.maintain.verify().ok


def test_of_two_writers_one_is_refused(address: str) -> None:
    archive = small_archive(address, days=2)
    rivals = [mayfly.archive.open(address)]

    def overtake() -> None:
        if rivals:
            rivals.pop().update(day_rows(3))

    with on_reach("archive.written", overtake), pytest.raises(CommitConflict):
        archive.update(day_rows(3))
    assert archive.version().state.update == 3
    assert archive.scan().num_rows == 9
    archive.maintain.vacuum(grace=0)
    assert archive.maintain.verify().ok


def test_a_place_that_is_taken_or_damaged_is_told(address: str) -> None:
    archive = small_archive(address)
    with pytest.raises(CommitConflict):
        small_archive(address)
    directory = archive.repository.directory
    name = min(archive.version().manifest.segments)
    data = bytearray(directory.read(name))
    data[len(data) // 3] ^= 0xFF
    directory.replace(name, bytes(data))
    assert [
        problem.path for problem in mayfly.archive.open(address).maintain.verify().problems
    ] == [name]
    directory.remove(name)
    with pytest.raises(CorruptFile, match="is missing"):
        mayfly.archive.open(address).scan()
    with pytest.raises(InvalidSetting, match="not made by Mayfly"):
        Repository.create(f"{address}/{DATA}", {})


@pytest.mark.parametrize("address", ["memory"], indirect=True)
@pytest.mark.parametrize("number", range(4))
def test_any_history_of_a_window(address: str, number: int) -> None:
    chance = Random(number)
    scheme, spread = chance.choice(waves.SCHEMES)
    keys = KEY_KINDS[chance.choice(sorted(KEY_KINDS))]
    technique = chance.choice(list(UpdateTechnique))
    chosen = waves.drawn_settings(scheme, spread, technique, keys, chance)
    waves.play(address, chosen, keys, chance, 6)


@pytest.mark.parametrize("address", ["memory"], indirect=True)
@pytest.mark.parametrize("number", range(4))
def test_any_history_of_rows_with_lifetimes(address: str, number: int) -> None:
    chance = Random(number)
    keys = KEY_KINDS[chance.choice(sorted(KEY_KINDS))]
    layout = lifetimes.drawn_layout(chance.choice(lifetimes.RULES), bool(number % 2), chance)
    lifetimes.play(address, lifetimes.drawn_settings(layout, keys, chance), keys, chance, 6)


def test_rows_are_staged_beside_their_archive(address: str) -> None:
    archive = small_archive(address, days=2)
    staging = Staging.at(address, "link")
    task = StageRows(staging.repository.directory.address, True, archive.settings, 2)
    written = task.run([day_rows(3).to_batches()[0]])
    staging.add(staging.current(), written.segments, (), Brought())
    assert staged_figures(address)["link"]["staged_rows"] == 3
    assert [file.unread for file in kept_elsewhere(address, 0)] == [None]
    erase_staged(address, 1 << 62, {})
    assert staged_figures(address)["link"]["staged_rows"] == 0
    assert not list(kept_elsewhere(address, 0))


def test_a_checkpoint_goes_on_after_restarts_and_moves(address: str) -> None:
    rng, known = Random(5), catalog(0)
    rows = {name: _rows(rng, name, 24) for name in STREAMS}
    runs = {name: ContinuousRun(program_of(cql, known), known) for name, cql in QUERIES.items()}
    for number, batch in enumerate([*_cut(rng, rows, 0), {}]):
        buckets = 2 + number % 2
        here = runner_of(address, known, QUERIES, buckets if number == 0 else _buckets(address))
        read = {stream.name for stream in here.dataflow.streams}
        tables = {name: table_of(name, own) for name, own in batch.items() if name in read}
        beats = {} if batch else dict.fromkeys(read, 10_000 * SECOND)
        here.feed(tables, beats)
        for run in runs.values():
            run.feed(tables, beats)
        if number % 3 == 1:
            moved(here, known, QUERIES, buckets + 1)
    here = runner_of(address, known, QUERIES, _buckets(address))
    for name, run in runs.items():
        view = run.program.sent is None
        assert told(results_of(here, name), view) == told(run.lifetimes(), view)
    assert verify(here.repository).ok
    vacuum(here.repository, keep_versions=1, grace=0)
    named = sorted(here.repository.current().segments)
    assert here.repository.directory.all_names(DATA) == named


def _buckets(address: str) -> Any:
    return Repository.open(address).current().properties["buckets"]


def test_notes_of_spark_move_with_their_sources(address: str) -> None:
    directory = Directory.at(address)
    directory.replace("spark/offsets/0", b'v1\n{}\n"a0"\n"b0"')
    directory.replace("spark/sources/1/0", b"v1\nb")
    part = Move(directory, "spark", ("a", "b"), ("b",)).write_anew(3)
    Move(directory, "spark", ("a", "b"), ("b",)).remove_others(part)
    assert directory.entries() == [part]
    assert directory.read(f"{part}/sources/0/0") == b"v1\nb"


def test_what_needs_a_folder_says_so(address: str) -> None:
    directory = Directory.at(address)
    if address.startswith("memory:"):
        with pytest.raises(UnsupportedStore, match="not on a POSIX file system"):
            _ = directory.root
    else:
        assert directory.root == Path(address)
