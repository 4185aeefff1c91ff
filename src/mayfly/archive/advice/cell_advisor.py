"""Which doubly partitioned layout to choose: candidates with predicted figures, ranked, and why.

Idea: price the layouts worth considering (G = E for a given n, since that touches the fewest
sub-indices), per family the fewest sub-indices whose work is within 5 % of the family's least, and
rank these by work. Beside them stands what the papers' rule of thumb would take for small or large
data and few or many queries, with its own predicted figures.
Cost: one run of the cost model per candidate.
variable-lifetimes-2006, 3.2 and 4.6; results-index-2005, 5.2 and 5.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isqrt
from typing import Any, ClassVar

from mayfly.archive.advice.cell_cost import CellConstants, CellCost, CellLoad, cell_cost
from mayfly.archive.advice.wave_advisor import Need, fewest_near_the_least, figure
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout, PartitionRule, baseline
from mayfly.display import Facts
from mayfly.errors import InvalidSetting

LARGE = 1600.0
"""Megabytes alive: between the 500 MB and the 5 GB that the papers call small and large."""
LARGEST_SQUARE = 6
MOST_LINGERING = 0.25
"""Expired rows beside live ones. The papers leave out a layout for which it may be one half."""
FAN_INS = (4, 8)
_ROUND_ROBIN, _LAZY = PartitionRule.ROUND_ROBIN, PartitionRule.LAZY


@dataclass(frozen=True, slots=True)
class RuleOfThumb:
    """What the papers recommend for a load like this, and what it would cost."""

    large: bool
    many_queries: bool
    cost: CellCost

    def __str__(self) -> str:
        size = "large data" if self.large else "small data"
        asked = "many queries" if self.many_queries else "few queries"
        return f"{size} and {asked}"


@dataclass(frozen=True, slots=True, repr=False)
class CellAdvice(Facts):
    """Candidates, the best first, and what they were chosen for."""

    load: CellLoad
    constants: CellConstants
    need: Need
    candidates: tuple[CellCost, ...]
    rule_of_thumb: RuleOfThumb
    priced: tuple[CellCost, ...] = ()
    """Everything that was weighed and is allowed."""
    current: CellCost | None = None
    """What the archive is now."""
    measured: float | None = None
    """Seconds that its last updates took on average."""

    header: ClassVar[tuple[str, ...]] = (
        "layout", "work s", "update s", "written MB", "MB", "runs", "probe ms", "scan s",
    )  # fmt: skip

    def facts(self) -> dict[str, object]:
        return {
            "best": cell_name(self.best.layout),
            "candidates": len(self.candidates),
            "in words": self.explain(),
        }

    def figures(self, most: int) -> list[list[str]]:
        """The first candidates, the papers' choice and what the archive is now, under the
        ``header``."""
        now = [] if self.current is None else [_figures(self.current, "now: ")]
        papers = _figures(self.rule_of_thumb.cost, "papers: ")
        return [*(_figures(cost) for cost in self.candidates[:most]), papers, *now]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        even, papers = self.break_even(), self.rule_of_thumb
        return {
            "explanation": self.explain(),
            "candidates": [_cost_values(cost) for cost in self.candidates],
            "rule_of_thumb": {"for": str(papers), **_cost_values(papers.cost)},
            "now": None if self.current is None else _cost_values(self.current),
            "measured_seconds": self.measured,
            "rebuilding_pays_from_probes": None if even is None else even[0],
            "constants": asdict(self.constants),
        }

    @property
    def best(self) -> CellCost:
        return self.candidates[0]

    def table(self) -> list[str]:
        """The candidates with their predicted figures, as lines of text."""
        header = (
            f"{'layout':<34} {'work s':>8} {'update s':>9} {'MB written':>11} {'space MB':>9} "
            f"{'runs':>6} {'probe ms':>9} {'scan s':>8}"
        )
        return [header, *(_line(candidate) for candidate in self.candidates)]

    def explain(self) -> str:
        """The choice in words."""
        best, load = self.best, self.load
        lingering = f", of which {figure(best.dead)} MB have expired" if best.dead else ""
        sentences = [
            f"With {figure(load.megabytes)} MB an update and {figure(load.live)} MB alive take "
            f"{cell_name(best.layout)}: {figure(best.total_work)} s of work from one update to the "
            f"next, {figure(best.transition)} s for the update and {figure(best.queries)} s for "
            f"{figure(load.probes)} probes of {figure(best.probe * 1000)} ms and "
            f"{figure(load.scans)} scans of {figure(best.scan)} s.",
            f"An update writes {figure(best.moved.written)} MB in {figure(best.moved.files)} files "
            f"and reads {figure(best.moved.read)} MB; {figure(best.space)} MB are stored"
            f"{lingering}; a probe meets {figure(best.runs)} runs.",
            *self._rebuilding(),
            *self._papers(),
            *self._now(),
        ]
        return " ".join(sentences)

    def break_even(self) -> tuple[float, CellCost] | None:
        """Probes an update from which on rebuilding does less work than not rebuilding, and the
        rebuilt layout that then does."""
        kept = [cost for cost in self.priced if not cost.layout.rebuild]
        crossovers = [
            (max(self._overtakes(cost, other) for other in kept), cost)
            for cost in self.priced
            if cost.layout.rebuild and kept
        ]
        best = min(crossovers, key=lambda pair: pair[0], default=(inf, None))
        return None if best[1] is None or best[0] == inf else (best[0], best[1])

    def _overtakes(self, cost: CellCost, other: CellCost) -> float:
        """From how many probes an update at ``cost`` does no more work than ``other``."""
        scans = self.load.scans * (cost.scan - other.scan)
        more = cost.transition - other.transition + scans
        if more <= 0:
            return 0.0
        return more / (other.probe - cost.probe) if other.probe > cost.probe else inf

    def _rebuilding(self) -> Iterator[str]:
        if (crossover := self.break_even()) is not None:
            even, rebuilt = crossover
            yield (
                f"Rebuilding ({cell_name(rebuilt.layout)}, {figure(rebuilt.transition)} s an "
                f"update, {figure(rebuilt.probe * 1000)} ms a probe) pays from "
                f"{figure(even)} probes an update on."
            )

    def _papers(self) -> Iterator[str]:
        rule = self.rule_of_thumb
        if rule.cost.layout == self.best.layout:
            yield f"That is the papers' rule of thumb for {rule}."
            return
        more = rule.cost.total_work / self.best.total_work
        yield (
            f"The papers' rule of thumb for {rule}, {cell_name(rule.cost.layout)}, would take "
            f"{figure(rule.cost.total_work)} s ({more:.1f} times as much): "
            f"{figure(rule.cost.moved.files)} files and {figure(rule.cost.moved.written)} MB an "
            f"update, {figure(rule.cost.runs)} runs a probe."
        )

    def _now(self) -> Iterator[str]:
        now = self.current
        if now is None:
            return
        took = "" if self.measured is None else f" (the last updates took {figure(self.measured)})"
        if now.layout == self.best.layout:
            yield f"That is what it is now{took}."
            return
        yield (
            f"It is now {cell_name(now.layout)}: {figure(now.total_work)} s, "
            f"{figure(now.transition)} s an update{took}. To change it: "
            f"archive.migrate({_call(declared(self.best.layout))})."
        )


def advise_cells(
    rollover: int,
    load: CellLoad,
    constants: CellConstants,
    need: Need,
    current: PartitionedLayout | None = None,
    measured: float | None = None,
) -> CellAdvice:
    """The layouts that meet the need, the one with the least work first."""
    candidates: list[CellCost] = []
    priced: list[CellCost] = []
    for family in families(rollover, need):
        costs = [cell_cost(layout, load, constants) for layout in family]
        allowed = sorted(filter(need.allows, costs), key=lambda cost: cost.layout.constituents)
        allowed = [cost for cost in allowed if cost.dead <= MOST_LINGERING * load.live]
        priced += allowed
        if allowed:
            candidates.append(fewest_near_the_least(allowed))
    if not candidates:
        raise InvalidSetting(
            f"no layout keeps lifetimes of {rollover} updates within these limits",
            "allow more space or time, or let expired rows linger on disk",
        )
    return CellAdvice(
        load,
        constants,
        need,
        tuple(sorted(candidates, key=lambda cost: cost.total_work)),
        rule_of_thumb(rollover, load, constants, need),
        tuple(priced),
        None if current is None else cell_cost(current, load, constants),
        measured,
    )


def families(rollover: int, need: Need) -> Iterator[list[PartitionedLayout]]:
    """The layouts to be compared, alike ones together."""
    squares = range(1, min(LARGEST_SQUARE, rollover) + 1)
    yield _fitting(
        need, (PartitionedLayout(_ROUND_ROBIN, rollover, g, g, rebuild=True) for g in squares)
    )
    yield _fitting(need, (baseline("R-ins", rollover, n) for n in (2,) if n <= rollover))
    for fan_in in FAN_INS:
        yield _fitting(
            need,
            (
                PartitionedLayout(_ROUND_ROBIN, rollover, g, g, rebuild=False, fan_in=fan_in)
                for g in squares
            ),
        )
        yield _fitting(need, (_in_ranges(rollover, span, fan_in) for span in _spans(rollover)))
    for rebuild in (True, False):
        yield _fitting(
            need,
            (
                PartitionedLayout(_LAZY, rollover, g, g, rebuild=rebuild)
                for g in squares
                if 2 <= g <= rollover
            ),
        )


def _fitting(need: Need, layouts: Iterator[PartitionedLayout]) -> list[PartitionedLayout]:
    candidates = [layout for layout in layouts if layout.constituents <= need.most_constituents]
    return [layout for layout in candidates if layout.hard or not need.hard]


def _in_ranges(rollover: int, span: int, fan_in: int) -> PartitionedLayout:
    """One group, and a lane for each range of removing updates."""
    lanes = -(-rollover // span)
    return PartitionedLayout(
        _ROUND_ROBIN, rollover, 1, lanes, rebuild=False, span=span, fan_in=fan_in
    )


def _spans(rollover: int) -> Sequence[int]:
    root = max(1, isqrt(rollover))
    candidates = {root // 2, root, 2 * root, 4 * root}
    return sorted(span for span in candidates if 2 <= span <= rollover)


def rule_of_thumb(
    rollover: int, load: CellLoad, constants: CellConstants, need: Need
) -> RuleOfThumb:
    """The papers' advice: few queries are those that take less time than the updates."""
    large = load.live > LARGE
    quick = cell_cost(_square(rollover, 3 if large else 4, rebuild=False), load, constants)
    many = quick.queries > quick.transition
    if not many:
        return RuleOfThumb(large, many, quick)
    probes_are_crucial = need.slowest_probe < quick.probe
    chosen = _square(rollover, 2, rebuild=not large or probes_are_crucial)
    return RuleOfThumb(large, many, cell_cost(chosen, load, constants))


