from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mayfly.errors import InvalidSetting
from mayfly.testing import ManualClock


def test_it_stands_still_until_moved() -> None:
    clock = ManualClock(5)
    assert clock.now() == clock.now() == 5
    assert clock.advance("2 ms") == 2_005
    assert clock() == 2_005


def test_set_jumps_to_an_instant_also_backwards() -> None:
    clock = ManualClock(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert clock.now() == 1_000_000
    assert clock.set("1970-01-01T00:00:02") == 2_000_000
    assert clock.set(7) == clock.now() == 7


def test_it_cannot_advance_by_a_negative_duration() -> None:
    clock = ManualClock(5)
    with pytest.raises(InvalidSetting, match="negative"):
        clock.advance(timedelta(microseconds=-1))
    with pytest.raises(InvalidSetting, match="3600 has no unit"):
        clock.advance(3600)  # type: ignore[arg-type]
    assert clock.now() == 5
