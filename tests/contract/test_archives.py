"""What every archive promises, whatever its scheme and technique, against a list of rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.calendar import CalendarDays, FixedIntervals, UpdateCalendar
from mayfly.archive.model.settings import ArchiveSettings
from tests.contract.archive_history import History
from tests.contract.archive_model import KEY_KINDS, KeyKind

SCHEMES = [
    *((scheme, False) for scheme in WaveScheme),
    (WaveScheme.RATA, True),
    (WaveScheme.REINDEX_PLUS_PLUS, True),
]
CALENDARS: list[UpdateCalendar] = [
    FixedIntervals(100),
    FixedIntervals(1),
    FixedIntervals(3_600_000_000, origin=-7_777),
    CalendarDays("Europe/Berlin", date(2026, 3, 26)),
    CalendarDays("America/Havana", date(2026, 10, 28)),
    CalendarDays("Pacific/Apia", date(2011, 12, 24)),
]


def drawn_settings(
    scheme: WaveScheme, spread: bool, technique: UpdateTechnique, keys: KeyKind, chance: Random
) -> ArchiveSettings:
    """Windows of 1 to 9 updates over any number of constituents, and everything else at random."""
    fewest = 3 if spread else scheme.fewest_constituents
    window = chance.randint(fewest, 9)
    layout = WaveLayout(scheme, window, chance.randint(fewest, window), spread)
    columns = {**keys.columns, "ts": chance.choice(["bigint", "timestamp"]), "id": "bigint"}
    return ArchiveSettings(
        columns={**columns, "note": "string"},
        key=tuple(keys.columns),
        time="ts",
        calendar=chance.choice(CALENDARS),
        layout=layout,
        technique=technique,
        late=chance.choice([LateRows.REFUSE, LateRows.OWN_DAY]),
        parts=chance.randint(1, 3),
        row_group_bytes=chance.choice([1, 600_000]),
        keep_versions=chance.randint(1, 5),
    )


def play(
    root: Path | str, chosen: ArchiveSettings, keys: KeyKind, chance: Random, updates: int
) -> History:
    history = History.begin(root, chosen, keys, chance)
    history.check()
    for number in range(updates):
        if number and chance.random() < 0.05:
            history.add_column(f"added{number}")
        history.play()
        history.check()
    return history


@pytest.mark.halved
@pytest.mark.parametrize("technique", UpdateTechnique)
@pytest.mark.parametrize(("scheme", "spread"), SCHEMES)
def test_an_archive_is_its_list_of_rows(
    scheme: WaveScheme, spread: bool, technique: UpdateTechnique, tmp_path: Path
) -> None:
    """Start-up and then some, with keys of every kind over all combinations."""
    chance = Random(f"{scheme} {spread} {technique}")
    keys = chance.choice(list(KEY_KINDS.values()))
    chosen = drawn_settings(scheme, spread, technique, keys, chance)
    play(tmp_path / "archive", chosen, keys, chance, min(2 * chosen.window + 2, 14))


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_keys_of_every_type(kind: str, tmp_path: Path) -> None:
    chance = Random(kind)
    scheme, spread = chance.choice(SCHEMES)
    technique = chance.choice(list(UpdateTechnique))
    chosen = drawn_settings(scheme, spread, technique, KEY_KINDS[kind], chance)
    play(tmp_path / "archive", chosen, KEY_KINDS[kind], chance, 5)


@settings(max_examples=settings().max_examples // 4)
@given(
    st.sampled_from(SCHEMES),
    st.sampled_from(list(UpdateTechnique)),
    st.sampled_from(sorted(KEY_KINDS)),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_any_history(
    scheme: tuple[WaveScheme, bool],
    technique: UpdateTechnique,
    kind: str,
    updates: int,
    chance: Random,
) -> None:
    keys = KEY_KINDS[kind]
    chosen = drawn_settings(*scheme, technique, keys, chance)
    with TemporaryDirectory() as folder:
        play(Path(folder) / "archive", chosen, keys, chance, updates)
