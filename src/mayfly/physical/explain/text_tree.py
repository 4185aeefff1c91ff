"""EXPLAIN as text: a tree with the update pattern on every edge.

The same lines serve a terminal (coloured) and a file (plain).
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from mayfly.display import encodable, number, on_one_line, size
from mayfly.physical.explain.model import (
    Edge,
    Explained,
    ExplainedOperator,
    ExplainedPlan,
    PhysicalPlan,
    Place,
)
from mayfly.physical.explain.words import (
    assumption_words,
    cost_words,
    flow_words,
    heading,
    part_words,
    place_words,
    results_words,
    state_words,
    total_state,
    zone_words,
)

PATTERN_STYLE = {"MON": "cyan", "WKS": "green", "WK": "yellow", "STR": "red"}
Piece = tuple[str, str]
Line = list[Piece]


def plain_text(explanation: Explained, timings: bool = False) -> str:
    """The explanation without colours; without timings it is the same on every run."""
    lines = (
        "".join(on_one_line(text) for text, _ in line) for line in _lines(explanation, timings)
    )
    return encodable("\n".join(line.rstrip() for line in lines) + "\n")


def rich_text(explanation: Explained, timings: bool = True) -> Text:
    """The explanation for a terminal."""
    whole = Text()
    for line in _lines(explanation, timings):
        for text, style in line:
            whole.append(on_one_line(text), style)
        whole.append("\n")
    return whole


def _lines(explanation: Explained, timings: bool) -> Iterator[Line]:
    if explanation.compare:
        yield from _comparison(explanation)
    for place, plan in enumerate(explanation.shown):
        if place:
            yield []
        yield from _plan_lines(plan, heading(explanation, place), timings)


def _comparison(explanation: Explained) -> Iterator[Line]:
    """Candidates and their costs, side by side."""
    header = ("", "total/s", "processing", "state", "negative", "state kept", "negation, DISTINCT")
    rows: list[tuple[str, ...]] = [header]
    for place, plan in enumerate(explanation.plans):
        cost = plan.physical.cost
        figures = (cost.total, cost.processing, cost.state, cost.negative)
        kept = size(plan.physical.state_bytes)
        rows.append((f"plan {place + 1}", *(number(each) for each in figures), kept, plan.title))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, len(header) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield [("  ".join(cells), "bold" if row is header else "")]
    yield []


def _plan_lines(plan: ExplainedPlan, title: str, timings: bool) -> Iterator[Line]:
    physical = plan.physical
    if title:
        yield [(f"── {title}: {plan.title}", "bold")]
    yield from tree_lines(physical.root)
    yield []
    yield [("strategy  ", "dim"), (physical.strategy.value, "bold")]
    yield [("pattern   ", "dim"), *_reason(physical.answer)]
    yield [("results   ", "dim"), (results_words(physical), "")]
    yield [("cost      ", "dim"), (cost_words(physical.cost), "")]
    yield [("state     ", "dim"), (total_state(physical), "")]
    yield from _stage_lines(physical)
    changed = [rule for rule in plan.rules if rule.changed]
    names = (f"{r.name} ({r.seconds * 1000:.1f} ms)" if timings else r.name for r in changed)
    yield [("rules     ", "dim"), (", ".join(names) or "none changed the plan", "")]
    if words := assumption_words(physical):
        yield [("assumed   ", "dim"), (words, "italic")]
    for words in part_words(physical):
        yield [("part      ", "dim"), (words, "")]
    for words in zone_words(physical):
        yield [("zone      ", "dim"), (words, "")]
    for warning in physical.warnings:
        yield [("warning   ", "bold yellow"), (warning.message, "yellow")]
        yield [("          → ", "dim"), (warning.hint, "")]


def _reason(operator: ExplainedOperator) -> Line:
    pattern = operator.label.pattern
    return [(str(pattern), PATTERN_STYLE[pattern.name]), (f" {operator.label.reason}", "")]


def _stage_lines(physical: PhysicalPlan) -> Iterator[Line]:
    for stage in physical.stages:
        names = " + ".join(operator.name for operator in stage.operators)
        by = f" by {', '.join(stage.key)}" if stage.key and stage.place is Place.KERNEL else ""
        head = "before   " if stage.place is Place.BEFORE else f"stage {stage.number:<3}"
        where = "" if stage.place is Place.BEFORE else f"{stage.place.value}{by}: "
        yield [(f"{head} ", "dim"), (f"{where}{names}", "")]


def tree_lines(root: ExplainedOperator) -> Iterator[Line]:
    yield [(root.name, "bold"), (f" {root.detail}" if root.detail else "", "")]
    yield from _inside(root, "")


def _inside(operator: ExplainedOperator, indent: str) -> Iterator[Line]:
    """Where the operator runs, what it keeps, and its inputs."""
    bar = "│  " if operator.inputs else "   "
    if operator.place is not Place.ANSWER:
        words = "; ".join(filter(None, (place_words(operator), flow_words(operator))))
        yield [(indent + bar, "dim"), (words, "dim")]
    if operator.why:
        yield [(indent + bar, "dim"), (operator.why, "dim")]
    for state in operator.state:
        yield [(indent + bar, "dim"), ("keeps ", "dim"), (state_words(state), "blue")]
        yield [(indent + bar, "dim"), (f"      {state.reason}", "dim")]
    for working in operator.workings:
        words = f"{working.what} from {working.structure}"
        yield [(indent + bar, "dim"), (words, "blue")]
        yield [(indent + bar, "dim"), (f"      {working.reason}", "dim")]
    for place, edge in enumerate(operator.inputs):
        last = place == len(operator.inputs) - 1
        yield from _edge_lines(edge, indent, last)


def _edge_lines(edge: Edge, indent: str, last: bool) -> Iterator[Line]:
    source = edge.source
    pattern = source.label.pattern
    style = PATTERN_STYLE[pattern.name]
    through = [(f"═ {edge.exchange} ═ ", "magenta")] if edge.exchange else [("─ ", style)]
    yield [
        (indent, "dim"),
        (f"{'└' if last else '├'}─ ", style),
        (f"{pattern} ", f"bold {style}"),
        *through,
        (source.name, "bold"),
        (f" {source.detail}" if source.detail else "", ""),
    ]
    yield from _inside(source, indent + ("   " if last else "│  "))
