"""The optimizer: an ordered tuple of rules, each named, timed and switchable.

Idea: rules run once, in order. A rule with alternatives branches: the rest of the pipeline runs on
each of them, and the cheapest finished plan wins. The others are kept for EXPLAIN … COMPARE.
Invariant: every plan on the way has the same answer at every instant.
Cost: one pass per rule and branch; branches are bounded by the rules that make them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from time import perf_counter

from mayfly.errors import InvalidSetting
from mayfly.optimizer.join_chains import executed
from mayfly.optimizer.labels import describe
from mayfly.optimizer.plan_cost import Costed, cost_plan
from mayfly.optimizer.rule import Rule, RuleContext, aliases
from mayfly.optimizer.rules.early_pruning import EARLY_PRUNING
from mayfly.optimizer.rules.first_last import FIRST_LAST
from mayfly.optimizer.rules.fold_constants import FOLD_CONSTANTS
from mayfly.optimizer.rules.groups_in_windows import GROUPS_IN_WINDOWS
from mayfly.optimizer.rules.join_relations_first import JOIN_RELATIONS_FIRST
from mayfly.optimizer.rules.keep_panes import PANES, ROW_PANES
from mayfly.optimizer.rules.keep_subresults import KEEP_SUBRESULTS
from mayfly.optimizer.rules.limit_numbers import LIMIT_NUMBERS
from mayfly.optimizer.rules.merge_joins import MERGE_JOINS
from mayfly.optimizer.rules.order_joins import ORDER_JOINS
from mayfly.optimizer.rules.outer_to_inner import OUTER_TO_INNER
from mayfly.optimizer.rules.place_negation import PLACE_NEGATION
from mayfly.optimizer.rules.prune_columns import PRUNE_COLUMNS
from mayfly.optimizer.rules.push_distinct import PUSH_DISTINCT
from mayfly.optimizer.rules.push_predicates import PUSH_PREDICATES
from mayfly.optimizer.rules.push_semijoins import PUSH_SEMIJOINS
from mayfly.optimizer.rules.share_panes import (
    CS1,
    CS2,
    CS4,
    CS5,
    CS7,
    CS8,
    JOIN_PANES,
    SHARING,
    SKETCHES,
    SS1,
    SS3,
    SS4,
)
from mayfly.optimizer.rules.split_joins import SPLIT_JOINS
from mayfly.optimizer.rules.weak_distinct import WEAK_DISTINCT
from mayfly.optimizer.statistics import Statistics
from mayfly.optimizer.structures import Strict
from mayfly.patterns import PatternError
from mayfly.plan.logical_operators import AntiJoin, Distinct, ExceptAll, Node
from mayfly.plan.strategy import Joining, Strategy

RULES: tuple[Rule, ...] = (
    FOLD_CONSTANTS,
    OUTER_TO_INNER,
    PUSH_PREDICATES,
    GROUPS_IN_WINDOWS,
    PUSH_SEMIJOINS,
    MERGE_JOINS,
    JOIN_RELATIONS_FIRST,
    PLACE_NEGATION,
    PUSH_DISTINCT,
    ORDER_JOINS,
    SPLIT_JOINS,
    KEEP_SUBRESULTS,
    LIMIT_NUMBERS,
    PRUNE_COLUMNS,
    WEAK_DISTINCT,
    EARLY_PRUNING,
    PANES,
    ROW_PANES,
    SS1,
    CS1,
    CS2,
    CS7,
    CS8,
    SS4,
    JOIN_PANES,
    SS3,
    CS4,
    CS5,
    SKETCHES,
    FIRST_LAST,
)
"""In the order in which they run."""


@dataclass(frozen=True, slots=True)
class Applied:
    """One rule in the making of a plan: whether it changed anything, and how long it took."""

    rule: str
    changed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finished plan with its cost and the rules it went through."""

    plan: Node
    costed: Costed
    applied: tuple[Applied, ...]

    @property
    def cost(self) -> float:
        return self.costed.total.total

    @property
    def strict(self) -> Strict:
        return self.costed.strict

    @property
    def title(self) -> str:
        """What tells this plan from its rivals: where its negations and DISTINCTs stand."""
        places = [
            f"{describe(node)} over {_joined(aliases(node.children()[0]))}"
            for node in self.plan.walk()
            if isinstance(node, AntiJoin | ExceptAll | Distinct)
        ]
        return "; ".join(places) or "the only plan"


def _joined(names: list[str]) -> str:
    return " ⋈ ".join(names) if len(names) <= 3 else f"{names[0]} ⋈ … ({len(names)} inputs)"


@dataclass(frozen=True, slots=True)
class Optimized:
    """The plan as bound, and every finished candidate, cheapest first."""

    bound: Node
    candidates: tuple[Candidate, ...]
    context: RuleContext

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    @property
    def plan(self) -> Node:
        return self.chosen.plan


def optimize(
    plan: Node,
    statistics: Statistics | None = None,
    strategy: Strategy = Strategy.UPA,
    without: Collection[str] = (),
    rules: Sequence[Rule] = RULES,
    joining: Joining = Joining.COST,
) -> Optimized:
    """The cheapest plan the rules find, leaving out those named in ``without``."""
    check_rule_names(without, rules)
    active = [rule for rule in rules if rule.name not in without]
    weak = WEAK_DISTINCT in active and strategy is not Strategy.NT
    pruning, panes = EARLY_PRUNING in active, PANES in active
    sharing = SHARING.difference(without)
    context = RuleContext(
        statistics or Statistics(), strategy, weak, joining, pruning, panes, sharing
    )
    candidates = sorted(_finish(plan, active, (), context), key=lambda each: each.cost)
    return Optimized(plan, tuple(candidates), context)


def check_rule_names(names: Collection[str], rules: Sequence[Rule] = RULES) -> None:
    rule_names = [rule.name for rule in rules]
    for name in names:
        if name not in rule_names:
            raise InvalidSetting(
                f"there is no rule {name!r}", f"the rules are {', '.join(rule_names)}"
            )


def _finish(
    plan: Node, rules: Sequence[Rule], applied: tuple[Applied, ...], context: RuleContext
) -> list[Candidate]:
    """Every candidate the remaining rules lead to; an error if none of them is a valid plan."""
    if not rules:
        runs = executed(plan, context.joining)
        costed = cost_plan(runs, context.statistics, context.strategy, context.weak_distinct)
        return [Candidate(plan, costed, applied)]
    rule, *rest = rules
    start = perf_counter()
    branches = _branches(rule, plan, context)
    seconds = perf_counter() - start
    finished: dict[Node, Candidate] = {}
    refusal: PatternError | None = None
    for branch in branches:
        step = Applied(rule.name, branch != plan, seconds)
        try:
            for candidate in _finish(branch, rest, (*applied, step), context):
                finished.setdefault(candidate.plan, candidate)
        except PatternError as error:
            refusal = refusal or error
    if not finished and refusal:
        raise refusal
    return list(finished.values())


def _branches(rule: Rule, plan: Node, context: RuleContext) -> list[Node]:
    if rule.alternatives is not None:
        return rule.alternatives(plan, context)
    return [rule.rewrite(plan, context)] if rule.rewrite is not None else [plan]
