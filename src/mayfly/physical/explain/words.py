"""Figures and phrases that every form of EXPLAIN shares."""

from __future__ import annotations

from mayfly.physical.explain.model import Explained
from mayfly.plan.logical import Output, OutputKind
from mayfly.plan.physical import Cost, Operator, PhysicalPlan, State
from mayfly.plan.strategy import Strategy

PATTERN_MEANING = {
    "MON": "never expires",
    "WKS": "expires first in, first out",
    "WK": "expirations known, in any order",
    "STR": "expirations depend on the future",
}


def number(value: float) -> str:
    """A count for people: 0.25, 4.2, 1,234."""
    if value == 0:
        return "0"
    if value < 1:
        return f"{value:.2g}" if value >= 0.01 else "<0.01"
    if value < 10:
        return f"{value:.1f}".removesuffix(".0")
    return f"{value:,.0f}"


def rows(count: float) -> str:
    return "1 row" if count == 1 else f"{number(count)} rows"


def size(count: float) -> str:
    """Bytes in the largest unit that leaves at least 1."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{number(count)} {unit}"
        count /= 1000
    return f"{number(count)} TB"


def cost_words(cost: Cost) -> str:
    return (
        f"{number(cost.total)} tuples/s touched = {number(cost.processing)} processing"
        f" + {number(cost.state)} state + {number(cost.negative)} negative tuples"
    )


def state_words(state: State) -> str:
    """One structure in one line."""
    by = f" by {', '.join(state.keyed_by)}" if state.keyed_by else ""
    growth = " after one day, growing" if state.grows else ""
    amount = f"{rows(state.rows)}, {size(state.bytes)}{growth}"
    return f"{state.holds}{by}: {state.structure.value}, {amount}"


def flow_words(operator: Operator) -> str:
    """What leaves the operator."""
    parts = [f"{number(operator.rate)}/s"]
    if operator.size:
        parts.append(f"{number(operator.size)} alive")
    if operator.negative:
        parts.append(f"{number(operator.negative)} negative/s")
    return ", ".join(parts)


def place_words(operator: Operator) -> str:
    if operator.place.name == "ANSWER":
        return "answer"
    return f"stage {operator.stage}, {operator.place.value}"


def assumption_words(plan: PhysicalPlan) -> str:
    """Which figures rest on defaults."""
    if not plan.assumed:
        return ""
    return f"{', '.join(plan.assumed)}: no rate is known, 100 tuples/s assumed"


def total_state(plan: PhysicalPlan) -> str:
    return f"{rows(plan.state_rows)}, {size(plan.state_bytes)}"


def results_words(plan: PhysicalPlan) -> str:
    """What a sink is told of the end of a result."""
    root, pattern = plan.root.node, plan.answer.label.pattern.name
    if isinstance(root, Output) and root.kind is not OutputKind.VIEW:
        return "are sent once, with their instant ts: a sink has nothing to delete"
    if pattern == "MON":
        return "never expire: a sink needs no delete messages"
    if pattern == "STR" or plan.strategy is Strategy.NT:
        return "may end before their exp: a sink is told by a second row, with the end in cut"
    return "leave with their exp: a sink needs no delete messages"


def heading(explanation: Explained, place: int) -> str:
    """The title of a plan among those shown."""
    if not explanation.compare:
        return ""
    chosen = "chosen" if place == 0 else "not chosen"
    return f"plan {place + 1} of {len(explanation.plans)}, {chosen}"
