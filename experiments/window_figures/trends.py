"""What the report says of Figures 7 to 11, and the thesis of 6.3, so that it can be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.window_figures.loads import POWER, UNIFORM

Points = Sequence[dict[str, Any]]
Outcome = dict[str, Any]
FEW, MANY = 1_000, 10_000
"""Possible values."""
SMALL, LARGE = 50, 500
"""Basic windows."""
REFERENCE = {
    (20, 1): (23.7, 0, 0, 5018), (20, 3): (8.2, 2, 2, 15113), (20, 5): (5.2, 3, 3, 25154),
    (20, 7): (5.0, 3, 3, 35221), (20, 10): (4.9, 3, 3, 50672), (100, 1): (22.4, 0, 0, 1002),
    (100, 3): (6.5, 2, 2, 3013), (100, 5): (3.7, 4, 4, 5028), (100, 7): (2.6, 6, 5, 7055),
    (100, 10): (1.9, 7, 7, 10128), (500, 1): (22.4, 0, 0, 201), (500, 3): (6.1, 2, 2, 606),
    (500, 5): (3.4, 4, 4, 1009), (500, 7): (2.2, 6, 6, 1415), (500, 10): (1.5, 9, 8, 2026),
}  # fmt: skip
"""δ %, truly over δ, reported, pairs and counters of one window of the same draws, by (b, k)."""


class Table:
    """Points of a figure by structure and setting."""

    def __init__(self, points: Points, measure: str = "seconds") -> None:
        self.cells = {
            (p["structure"], p["n"], p["values"], p["spread"]): float(p[measure]) for p in points
        }
        self.settings = list(dict.fromkeys(key[1:] for key in self.cells))

    def of(self, structure: str, n: int, values: int, spread: str = UNIFORM) -> float:
        return self.cells[structure, n, values, spread]

    def ratios(
        self, one: str, other: str, where: Callable[[int, int, str], bool] = lambda *_: True
    ) -> list[float]:
        """How many times as much one structure costs as another, in every setting."""
        return [
            self.cells[(one, *s)] / max(1e-9, self.cells[(other, *s)])
            for s in self.settings
            if where(*s)
        ]

    def rise(self, structure: str, values: int, spread: str = UNIFORM) -> float:
        """The cost with many basic windows over that with few."""
        few = max(1e-9, self.of(structure, SMALL, values, spread))
        return self.of(structure, LARGE, values, spread) / few


def check_trends(figure: str, points: Points) -> list[Outcome]:
    return list(CHECKS[figure](points))


def _claim(claim: str, holds: bool, values: Iterable[float]) -> Outcome:
    return {"claim": claim, "holds": bool(holds), "measured": " ".join(f"{v:.3g}" for v in values)}


def _maintenance(points: Points) -> Iterable[Outcome]:
    for measure in ("seconds", "visits"):
        table = Table(points, measure)
        slow = table.ratios("L LIST", "T LIST")
        yield _claim(f"L costs most: L over T, LIST ({measure})", min(slow) > 2, slow)
    table = Table(points)
    even = table.ratios("H LIST", "T LIST", lambda n, v, s: s == UNIFORM)
    yield _claim(
        "T and H cost about the same: H over T, uniform", min(even) > 0.5 and max(even) < 2, even
    )
    shifts = [
        (p / u)
        for p, u in zip(
            table.ratios("H LIST", "T LIST", lambda n, v, s: s == POWER and v == MANY),
            table.ratios("H LIST", "T LIST", lambda n, v, s: s == UNIFORM and v == MANY),
            strict=True,
        )
    ]
    yield _claim("T gains on H under the power law, 10,000 values", min(shifts) > 1, shifts)
    aggr = table.ratios("T AGGR", "T LIST")
    yield _claim("LIST is usually better than AGGR: AGGR over LIST", _most(aggr), aggr)
    steep = [table.of("T AGGR", n, MANY) / table.of("T LIST", n, MANY) for n in (SMALL, LARGE)]
    yield _claim(
        "AGGR is slow with few basic windows and many values: n = 50, 500",
        steep[0] > 2 * steep[1],
        steep,
    )
    hashed = table.ratios("T HASH", "T AGGR")
    yield _claim(
        "HASH is as AGGR, and faster: HASH over AGGR", _most([1 / h for h in hashed]), hashed
    )
    few = table.ratios("UH LIST", "H LIST", lambda n, v, s: v == FEW)
    many = table.ratios("UH LIST", "H LIST", lambda n, v, s: v == MANY)
    yield _claim(
        "8a: UH equals H at 1,000 values: UH over H", min(few) > 0.8 and max(few) < 1.3, few
    )
    yield _claim("8a: UH is bad at 10,000 values: UH over H", min(many) > 1.3, many)


def _most(ratios: Sequence[float]) -> bool:
    return sum(ratio > 1 for ratio in ratios) > len(ratios) / 2


def _groups(points: Points) -> Iterable[Outcome]:
    table = Table(points)
    for name, values in (("G 10", FEW), ("G 50", MANY)):
        for other in ("LIST", "T LIST"):
            ratios = [
                table.of(other, n, values) / table.of(name, n, values)
                for n, v, _ in table.settings
                if v == values
            ]
            yield _claim(
                f"{name} beats {other} at {values:,} values: {other} over {name}",
                min(ratios) > 1,
                ratios,
            )


def _histograms(points: Points) -> Iterable[Outcome]:
    table = Table(points)
    for storage in ("LIST", "AGGR", "HASH"):
        last = table.ratios(f"L {storage}", f"T {storage}")
        close = table.ratios(f"H {storage}", f"T {storage}")
        yield _claim(f"T first, {storage}: H over T", min(close) > 0.95, close)
        yield _claim(f"L last, {storage}: L over T", min(last) > 1, last)
        rises = [table.rise(f"T {storage}", values) for values in (FEW, MANY)]
        dearer = storage == "LIST"
        change = "dearer" if dearer else "cheaper"
        claim = f"{storage} gets {change} with more basic windows: 500 over 50"
        yield _claim(claim, all((r > 1) == dearer for r in rises), rises)
    again = table.ratios("no index LIST", "T LIST")
    yield _claim(
        "sorting LIST again costs orders of magnitude more: over T", min(again) > 10, again
    )
    merged = table.ratios("no index AGGR", "T AGGR")
    yield _claim("merging AGGR costs more than T over AGGR", min(merged) > 1, merged)
    exception = table.of("L AGGR", SMALL, MANY) / table.of("no index AGGR", SMALL, MANY)
    yield _claim(
        "but L over AGGR, n = 50, 10,000 values (the report: 1.45)", exception > 1, [exception]
    )


def _intersections(points: Points) -> Iterable[Outcome]:
    table = Table(points)
    cheap = [r for name in "TH" for group in ("G 10", "G 50") for r in table.ratios(name, group)]
    yield _claim("G is far cheaper: T, H over G", min(cheap) > 2, cheap)
    for name in ("G 10", "G 50", "T", "H"):
        rises = [table.rise(name, values) for values in (FEW, MANY)]
        grows = name.startswith("G")
        claim = (
            f"{name} {'grows' if grows else 'falls'} with the number of basic windows: 500 over 50"
        )
        yield _claim(claim, all((r > 1) == grows for r in rises), rises)


def _deletions(points: Points) -> Iterable[Outcome]:
    for measure in ("seconds", "visits"):
        table = Table(points, measure)
        for one, other in (("BW", "DB"), ("AUX", "BW")):
            ratios = table.ratios(one, other)
            yield _claim(
                f"{other} < {one}: {one} over {other} ({measure})", min(ratios) > 1, ratios
            )
        gaps = [table.of("AUX", 100, v) / table.of("DB", 100, v) for v in (FEW, MANY)]
        yield _claim(
            f"the gap is wider with fewer values: AUX over DB ({measure})", gaps[0] > gaps[1], gaps
        )
        wider = [
            table.of("AUX", 100, FEW, s) / table.of("DB", 100, FEW, s) for s in (UNIFORM, POWER)
        ]
        yield _claim(
            f"the power law widens it: uniform, power law ({measure})", wider[1] > wider[0], wider
        )
    visits = Table(points, "visits")
    whole = Table(points, "with_insertion")
    plain = [r for other in ("AUX", "BW", "DB") for r in whole.ratios("plain", other)]
    claim = "plain, with insertion, costs ten times as much as the others: over each (visits)"
    yield _claim(claim, min(plain) > 10, plain)
    rises = [visits.rise(name, FEW) for name in ("AUX", "BW", "DB")]
    yield _claim("AUX does not mind n: 500 over 50 (visits)", 0.9 < rises[0] < 1.1, rises[:1])
    yield _claim(
        "BW and DB prefer few basic windows: 500 over 50 (visits)", min(rises[1:]) > 1, rises[1:]
    )


def _rings(points: Points) -> Iterable[Outcome]:
    alone = Table([p for p in points if p["figure"] == "11b"])
    asked = Table([p for p in points if p["figure"] == "11c"])
    at_most = [
        r for one in ("AUX", "BW") for r in alone.ratios(one, "DB", lambda n, v, s: v == MANY)
    ]
    close = all(0.7 < r < 1.4 for r in at_most)
    yield _claim("11b: insertion into L dominates, differences are small: over DB", close, at_most)
    before = asked.ratios("BW", "DB")
    yield _claim("11c: with the query DB is slightly before BW: BW over DB", _most(before), before)
    rises = [asked.rise("DB", values) for values in (FEW, MANY)]
    yield _claim("11c: steep rise with many basic windows: 500 over 50", min(rises) > 2, rises)


def _frequent(points: Points) -> Iterable[Outcome]:
    def line(b: int, name: str) -> list[float]:
        return [p[name] for p in sorted(points, key=lambda p: int(p["k"])) if p["b"] == b]

    def at(b: int, k: int, name: str) -> float:
        return next(float(p[name]) for p in points if (p["b"], p["k"]) == (b, k))

    falls = all(
        line(b, "delta_percent") == sorted(line(b, "delta_percent"))[::-1] for b in (20, 100, 500)
    )
    smaller = [at(b, 5, "delta_percent") for b in (20, 100, 500)]
    yield _claim(
        "(a) δ falls with k, is larger for smaller b: k = 5 (the thesis: about 5 %)",
        falls and smaller == sorted(smaller)[::-1],
        smaller,
    )
    rises = all(line(b, "over") == sorted(line(b, "over")) for b in (20, 100, 500))
    yield _claim(
        "(b) more are truly over δ with larger k: k = 5 (the thesis: 3 to 4)",
        rises,
        [at(b, 5, "over") for b in (20, 100, 500)],
    )
    less = all(p["reported"] <= p["over"] for p in points)
    yield _claim(
        "(c) reported are at most as many: k = 5",
        less,
        [at(b, 5, "reported") for b in (20, 100, 500)],
    )
    share = [p["share"] for p in points if p["k"] >= 3]
    yield _claim(
        "(d) at least 80 % are found for k ≥ 3: least, and b = 20, k > 7",
        min(share) >= 0.8,
        [min(share), at(20, 10, "share")],
    )
    stored = [at(b, 10, "stored") for b in (20, 100, 500)]
    grows = all(line(b, "stored") == sorted(line(b, "stored")) for b in (20, 100, 500))
    yield _claim(
        "(e) pairs grow with k, most with n; far below 100,000 for large b",
        grows and stored == sorted(stored)[::-1] and stored[2] < 5_000,
        stored,
    )
    errors = [at(20, k, "error_percent") for k in (3, 5, 7, 10)]
    yield _claim(
        "(f) errors fall with k: b = 20, k = 3 5 7 10 (the thesis: < 2 % from 7 on)",
        errors[-1] < errors[0] and max(errors[2:]) < 2,
        errors,
    )
    same = {
        key: (
            round(p["first"]["delta_percent"], 1),
            p["first"]["over"],
            p["first"]["reported"],
            p["first"]["stored"],
        )
        for p in points
        if (key := (p["b"], p["k"])) in REFERENCE
    }
    wrong = [key for key, value in same.items() if value != REFERENCE[key]]
    yield _claim(
        "the first window is that of a second implementation: settings that differ",
        not wrong,
        [len(wrong)],
    )


CHECKS: dict[str, Callable[[Points], Iterable[Outcome]]] = {
    "7": _maintenance,
    "8b": _groups,
    "9": _histograms,
    "10": _intersections,
    "11a": _deletions,
    "11bc": _rings,
    "6.3": _frequent,
}
