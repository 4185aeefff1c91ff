from __future__ import annotations

import pytest

from mayfly.demo.figures import GAP, curve, elapsed, event_time, number, seconds
from mayfly.display import counted, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (81_240, "81 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (3_456_000_000, "3.5 GB"),
        (2e15, "2,000 TB"),
    ],
)
def test_sizes_keep_to_three_digits(count: float, text: str) -> None:
    assert size(count) == text


def test_numbers_have_their_thousands_apart() -> None:
    assert number(1_234_567.6) == "1,234,568"
    assert counted(1, "row") == "1 row"
    assert counted(2_000, "row") == "2,000 rows"


def test_times() -> None:
    assert elapsed(0.9) == "0:00"
    assert elapsed(61) == "1:01"
    assert elapsed(3_700) == "61:40"
    assert seconds(9.96) == "10.0 s"
    assert seconds(1_234.5) == "1,234 s"


def test_the_clock_is_a_time_of_day() -> None:
    assert event_time(None) == "not set"
    assert event_time(12 * 3_600_000_000 + 61_250_000) == "12:01:01.2"


def test_the_curve_reaches_the_top_at_the_highest_value_only() -> None:
    assert curve((0, 1, 4, 8), 10) == [" ▁▄█"]


def test_a_tall_curve_fills_lines_from_below() -> None:
    assert curve((0, 4, 8, 12, 16), 10, 2) == ["   ▄█", " ▄███"]


def test_a_value_above_zero_is_always_visible() -> None:
    assert curve((1, 1_000_000), 10, 2)[-1][0] == "▁"


def test_the_curve_shows_the_last_values_and_keeps_its_scale() -> None:
    assert curve((8, 0, 4), 2) == [" ▄"]


def test_seconds_without_a_driver_are_crosses_on_the_ground() -> None:
    assert curve((8, None, 8), 10, 2) == ["█ █", f"█{GAP}█"]


@pytest.mark.parametrize("values", [(), (0, 0), (None,)])
def test_a_curve_without_any_height_can_be_drawn(values: tuple[int | None, ...]) -> None:
    assert curve(values, 10, 2)[-1].strip() in ("", GAP)


def test_no_room_no_curve() -> None:
    assert curve((1, 2, 3), 0, 1) == [""]
