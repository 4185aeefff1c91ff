"""EXPLAIN as HTML: the drawing with its figures, as a page of its own or inside a notebook.

Candidates of a comparison stand side by side. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.display import number, size
from mayfly.physical.explain.model import Explained, ExplainedOperator, ExplainedPlan, PhysicalPlan
from mayfly.physical.explain.svg import STYLE, drawing
from mayfly.physical.explain.words import (
    assumption_words,
    escape,
    heading,
    results_words,
    state_words,
    zone_words,
)

PAGE_STYLE = """
.mf-doc{font:14px/1.45 system-ui,sans-serif;padding:16px}.mf-doc h2{font-size:16px;margin:4px 0}
.mf-doc pre{font:12px ui-monospace,Menlo,Consolas,monospace;background:var(--box);padding:10px;
border:1px solid var(--line);border-radius:6px;overflow:auto;color:var(--ink)}
.mf-doc table{border-collapse:collapse;margin:8px 0;color:var(--ink);background:var(--paper)}
.mf-doc td,.mf-doc th{border:1px solid var(--line);padding:3px 9px;text-align:left;
vertical-align:top;color:var(--ink);background:var(--paper)}
.mf-doc td.n{text-align:right;font-variant-numeric:tabular-nums}
.mf-doc .plans{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(480px,1fr))}
.mf-doc section{min-width:0;overflow:auto}
.mf-doc .sheet{overflow:auto;border:1px solid var(--line);border-radius:6px;margin:8px 0}
.mf-doc .warn{border-left:4px solid var(--wk);padding:4px 10px;margin:8px 0;background:var(--box)}
.mf-doc .soft{color:var(--soft)}
.mf-doc b.MON{color:var(--mon)}.mf-doc b.WKS{color:var(--wks)}
.mf-doc b.WK{color:var(--wk)}.mf-doc b.STR{color:var(--str)}
"""


def page(explanation: Explained) -> str:
    """A whole HTML document."""
    return page_of([explanation])


def page_of(explanations: Sequence[Explained]) -> str:
    """One document for several queries."""
    body = "\n".join(fragment(explanation) for explanation in explanations)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Query plan</title>'
        '<meta name="color-scheme" content="light dark"><style>body{margin:0}</style></head>\n'
        f"<body>{body}</body></html>\n"
    )


def fragment(explanation: Explained) -> str:
    """One explanation as HTML that stands inside a page."""
    query = f"<pre>{escape(explanation.query.strip())}</pre>" if explanation.query.strip() else ""
    table = _comparison(explanation) if explanation.compare else ""
    plans = "".join(
        _plan(plan, heading(explanation, place)) for place, plan in enumerate(explanation.shown)
    )
    return (
        f'<div class="mf mf-doc"><style>{STYLE}{PAGE_STYLE}</style>'
        f'{query}{table}<div class="plans">{plans}</div></div>'
    )


def _comparison(explanation: Explained) -> str:
    names = ("plan", "total/s", "processing", "state", "negative tuples", "state kept", "operators")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = ""
    for place, plan in enumerate(explanation.plans):
        cost = plan.physical.cost
        figures = (cost.total, cost.processing, cost.state, cost.negative)
        cells = "".join(f'<td class="n">{number(each)}</td>' for each in figures)
        kept = f'<td class="n">{size(plan.physical.state_bytes)}</td>'
        name = f"{place + 1}{' (chosen)' if place == 0 else ''}"
        rows += f"<tr><td>{name}</td>{cells}{kept}<td>{escape(plan.title)}</td></tr>"
    return f"<table><tr>{head}</tr>{rows}</table>"


def _plan(plan: ExplainedPlan, title: str) -> str:
    physical = plan.physical
    name = f"<h2>{escape(title)}</h2><div>{escape(plan.title)}</div>" if title else ""
    changed = ", ".join(rule.name for rule in plan.rules if rule.changed) or "none"
    assumed = assumption_words(physical)
    return (
        f"<section>{name}{_summary(physical)}"
        f'<div class="sheet">{drawing(physical)}</div>'
        f"{_warnings(physical)}{_states(physical)}"
        f'<div class="soft">rules that changed the plan: {escape(changed)}</div>'
        f'<div class="soft">{escape(assumed)}</div>'
        f'<div class="soft">{escape("; ".join(zone_words(physical)))}</div></section>'
    )


def _summary(physical: PhysicalPlan) -> str:
    label = physical.answer.label
    cost = physical.cost
    return (
        f'<div><b class="{label.pattern.name}">{label.pattern}</b> {escape(label.reason)}. '
        f"Results {escape(results_words(physical))}. "
        f"{physical.strategy.value}: {number(cost.total)} tuples/s touched "
        f"({number(cost.processing)} processing, {number(cost.state)} state, "
        f"{number(cost.negative)} negative tuples); {number(physical.state_rows)} rows, "
        f"{size(physical.state_bytes)} of state.</div>"
    )


def _warnings(physical: PhysicalPlan) -> str:
    return "".join(
        f'<div class="warn"><b>{escape(w.message)}</b><br>{escape(w.hint)}</div>'
        for w in physical.warnings
    )


def _states(physical: PhysicalPlan) -> str:
    rows = "".join(_state_row(operator) for operator in physical.root.walk())
    return f"<table><tr><th>operator</th><th>keeps</th><th>why</th></tr>{rows}</table>"


def _state_row(operator: ExplainedOperator) -> str:
    pairs = [(state_words(state), state.reason) for state in operator.state]
    pairs += [
        (f"{working.what} from {working.structure}", working.reason)
        for working in operator.workings
    ]
    return "".join(
        f"<tr><td>{escape(operator.name)}</td><td>{escape(words)}</td><td>{escape(why)}</td></tr>"
        for words, why in pairs
    )
