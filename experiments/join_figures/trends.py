"""What the thesis reports for Figures 5.2 to 5.4, stated so that it can be checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Points = Sequence[dict[str, Any]]
BEST, WORST = "2134", "3412"
CLEARLY = 1.02


def check_trends(points: Points) -> list[dict[str, Any]]:
    """The claims for the figure that the points belong to."""
    if not points:
        return []
    if points[0]["figure"] == "5.2":
        return [*_orders(points)]
    return [one for buckets in sorted({p["buckets"] for p in points})
            for one in _algorithms([p for p in points if p["buckets"] == buckets])]  # fmt: skip


def _outcome(claim: str, holds: bool, found: str) -> dict[str, Any]:
    return {"claim": claim, "holds": bool(holds), "found": found}


def _orders(points: Points) -> list[dict[str, Any]]:
    def value(measure: str, algorithm: str, buckets: int, order: str) -> float:
        return next(
            float(p[measure]) for p in points
            if (p["algorithm"], p["buckets"], p["order"]) == (algorithm, buckets, order)
        )  # fmt: skip

    found = []
    for measure in ("scanned", "milliseconds"):
        ratios = {
            (p["algorithm"], p["buckets"], p["order"]): p[measure]
            / value(measure, p["algorithm"], p["buckets"], BEST)
            for p in points
        }
        worst = {k: r for k, r in ratios.items() if k[2] == WORST}
        text = ", ".join(f"{a}/{b} ×{r:.2f}" for (a, b, _), r in worst.items())
        claim = f"{BEST} is the cheapest order for every algorithm ({measure})"
        least = min(ratios, key=lambda key: ratios[key])
        found.append(
            _outcome(claim, ratios[least] >= 0.95, f"least is {least} ×{ratios[least]:.2f}")
        )
        predicted = value("predicted", "eager", 1, WORST) / value("predicted", "eager", 1, BEST)
        claim = f"{WORST} costs more, but not quite as much as the predicted ×{predicted:.2f}"
        holds = all(1 < r <= 1.1 * predicted for r in worst.values())
        found.append(_outcome(f"{claim} ({measure})", holds, text))
    return found


def _algorithms(points: Points) -> list[dict[str, Any]]:
    buckets = points[0]["buckets"]

    def line(algorithm: str, measure: str) -> list[float]:
        chosen = sorted((p["every"], p[measure]) for p in points if p["algorithm"] == algorithm)
        return [value for _, value in chosen]

    found = []
    for measure in ("scanned", "milliseconds"):
        eager = [*line("eager", measure), *line("lazy-expiration", measure)]
        lazy, restore = line("lazy", measure), line("lazy-restore", measure)

        def add(claim: str, holds: bool, *lines: list[float], measure: str = measure) -> None:
            text = "; ".join(" ".join(f"{v:.3g}" for v in one) for one in lines)
            found.append(_outcome(f"{claim} ({measure}, {buckets} buckets)", holds, text))

        # Less than CLEARLY may be chance.
        dearer, cheaper = sum(restore) / sum(lazy), lazy[-1] / eager[-1]
        add("at the largest Δ lazy is cheaper than eager", cheaper < 1 / CLEARLY, lazy, eager)
        add("over all Δ restore costs more than no-restore", dearer > CLEARLY, restore, lazy)
        add("lazy gets cheaper from the smallest Δ to the largest", lazy[-1] < lazy[0], lazy)
        add("eager gets dearer from the smallest Δ to the largest", eager[-1] > eager[1], eager)
    return found
