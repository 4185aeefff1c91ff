"""What the studies say their figures show, and whether ours show it.

Figures are numbered as in variable-lifetimes-2006 (V) and results-index-2005 (R). A trend may fail:
then the run says so with the figures, and the README says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.lifetime_figures.measured import Point

Points = Mapping[str, Sequence[Point]]
"""Sweep → its points."""


@dataclass(frozen=True)
class Outcome:
    """Whether a claim holds, and the figures that say so."""

    figure: str
    claim: str
    holds: bool
    evidence: str


def of(points: Points, sweep: str, layout: str) -> Point:
    return next(point for point in points[sweep] if point.layout == layout)


def check_trends(points: Points) -> list[Outcome]:
    """The outcome of every claim about sweeps that were measured."""
    found = []
    for sweep, checks in CHECKS.items():
        if sweep in points and (sweep in ("shape", "count") or "small" in points):
            found += [check(points) for check in checks]
    return found


def _outcome(figure: str, claim: str, holds: bool, evidence: str) -> Outcome:
    return Outcome(figure, claim, bool(holds), evidence)


def _ms(points: Iterable[Point]) -> str:
    return ", ".join(f"{p.layout} {1000 * p.update_seconds:.0f}" for p in points) + " ms"


def _shape(points: Points) -> Outcome:
    square, *others = (of(points, "shape", f"Rebuild {x}") for x in ("4x4", "2x8", "8x2"))
    best = all(square.update_seconds < one.update_seconds for one in others)
    return _outcome(
        "V5 R9",
        "G = E is best to update (7 sub-indices touched instead of 9; about 20 % less)",
        best,
        f"{_ms([square, *others])}; MB moved "
        + ", ".join(f"{p.update_bytes / 1e6:.1f}" for p in (square, *others)),
    )


def _shape_probes(points: Points) -> Outcome:
    three = [of(points, "shape", f"Rebuild {x}") for x in ("4x4", "2x8", "8x2")]
    times = [p.probe_bytes for p in three]
    return _outcome(
        "V5 R9",
        "probes and scans hardly depend on G and E (bytes of a probe within 5 %)",
        max(times) < 1.05 * min(times),
        ", ".join(f"{p.layout} {1000 * p.probe_seconds:.1f} ms, {p.probe_bytes / 1e3:.0f} kB"
                  for p in three),
    )  # fmt: skip


def _faster_than(sweep: str, figure: str, ours: str, theirs: str) -> Callable[[Points], Outcome]:
    def check(points: Points) -> Outcome:
        ratios = []
        for side in (4, 5):
            new = of(points, sweep, f"{ours} {side}x{side}")
            old = of(points, sweep, f"{theirs}{side * side}")
            ratios.append((old.update_seconds / new.update_seconds,
                           old.update_bytes / new.update_bytes))  # fmt: skip
        return _outcome(
            figure,
            f"{ours} updates at least 2 times faster than {theirs} at n = 16 and 25",
            all(seconds >= 2 for seconds, _ in ratios),
            "; ".join(f"×{s:.1f} in time, ×{b:.1f} in bytes" for s, b in ratios),
        )

    return check


def _chronological(points: Points) -> Outcome:
    sizes = ("3x3", "4x4", "5x5")
    pairs = [(of(points, "small", f"Rebuild {s}"),
              of(points, "variants", f"chronological Rebuild {s}")) for s in sizes]  # fmt: skip
    return _outcome(
        "V6 R10",
        "round-robin updates faster than chronological (10 to 20 %; Rebuild, n = 9 to 25)",
        all(r.update_seconds < c.update_seconds for r, c in pairs),
        "; ".join(f"n = {r.sub_indices}: {100 * (1 - r.update_seconds / c.update_seconds):.0f} % "
                  f"less time, {100 * (1 - r.update_bytes / c.update_bytes):.0f} % fewer bytes"
                  for r, c in pairs),
    )  # fmt: skip


def _rebuilding(sweep: str, figure: str) -> Callable[[Points], Outcome]:
    def check(points: Points) -> Outcome:
        pairs = [(of(points, sweep, f"Rebuild {s}x{s}"), of(points, sweep, f"NoRebuild {s}x{s}"))
                 for s in (2, 3, 4, 5)]  # fmt: skip
        return _outcome(
            figure,
            "NoRebuild is faster to update than Rebuild, and slower to probe",
            all(n.update_seconds < r.update_seconds and n.probe_seconds > r.probe_seconds
                for r, n in pairs),
            "; ".join(f"n = {r.sub_indices}: update {1000 * n.update_seconds:.0f} against "
                      f"{1000 * r.update_seconds:.0f} ms, probe {1000 * n.probe_seconds:.1f} "
                      f"against {1000 * r.probe_seconds:.1f} ms" for r, n in pairs),
        )  # fmt: skip

    return check


def _more_sub_indices(points: Points) -> Outcome:
    series = [of(points, "small", f"Rebuild {s}x{s}") for s in (2, 3, 4, 5)]
    moved = [p.update_bytes for p in series]
    reached = [p.probe_bytes for p in series]
    return _outcome(
        "V6 V7",
        "with more sub-indices updates move less, and probes read more (Rebuild)",
        moved == sorted(moved, reverse=True) and reached == sorted(reached),
        "; ".join(f"n = {p.sub_indices}: {p.update_bytes / 1e6:.1f} MB moved in "
                  f"{1000 * p.update_seconds:.0f} ms, probe {p.probe_bytes / 1e3:.0f} kB in "
                  f"{1000 * p.probe_seconds:.1f} ms" for p in series),
    )  # fmt: skip


def _lazy(points: Points) -> Outcome:
    pairs = [(of(points, "small", f"{k} {s}x{s}"), of(points, "variants", f"Lazy{k} {s}x{s}"))
             for k in ("Rebuild", "NoRebuild") for s in (4, 5)]  # fmt: skip
    return _outcome(
        "R10",
        "lazy layouts are faster to update and need more space (n = 16 and 25)",
        all(lazy.update_seconds < p.update_seconds and lazy.stored_bytes > p.stored_bytes
            for p, lazy in pairs),
        "; ".join(f"{lazy.layout} {1000 * lazy.update_seconds:.0f} against "
                  f"{1000 * p.update_seconds:.0f} ms, "
                  f"{lazy.stored_bytes / p.stored_bytes - 1:+.0%} space" for p, lazy in pairs),
    )  # fmt: skip


def _fluctuation(points: Points) -> Outcome:
    def more(layout: str) -> float:
        return (of(points, "fluctuating", layout).update_seconds
                / of(points, "small", layout).update_seconds - 1)  # fmt: skip

    names = ("Rebuild 2x2", "Rebuild 4x4", "R-ins4", "R-ins16", "NoRebuild 4x4", "D-ins16")
    rises = {name: more(name) for name in names}
    return _outcome(
        "V9 R13",
        "rates that fluctuate by a factor of four cost R-ins more than Rebuild (n = 4 and 16)",
        rises["Rebuild 2x2"] < rises["R-ins4"] and rises["Rebuild 4x4"] < rises["R-ins16"],
        ", ".join(f"{name} {rise:+.0%}" for name, rise in rises.items()),
    )


def _scaling(points: Points) -> Outcome:
    def gap(sweep: str) -> float:
        sizes = (("R-ins16", "Rebuild 4x4"), ("R-ins25", "Rebuild 5x5"))
        return max(of(points, sweep, old).update_seconds / of(points, sweep, new).update_seconds
                   for old, new in sizes)  # fmt: skip

    return _outcome(
        "V10 R14",
        "with ten times the data the lead of Rebuild over R-ins grows (n = 16, 25)",
        gap("large") > gap("small"),
        f"at most ×{gap('small'):.1f} with little data, ×{gap('large'):.1f} with much",
    )


def _unindexed(points: Points) -> Outcome:
    plain = of(points, "small", "Rebuild 4x4")
    without = of(points, "unindexed", "Rebuild 4x4, unindexed")
    saved = 1 - without.update_seconds / plain.update_seconds
    ratio = without.probe_seconds / plain.probe_seconds
    return _outcome(
        "V4.3 R5.3",
        "without clustering by key updates take less, and a probe takes as long as a scan",
        saved > 0 and without.probe_seconds > 0.5 * without.scan_seconds,
        f"update {-saved:+.0%} (the study: −20 %); probe {1000 * without.probe_seconds:.0f} ms, "
        f"×{ratio:.1f} (the study: two orders of magnitude), scan "
        f"{1000 * without.scan_seconds:.0f} ms",
    )


def _invalidation(points: Points) -> Outcome:
    plain = of(points, "small", "Rebuild 4x4")
    void = of(points, "invalidated", "Rebuild 4x4")
    update = void.update_seconds / plain.update_seconds - 1
    probe = void.probe_seconds / plain.probe_seconds - 1
    return _outcome(
        "R5.6",
        "premature deletions cost updates and probes about 5 % (at most 10 %)",
        update <= 0.1 and probe <= 0.1,
        f"update {update:+.0%}, probe {probe:+.0%}; declaring {void.invalidated} rows void "
        f"{1000 * void.invalidate_seconds:.0f} ms",
    )


def _count(points: Points) -> Outcome:
    best = [of(points, "count", f"{k} 4x4") for k in ("CountRebuild", "CountNoRebuild")]
    old = [of(points, "count", f"{k}16") for k in ("R-ins", "D-ins")]
    return _outcome(
        "R17",
        "CountRebuild and CountNoRebuild update faster than R-ins and D-ins (n = 16)",
        all(n.update_seconds < o.update_seconds for n, o in zip(best, old, strict=True)),
        _ms([*best, *old]),
    )


def _count_shape(points: Points) -> Outcome:
    found = [of(points, "count", f"CountRebuild {x}") for x in ("4x4", "8x2", "2x8")]
    times = [one.update_seconds for one in found]
    return _outcome(
        "R17",
        "G = E remains best for count windows: CountRebuild 4x4 before 8x2, and 2x8 last",
        times == sorted(times),
        _ms(found),
    )


def _count_small(points: Points) -> Outcome:
    pairs = [(of(points, "count", f"Count{kind} 2x2"), of(points, "count", f"{kind} 2x2"))
             for kind in ("Rebuild", "NoRebuild")]  # fmt: skip
    return _outcome(
        "R17",
        "with few sub-indices chronological expirations help: Count… 2x2 before … 2x2",
        all(counted.update_seconds < plain.update_seconds for counted, plain in pairs),
        _ms(one for pair in pairs for one in pair),
    )


CHECKS: Mapping[str, tuple[Callable[[Points], Outcome], ...]] = {
    "shape": (_shape, _shape_probes),
    "small": (
        _faster_than("small", "V6 R10", "Rebuild", "R-ins"),
        _faster_than("small", "V6 R10", "NoRebuild", "D-ins"),
        _rebuilding("small", "V6 V7"),
        _more_sub_indices,
    ),
    "variants": (_chronological, _lazy),
    "unindexed": (_unindexed,),
    "fluctuating": (_fluctuation,),
    "large": (
        _faster_than("large", "V10 R14", "Rebuild", "R-ins"),
        _faster_than("large", "V10 R14", "NoRebuild", "D-ins"),
        _scaling,
        _rebuilding("large", "V10 V11"),
    ),
    "invalidated": (_invalidation,),
    "count": (_count, _count_shape, _count_small),
}
