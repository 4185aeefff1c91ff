from __future__ import annotations

import pytest

from mayfly.errors import InvalidSetting
from mayfly.lifetime import MIN_TIME
from mayfly.runtime.replay_speed import Pace


def test_a_batch_waits_for_its_share_of_time() -> None:
    now = [100.0]
    pace = Pace(1000, now=lambda: now[0])
    assert pace.wait_for(MIN_TIME) == 0
    assert pace.wait_for(5_000_000) == 0
    now[0] += 0.001
    assert pace.wait_for(15_000_000) == pytest.approx(0.009)
    now[0] += 1
    assert pace.wait_for(25_000_000) == 0


def test_a_stopped_one_waits_no_more() -> None:
    pace = Pace(0.001)
    pace.wait_for(0)
    pace.stop()
    assert pace.wait_for(1_000_000_000) > 900_000


def test_a_speed_is_above_zero() -> None:
    with pytest.raises(InvalidSetting, match="speed"):
        Pace(0)
