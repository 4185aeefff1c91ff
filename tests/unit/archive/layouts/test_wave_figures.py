"""The experiment on Figures 2 to 9: its trends, its record, and what its README claims."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.wave_figures import run
from experiments.wave_figures.curves import Curve, read_curves
from experiments.wave_figures.trends import TRENDS, Outcome, check_trends
from mayfly.archive.layouts import WaveScheme

README = Path(run.__file__).parent / "README.md"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def outcomes(out: Path) -> list[Outcome]:
    return run.main(["--out", str(out), "--no-plots"])


def test_the_readme_says_which_trends_hold_and_which_fail(outcomes: list[Outcome]) -> None:
    rows = re.findall(
        r"^\| (\w+) \| ([^|]+) \| ([^|]+) \| (holds|fails)", README.read_text(), re.MULTILINE
    )
    claimed = [(name, figure, claim, verdict == "holds") for name, figure, claim, verdict in rows]
    assert claimed == [(o.name, o.figure, o.claim, o.holds) for o in outcomes]
    holding = sum(outcome.holds for outcome in outcomes)
    assert f"{holding} of {len(outcomes)} hold" in README.read_text()


def test_the_record_tells_where_it_comes_from(out: Path, outcomes: list[Outcome]) -> None:
    record = json.loads((out / "wave_figures.json").read_text())
    assert record["commit"]
    assert record["machine"]["cores"]
    assert [entry["number"] for entry in record["configuration"]] == [2, 3, 4, 4, 5, 6, 7, 8, 9, 9]
    assert [entry["holds"] for entry in record["trends"]] == [o.holds for o in outcomes]
    assert all(outcome.evidence for outcome in outcomes)


def test_recorded_curves_can_be_read_again_as_another_source(
    out: Path, outcomes: list[Outcome]
) -> None:
    curves = read_curves(out / "wave_figures.json")
    assert len(curves) == 10 * len(WaveScheme)
    measured = [Curve(c.figure, c.scheme, c.points, "measured") for c in curves]
    assert check_trends(curves + measured, source="measured") == outcomes


def test_a_trend_that_does_not_hold_is_reported(out: Path, outcomes: list[Outcome]) -> None:
    """Turned upside down, the curves cannot show what they showed, except what is level."""
    curves = read_curves(out / "wave_figures.json")
    inverted = [
        Curve(c.figure, c.scheme, {at: 1e9 / value for at, value in c.points.items()})
        for c in curves
    ]
    held = {outcome.name for outcome in outcomes if outcome.holds}
    still = {outcome.name for outcome in check_trends(inverted) if outcome.holds}
    assert held & still == {"3a", "4d", "7e", "8a"}
    steep = [
        Curve(c.figure, c.scheme, {at: value * 2**at for at, value in c.points.items()})
        for c in curves
    ]
    assert not {"3a", "4d", "8a"} & {o.name for o in check_trends(steep) if o.holds}


def test_every_figure_has_a_trend() -> None:
    assert {trend.figure.split()[0] for trend in TRENDS} == {str(n) for n in range(2, 10)}
