"""The printed plan of coming transitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.archive.layouts import (
    WaveLayout,
    WaveScheme,
    plan_lines,
    plan_table,
)
from mayfly.errors import InvalidSetting

GOLDEN = Path(__file__).parents[3] / "golden" / "archive"


@pytest.mark.parametrize(
    ("scheme", "window", "constituents", "days", "golden"),
    [
        ("RATA", 10, 4, range(10, 15), "plan_rata.txt"),
        ("REINDEX+", 7, 3, range(6, 11), "plan_reindex+.txt"),
        ("REINDEX++", 10, 2, range(10, 16), "plan_reindex++.txt"),
    ],
)
def test_the_plan_reads_like_the_paper(
    scheme: str, window: int, constituents: int, days: range, golden: str
) -> None:
    lines = plan_table(scheme, window, constituents, days)
    assert lines == (GOLDEN / golden).read_text().splitlines()


def test_a_spread_plan_prepares_day_by_day() -> None:
    lines = plan_table("REINDEX++", 10, 2, range(11, 16), spread=True)
    assert lines == (GOLDEN / "plan_reindex++_spread.txt").read_text().splitlines()


def test_a_plan_continues_from_a_stored_state() -> None:
    layout = WaveLayout(WaveScheme.RATA, 10, 4)
    lines = plan_lines(layout, layout.state_after(11), range(12, 15))
    table = plan_table("RATA", 10, 4, range(12, 15))
    assert lines == table


@pytest.mark.parametrize("days", [range(5, 5), range(3, 9), range(6, 12, 2)])
def test_only_coming_consecutive_days_can_be_planned(days: range) -> None:
    layout = WaveLayout(WaveScheme.DEL, 4, 2)
    with pytest.raises(InvalidSetting, match="nothing to plan"):
        plan_lines(layout, layout.state_after(5), days)
