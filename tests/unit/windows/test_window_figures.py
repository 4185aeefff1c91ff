"""The recorded figures of the report and the thesis: their points give the trends beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.window_figures import run
from experiments.window_figures.trends import check_trends

HERE = Path(run.__file__).parent
README = (HERE / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("figure", run.FIGURES)
def test_the_readme_says_what_the_points_show(figure: str) -> None:
    recorded = json.loads((HERE / "results" / f"figure_{figure}.json").read_text(encoding="utf-8"))
    trends = check_trends(figure, recorded["points"])
    assert trends == recorded["trends"]
    for trend in trends:
        row = next(line for line in README.splitlines() if f"| {trend['claim']} |" in line)
        assert ("confirmed" in row) == trend["holds"]
