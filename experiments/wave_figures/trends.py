"""What the paper says its figures show, and whether ours show it.

A trend is a sentence of the study turned into a test on the curves. It may fail: then the run
says so, with the figures, and the README says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from experiments.wave_figures.curves import MODEL, Curve

Curves = dict[str, dict[float, float]]
"""Of one figure: scheme → value of the axis → measure."""
Check = Callable[[dict[str, Curves]], tuple[bool, str]]

INCREMENTAL = ("DEL", "WATA", "RATA")
REINDEXING = ("REINDEX", "REINDEX+", "REINDEX++")


@dataclass(frozen=True, slots=True)
class Trend:
    """One claim of the paper about one figure."""

    name: str
    figure: str
    claim: str
    check: Check


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a trend holds, and the figures that say so."""

    name: str
    figure: str
    claim: str
    holds: bool
    evidence: str


def check_trends(curves: Iterable[Curve], source: str = MODEL) -> list[Outcome]:
    """The outcome of every trend on the curves of one source."""
    figures: dict[str, Curves] = {}
    for curve in curves:
        if curve.source == source:
            figures.setdefault(curve.figure, {})[curve.scheme] = dict(curve.points)
    outcomes = []
    for trend in TRENDS:
        holds, evidence = trend.check(figures)
        outcomes.append(Outcome(trend.name, trend.figure, trend.claim, holds, evidence))
    return outcomes


def _is_least(figure: str, scheme: str, where: Callable[[float], bool] = lambda _: True) -> Check:
    return _ranks(figure, scheme, where, best=True)


def _is_most(figure: str, scheme: str, where: Callable[[float], bool] = lambda _: True) -> Check:
    return _ranks(figure, scheme, where, best=False)


def _ranks(figure: str, scheme: str, where: Callable[[float], bool], best: bool) -> Check:
    """The scheme is first or last at every value; ties within a millionth count as such."""

    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        curves = figures[figure]
        broken = []
        for at, value in curves[scheme].items():
            others = {s: points[at] for s, points in curves.items() if at in points}
            rival = (min if best else max)(others, key=lambda s: others[s])
            worse = value > others[rival] * 1.000001 if best else value < others[rival] * 0.999999
            if where(at) and worse:
                broken.append(f"at {at:g} {rival} has {others[rival]:,.0f}, {scheme} {value:,.0f}")
        return not broken, "; ".join(broken) or f"{scheme}: {_ends(curves[scheme])}"

    return check


def _falls(figure: str, schemes: Iterable[str]) -> Check:
    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        rising = [
            f"{scheme} rises from {a:,.0f} to {b:,.0f} at {at:g}"
            for scheme in schemes
            for (_, a), (at, b) in _steps(figures[figure][scheme])
            if b > a * 1.000001
        ]
        return not rising, "; ".join(rising) or _all_ends(figures[figure], schemes)

    return check


def _grows_by(figure: str, schemes: Iterable[str], least: float, most: float) -> Check:
    """From the first to the last value, the measure grows by a factor within these bounds."""

    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        curves = figures[figure]
        factors = {s: _factor(curves[s]) for s in schemes}
        evidence = ", ".join(f"{s} × {factor:.2f}" for s, factor in factors.items())
        return all(least <= factor <= most for factor in factors.values()), evidence

    return check


def _reindex_beats_adding(figures: dict[str, Curves]) -> tuple[bool, str]:
    reindex, wata = figures["3"]["REINDEX"], figures["3"]["WATA"]
    holds = all((reindex[n] < wata[n]) == (n >= 4) for n in wata)
    pairs = ", ".join(f"n={n:g}: {reindex[n]:,.0f} and {wata[n]:,.0f}" for n in wata)
    return holds, f"REINDEX and WATA at {pairs}"


def _least_at_small_n(figures: dict[str, Curves]) -> tuple[bool, str]:
    curves = figures["5"]
    where = {s: min(curves[s], key=curves[s].__getitem__) for s in INCREMENTAL}
    least = {s: curves[s][where[s]] for s in curves if s in where}
    others = min(min(curves[s].values()) for s in REINDEXING)
    evidence = ", ".join(f"{s} {least[s]:,.0f} at n={where[s]:g}" for s in INCREMENTAL)
    holds = all(n <= 2 for n in where.values()) and max(least.values()) < others
    return holds, f"{evidence}; reindexing at best {others:,.0f}"


def _del_1_and_wata_2_do_best(figures: dict[str, Curves]) -> tuple[bool, str]:
    curves = figures["6"]
    least = min(min(points.values()) for points in curves.values())
    delete, wata = curves["DEL"][1], curves["WATA"][2]
    evidence = f"DEL n=1 {delete:,.0f}, WATA n=2 {wata:,.0f}, least of all {least:,.0f}"
    return max(delete, wata) <= least * 1.000001, evidence


def _packed_is_cheaper(figures: dict[str, Curves]) -> tuple[bool, str]:
    packed, simple = figures["6"], figures["7"]
    saved = {s: [simple[s][n] - packed[s][n] for n in packed[s]] for s in INCREMENTAL}
    evidence = ", ".join(
        f"{s} saves {min(gap):,.0f} to {max(gap):,.0f}" for s, gap in saved.items()
    )
    return all(min(gap) > 0 for gap in saved.values()), evidence


def _wata_saves(against: str, least: float, most: float) -> Check:
    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        saved = figures["7"][against][10] - figures["7"]["WATA"][10]
        return least <= saved <= most, f"at n=10 WATA does {saved:,.0f} s less than {against}"

    return check


