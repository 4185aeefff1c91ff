"""What the thesis reports for Figures 7.8 to 7.14 and 8.7 to 8.10, stated so that it can be
checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Points = Sequence[dict[str, Any]]


def _outcome(claim: str, holds: bool, text: str) -> dict[str, Any]:
    return {"claim": claim, "holds": bool(holds), "found": text}


def isolation_trends(points: Points) -> list[dict[str, Any]]:
    def mean_of(policy: str, measure: str, **where: Any) -> float:
        values = [
            p[measure]
            for p in points
            if p["policy"] == policy
            and measure in p
            and all(p[name] == value for name, value in where.items())
        ]
        return float(sum(values)) / len(values)

    def texts(measure: str, **where: Any) -> str:
        names = ("serial", "ws", "lws", "ttu", "snapshot")
        return ", ".join(f"{n} {mean_of(n, measure, **where):.3g}" for n in names)

    plain, busy = {"one_time": False}, {"one_time": True}
    longest = max(p["size"] for p in points)
    share = {"t": 1, "size": longest, **plain}
    at = {name: mean_of(name, "staleness", **plain) for name in ("serial", "ws", "lws", "ttu")}
    speed = mean_of("ttu", "throughput", **plain) / mean_of("serial", "throughput", **plain)
    gap = {n: mean_of(n, "between executions", **plain) for n in ("serial", "ws", "lws", "ttu")}
    response = {n: mean_of(n, "one-time response", **busy) for n in ("serial", "lws", "ttu")}
    once = {n: mean_of(n, "one-time staleness", **busy) for n in ("serial", "ws", "lws", "ttu")}
    least = mean_of("ttu", "throughput", **plain) > mean_of("lws", "throughput", **plain)
    return [
        _outcome(
            "7.8: TTU aborts next to nothing",
            mean_of("ttu", "aborted share", **plain) < 0.01,
            texts("aborted share", **plain),
        ),
        _outcome(
            "7.8: more than half of LWS's attempts abort at t = 1 s and the longest window",
            mean_of("lws", "aborted share", **share) > 0.5,
            texts("aborted share", **share),
        ),
        _outcome(
            "7.9: staleness TTU < LWS < Serial, WS",
            at["ttu"] < at["lws"] < min(at["serial"], at["ws"]),
            texts("staleness", **plain),
        ),
        _outcome(
            "7.10: LWS takes longest between executions",
            gap["lws"] > max(gap["serial"], gap["ws"], gap["ttu"]),
            texts("between executions", **plain),
        ),
        _outcome(
            "7.11: TTU's throughput is within 4 % of Serial's, LWS's is lowest",
            speed > 0.96 and least,
            f"TTU {speed:.3f} of Serial; {texts('throughput', **plain)}",
        ),
        _outcome(
            "7.12: one-time queries respond TTU < LWS < Serial",
            response["ttu"] < response["lws"] < response["serial"],
            texts("one-time response", **busy),
        ),
        _outcome(
            "7.13: one-time staleness is lowest with TTU",
            once["ttu"] <= min(once.values()),
            texts("one-time staleness", **busy),
        ),
        _outcome(
            "7.14: periodic staleness beside one-time queries is lowest with TTU",
            mean_of("ttu", "staleness", **busy)
            <= min(mean_of(n, "staleness", **busy) for n in ("serial", "ws", "lws")),
            texts("staleness", **busy),
        ),
    ]


def schedule_trends(points: Points, rate: str) -> list[dict[str, Any]]:
    most = max(p["queries"] for p in points)
    largest = {p["policy"]: p for p in points if p["queries"] == most}

    def texts(measure: str) -> str:
        return ", ".join(f"{name} {p[measure]:.3g}" for name, p in largest.items())

    fast = {name: p["throughput"] for name, p in largest.items()}
    late = {name: p["latency"] for name, p in largest.items()}
    figures = ("8.7", "8.8") if rate == "low" else ("8.9", "8.10")
    outcomes = [
        _outcome(
            f"{figures[0]}: throughput no-s < conservative < hybrid <= late-sharing, late-pending",
            fast["no-s"] <= fast["conservative"] <= fast["hybrid"] <= fast["late-sharing"] * 1.001
            and fast["late-sharing"] <= fast["late-pending"] * 1.001,
            texts("throughput"),
        ),
        _outcome(
            f"{figures[1]}: late-pending has the lowest latency but aggressive, No-S the highest",
            late["late-pending"] <= min(late["hybrid"], late["conservative"])
            and late["no-s"] >= max(late.values()),
            texts("latency"),
        ),
    ]
    if rate == "low":
        gain = fast["hybrid"] / fast["conservative"]
        text = f"{gain:.2f}"
        outcomes.append(_outcome("8.7: hybrid at least 2 times conservative", gain >= 2, text))
    else:
        gain = fast["late-pending"] / fast["hybrid"]
        text = f"{gain:.2f}"
        outcomes.append(_outcome("8.9: late-pending more than 2 times hybrid", gain > 2, text))
    return outcomes
