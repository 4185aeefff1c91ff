"""Which wave layout to choose: candidates with predicted figures, ranked, and why.

Idea: price every scheme, technique and number of constituents that the need allows. For each
scheme and technique take the fewest constituents whose work is within 5 % of that scheme's
least (each constituent is one more to probe, and returns diminish), then rank these by work.
Cost: one run of the cost model per candidate.
wave-indices-1997, 5; where this leads elsewhere than the paper's own advice,
docs/decisions/2026-11-15-wave-cost-model.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Protocol, TypeVar

from mayfly.archive.advice.cost_parameters import CostParameters
from mayfly.archive.advice.wave_cost import WaveCost, wave_cost
from mayfly.archive.layouts.run_plan import UpdateTechnique
from mayfly.archive.layouts.wave_layouts import WaveLayout, WaveScheme
from mayfly.display import Facts
from mayfly.errors import InvalidSetting

LONGEST_PRICED = 2_000
NEAR_THE_LEAST = 1.05
"""Work within 5 % of a scheme's least counts as equal, and fewer constituents win."""


class Priced(Protocol):
    """What limits speak of, for waves and for rows with their own lifetimes."""

    @property
    def largest_space(self) -> float: ...
    @property
    def transition(self) -> float: ...
    @property
    def probe(self) -> float: ...
    @property
    def scan(self) -> float: ...
    @property
    def total_work(self) -> float: ...


AnyCost = TypeVar("AnyCost", bound=Priced)


@dataclass(frozen=True, slots=True)
class Need:
    """What the archive must be: its window, hard or soft, and its limits."""

    window: int
    hard: bool = True
    """Whether expired days must be gone at once; otherwise some may linger."""
    techniques: tuple[UpdateTechnique, ...] = tuple(UpdateTechnique)
    most_constituents: int = 20
    """Every constituent has a directory to keep and to search, which the model does not price."""
    most_space: float = inf
    """Megabytes, also during an update."""
    slowest_transition: float = inf
    """Seconds until a new day can be queried."""
    slowest_probe: float = inf
    slowest_scan: float = inf

    def allows(self, cost: Priced) -> bool:
        return (
            cost.largest_space <= self.most_space
            and cost.transition <= self.slowest_transition
            and cost.probe <= self.slowest_probe
            and cost.scan <= self.slowest_scan
        )


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Facts):
    """Candidates, the best first, and what they were chosen for."""

    parameters: CostParameters
    need: Need
    candidates: tuple[WaveCost, ...]

    header: ClassVar[tuple[str, ...]] = (
        "layout", "n", "work s", "trans. s", "prep. s", "MB", "probe ms", "scan s",
    )  # fmt: skip

    def facts(self) -> dict[str, object]:
        return {
            "best": _name(self.best),
            "candidates": len(self.candidates),
            "in words": self.explain(),
        }

    def figures(self, most: int) -> list[list[str]]:
        """The first candidates, their figures under the ``header``."""
        return [wave_figures(cost) for cost in self.candidates[:most]]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        candidates = [cost.to_json() for cost in self.candidates]
        return {"explanation": self.explain(), "candidates": candidates}

    @property
    def best(self) -> WaveCost:
        return self.candidates[0]

    def table(self) -> list[str]:
        """The candidates with their predicted figures, as lines of text."""
        header = (
            f"{'scheme':<10} {'technique':<14} {'n':>3} {'work s/day':>11} {'transition s':>13} "
            f"{'pre-trans. s':>13} {'space MB':>10} {'probe ms':>9} {'scan s':>9}"
        )
        return [header, *map(_line, self.candidates)]

    def explain(self) -> str:
        """The choice in words."""
        best, layout = self.best, self.best.layout
        later = f", and {figure(best.pre_transition)} s prepare later days"
        sentences = [
            f"For {self.parameters.name} with a window of {layout.window} days take {_name(best)}: "
            f"{figure(best.total_work)} s of work a day, of which {figure(best.maintenance)} s "
            f"update the archive and {figure(best.queries)} s answer queries.",
            "No other number of constituents would save more than 5 %.",
            f"A new day can be queried after {figure(best.transition)} s"
            f"{later if best.pre_transition else ''}.",
            f"It occupies {figure(best.space_in_operation)} MB and needs "
            f"{figure(best.space_in_transition)} MB more during an update.",
            _window_sentence(layout),
            *self._runner_up(),
        ]
        return " ".join(sentences)

    def _runner_up(self) -> Iterable[str]:
        others = [c for c in self.candidates if c.layout.scheme is not self.best.layout.scheme]
        if others:
            more = others[0].total_work / self.best.total_work - 1
            yield f"Next is {_name(others[0])} with {more:.0%} more work."


