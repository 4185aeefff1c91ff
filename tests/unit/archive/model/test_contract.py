"""Promises about the dead: what is returned, and what was declared void."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import mayfly.archive
from mayfly.archive.model.contract import Contract
from mayfly.errors import InvalidSetting
from tests.unit.archive.rows_with_lifetimes import DDL, LAYOUTS, P, ids, made, rows_of, table


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HARD", Contract()),
        ("soft(3)", Contract(3)),
        ("PHYSICAL WITHIN 2 h", Contract(0, 7_200_000_000)),
        ("Hard physical within 1 day", Contract(0, 86_400_000_000)),
        ("SOFT ( 2 ) PHYSICAL WITHIN 1 day", Contract(2, 86_400_000_000)),
    ],
)
def test_contracts_in_words(text: str, expected: Contract) -> None:
    assert Contract.parse(text) == expected == Contract.parse(str(expected))


@pytest.mark.parametrize("text", ["", "FIRM", "SOFT", "SOFT(x)", "HARD SOFT(1)", "PHYSICAL"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="HARD or SOFT"):
        Contract.parse(text)


def test_a_promise_that_updates_cannot_keep(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="refresh more often"):
        made(tmp_path / "a", contract="PHYSICAL WITHIN 9 us")
    wave = mayfly.archive.create(tmp_path / "b", DDL, key="k", window=3)
    with pytest.raises(InvalidSetting, match="cannot promise"):
        replace(wave.settings, contract=Contract(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_soft_rows_are_late_by_k_updates_at_most(tmp_path: Path, layout: str | None) -> None:
    soft, hard = made(tmp_path / "s", layout, "SOFT(2)"), made(tmp_path / "h", layout)
    given: list[tuple[int, int, int, int]] = []
    later = 0
    for update in range(1, 22):
        given += rows_of(update)
        report = soft.update(table(rows_of(update)))
        hard.update(table(rows_of(update)))
        alive = sorted(row[3] for row in given if row[2] > 10 * update)
        allowed = {row[3] for row in given if row[2] > 10 * (update - 2)}
        assert ids(hard.scan()) == alive
        found = Counter(ids(soft.scan()))
        assert set(alive) <= set(found) <= allowed
        assert max(found.values()) == 1
        assert report.hidden_until == 10 * (update - 2)
        later += len(found) - len(alive)
    assert later or layout not in ("Rebuild 2x2", "lazy 3x2")


def test_patience_saves_rewriting(tmp_path: Path) -> None:
    """A packed sub-index that is only due for removals is left alone for k updates."""
    archives = {c: made(tmp_path / c, "R-exp4", c) for c in ("HARD", "SOFT(3)")}
    read = dict.fromkeys(archives, 0)
    for name, archive in archives.items():
        for update in range(1, 20):
            batch = table(rows_of(update)) if update <= 8 else None
            read[name] += archive.update(batch).files_read
    assert read["SOFT(3)"] < read["HARD"]


@pytest.mark.parametrize(
    "contract", ["HARD", pytest.param("PHYSICAL WITHIN 10 us", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_void_rows_are_never_returned(tmp_path: Path, layout: str | None, contract: str) -> None:
    archive = made(tmp_path / "a", layout, contract)
    chance = Random(f"{layout}")
    given: dict[int, tuple[int, int, int, int]] = {}
    void: set[int] = set()
    for update in range(1, 24):
        archive.update(table(rows_of(update)))
        given |= {row[3]: row for row in rows_of(update)}
        now = 10 * update
        alive = {i for i, row in given.items() if row[2] > now and i not in void}
        if update % 2:
            key = chance.randint(0, 4)
            meant = {i for i in alive if given[i][0] == key}
            report = archive.invalidate([key, 99])
        else:
            meant = set(chance.sample(sorted(alive), 2))
            report = archive.invalidate(rows=table([given[i] for i in meant]))
        assert report.rows == len(meant)
        void |= meant
        alive -= meant
        assert ids(archive.scan()) == sorted(alive)
        for key in range(5):
            wanted = sorted(i for i in alive if given[i][0] == key)
            assert ids(archive.probe(key)) == wanted
            assert ids(archive.probe(key, columns=["id"])) == wanted
        assert ids(archive.probe_range(1, 3)) == sorted(i for i in alive if 1 <= given[i][0] <= 3)
        assert archive.inspect.status().rows == len(alive)
        assert archive.maintain.verify().ok
        if contract != "HARD":
            assert not archive.version().state.invalid
    for _ in range(2 * P):
        archive.update(None)
    assert not archive.version().state.invalid  # lists go with the rows they hide
    assert not archive.version().manifest.segments


def test_what_comes_later_is_not_void(tmp_path: Path) -> None:
    """Also where a merge brings old and new rows of the key into one run."""
    archive = made(tmp_path / "a", "NoRebuild 1x1", fan_in=2)
    archive.update(table([(1, 10, 75, 1), (2, 10, 75, 2)]))
    assert archive.invalidate([1]).rows == 1
    archive.update(table([(1, 20, 75, 3), (1, 9, 75, 4)]))  # 4 comes late, and is not meant
    assert ids(archive.probe(1)) == [3, 4]
    assert ids(archive.scan()) == [2, 3, 4]
    assert not archive.version().state.invalid  # the merge removed row 1
    assert archive.invalidate([1]).rows == 2
    assert ids(archive.scan()) == [2]


def test_soft_reads_show_what_is_stored(tmp_path: Path) -> None:
    archive = made(tmp_path / "a", "Rebuild 2x2")
    archive.update(table(rows_of(1)))
    everything = ids(archive.scan())
    archive.invalidate([rows_of(1)[0][0]])
    assert set(ids(archive.scan())) < set(everything)
    assert ids(archive.scan(soft=True)) == everything


def test_nothing_to_make_void(tmp_path: Path) -> None:
    archive = made(tmp_path / "a")
    archive.update(table(rows_of(1)))
    version = archive.version().manifest.version
    assert archive.invalidate([77]).rows == 0
    assert archive.version().manifest.version == version
    with pytest.raises(InvalidSetting, match="keys or rows"):
        archive.invalidate()
    wave = mayfly.archive.create(tmp_path / "w", DDL, key="k", window=3)
    assert wave.invalidate([1]).rows == 0
