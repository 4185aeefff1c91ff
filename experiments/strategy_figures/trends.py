"""What the thesis reports for Figures 3.8 to 3.15, stated so that it can be checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Points = Sequence[dict[str, Any]]


def _at_largest(points: Points, query: str, measure: str, one: str, other: str) -> float | None:
    """How many times one way's figure is another's, at the largest window that both have."""
    values = {(p["way"], p["window"]): float(p[measure]) for p in points if p["query"] == query}
    windows = [window for way, window in values if way == one and (other, window) in values]
    if not windows:
        return None
    return values[one, max(windows)] / max(values[other, max(windows)], 1e-9)


_CLAIMS: list[tuple[str, str, str, str, str, str, Callable[[float], bool]]] = [
    ("3.8", "join_few", "milliseconds", "UPA is nearly twice as fast as NT",
     "NT", "UPA", lambda r: r >= 1.5),
    ("3.8", "join_few", "milliseconds", "DIRECT is faster than NT",
     "NT", "DIRECT", lambda r: r > 1),
    ("3.8", "join_few", "touched", "by UPA fewer tuples are touched than by NT",
     "NT", "UPA", lambda r: r > 1),
    ("3.9", "join_many", "touched", "by UPA fewer tuples are touched than by NT",
     "NT", "UPA", lambda r: r > 1),
    ("3.10", "distinct_sources", "touched", "by UPA fewer tuples are touched than by NT",
     "NT", "UPA", lambda r: r > 1),
    ("3.11", "distinct_pairs", "touched", "by UPA fewer tuples are touched than by NT",
     "NT", "UPA", lambda r: r > 1),
    ("3.9", "join_many", "milliseconds", "UPA is up to ten times as fast as NT",
     "NT", "UPA", lambda r: r >= 5),
    ("3.9", "join_many", "milliseconds", "DIRECT is by far the slowest",
     "DIRECT", "NT", lambda r: r > 1),
    ("3.10", "distinct_sources", "milliseconds", "UPA is ten times as fast as NT",
     "NT", "UPA", lambda r: r >= 5),
    ("3.10", "distinct_sources", "milliseconds", "UPA is ten times as fast as DIRECT",
     "DIRECT", "UPA", lambda r: r >= 5),
    ("3.11", "distinct_pairs", "milliseconds", "UPA is about twice as fast as NT",
     "NT", "UPA", lambda r: r >= 1.5),
    ("3.12", "distinct_sources", "state_rows", "UPA needs up to a hundredth of NT's space",
     "NT", "UPA", lambda r: r >= 30),
    ("3.13", "distinct_pairs", "state_rows", "UPA needs significantly less space than NT",
     "NT", "UPA", lambda r: r >= 1.5),
    ("3.14", "negation", "milliseconds", "UPA is slower than NT for large windows",
     "UPA", "NT", lambda r: r > 1),
    ("3.15", "negation_and_join", "milliseconds", "with NT, the join belongs above the negation",
     "NT", "NT (join up)", lambda r: r > 1),
    ("3.15", "negation_and_join", "milliseconds", "UPA is fastest for large windows",
     "NT (join up)", "UPA", lambda r: r > 1),
]  # fmt: skip


def check_trends(points: Points) -> list[dict[str, Any]]:
    """Each claim with the ratio found at the largest window."""
    outcomes = []
    for figure, query, measure, claim, one, other, holds in _CLAIMS:
        value = _at_largest(points, query, measure, one, other)
        if value is not None:
            found = f"{one} takes {value:.2f} times what {other} does"
            outcomes.append(
                {"figure": figure, "claim": claim, "holds": bool(holds(value)), "found": found}
            )
    return outcomes
