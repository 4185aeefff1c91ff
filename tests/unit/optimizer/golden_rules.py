"""Golden files of the rewrites: a query, its plan before a rule, and its plan after it.

A file holds cases separated by blank lines: a title, the query, then the plans as comments. Set
MAYFLY_UPDATE_GOLDEN=1 to write the plans anew, and read the difference before keeping it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from mayfly.optimizer.labels import Labelled, label_plan
from mayfly.optimizer.optimize import RULES
from mayfly.optimizer.rule import Rule, RuleContext
from mayfly.patterns import PatternError
from mayfly.plan.logical_operators import Node
from mayfly.plan.plan_text import node_detail, node_name, plan_text

FOLDER = Path(__file__).parents[2] / "golden" / "rules"
UPDATE = os.environ.get("MAYFLY_UPDATE_GOLDEN") == "1"


@dataclass(frozen=True)
class GoldenCase:
    rule: Rule
    title: str
    query: str
    plans: str


def load(rule: Rule) -> list[GoldenCase]:
    text = (FOLDER / f"{rule.name}.cql").read_text()
    return [_case(rule, block) for block in text.strip().split("\n\n")]


def _case(rule: Rule, block: str) -> GoldenCase:
    title, *rest = block.splitlines()
    end = next(at for at, line in enumerate(rest) if line.endswith(";")) + 1
    query = "\n".join(rest[:end]).removesuffix(";")
    return GoldenCase(rule, title.removeprefix("-- "), query, "\n".join(rest[end:]))


def all_cases() -> list[GoldenCase]:
    return [case for rule in RULES if (FOLDER / f"{rule.name}.cql").exists() for case in load(rule)]


def rewritten(rule: Rule, plan: Node) -> list[Node]:
    """What the rule makes of a plan: one plan, or its alternatives without the plan itself."""
    if rule.alternatives is not None:
        return rule.alternatives(plan, RuleContext())[1:]
    return [rule.rewrite(plan, RuleContext())] if rule.rewrite is not None else [plan]


def rendered(rule: Rule, before: Node, after: list[Node]) -> str:
    """The plans as they stand in a golden file; the δ* rule is off before itself."""
    lines = ["-- before", *_commented(before, weak_distinct=rule.name != "weak-distinct")]
    for place, plan in enumerate(after):
        lines += ["-- or" if place else "-- after", *_commented(plan, weak_distinct=True)]
    if not after:
        lines += ["-- no alternative"]
    return "\n".join(lines)


def _commented(plan: Node, weak_distinct: bool) -> list[str]:
    try:
        lines = _labelled_lines(label_plan(plan, weak_distinct), 0)
    except PatternError:
        lines = plan_text(plan).splitlines()
    return [f"--   {line}" for line in lines]


def _labelled_lines(labelled: Labelled, depth: int) -> list[str]:
    node = labelled.node
    text = "  " * depth + f"{node_name(node)} {node_detail(node)}".rstrip()
    below = [line for child in labelled.inputs for line in _labelled_lines(child, depth + 1)]
    return [f"{text} · {labelled.pattern}", *below]


def write(cases: list[GoldenCase]) -> None:
    """Write the files of the given cases, each with its plans."""
    files: dict[str, list[str]] = {}
    for case in cases:
        block = f"-- {case.title}\n{case.query};\n{case.plans}"
        files.setdefault(case.rule.name, []).append(block)
    for name, blocks in files.items():
        (FOLDER / f"{name}.cql").write_text("\n\n".join(blocks) + "\n")


def with_plans(case: GoldenCase, plans: str) -> GoldenCase:
    return replace(case, plans=plans)
