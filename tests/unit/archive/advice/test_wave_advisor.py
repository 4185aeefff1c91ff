"""The advisor: the paper's cases, limits, and advice in words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from mayfly.archive.advice.cost_parameters import SCAM, TPC_D, WSE, CostParameters
from mayfly.archive.advice.wave_advice import Workload
from mayfly.archive.advice.wave_advisor import NEAR_THE_LEAST, Need, advise
from mayfly.archive.advice.wave_cost import wave_cost
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.errors import InvalidSetting

IN_PLACE, SIMPLE, PACKED = UpdateTechnique
DEL, REINDEX, REINDEX_PLUS, REINDEX_PLUS_PLUS, WATA, RATA = WaveScheme
DECISION = Path(__file__).parents[4] / "docs" / "decisions" / "2026-11-15-wave-cost-model.md"


@pytest.mark.parametrize(
    ("case", "window", "technique", "hard", "scheme"),
    [
        (SCAM, 7, SIMPLE, True, REINDEX),
        (WSE, 35, PACKED, True, DEL),
        (WSE, 35, PACKED, False, DEL),
        (TPC_D, 100, PACKED, True, DEL),
        (TPC_D, 100, PACKED, False, DEL),
        (TPC_D, 100, SIMPLE, False, WATA),
        (TPC_D, 100, SIMPLE, True, RATA),
    ],
)
def test_the_scheme_is_the_one_the_paper_recommends(
    case: CostParameters, window: int, technique: UpdateTechnique, hard: bool, scheme: WaveScheme
) -> None:
    advice = advise(case, Need(window, hard=hard, techniques=(technique,)))
    assert advice.best.layout.scheme is scheme
    works = [candidate.total_work for candidate in advice.candidates]
    assert works == sorted(works)
    assert len({c.layout.scheme for c in advice.candidates}) == len(works) == (5 if hard else 6)


def test_the_number_of_constituents_is_the_fewest_near_the_least_work() -> None:
    need = Need(7, techniques=(SIMPLE,))
    for chosen in advise(SCAM, need).candidates:
        scheme, n = chosen.layout.scheme, chosen.layout.constituents
        works = {
            other: wave_cost(WaveLayout(scheme, 7, other), SIMPLE, SCAM).total_work
            for other in range(scheme.fewest_constituents, 8)
        }
        enough = NEAR_THE_LEAST * min(works.values())
        assert n == min(other for other, work in works.items() if work <= enough)


def test_a_hard_window_leaves_wata_out_and_reindex_counts_once() -> None:
    advice = advise(SCAM, Need(7))
    assert WATA not in {candidate.layout.scheme for candidate in advice.candidates}
    reindex = [c for c in advice.candidates if c.layout.scheme is REINDEX]
    assert len(reindex) == 1
    assert {c.technique for c in advice.candidates if c.layout.scheme is DEL} == {*UpdateTechnique}


def test_limits_are_kept() -> None:
    free = advise(SCAM, Need(7, hard=False, techniques=(SIMPLE,)))
    assert free.best.largest_space > 600
    tight = advise(SCAM, Need(7, hard=False, techniques=(SIMPLE,), most_space=600))
    assert all(candidate.largest_space <= 600 for candidate in tight.candidates)
    quick = advise(SCAM, Need(7, techniques=(SIMPLE,), slowest_transition=2_000))
    assert all(candidate.transition <= 2_000 for candidate in quick.candidates)
    probing = advise(SCAM, Need(7, techniques=(SIMPLE,), slowest_probe=0.02))
    assert [c.layout.constituents for c in probing.candidates] == [1] * len(probing.candidates)
    scanning = advise(SCAM, Need(7, techniques=(SIMPLE,), slowest_scan=10))
    assert all(candidate.scan <= 10 for candidate in scanning.candidates)
    few = advise(TPC_D, Need(30, techniques=(PACKED,), most_constituents=3))
    assert all(candidate.layout.constituents <= 3 for candidate in few.candidates)
    with pytest.raises(InvalidSetting, match="no wave layout keeps 7 days") as refusal:
        advise(SCAM, Need(7, most_space=10))
    assert "allow more space" in refusal.value.hint


def test_a_window_of_one_day_has_layouts_without_throwing_away() -> None:
    schemes = {c.layout.scheme for c in advise(SCAM, Need(1, hard=False)).candidates}
    assert schemes == {DEL, REINDEX, REINDEX_PLUS, REINDEX_PLUS_PLUS}


def test_measured_constants_change_the_advice() -> None:
    cheap_adding = replace(SCAM, name="ours", add=100, delete=1)
    advice = advise(cheap_adding, Need(7, techniques=(IN_PLACE,)))
    assert advice.best.layout.scheme is DEL
    assert advice.best.transition == pytest.approx(101)


def test_the_advice_says_why() -> None:
    advice = advise(TPC_D, Need(100, hard=False, techniques=(SIMPLE,)))
    text = advice.explain()
    assert "take WATA with 8 constituents (simple shadow): 79,080 s of work a day" in text
    assert "up to 114 days are stored" in text
    assert "Next is RATA with 6 constituents (simple shadow) with 10% more work." in text
    hard = advise(TPC_D, Need(100, techniques=(SIMPLE,))).explain()
    assert "Exactly the last 100 days are stored." in hard
    assert "s prepare later days" in hard
    header, *lines = advice.table()
    assert header.split()[:3] == ["scheme", "technique", "n"]
    assert [line.split()[0] for line in lines] == [c.layout.scheme for c in advice.candidates]
    assert "79,080" in lines[0]


def test_the_decision_note_quotes_the_model() -> None:
    """Every line of its tables that names a layout gives the work the model predicts."""
    cases = {"SCAM": (SCAM, 7), "WSE": (WSE, 35), "TPC-D": (TPC_D, 100)}
    cases["SCAM, 10,000 probes"] = (replace(SCAM, probes=10_000), 7)
    pattern = r"^\| ([\w ,-]+) \| (\S+) n=(\d+), (\w+[- ]\w+) \| ([\d,]+) \|"
    rows = re.findall(pattern, DECISION.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) >= 12
    for name, scheme, n, technique, work in rows:
        case, window = cases[name.strip()]
        layout = WaveLayout(WaveScheme(scheme), window, int(n))
        predicted = wave_cost(layout, UpdateTechnique(technique), case).total_work
        assert f"{predicted:,.0f}" == work, (name, scheme, n, technique)


@pytest.mark.parametrize("load", [{"probes": -5}, {"megabytes": -1.0}, {"scans": float("nan")}])
def test_a_load_is_not_negative(load: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting, match="use 0 or more"):
        Workload(**load)  # type: ignore[arg-type]
