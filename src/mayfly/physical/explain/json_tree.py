"""EXPLAIN as JSON, for programs: the same content as the text, with numbers as numbers."""

from __future__ import annotations

import json
from typing import TypeAlias

from mayfly.display import encodable
from mayfly.optimizer.structures import Cost
from mayfly.physical.explain.model import (
    Edge,
    Explained,
    ExplainedOperator,
    ExplainedPlan,
    ExplainedState,
    RuleRun,
    Stage,
)
from mayfly.physical.explain.words import part_words, results_words
from mayfly.plan.plan_text import plan_lines

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | float | int | bool | None
DIGITS = 3


def as_json(explanation: Explained, timings: bool = False) -> str:
    """Indented JSON text; without timings it is the same on every run."""
    values = as_values(explanation, timings)
    return encodable(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def as_values(explanation: Explained, timings: bool = False) -> dict[str, Json]:
    return {
        "query": explanation.query,
        "plans": [_plan(plan, timings) for plan in explanation.shown],
    }


def _plan(plan: ExplainedPlan, timings: bool) -> Json:
    physical = plan.physical
    rules: list[Json] = [_rule(rule, timings) for rule in plan.rules]
    logical: list[Json] = [*plan_lines(physical.output)]
    return {
        "title": plan.title,
        "strategy": physical.strategy.value,
        "results": results_words(physical),
        "cost": _cost(physical.cost),
        "state": {
            "rows": round(physical.state_rows, DIGITS),
            "bytes": round(physical.state_bytes, DIGITS),
        },
        "assumed_rates": list(physical.assumed),
        "parts": list(part_words(physical)),
        "zones": [{"zone": zone, "of": words} for zone, words in physical.zones],
        "warnings": [{"message": w.message, "hint": w.hint} for w in physical.warnings],
        "rules": rules,
        "logical": logical,
        "stages": [_stage(stage) for stage in physical.stages],
        "plan": _operator(physical.root),
    }


def _rule(rule: RuleRun, timings: bool) -> Json:
    values: dict[str, Json] = {"name": rule.name, "changed": rule.changed}
    if timings:
        values["seconds"] = rule.seconds
    return values


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, DIGITS)


def _cost(cost: Cost) -> Json:
    return {
        "total": round(cost.total, DIGITS),
        "processing": round(cost.processing, DIGITS),
        "state": round(cost.state, DIGITS),
        "negative": round(cost.negative, DIGITS),
    }


def _stage(stage: Stage) -> Json:
    return {
        "number": stage.number,
        "place": stage.place.value,
        "key": list(stage.key),
        "operators": [operator.name for operator in stage.operators],
    }


def _operator(operator: ExplainedOperator) -> Json:
    position = operator.node.position if operator.node else None
    pattern = operator.label.pattern
    return {
        "name": operator.name,
        "detail": operator.detail,
        "line": position.line if position else None,
        "pattern": pattern.name,
        "lifetime_micros": pattern.lifetime,
        "reason": operator.label.reason,
        "place": operator.place.value,
        "stage": operator.stage,
        "rate": _rounded(operator.rate),
        "alive": _rounded(operator.size),
        "negative_rate": _rounded(operator.negative),
        "cost": _cost(operator.cost),
        "state": [_state(state) for state in operator.state],
        "computes": [
            {"what": working.what, "structure": working.structure, "reason": working.reason}
            for working in operator.workings
        ],
        "inputs": [_edge(edge) for edge in operator.inputs],
        **({"why": operator.why} if operator.why else {}),
    }


def _state(state: ExplainedState) -> Json:
    return {
        "holds": state.holds,
        "structure": state.structure.value,
        "keyed_by": list(state.keyed_by),
        "reason": state.reason,
        "ranges": state.partitions,
        "rows": _rounded(state.rows),
        "bytes": _rounded(state.bytes),
        "grows": state.grows,
    }


def _edge(edge: Edge) -> Json:
    exchange: Json = None
    if edge.exchange:
        exchange = {
            "key": list(edge.exchange.key),
            "broadcast": edge.exchange.broadcast,
            "straight": edge.exchange.straight,
            "reason": edge.exchange.reason,
        }
    return {"exchange": exchange, "operator": _operator(edge.source)}
