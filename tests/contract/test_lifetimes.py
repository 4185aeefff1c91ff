"""What every archive promises whose rows have their own lifetimes, against a list of rows."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.archive.layouts.doubly_partitioned import (
    BASELINES,
    PartitionedLayout,
    PartitionRule,
    baseline,
)
from mayfly.archive.model.admission import LateRows
from mayfly.archive.model.lifetimes import Lifetimes
from mayfly.archive.model.settings import ArchiveSettings
from tests.contract.archive_model import KEY_KINDS, KeyKind
from tests.contract.lifetime_history import LifetimeHistory
from tests.contract.test_archives import CALENDARS

RULES = [rule for rule in PartitionRule if rule is not PartitionRule.WATA]
SOURCES = ("exp", "lifetime", "classes", "constant")


def drawn_layout(rule: PartitionRule, rebuild: bool, chance: Random) -> PartitionedLayout:
    """Roll-overs of 1 to 9 updates over any sizes, also ones that do not divide."""
    fewest = 2 if rule.throws_away else 1
    rollover = chance.randint(fewest, 9)
    groups = chance.randint(fewest, rollover if rule.throws_away else 4)
    clustered = chance.random() < 0.9
    return PartitionedLayout(
        rule, rollover, groups, chance.randint(1, 4), rebuild,
        fan_in=chance.randint(2, 4), clustered=clustered,
    )  # fmt: skip


def drawn_settings(layout: PartitionedLayout, keys: KeyKind, chance: Random) -> ArchiveSettings:
    calendar = chance.choice(CALENDARS)
    interval = calendar.time_of(1) - calendar.time_of(0)
    if not hasattr(calendar, "interval"):
        interval = 86_400_000_000
    longest, source = layout.rollover * interval, chance.choice(SOURCES)
    time = chance.choice(["bigint", "timestamp"])
    columns = {**keys.columns, "ts": time, "id": "bigint", "note": "string"}
    lifetimes = Lifetimes(longest, constant=chance.randint(1, longest))
    if source == "exp":
        columns["until"] = chance.choice(["bigint", "timestamp"])
        lifetimes = Lifetimes(longest, exp="until")
    elif source == "lifetime":
        columns["ttl"] = chance.choice(["bigint", "interval day to second"])
        lifetimes = Lifetimes(longest, column="ttl")
    elif source == "classes":
        columns["class"] = "string"
        classes = {"brief": max(1, interval // 2), "long": longest}
        lifetimes = Lifetimes(longest, column="class", classes=classes)
    return ArchiveSettings(
        columns=columns,
        key=tuple(keys.columns),
        time="ts",
        calendar=calendar,
        layout=layout,
        late=chance.choice([LateRows.REFUSE, LateRows.THIS_UPDATE]),
        parts=chance.randint(1, 3),
        row_group_bytes=chance.choice([1, 600_000]),
        keep_versions=chance.randint(1, 5),
        young=chance.randint(0, 2),
        lifetimes=lifetimes,
    )


def play(
    root: Path | str, chosen: ArchiveSettings, keys: KeyKind, chance: Random, updates: int
) -> LifetimeHistory:
    history = LifetimeHistory.begin(root, chosen, keys, chance)
    history.check()
    for number in range(updates):
        if number and chance.random() < 0.05:
            history.add_column(f"added{number}")
        history.play()
        history.check()
    return history


@pytest.mark.halved
@pytest.mark.parametrize("rebuild", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_an_archive_is_its_list_of_rows(rule: PartitionRule, rebuild: bool, tmp_path: Path) -> None:
    chance = Random(f"{rule} {rebuild}")
    keys = chance.choice(list(KEY_KINDS.values()))
    chosen = drawn_settings(drawn_layout(rule, rebuild, chance), keys, chance)
    play(tmp_path / "archive", chosen, keys, chance, 12)


@pytest.mark.parametrize("name", BASELINES)
def test_the_baselines(name: str, tmp_path: Path) -> None:
    chance = Random(name)
    layout = baseline(name, chance.randint(3, 9), chance.randint(2, 3))
    keys = chance.choice(list(KEY_KINDS.values()))
    play(tmp_path / "archive", drawn_settings(layout, keys, chance), keys, chance, 12)


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_keys_of_every_type(kind: str, tmp_path: Path) -> None:
    chance = Random(kind)
    layout = drawn_layout(chance.choice(RULES), chance.random() < 0.5, chance)
    chosen = drawn_settings(layout, KEY_KINDS[kind], chance)
    play(tmp_path / "archive", chosen, KEY_KINDS[kind], chance, 4)


@settings(max_examples=settings().max_examples // 4)
@given(
    st.sampled_from(RULES),
    st.booleans(),
    st.sampled_from(sorted(KEY_KINDS)),
    st.integers(1, 10),
    st.randoms(use_true_random=False),
)
def test_any_history(
    rule: PartitionRule, rebuild: bool, kind: str, updates: int, chance: Random
) -> None:
    keys = KEY_KINDS[kind]
    chosen = drawn_settings(drawn_layout(rule, rebuild, chance), keys, chance)
    with TemporaryDirectory() as folder:
        play(Path(folder) / "archive", chosen, keys, chance, updates)
