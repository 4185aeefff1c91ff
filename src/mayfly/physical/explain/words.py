"""Figures and phrases that every form of EXPLAIN shares."""

from __future__ import annotations

import html
import re
from collections import Counter

from mayfly.display import counted, number, size
from mayfly.optimizer.structures import Cost
from mayfly.physical.explain.model import (
    Explained,
    ExplainedOperator,
    ExplainedState,
    PhysicalPlan,
    Place,
)
from mayfly.plan.logical_operators import (
    DECORRELATED,
    GroupAggregate,
    OutputKind,
    Shared,
)

PATTERN_MEANING = {
    "MON": "never expires",
    "WKS": "expires first in, first out",
    "WK": "expirations known, in any order",
    "STR": "expirations depend on the future",
}


_NOT_IN_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def escape(text: str) -> str:
    """Text for XML and HTML; what neither can hold is written as in Python."""
    return html.escape(_NOT_IN_XML.sub(lambda match: ascii(match[0])[1:-1], text))


def cost_words(cost: Cost) -> str:
    return (
        f"{number(cost.total)} tuples/s touched = {number(cost.processing)} processing"
        f" + {number(cost.state)} state + {number(cost.negative)} negative tuples"
    )


def state_words(state: ExplainedState) -> str:
    """One structure in one line."""
    by = f" by {', '.join(state.keyed_by)}" if state.keyed_by else ""
    return f"{state.holds}{by}: " + ", ".join([structure_words(state), *amount_words(state)])


def structure_words(state: ExplainedState) -> str:
    name = str(state.structure.value)
    if state.partitions is None:
        return name
    return name.replace("calendar queue", f"calendar queue of {state.partitions} ranges")


def amount_words(state: ExplainedState) -> list[str]:
    """How large it is reckoned to get."""
    if state.rows is None or state.bytes is None:
        return []
    growth = " after one day, growing" if state.grows else ""
    return [f"{counted(state.rows, 'row')}, {size(state.bytes)}{growth}"]


def flow_words(operator: ExplainedOperator) -> str:
    """What leaves the operator."""
    parts = [] if operator.rate is None else [f"{number(operator.rate)}/s"]
    if operator.size:
        parts.append(f"{number(operator.size)} alive")
    if operator.negative:
        parts.append(f"{number(operator.negative)} negative/s")
    return ", ".join(parts)


def place_words(operator: ExplainedOperator) -> str:
    if operator.place is Place.ANSWER:
        return "answer"
    if operator.place is Place.BEFORE:
        return str(operator.place.value)
    return f"stage {operator.stage}, {operator.place.value}"


def assumption_words(plan: PhysicalPlan) -> str:
    """Which figures rest on defaults."""
    if not plan.assumed:
        return ""
    return f"{', '.join(plan.assumed)}: no rate is known, 100 tuples/s assumed"


def part_words(plan: PhysicalPlan) -> list[str]:
    """What is computed once for several readers, and queries used as values that were grouped."""
    nodes = [*plan.output.walk()]
    readers = Counter(node.name for node in nodes if isinstance(node, Shared))
    values = dict.fromkeys(
        f"{node.alias}: a query used as a value, grouped by {', '.join(k.name for k in node.keys)}"
        for node in nodes
        if isinstance(node, GroupAggregate) and node.alias.startswith(DECORRELATED)
    )
    return [f"{name}: read {count} times, computed once" for name, count in readers.items()] + [
        *values
    ]


def zone_words(plan: PhysicalPlan) -> list[str]:
    """Per time zone, what is read or shown in it."""
    zones = dict.fromkeys(zone for zone, _ in plan.zones)
    return [
        f"{zone_name}: {', '.join(w for zone, w in plan.zones if zone == zone_name)}"
        for zone_name in zones
    ]


def total_state(plan: PhysicalPlan) -> str:
    return f"{counted(plan.state_rows, 'row')}, {size(plan.state_bytes)}"


def results_words(plan: PhysicalPlan) -> str:
    """What a sink learns of the end of a result."""
    if plan.output.kind is not OutputKind.VIEW:
        return "are sent once, with their instant ts: a sink has nothing to delete"
    if plan.cuts:
        return "may end before their exp: a sink gets a second row, with the end in cut"
    if plan.answer.label.pattern.name == "MON":
        return "never expire: a sink needs no delete messages"
    return "leave with their exp: a sink needs no delete messages"


def heading(explanation: Explained, place: int) -> str:
    """The title of a plan among those shown."""
    if not explanation.compare:
        return ""
    chosen = "chosen" if place == 0 else "not chosen"
    return f"plan {place + 1} of {len(explanation.plans)}, {chosen}"
