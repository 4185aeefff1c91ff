"""Updates in order, gaps, and repeated batches."""

from __future__ import annotations

import pytest

from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.sequence import Turn, require_plausible, take_turn
from mayfly.errors import BadInput


def test_the_next_update_has_no_gap() -> None:
    assert take_turn(1, "a", 0, {}) == Turn(1)
    assert list(take_turn(8, "h", 7, {"g": 7}).empty_updates) == []


def test_missed_updates_run_empty_first() -> None:
    turn = take_turn(8, "h", 4, {"d": 4})
    assert (list(turn.empty_updates), turn.update, turn.repeated) == ([5, 6, 7], 8, False)


def test_a_repeated_batch_does_nothing_whatever_update_it_names() -> None:
    for update in (4, 9):
        assert take_turn(update, "d", 5, {"d": 4, "e": 5}) == Turn(4, repeated=True)


@pytest.mark.parametrize("update", [5, 4, 0])
def test_an_earlier_update_is_refused(update: int) -> None:
    with pytest.raises(BadInput, match=f"update {update}, but update 5 is already") as refusal:
        take_turn(update, "new", 5, {"e": 5})
    assert "update 6 or later" in refusal.value.hint


DAY = 86_400_000_000


@pytest.mark.parametrize("update", [1_367, 10**6, 2**63, 10**30])
def test_a_number_far_ahead_of_the_clock_and_the_last_update_is_refused(update: int) -> None:
    with pytest.raises(BadInput, match="update of this moment is number 1000") as refusal:
        require_plausible(update, 900, FixedIntervals(DAY, 0), now=1_000 * DAY)
    assert "at=" in refusal.value.hint


def test_a_number_within_a_year_of_either_is_not() -> None:
    require_plausible(1_366, 900, FixedIntervals(DAY, 0), now=1_000 * DAY)
    require_plausible(5_366, 5_000, FixedIntervals(DAY, 0), now=1_000 * DAY)
    require_plausible(-5, 0, FixedIntervals(DAY, 0), now=1_000 * DAY)
