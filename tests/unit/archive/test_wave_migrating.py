"""Changing the scheme of an archive of a window: the same rows, and the new scheme's indexes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import mayfly.archive
from mayfly import faults
from mayfly.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.wave_migrating import changed_layout, state_at
from mayfly.errors import InvalidSetting
from tests.unit.archive.small_archive import day_rows, said, small_archive, values

WINDOW = 6


def check(archive: Archive, day: int) -> None:
    expected = said(range(max(1, day - WINDOW + 1), day + 1))
    assert values(archive.scan()) == expected
    assert values(archive.probe(3)) == [one for one in expected if one.endswith("/3")]
    assert archive.status().rows == len(expected)
    assert archive.verify().ok, archive.verify()
    layout = archive.settings.wave
    held = archive.version().state.wave
    # As if it had always been so, but for days that had expired before.
    assert held == state_at(layout, day)
    assert sum(one.rows for one in archive.status().constituents) <= 10 * layout.most_stored_days


@pytest.mark.parametrize("technique", UpdateTechnique)
def test_from_scheme_to_scheme(tmp_path: Path, technique: UpdateTechnique) -> None:
    archive = small_archive(tmp_path / "a", window=WINDOW, constituents=3, technique=technique)
    chance, day = Random(technique), 0
    ways = [(a, b) for a in WaveScheme for b in WaveScheme if a is not b]
    for before, after in chance.sample(ways, 12):
        archive.migrate(scheme=before)
        for _ in range(chance.randint(1, 3)):
            day += 1
            archive.update(day_rows(day))
        report = archive.migrate(scheme=after, constituents=chance.randint(2, WINDOW))
        assert report.layout.startswith(f"{after} in ")
        assert report.rows == archive.scan().num_rows
        assert archive.settings.technique is technique
        check(archive, day)
        for _ in range(chance.randint(1, WINDOW + 1)):
            day += 1
            archive.update(day_rows(day))
            check(archive, day)


def test_the_technique_and_an_archive_without_rows(tmp_path: Path) -> None:
    archive = small_archive(tmp_path / "a", window=WINDOW, constituents=3, scheme="DEL")
    archive.migrate(technique="in-place")
    for day in range(1, 10):
        archive.update(day_rows(day))
    assert archive.status().constituents[0].runs > 1
    archive.migrate(technique="packed shadow")
    assert all(one.packed for one in archive.status().constituents)
    check(archive, 9)


@pytest.mark.parametrize("point", ["archive.run-written", "archive.moved", "commit.checked"])
def test_a_change_that_fails_changes_nothing(tmp_path: Path, point: str) -> None:
    archive = small_archive(tmp_path / "a", 8, window=WINDOW, constituents=3, scheme="RATA")

    def fail() -> None:
        raise OSError("pulled the plug")

    with faults.on_reach(point, fail), pytest.raises(OSError, match="plug"):
        archive.migrate(scheme="REINDEX++")
    again = mayfly.archive.open(tmp_path / "a")
    assert again.settings.wave.scheme is WaveScheme.RATA
    check(again, 8)
    again.migrate(scheme="REINDEX++")
    check(again, 8)


def test_states_are_those_that_steps_lead_to() -> None:
    for scheme in WaveScheme:
        layout = WaveLayout(scheme, 5, 3)
        for day in (0, 1, 4, 5, 6, 60, 61, 137):
            assert state_at(layout, day) == layout.state_after(day)


def test_constituents_that_the_new_scheme_cannot_have() -> None:
    alone = WaveLayout(WaveScheme.DEL, 9, 1)
    assert changed_layout(alone, "WATA", None, 3).constituents == 3
    assert changed_layout(alone, None, None, 3) == alone
    with pytest.raises(InvalidSetting, match="use 2 to 9"):
        changed_layout(alone, "RATA", 1, 3)
