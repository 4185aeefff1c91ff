"""The published cases SCAM, WSE and TPC-D: their figures by the cost model, and the study's advice.

Idea: a case is its parameters, its window, what its figures show against the number of
constituents, and what the study recommends under which condition. The model draws the figures and
makes its own choice under the same conditions, so that both can be compared.
Cost: one run of the cost model for each point. wave-indices-1997, 5, Figures 2 to 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mayfly.archive.advice.cost_parameters import SCAM, TPC_D, WSE, CostParameters
from mayfly.archive.advice.wave_advisor import Need, advise
from mayfly.archive.advice.wave_cost import WaveCost, wave_cost
from mayfly.archive.layouts.run_plan import UpdateTechnique
from mayfly.archive.layouts.wave_layouts import WaveLayout, WaveScheme
from mayfly.errors import InvalidSetting

_SIMPLE, _PACKED = UpdateTechnique.SIMPLE_SHADOW, UpdateTechnique.PACKED_SHADOW


@dataclass(frozen=True, slots=True)
class CaseFigure:
    """One figure: a measure of every scheme against the number of constituents."""

    number: int
    measure: str
    title: str
    technique: UpdateTechnique
    most_constituents: int

    def curves(self, case: PublishedCase, window: int) -> Mapping[WaveScheme, Mapping[int, float]]:
        """The measure by scheme and number of constituents, where the scheme has so many."""
        most = min(self.most_constituents, window)
        return {
            scheme: {
                n: getattr(
                    wave_cost(WaveLayout(scheme, window, n), self.technique, case.parameters),
                    self.measure,
                )
                for n in range(scheme.fewest_constituents, most + 1)
            }
            for scheme in WaveScheme
        }


@dataclass(frozen=True, slots=True)
class StudyAdvice:
    """What the study recommends under a condition."""

    condition: str
    scheme: WaveScheme
    constituents: int
    technique: UpdateTechnique
    hard: bool

    def cost(self, case: PublishedCase, window: int) -> WaveCost | None:
        """What the model expects of it; None where the window is too small for it."""
        if self.constituents > window:
            return None
        layout = WaveLayout(self.scheme, window, self.constituents)
        return wave_cost(layout, self.technique, case.parameters)

    def models_choice(self, case: PublishedCase, window: int) -> WaveCost:
        """What the advisor takes under the same condition."""
        need = Need(window, hard=self.hard, techniques=(self.technique,))
        return advise(case.parameters, need).best


@dataclass(frozen=True, slots=True)
class PublishedCase:
    """A case of the study."""

    parameters: CostParameters
    window: int
    techniques: tuple[UpdateTechnique, ...]
    figures: tuple[CaseFigure, ...]
    advice: tuple[StudyAdvice, ...]


_WORK, _WORK_TITLE = "total_work", "work, seconds a day"

PUBLISHED_CASES = (
    PublishedCase(
        SCAM,
        window=7,
        techniques=(_SIMPLE,),
        figures=(
            CaseFigure(2, "space", "space during an update, MB", _SIMPLE, 7),
            CaseFigure(3, "transition", "seconds until a new day can be queried", _SIMPLE, 7),
            CaseFigure(4, _WORK, _WORK_TITLE, _SIMPLE, 7),
        ),
        advice=(StudyAdvice("simple shadow", WaveScheme.REINDEX, 4, _SIMPLE, hard=True),),
    ),
    PublishedCase(
        WSE,
        window=35,
        techniques=(_PACKED, _SIMPLE),
        figures=(CaseFigure(5, _WORK, _WORK_TITLE, _PACKED, 10),),
        advice=(StudyAdvice("packed shadow", WaveScheme.DEL, 1, _PACKED, hard=True),),
    ),
    PublishedCase(
        TPC_D,
        window=100,
        techniques=(_PACKED, _SIMPLE),
        figures=(
            CaseFigure(6, _WORK, _WORK_TITLE, _PACKED, 10),
            CaseFigure(7, _WORK, _WORK_TITLE, _SIMPLE, 10),
        ),
        advice=(
            StudyAdvice("packed shadow", WaveScheme.DEL, 1, _PACKED, hard=True),
            StudyAdvice("simple shadow, soft window", WaveScheme.WATA, 10, _SIMPLE, hard=False),
            StudyAdvice("simple shadow, hard window", WaveScheme.RATA, 10, _SIMPLE, hard=True),
        ),
    ),
)


def published_case(name: str) -> PublishedCase:
    """The case of this name, written in any case and with or without its hyphen.

    >>> published_case("tpcd").parameters.name
    'TPC-D'
    """
    for case in PUBLISHED_CASES:
        if _plain(case.parameters.name) == _plain(name):
            return case
    names = ", ".join(case.parameters.name for case in PUBLISHED_CASES)
    raise InvalidSetting(f"there is no case {name}", f"use one of {names}")


def _plain(name: str) -> str:
    return name.lower().replace("-", "")