def _square(rollover: int, side: int, *, rebuild: bool) -> PartitionedLayout:
    return PartitionedLayout(_ROUND_ROBIN, rollover, side, side, rebuild=rebuild)


def cell_name(layout: PartitionedLayout) -> str:
    """A layout by the papers' name, with what they do not have.

    >>> cell_name(_in_ranges(36, 6, 4)), cell_name(_square(36, 4, rebuild=True))
    ('NoRebuild 1x6 (span 6)', 'Rebuild 4x4')
    """
    more = [f"span {layout.span}"] if layout.span > 1 else []
    more += [f"fan-in {layout.fan_in}"] if layout.fan_in != 4 and not layout.rebuild else []
    return _papers_name(layout) + (f" ({', '.join(more)})" if more else "")


def declared(layout: PartitionedLayout) -> Mapping[str, Any]:
    """The settings of ``create`` and ``migrate`` that make this layout."""
    declaration: dict[str, Any] = {"layout": _papers_name(layout)}
    if not layout.rebuild:
        declaration |= {"span": layout.span, "fan_in": layout.fan_in}
    return declaration


def _papers_name(layout: PartitionedLayout) -> str:
    rebuilt = "Rebuild" if layout.rebuild else "NoRebuild"
    sizes = f"{layout.groups}x{layout.lanes}"
    match layout.rule:
        case PartitionRule.ROUND_ROBIN:
            return f"{rebuilt} {sizes}"
        case PartitionRule.LAZY | PartitionRule.COUNT:
            return f"{layout.rule.value.capitalize()}{rebuilt} {sizes}"
        case PartitionRule.CHRONOLOGICAL if 1 in (layout.groups, layout.lanes):
            kind = "ins" if layout.lanes == 1 else "exp"
            return f"{'R' if layout.rebuild else 'D'}-{kind}{layout.constituents}"
        case _:
            return str(layout)


def _call(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _figures(cost: CellCost, mark: str = "") -> list[str]:
    numbers = (
        cost.total_work,
        cost.transition,
        cost.moved.written,
        cost.space,
        cost.runs,
        cost.probe * 1000,
        cost.scan,
    )
    return [f"{mark}{cell_name(cost.layout)}", *map(figure, numbers)]


def _cost_values(cost: CellCost) -> dict[str, Any]:
    return {
        **declared(cost.layout),
        "work_seconds": cost.total_work,
        "update_seconds": cost.transition,
        "files_written": cost.moved.files,
        "megabytes_written": cost.moved.written,
        "megabytes_read": cost.moved.read,
        "megabytes": cost.space,
        "expired_megabytes": cost.dead,
        "runs": cost.runs,
        "probe_seconds": cost.probe,
        "scan_seconds": cost.scan,
    }


def _line(cost: CellCost) -> str:
    return (
        f"{cell_name(cost.layout):<34} {figure(cost.total_work):>8} "
        f"{figure(cost.transition):>9} {figure(cost.moved.written):>11} {figure(cost.space):>9} "
        f"{figure(cost.runs):>6} {figure(cost.probe * 1000):>9} {figure(cost.scan):>8}"
    )