def _rata_works_like_del(figures: dict[str, Curves]) -> tuple[bool, str]:
    rata, delete = figures["7"]["RATA"][10], figures["7"]["DEL"][10]
    evidence = f"at n=10 RATA {rata:,.0f}, DEL {delete:,.0f}"
    return abs(rata - delete) <= 0.05 * delete, evidence


def _scales_best(figure: str) -> Check:
    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        slopes = {s: _slope(points) for s, points in figures[figure].items()}
        order = ", ".join(f"{s} {slopes[s]:,.0f}" for s in sorted(slopes, key=lambda s: slopes[s]))
        return min(
            slopes, key=lambda s: slopes[s]
        ) == "REINDEX", f"more s per unit of data: {order}"

    return check


def _wata_best_until_3(figure: str) -> Check:
    def check(figures: dict[str, Curves]) -> tuple[bool, str]:
        wata, reindex = figures[figure]["WATA"], figures[figure]["REINDEX"]
        holds = all((wata[at] < reindex[at]) == (at <= 3) for at in wata)
        pairs = ", ".join(f"× {at:g}: {wata[at]:,.0f}, {reindex[at]:,.0f}" for at in (1, 3, 5))
        return holds, f"WATA and REINDEX at {pairs}"

    return check


def _steps(
    points: dict[float, float],
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    ordered = sorted(points.items())
    return list(pairwise(ordered))


def _factor(points: dict[float, float]) -> float:
    return points[max(points)] / points[min(points)]


def _slope(points: dict[float, float]) -> float:
    return (points[max(points)] - points[min(points)]) / (max(points) - min(points))


def _ends(points: dict[float, float]) -> str:
    return f"{points[min(points)]:,.0f} to {points[max(points)]:,.0f}"


def _all_ends(curves: Curves, schemes: Iterable[str]) -> str:
    return ", ".join(f"{scheme} {_ends(curves[scheme])}" for scheme in schemes)


ALL = (*INCREMENTAL, *REINDEXING)
FLAT = ("DEL", "WATA", "RATA", "REINDEX++")

TRENDS = (
    Trend("2a", "2", "REINDEX needs the least space", _is_least("2", "REINDEX")),
    Trend("2b", "2", "every scheme needs less space with more constituents", _falls("2", ALL)),
    Trend(
        "3a", "3", "DEL, WATA, RATA and REINDEX++ do not depend on n (within 5 %)",
        _grows_by("3", FLAT, 0.95, 1.05),
    ),
    Trend("3b", "3", "REINDEX is slower than adding a day below n = 4, faster from there",
          _reindex_beats_adding),
    Trend("3c", "3", "REINDEX+ has the longest transition", _is_most("3", "REINDEX+")),
    Trend("4a", "4", "from n = 4 on REINDEX does the least work",
          _is_least("4", "REINDEX", lambda n: n >= 4)),
    Trend("4b", "4", "DEL, WATA and RATA grow slowly with n (less than half from end to end)",
          _grows_by("4", INCREMENTAL, 0, 1.5)),
    Trend("4c", "4 (10,000 probes)", "from n = 4 on REINDEX does the least work",
          _is_least("4 (10,000 probes)", "REINDEX", lambda n: n >= 4)),
    Trend("4d", "4 (10,000 probes)",
          "DEL, WATA and RATA grow slowly with n (less than half from end to end)",
          _grows_by("4 (10,000 probes)", INCREMENTAL, 0, 1.5)),
    Trend("5a", "5", "REINDEX does the most work", _is_most("5", "REINDEX")),
    Trend("5b", "5", "DEL, WATA and RATA do the least of all, at n of 1 or 2", _least_at_small_n),
    Trend("6a", "6", "DEL with n = 1 and WATA with n = 2 do the least work",
          _del_1_and_wata_2_do_best),
    Trend("6b", "6", "REINDEX does the most work", _is_most("6", "REINDEX")),
    Trend("7a", "7", "packed shadows save work (DEL, WATA, RATA)", _packed_is_cheaper),
    Trend("7b", "7", "WATA does the least work", _is_least("7", "WATA")),
    Trend("7c", "7", "WATA does less with more constituents", _falls("7", ["WATA"])),
    Trend("7d", "7", "at n = 10 WATA saves about 9,000 s against DEL",
          _wata_saves("DEL", 8_000, 10_000)),
    Trend("7e", "7", "RATA does the same work as DEL (within 5 %)", _rata_works_like_del),
    Trend("8a", "8", "DEL, WATA and RATA scale with the window (less than half more at 42 days)",
          _grows_by("8", INCREMENTAL, 0, 1.5)),
    Trend("8b", "8", "the reindexing schemes do not (more than twice the work at 42 days)",
          _grows_by("8", REINDEXING, 2, float("inf"))),
    Trend("9a", "9 (7 days)", "REINDEX scales best with the data", _scales_best("9 (7 days)")),
    Trend("9b", "9 (7 days)", "WATA does less than REINDEX up to 3 times the data, more beyond",
          _wata_best_until_3("9 (7 days)")),
    Trend("9c", "9 (14 days)", "REINDEX scales best with the data", _scales_best("9 (14 days)")),
    Trend("9d", "9 (14 days)", "WATA does less than REINDEX up to 3 times the data, more beyond",
          _wata_best_until_3("9 (14 days)")),
)  # fmt: skip