def advise(parameters: CostParameters, need: Need) -> Advice:
    """The layouts that meet the need, the one with the least work first."""
    if not 1 <= need.window <= LONGEST_PRICED:
        raise InvalidSetting(
            f"advice for a window of {need.window:,} days",
            f"ask about 1 to {LONGEST_PRICED:,}: the model follows every day of a window",
        )
    candidates: list[WaveCost] = []
    for scheme in WaveScheme:
        if need.hard and not scheme.hard:
            continue
        # BuildIndex is the same under every technique.
        builds_only = scheme is WaveScheme.REINDEX
        techniques = need.techniques[:1] if builds_only else need.techniques
        priced = _costs(scheme, techniques, parameters, need)
        allowed = ([cost for cost in costs if need.allows(cost)] for costs in priced)
        candidates += (fewest_near_the_least(costs) for costs in allowed if costs)
    if not candidates:
        raise InvalidSetting(
            f"no wave layout keeps {need.window} days within these limits",
            "allow more space, time or constituents, or a soft window",
        )
    return Advice(parameters, need, tuple(sorted(candidates, key=lambda c: c.total_work)))


def _costs(
    scheme: WaveScheme,
    techniques: Sequence[UpdateTechnique],
    parameters: CostParameters,
    need: Need,
) -> list[tuple[WaveCost, ...]]:
    """Of every technique, by rising number of constituents."""
    most = min(need.window, need.most_constituents)
    layouts = (
        WaveLayout(scheme, need.window, constituents)
        for constituents in range(scheme.fewest_constituents, most + 1)
    )
    # One layout after the other: its days are the same under every technique.
    priced = (
        [wave_cost(layout, technique, parameters) for technique in techniques] for layout in layouts
    )
    return list(zip(*priced, strict=True))


def fewest_near_the_least(costs: Sequence[AnyCost]) -> AnyCost:
    """The first of these, by rising number of constituents, that does little enough work."""
    enough = NEAR_THE_LEAST * min(cost.total_work for cost in costs)
    return next(cost for cost in costs if cost.total_work <= enough)


def figure(value: float) -> str:
    """A number with its first three digits, at least.

    >>> figure(79080.4), figure(0.01234), figure(0)
    ('79,080', '0.0123', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _name(cost: WaveCost) -> str:
    layout = cost.layout
    constituents = f"{layout.constituents} constituent" + "s" * (layout.constituents > 1)
    if layout.scheme is WaveScheme.REINDEX:
        return f"{layout.scheme} with {constituents}"
    return f"{layout.scheme} with {constituents} ({cost.technique})"


def _window_sentence(layout: WaveLayout) -> str:
    if layout.scheme.hard:
        return f"Exactly the last {layout.window} days are stored."
    return (
        f"Expired days linger: up to {layout.most_stored_days} days are stored, and queries "
        "leave the expired ones out."
    )


def wave_figures(cost: WaveCost, mark: str = "") -> list[str]:
    """A layout and its figures, under the header of ``Advice``."""
    # BuildIndex is the same under every technique.
    technique = "" if cost.layout.scheme is WaveScheme.REINDEX else cost.technique.split()[0]
    return [
        f"{mark}{cost.layout.scheme} {technique}".strip(),
        str(cost.layout.constituents),
        *map(figure, (cost.total_work, cost.transition, cost.pre_transition, cost.space)),
        figure(cost.probe * 1000),
        figure(cost.scan),
    ]


def _line(cost: WaveCost) -> str:
    layout = cost.layout
    technique = "-" if layout.scheme is WaveScheme.REINDEX else cost.technique
    return (
        f"{layout.scheme:<10} {technique:<14} {layout.constituents:>3} "
        f"{figure(cost.total_work):>11} {figure(cost.transition):>13} "
        f"{figure(cost.pre_transition):>13} {figure(cost.space):>10} "
        f"{figure(cost.probe * 1000):>9} {figure(cost.scan):>9}"
    )
