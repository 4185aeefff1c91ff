"""The reports of past updates, kept in the manifest so that they outlive their versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mayfly.display import counted
from mayfly.lifetime import instant_text

REPORTS = "reports"
REPORTS_KEPT = 60
CHANGED_AT = "changed_at"
"""The last update when the archive was changed: what was measured before was another layout."""


def reports_after(
    properties: Mapping[str, Any], report: Mapping[str, Any], erased_until: int | None = None
) -> list[Mapping[str, Any]]:
    """The kept reports with the one of the last update, which replaces an earlier form of it.

    Until when bytes are gone after an update (``erased_until``) is known only after its commit.
    """
    earlier = reports_of(properties)
    if earlier and earlier[-1]["update"] == report["update"]:
        earlier.pop()
    elif earlier and erased_until is not None:
        earlier[-1] = {**earlier[-1], "erased_until": erased_until}
    return [*earlier, report][-REPORTS_KEPT:]


def reports_of(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The reports a manifest holds, oldest first."""
    return list(properties.get(REPORTS, ()))


def report_facts(report: Mapping[str, Any]) -> dict[str, object]:
    """A report as people read it."""
    number = report["update"]
    if report.get("repeated"):
        return {"update": number, "done": "before: nothing to do"}
    took = report["transition_seconds"] + report["pre_transition_seconds"]
    counts = {name: report[name] for name in ("late", "dead_on_arrival") if report.get(name)}
    instants = {name: report.get(name) for name in ("hidden_until", "erased_until")}
    return {
        "update": number,
        "in": counted(report["stored"], "row"),
        "out": counted(report["removed"], "row"),
        **{name.replace("_", " "): counted(count, "row") for name, count in counts.items()},
        "written": counted(report["bytes_written"], "byte"),
        "took": f"{took:.3g} s",
        **{n.replace("_", " "): instant_text(t) for n, t in instants.items() if t is not None},
    }
